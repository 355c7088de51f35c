#!/usr/bin/env python3
# list_tests.py - the tests that a ctest command line selects, for scripts that build or move them.
# SPDX-License-Identifier: Apache-2.0
"""Prints one line per test that is a program of its own (the name ends in _test, or in _test/VARIANT):

    LABEL  NAME  SECONDS  PROGRAM  [VARIABLE=VALUE ...]

SECONDS is the test's time limit, PROGRAM the target that builds it. Nothing needs to be built.

    tools/list_tests.py --preset cuda -L kernel
    tools/list_tests.py --programs --preset tsan      only the targets, each once
"""
import json
import re
import subprocess
import sys


def main(arguments):
    if "-h" in arguments or "--help" in arguments:
        print(__doc__.strip())
        return 0
    only_programs = arguments[:1] == ["--programs"]
    answer = subprocess.run(["ctest", *arguments[only_programs:], "--show-only=json-v1"],
                            check=False, stdout=subprocess.PIPE)
    if answer.returncode != 0:
        return answer.returncode
    lines = []
    for test in json.loads(answer.stdout)["tests"]:
        parts = re.fullmatch(r"(.*_test)(/\w+)?", test["name"])
        if parts is None:
            continue
        program = parts[1].replace("/", "_")
        properties = {entry["name"]: entry["value"] for entry in test["properties"]}
        lines.append(program if only_programs else " ".join(
            [properties["LABELS"][0], test["name"], f'{properties["TIMEOUT"]:.0f}', program,
             *properties.get("ENVIRONMENT", [])]))
    if not lines:
        print("list_tests.py: ctest has no such test:", " ".join(arguments), file=sys.stderr)
        return 1
    print("\n".join(dict.fromkeys(lines)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
