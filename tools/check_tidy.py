#!/usr/bin/env python3
# check_tidy.py - clang-tidy over every source that build/cpu compiles, or over those named.
# SPDX-License-Identifier: Apache-2.0
"""Usage: tools/check_tidy.py [FILE...], after `cmake --preset cpu` and its target dtrain_proto.

A third to a half of its time goes into parsing the headers of others: tools/tidy/ names those that most
files include, and they are parsed once. A file in which nothing was found is not looked at again while
it, the headers it includes, the checks and the packages stay what they are (~/.cache/dtrain-tidy). Prints
what clang-tidy finds; the exit status is 1 where it finds something.
"""
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

VERSION = "22"
BUILD = pathlib.Path("build/cpu")
COMMANDS = BUILD / "tidy"
# Without the analyzer, which follows Catch2's macros for half of its time: the sanitizers run all of the
# tests' paths. Catch2 builds its assertions as chained comparisons.
TEST_CHECKS = (
    "-clang-analyzer-*,-performance-*,-misc-*,-bugprone-branch-clone,-bugprone-chained-comparison"
)
# A precompiled header serves sources of the same language options. With these at the end of their
# commands most have the same; sources with still others (another processor, a sanitizer) do without it.
OPTIONS = ["-fPIC", "-fopenmp", "-O3"]
KNOWN_OPTIONS = {"-fPIC", "-fPIE", "-fopenmp"}
# <omp.h> is the compiler's own: GCC's, because clang's would be another package.
GCC_HEADERS = subprocess.check_output(["g++", "-print-file-name=include"], text=True).strip()

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "dtrain-tidy"
KEPT_DAYS = 30  # since it was last of use
INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)


def without_precompiled(command):
    """A compiler's command without GCC's precompiled header, which clang cannot read."""
    return re.sub(r" -Winvalid-pch| -include \S+/cmake_pch\.hxx", "", command)


def each_source(entry):
    """The compilations of the sources that a unit of cmake/DtrainUnity.cmake includes, or this one."""
    unit = pathlib.Path(entry["file"])
    if unit.parent.name != "unity":
        return [entry]
    folders = [pathlib.Path(a[2:]) for a in shlex.split(entry["command"]) if a.startswith("-I")]
    files = []
    for name in INCLUDE.findall(unit.read_bytes()):
        files.append(next(f / name.decode() for f in folders if (f / name.decode()).is_file()))
    # Which unit a source is in says nothing about it.
    command = re.sub(r" -o \S+", "", entry["command"])
    return [
        {**entry, "file": str(file), "command": command.replace(str(unit), str(file))} for file in files
    ]


def sources():
    """The sources to check, each with the arguments of all its compilations.

    Writes their commands to COMMANDS as clang-tidy takes them.
    """
    root = pathlib.Path.cwd()
    compiled = json.loads((BUILD / "compile_commands.json").read_text())
    entries = [source for entry in compiled for source in each_source(entry)]
    for entry in entries:
        entry["command"] = without_precompiled(entry["command"])
    COMMANDS.mkdir(exist_ok=True)
    (COMMANDS / "compile_commands.json").write_text(json.dumps(entries))
    found = {}
    for entry in entries:
        path = pathlib.Path(entry["file"])
        if path.suffix != ".cc" or not path.is_relative_to(root):
            continue
        name = str(path.relative_to(root))
        is_test = name.startswith("tests/")
        is_kernel = name.endswith("_cpu.cc")  # compiled once for each instruction set
        if is_test or (name.startswith(("libdtrain/", "examples/", "tools/")) and not is_kernel):
            found.setdefault(name, []).extend(shlex.split(entry["command"]))
    return found


def precompile(header):
    """Parses a header of tools/tidy; returns the file with the result."""
    result = COMMANDS / (header + ".pch")
    subprocess.run(
        [f"clang++-{VERSION}", "-x", "c++-header", "-std=c++20", "-DNDEBUG", "-I.", *OPTIONS]
        + [f"tools/tidy/{header}", "-o", str(result)],
        check=True,
    )
    return result.resolve()


