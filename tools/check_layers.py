#!/usr/bin/env python3
# check_layers.py - fails when a file includes upward, or a header that its floor may not see.
# SPDX-License-Identifier: Apache-2.0
"""Floors of libdtrain/dtrain, lowest first; a file includes its own room and lower floors only.

Beyond that: only COMM_USERS include comm/; only comm/ includes mpi.h; CUDA headers appear in *.cu, *.cuh,
device/cuda/ and comm/nccl_* alone; public headers name no third-party header; every source file's first line says what the file is.
In tasks/, a task includes itself and tasks/shared/, tasks/shared/ includes no task, and tasks/registry includes all of them.
"""
import os
import pathlib
import re
import subprocess
import sys

FLOORS = {
    "base": 1, "device": 2, "metrics": 2, "ops": 3, "comm": 3, "data": 3,
    "nn": 4, "tokenizers": 4, "config": 4, "formats": 4, "models": 5, "optim": 5, "runs": 5,
    "distributed": 6, "report": 6, "train": 7, "launch": 8, "tasks": 9,
}
COMM_USERS = {"comm", "distributed", "train", "launch", "tasks"}
# data/, tokenizers/ and runs/ write others' formats, in their .cc files only.
PROTO_USERS = {"data", "tokenizers", "runs", "config", "launch", "tasks"}
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')
LIBRARY = pathlib.PurePosixPath("libdtrain/dtrain")


def floor_of(path):
    return path.parts[2] if len(path.parts) > 3 and path.is_relative_to(LIBRARY) else None


def check_task(path, header):
    """Yields what is wrong with an include from one file of tasks/ to another."""
    parts, target = path.parts[3:], header.split("/")[2:]
    if len(parts) == 1:  # the registry
        return
    if len(target) == 1:
        yield "a task does not know the registry"
    elif target[0] not in (parts[0], "shared"):
        yield f"{parts[0]} and {target[0]} are folders of tasks/: a task includes no other, and shared none"


def check_include(path, room, quote, header):
    """Yields what is wrong with one include of a library file."""
    is_header = path.suffix in (".h", ".cuh")
    is_public = is_header and not {"internal", "cuda"} & set(path.parts)
    is_cuda = path.suffix in (".cu", ".cuh") or "cuda" in path.parts[:-1] or path.name.startswith("nccl_")
    if header.startswith("dtrain/"):
        target = header.split("/")[1]
        if header.endswith(".pb.h"):
            if is_public or room not in PROTO_USERS:
                yield "protobuf types stay within " + ", ".join(sorted(PROTO_USERS)) + ", out of public headers"
            return
        if is_public and "/internal/" in header:
            yield "a public header includes none of internal/, which is not installed"
        if target not in FLOORS:
            yield f"unknown floor {target}"
        elif FLOORS[target] > FLOORS[room]:
            yield f"{room} (floor {FLOORS[room]}) includes {target} (floor {FLOORS[target]})"
        elif target != room and FLOORS[target] == FLOORS[room]:
            yield f"{room} and {target} are rooms of one floor and do not include each other"
        elif target == "tasks" and room == "tasks":
            yield from check_task(path, header)
        elif target == "comm" and room not in COMM_USERS:
            yield "only " + ", ".join(sorted(COMM_USERS)) + " include comm/"
        return
    if header == "mpi.h" and room != "comm":
        yield "only comm/ sees mpi.h"
    if re.match(r"(cuda|cublas|cudnn|nccl|nvrtc)", header) and not is_cuda:
        yield "CUDA headers stay in .cu, .cuh, device/cuda/ and comm/nccl_*"
    third_party = "/" in header or quote == '"' or header.endswith(".h") and header.split(".")[0] in (
        "mpi", "omp", "zlib", "zstd", "utf8proc")
    if is_public and third_party and not header.startswith(("sys/",)):
        yield "a public header names no third-party header"


def check_file(path):
    lines = pathlib.Path(path).read_text(encoding="utf-8").split("\n")
    comment = "//"
    if not re.match(rf"{comment} {re.escape(path.name)} - \S.*\.$", lines[0]):
        yield 1, f"the first line says what the file is: '{comment} {path.name} - ... .'"
    room = floor_of(path)
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if match and room:
            for problem in check_include(path, room, *match.groups()):
                yield number, problem


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    files = subprocess.run(["git", "-C", str(root), "ls-files", "*.h", "*.cc", "*.cu", "*.cuh"],
                           capture_output=True, text=True, check=True).stdout.split()
    problems = 0

    os.chdir(root)
    for name in files:
        for line, problem in check_file(pathlib.PurePosixPath(name)):
            print(f"{name}:{line}: {problem}")
            problems += 1
    print(f"{len(files)} files, {problems} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
