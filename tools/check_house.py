#!/usr/bin/env python3
# check_house.py - bounds what grows by itself: classes, the public umbrella, programs.
# SPDX-License-Identifier: Apache-2.0
"""Prints every place above a bound; the exit status is 1 where there is one. check_docs.py does pages.

    classes       at most MAX_METHODS methods (overloads count once) and MAX_MEMBERS data members
    dtrain.h      at most MAX_EXPORTS headers
    sources       no name twice in the unnamed namespaces of one folder: its files share units (DtrainUnity)
    public        at most MAX_PUBLIC headers: dtrain.h, trained_models.h and what they include, none of another library
    handles       a public function names a type that no public header defines only if another public function
                  returns it to the user, or takes it from there: a user can only pass such a type on
    comments      no line of a header's comment that begins without a noun ("Of ...", "What ...")
    README.md     shows lines of examples/custom_trainer/custom_trainer.cc, as they are there
    examples      the main of a task's program has at most MAX_PROGRAM lines, custom_trainer MAX_TRAINER
"""
import os
import pathlib
import re
import subprocess
import sys

MAX_METHODS, MAX_MEMBERS = 20, 15
MAX_EXPORTS, MAX_PUBLIC = 30, 44
MAX_PROGRAM, MAX_TRAINER = 40, 64
CLASS = re.compile(r"\b(?:class|struct)\s+(?:\[\[\w+\]\]\s*)?(\w+(?:::\w+)*)(?:\s+final)?\s*(?::[^;{()]*)?\{")
UNNAMED = re.compile(r"^namespace \{$(.*?)^\}  // namespace$", re.DOTALL | re.MULTILINE)
DEFINED = re.compile(r"^(?=\w)(?:template <.*?> )?(?:(?:struct|class|enum class|enum|union) (\w+)"
                     r"|[\w:<>,\s*&()\[\]]+?[\s*&](\w+)\s*[(=\[{;])")
KIND = r"\b(?:class|struct|union|enum(?: class)?)\s+(?:\[\[\w+\]\]\s*)?"
NOUNLESS = re.compile(r"^\s*// (?:Of|Those of|That|What|Where|Nor) ")


def tracked(*patterns):
    answer = subprocess.run(["git", "ls-files", *patterns], capture_output=True, text=True, check=True)
    return answer.stdout.split()


def without_texts(code):
    """C++ without comments, literals and preprocessor lines."""
    code = re.sub(r"//[^\n]*|/\*.*?\*/", "", code, flags=re.DOTALL)
    code = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', code)
    code = re.sub(r"'(?:\\.|[^'\\\n])'", "0", code)
    return re.sub(r"^\s*#[^\n]*(?:\\\n[^\n]*)*", "", code, flags=re.MULTILINE)


def outer_level(code, start):
    """What stands directly in the braces that open at `start`; inner braces become {}."""
    depth, kept = 0, []
    for c in code[start:]:
        if c == "{":
            depth += 1
            if depth == 2:
                kept.append("{}")
        elif c == "}":
            depth -= 1
            if depth == 0:
                break
        elif depth == 1:
            kept.append(c)
    return "".join(kept)


def count(name, body):
    """The names of a class's methods, and how many data members it has (which end in _)."""
    body = re.sub(r"\b(?:public|private|protected)\s*:(?!:)", "", body)
    body = re.sub(r"\{\}\s*(?=[A-Za-z~\[])(?!\s*\w+\s*[;=])", "{};", body)
    methods, members = set(), 0
    for statement in (re.sub(r"\s+", " ", s).strip() for s in body.split(";")):
        if not statement or "= delete" in statement or "= default" in statement or re.match(
                r"(?:using|friend|typedef|enum|static constexpr|class|struct|static_assert)\b", statement):
            continue
        function = re.match(r"[^=]*?([~\w]+|operator\s*\S+)\s*\(", statement)
        member = re.search(r"\w+_\s*(?:\[[^\]]*\])?\s*(?:=.*|\{\})?$", statement)
        declares = statement.split("=")[0]
        if member and not (function and "(" in declares and not re.search(r"<[^>]*\([^;]*>", declares)):
            members += 1
        elif function and function.group(1).strip("~") != name.split("::")[-1]:
            methods.add(function.group(1))
    return methods, members


def check_classes():
    for name in tracked("libdtrain/*.h", "libdtrain/*.cc", "libdtrain/*.cuh"):
        code = without_texts(pathlib.Path(name).read_text(encoding="utf-8"))
        for match in CLASS.finditer(code):
            methods, members = count(match.group(1), outer_level(code, match.end() - 1))
            if len(methods) > MAX_METHODS or members > MAX_MEMBERS:
                yield (f"{name}: class {match.group(1)} has {len(methods)} methods and {members} members "
                       f"(at most {MAX_METHODS} and {MAX_MEMBERS}): find the parts it is made of")


def check_umbrella():
    exports = re.findall(r'^#include "', pathlib.Path("libdtrain/dtrain/dtrain.h").read_text(), re.MULTILINE)
    if len(exports) > MAX_EXPORTS:
        yield f"libdtrain/dtrain/dtrain.h: exports {len(exports)} headers (at most {MAX_EXPORTS})"


