#!/usr/bin/env python3
# header_examples.py - takes the examples out of the public headers, to be compiled and run.
# SPDX-License-Identifier: Apache-2.0
"""Writes C++ from the first indented block of each header's opening comment.

    header_examples.py FOLDER HEADER...      headers as in #include: dtrain/nn/linear.h

An example with a main() becomes FOLDER/<header>.cc, a program. All others become functions in
FOLDER/header_examples.cc, which can use `runtime`, `comm`, `ctx` and `model`
(tests/integration/header_examples.h). A header without an example is an error.
"""
import pathlib
import re
import sys

LIBRARY = pathlib.Path(__file__).resolve().parent.parent.parent / "libdtrain"
BEGIN = """// Made by tests/integration/header_examples.py.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "dtrain/dtrain.h"
#include "dtrain/trained_models.h"
"""


def example_of(header):
    """The example's code and the number of its first line."""
    code, first = [], 0
    for number, line in enumerate((LIBRARY / header).read_text(encoding="utf-8").splitlines(), 1):
        match = re.match(r"//(?:   (.*)|)$", line)
        if not line.startswith("//") or (code and not match):
            break
        if match and (match.group(1) or code):
            first = first or number
            code.append(match.group(1) or "")
    if not code:
        sys.exit(f"libdtrain/{header}: the opening comment has no example")
    return "\n".join(code).rstrip(), first


def write(path, text):
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    functions, table = [], []
    for header in sys.argv[2:]:
        code, first = example_of(header)
        name = re.sub(r"\W", "_", header.removesuffix(".h"))
        placed = f'#line {first} "{LIBRARY / header}"\n{code}\n'
        if "int main(" in code:
            write(folder / f"{name}.cc", BEGIN + placed)
            continue
        functions.append(f"static Status {name}([[maybe_unused]] Runtime& runtime,\n"
                         "    [[maybe_unused]] Communicator& comm, [[maybe_unused]] Context& ctx,\n"
                         f"    [[maybe_unused]] ExampleModel& model) {{\n  {{\n{placed}  }}\n"
                         "  return OkStatus();\n}\n")
        table.append(f'      {{"{header}", {name}}},\n')
    write(folder / "header_examples.cc",
          BEGIN + '#include "integration/header_examples.h"\n\nnamespace dtrain {\n\n' +
          "\n".join(functions) + "\nstd::vector<HeaderExample> HeaderExamples() {\n  return {\n" +
          "".join(table) + "  };\n}\n\n}  // namespace dtrain\n")


if __name__ == "__main__":
    main()
