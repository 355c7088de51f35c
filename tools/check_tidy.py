#!/usr/bin/env python3
# check_tidy.py - clang-tidy over every source that build/cpu compiles, or over those named.
# SPDX-License-Identifier: Apache-2.0
"""Usage: tools/check_tidy.py [FILE...], after `cmake --preset cpu` and its target dtrain_proto.

Prints what clang-tidy finds; the exit status is 1 where it finds something.
"""
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

VERSION = "22"
BUILD = pathlib.Path("build/cpu")
# Without the analyzer, which follows Catch2's macros for half of its time: the sanitizers run all of the
# tests' paths. Catch2 builds its assertions as chained comparisons.
TEST_CHECKS = (
    "-clang-analyzer-*,-performance-*,-misc-*,-bugprone-branch-clone,-bugprone-chained-comparison"
)


def sources():
    """The names of the sources to check."""
    root = pathlib.Path.cwd()
    found = set()
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        if path.suffix != ".cc" or not path.is_relative_to(root):
            continue
        name = str(path.relative_to(root))
        is_test = name.startswith("tests/")
        is_kernel = name.endswith("_cpu.cc")  # compiled once for each instruction set
        if is_test or (name.startswith(("libdtrain/", "examples/", "tools/")) and not is_kernel):
            found.add(name)
    return found


def check(name):
    """Runs clang-tidy on a source; returns whether it found nothing, and what it printed."""
    command = [f"clang-tidy-{VERSION}", "-p", str(BUILD), "--quiet"]
    if name.startswith("tests/"):
        command.append(f"--checks={TEST_CHECKS}")
    done = subprocess.run([*command, name], capture_output=True, text=True)
    return done.returncode == 0, done.stdout or done.stderr


def main():
    os.chdir(pathlib.Path(__file__).resolve().parent.parent)
    todo = sources()
    names = sys.argv[1:] or sorted(todo)
    unknown = [name for name in names if name not in todo]
    if unknown:
        sys.exit(f"check_tidy.py: {BUILD} does not compile {', '.join(unknown)}")
    # The longest first, so that no core is left with one at the end.
    names.sort(key=lambda name: os.path.getsize(name), reverse=True)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for good, text in pool.map(check, names):
            failed += not good
            if not good:
                print(text, end="", flush=True)
    print(f"{len(names)} files, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