def public_headers():
    """dtrain.h, trained_models.h and what they include, as it is included."""
    headers = ["dtrain/dtrain.h", "dtrain/trained_models.h"]
    for header in headers:
        text = (pathlib.Path("libdtrain") / header).read_text(encoding="utf-8")
        headers += [name for name in re.findall(r'^#include "(.*)"', text, re.MULTILINE) if name not in headers]
    return headers


def check_public():
    headers = public_headers()
    if len(headers) > MAX_PUBLIC:
        yield f"libdtrain/dtrain: {len(headers)} public headers (at most {MAX_PUBLIC})"
    for header in headers:
        if not header.startswith("dtrain/") or re.search(r"/(?:internal|cuda)/|\.pb\.h$", header):
            yield f"{header}: a public header includes it, but it is internal"
            continue
        text = (pathlib.Path("libdtrain") / header).read_text(encoding="utf-8")
        for name in re.findall(r"^#include <(.*)>", text, re.MULTILINE):
            if not re.fullmatch(r"[a-z0-9_]+", name):
                yield f"libdtrain/{header}: a public header includes <{name}>"
        for name in sorted(set(re.findall(r"\b(absl|google|nlohmann|MPI_\w+|cuda\w+_t|nccl\w+)\b", without_texts(text)))):
            yield f"libdtrain/{header}: a public header names {name}"


def public_statements(code):
    """The declarations that a header shows: no private or internal ones, no bodies of functions."""
    shown, access, pending = [], ["public"], ""
    for part in re.split(r"([{};]|\b(?:public|private|protected)\s*:(?!:))", code):
        if part in ("{", ";") and access[-1] == "public":
            shown.append(re.sub(r"\s+", " ", pending).strip())
        if part == "{":
            scope = re.search(r"\b(namespace|class|struct|union|enum)\b[^()]*$", pending)
            is_open = access[-1] == "public" and scope and not re.search(r"\bclass|namespace internal$", pending.rstrip())
            access.append("public" if is_open else "private" if scope else "body")
        elif part == "}":
            access.pop()
        elif part.endswith(":") and access[-1] != "body":
            access[-1] = part.rstrip(": \n")
        elif part != ";":
            pending += part
            continue
        pending = ""
    return shown


def check_handles():
    codes = {header: without_texts((pathlib.Path("libdtrain") / header).read_text(encoding="utf-8"))
             for header in public_headers()}
    everything = "\n".join(codes.values())
    hidden = set(re.findall(KIND + r"(\w+)\s*(?::\s*\w+\s*)?;", everything))
    hidden -= set(re.findall(KIND + r"(?:\w+::)*(\w+)\s*(?:final)?\s*(?::[^;{()]*)?\{", everything))
    returned, taken = {}, {}
    for header, code in codes.items():
        for statement in public_statements(code):
            if "(" not in statement or re.match(r"friend\b|using\b", statement):
                continue
            before, after = statement.split("(", 1)
            for names, text in ((returned, before), (taken, after)):
                for name in hidden & set(re.findall(r"\w+", text)):
                    names.setdefault(name, f"libdtrain/{header}: {statement}")
    for name in sorted(returned.keys() ^ taken.keys()):
        yield (f"{returned.get(name) or taken[name]}: no public header defines {name}, and no public function "
               f"{'takes' if name in returned else 'returns'} it: make the function private")


def check_readme():
    text = pathlib.Path("README.md").read_text(encoding="utf-8")
    program = pathlib.Path("examples/custom_trainer/custom_trainer.cc").read_text(encoding="utf-8")
    shown = re.findall(r"```cpp\n(.*?)```", text, re.DOTALL)
    if not shown or not all(code in program for code in shown):
        yield "README.md: its C++ is not that of examples/custom_trainer/custom_trainer.cc"


def check_comments():
    for name in tracked("libdtrain/*.h"):
        for number, line in enumerate(pathlib.Path(name).read_text(encoding="utf-8").splitlines(), 1):
            if NOUNLESS.match(line):
                yield f"{name}:{number}: a comment line begins without its noun: {line.strip()[:60]}"


def check_unnamed():
    met = {}
    for name in tracked("libdtrain/*.cc", "tools/dtrain/*.cc"):
        if name.endswith(("_cpu.cc", "_absent.cc")) or "/cuda/" in name:  # compiled by themselves
            continue
        folder = os.path.dirname(name).removesuffix("/internal")
        text = pathlib.Path(name).read_text(encoding="utf-8")
        for line in without_texts("\n".join(UNNAMED.findall(text))).splitlines():
            defined = DEFINED.match(line)
            if not defined or re.match(r"(?:namespace|using|static_assert|extern)\b", line):
                continue
            first = met.setdefault((folder, defined.group(1) or defined.group(2)), name)
            if first != name:
                yield f"{name}: {defined.group(1) or defined.group(2)} is a name in {first} too"


def check_examples():
    for name in tracked("examples/*/*_train.cc", "examples/*/bert_*.cc", "examples/*/custom_trainer.cc"):
        most = MAX_TRAINER if "custom_trainer" in name else MAX_PROGRAM
        lines = len(pathlib.Path(name).read_text(encoding="utf-8").splitlines())
        if lines > most:
            yield f"{name}: {lines} lines (at most {most})"


def main():
    os.chdir(pathlib.Path(__file__).resolve().parent.parent)
    problems = 0
    for check in (check_classes, check_umbrella, check_public, check_handles, check_readme, check_comments,
                  check_unnamed, check_examples):
        for problem in check():
            print(problem)
            problems += 1
    print(f"{problems} places above their bounds")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