def check(name, arguments, precompiled):
    """Runs clang-tidy on a source; returns whether it found nothing, and what it printed."""
    command = [f"clang-tidy-{VERSION}", "-p", str(COMMANDS), "--quiet"]
    command.append(f"--extra-arg=-idirafter{GCC_HEADERS}")
    command.append("--extra-arg=-Wno-unknown-warning-option")  # the options are GCC's
    if name.startswith("tests/"):
        command.append(f"--checks={TEST_CHECKS}")
    has_own_main = "CATCH_CONFIG_" in pathlib.Path(name).read_text()  # asks Catch2's header for more
    if not has_own_main and all(
        a in KNOWN_OPTIONS for a in arguments if a.startswith(("-f", "-m"))
    ):
        header = "tests.h" if name.startswith("tests/") else "common.h"
        for option in [*OPTIONS, "-include-pch", precompiled[header]]:
            command.append(f"--extra-arg={option}")
    done = subprocess.run([*command, name], capture_output=True, text=True)
    return done.returncode == 0, done.stdout or done.stderr


@functools.cache
def common_key():
    """What every result depends on: the program, the checks and the headers of others."""
    packages = ["*-dev", "catch2", f"clang-tidy-{VERSION}", "g++-*"]
    versions = subprocess.check_output(["dpkg-query", "-W", *packages])
    files = [".clang-tidy", "tools/check_tidy.py", "tools/tidy/common.h", "tools/tidy/tests.h"]
    return b"".join([versions, *(pathlib.Path(file).read_bytes() for file in files)])


@functools.cache
def includes_of(path):
    """A file's content, and the names that it includes in quotes."""
    content = path.read_bytes()
    return content, [name.decode() for name in INCLUDE.findall(content)]


def key_of(name, arguments):
    """A digest of all that decides what clang-tidy finds in a source."""
    root = str(pathlib.Path.cwd())
    folders = [pathlib.Path(a[2:]) for a in arguments if a.startswith("-I")]
    digest = hashlib.sha256(common_key())
    digest.update(" ".join(arguments).replace(root, "").encode())
    met, left = set(), [pathlib.Path(name)]
    while left:
        path = left.pop()
        content, includes = includes_of(path)
        digest.update(content)
        for include in includes:
            for folder in [path.parent, *folders]:
                found = pathlib.Path(os.path.normpath(folder / include))
                if found.is_file():
                    if found not in met:
                        met.add(found)
                        left.append(found)
                    break
    return digest.hexdigest()


def is_known(key):
    """Whether nothing was found with this key before."""
    try:
        os.utime(CACHE / key)
        return True
    except FileNotFoundError:
        return False


def drop_old_keys():
    CACHE.mkdir(parents=True, exist_ok=True)
    for file in CACHE.iterdir():
        if time.time() - file.stat().st_mtime > KEPT_DAYS * 86400:
            file.unlink(missing_ok=True)


def main():
    os.chdir(pathlib.Path(__file__).resolve().parent.parent)
    todo = sources()
    names = sys.argv[1:] or sorted(todo)
    unknown = [name for name in names if name not in todo]
    if unknown:
        sys.exit(f"check_tidy.py: {BUILD} does not compile {', '.join(unknown)}")
    drop_old_keys()
    keys = {name: key_of(name, todo[name]) for name in names}
    known = sum(is_known(key) for key in keys.values())
    names = [name for name in names if not is_known(keys[name])]
    # The longest first, so that no core is left with one at the end.
    names.sort(key=lambda name: os.path.getsize(name), reverse=True)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        headers = ["common.h", "tests.h"] if names else []
        precompiled = dict(zip(headers, pool.map(precompile, headers)))
        results = pool.map(lambda name: check(name, todo[name], precompiled), names)
        for name, (good, text) in zip(names, results):
            if good:
                (CACHE / keys[name]).touch()
            else:
                failed += 1
                print(text, end="", flush=True)
    print(f"{known + len(names)} files, {known} of them known, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
