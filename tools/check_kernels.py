#!/usr/bin/env python3
# check_kernels.py - fails when a CUDA kernel spills or takes more than tests/device/kernel_resources.tsv says.
# SPDX-License-Identifier: Apache-2.0
"""Compares ptxas' reports of a built cuda preset with tests/device/kernel_resources.tsv, and fails where
ptxas says that it could not let products of a warpgroup run beside other work.

  tools/check_kernels.py [--build build/cuda]            compares, exit code 1 where something is worse
  tools/check_kernels.py [--build build/cuda] --update   writes the table anew

docs/dev/kernels.md says how to read the table. cmake/kernel_report.sh leaves the reports, FILE.cu.o.ptxas.
"""
import argparse
import dataclasses
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "tests/device/kernel_resources.tsv"
SOURCES = ROOT / "libdtrain/dtrain"
# Another minor version of ptxas moves a register or two: one step of the hardware's allocation.
REGISTER_TOLERANCE = 8
SHARED_TOLERANCE = 256


@dataclasses.dataclass(frozen=True)
class Limits:
    """Of one multiprocessor (CUDA C++ Programming Guide, table of compute capabilities)."""
    threads: int
    blocks: int
    shared_bytes: int
    registers: int = 65536


ARCHITECTURES = {
    70: Limits(2048, 32, 96 << 10), 75: Limits(1024, 16, 64 << 10), 80: Limits(2048, 32, 164 << 10),
    86: Limits(1536, 16, 100 << 10), 89: Limits(1536, 24, 100 << 10),
    90: Limits(2048, 32, 228 << 10), 100: Limits(2048, 32, 228 << 10),
    120: Limits(1536, 24, 100 << 10),
}


@dataclasses.dataclass
class Usage:
    registers: int = 0
    shared: int = 0
    stack: int = 0
    spills: int = 0
    threads: int = 0

    def occupancy(self, architecture):
        """Percent of the resident threads that blocks of `threads` leave possible."""
        limits = ARCHITECTURES[architecture]
        warps = -(-self.threads // 32)
        # Registers are handed out to warps in pieces of 256, shared memory to blocks in 128 bytes;
        # since sm_80 a block takes 1 KiB for itself.
        per_warp = max(-(-self.registers * 32 // 256) * 256, 256)
        shared = -(-self.shared // 128) * 128 + (1024 if architecture >= 80 else 0)
        blocks = min(limits.blocks, limits.threads // (32 * warps),
                     limits.registers // per_warp // warps,
                     limits.shared_bytes // shared if shared else limits.blocks)
        return round(100 * blocks * warps * 32 / limits.threads)


def read_reports(build):
    """{(mangled name, architecture): Usage}, and ptxas' release."""
    reports = sorted(pathlib.Path(build).rglob("*.cu.o.ptxas"))
    if not reports:
        sys.exit(f"{build} holds no *.cu.o.ptxas: build it first (cmake --preset cuda && cmake --build "
                 "build/cuda --target dtrain)")
    kernels = {}
    for report in reports:
        if not report.with_suffix("").exists():
            continue  # of a source that is no more
        usage = None
        for line in report.read_text(errors="replace").splitlines():
            if match := re.search(r"Compiling entry function '(\S+)' for 'sm_(\d+)\w?'", line):
                usage = kernels.setdefault((match[1], int(match[2])), Usage())
            elif usage is None:
                continue
            elif match := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes "
                                    r"spill loads", line):
                stack, stores, loads = map(int, match.groups())
                usage.stack = max(usage.stack, stack)
                usage.spills += stores + loads
            elif match := re.search(r"Used (\d+) registers", line):
                usage.registers = int(match[1])
                shared = re.search(r"(\d+) bytes smem", line)
                usage.shared = int(shared[1]) if shared else 0
                usage = None
    return kernels


def lost_products(build):
    """What ptxas says of warpgroup products that it serialised (C7508 to C7512), or waits and arrivals
    that it added to a kernel because they were missing (C7517, C7519)."""
    found = set()
    for report in sorted(pathlib.Path(build).rglob("*.cu.o.ptxas")):
        if not report.with_suffix("").exists():
            continue
        for line in report.read_text(errors="replace").splitlines():
            if match := re.search(r"\((C75(?:08|09|1[0-2]|17|19))\) (.*?)(?: around line \d+)?"
                                  r"( .*)? in (?:the )?function '(\S+)'", line):
                found.add((match[4], f"{match[2]}{match[3] or ''} ({match[1]})"))
    names = demangle({mangled for mangled, _ in found})
    return sorted(f"{names[mangled]}: {text}" for mangled, text in found)


def demangle(names):
    names = sorted(names)
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True,
                          check=True).stdout
    return dict(zip(names, map(shorten, text.splitlines())))


def shorten(name):
    """ "void dtrain::(anonymous namespace)::K<dtrain::BFloat16, (int)4>(dtrain::Args)": K<BFloat16, 4>."""
    name = re.sub(r"\(anonymous namespace\)::|_GLOBAL__N__\w+::|dtrain::|\([a-zA-Z_ ]+\)(?=-?\d)", "",
                  name)
    name = re.sub(r"^void ", "", name).replace("> >", ">>")
    depth, end = 0, len(name)
    for i, letter in enumerate(name):
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if letter == "(" and depth == 0:
            end = i
            break
    return name[:end]


def block_sizes():
    """{kernel's name: threads of its __launch_bounds__}, from the sources."""
    texts = {path.relative_to(SOURCES.parent).as_posix(): path.read_text()
             for path in sorted(SOURCES.rglob("*.cu*"))}
    constants = {path: dict(re.findall(r"constexpr int (k\w+) = ([^;]+);", text))
                 for path, text in texts.items()}

    def find(name, path):
        """The constant's expression and file: in `path` or what it includes."""
        if name in constants.get(path, {}):
            return constants[path][name], path
        for header in re.findall(r'#include "(\S+\.cuh)"', texts.get(path, "")):
            if found := find(name, header):
                return found
        return None

    def value_of(expression, path):
        def replace(match):
            found = find(match[0], path)
            if found is None:
                sys.exit(f"{path}: cannot evaluate __launch_bounds__({expression})")
            return f"({value_of(*found)})"
        return int(eval(re.sub(r"\bk\w+", replace, expression), {"__builtins__": {}}))

    sizes = {}
    for path, text in texts.items():
        bounds = re.findall(r"__launch_bounds__\s*\(\s*([^,)]+?)\s*[,)][^{;]*?(\w+Kernel\w*)\s*\(",
                            text)
        if len(bounds) != len(re.findall(r"^__global__", text, re.MULTILINE)):
            sys.exit(f"{path}: a __global__ function without __launch_bounds__, or without Kernel in "
                     "its name")
        sizes.update((kernel, value_of(threads, path)) for threads, kernel in bounds)
    return sizes


def measure(build):
    """{kernel: {architecture: Usage}}; where one name stands for several, the worst of them."""
    raw = read_reports(build)
    names = demangle({mangled for mangled, _ in raw})
    threads = block_sizes()
    table = {}
    for (mangled, architecture), usage in raw.items():
        name = names[mangled]
        base = name.split("<")[0]
        if base not in threads:
            sys.exit(f"{base}: no __launch_bounds__ found in {SOURCES}")
        known = table.setdefault(name, {}).setdefault(architecture, Usage())
        for field in ("registers", "shared", "stack", "spills"):
            setattr(known, field, max(getattr(known, field), getattr(usage, field)))
        known.threads = threads[base]
    return table


def compiler_release(build):
    for file in (pathlib.Path(build) / "CMakeFiles").glob("*/CMakeCUDACompiler.cmake"):
        if match := re.search(r'CMAKE_CUDA_COMPILER_VERSION "(\d+\.\d+)', file.read_text()):
            return match[1]
    sys.exit(f"{build} was not configured with a CUDA compiler")


def write_table(table, release):
    architectures = sorted({a for usages in table.values() for a in usages})
    with TABLE.open("w") as file:
        file.write(f"# Resources of the CUDA kernels, nvcc {release}; written by tools/check_kernels.py "
                   "--update, read in docs/dev/kernels.md.\n")
        columns = [f"sm_{a} {what}" for a in architectures
                   for what in ("registers", "shared", "stack", "occupancy")]
        file.write("\t".join(["kernel", "threads"] + columns) + "\n")
        for name in sorted(table):
            usages = table[name]
            cells = [name, str(next(iter(usages.values())).threads)]
            for a in architectures:
                u = usages.get(a)
                cells += [str(u.registers), str(u.shared), str(u.stack), f"{u.occupancy(a)}%"] if u \
                    else ["-"] * 4
            file.write("\t".join(cells) + "\n")


def read_table():
    """The table as measure() gives it, and nvcc's release."""
    if not TABLE.exists():
        return {}, ""
    lines = TABLE.read_text().splitlines()
    release = re.search(r"nvcc (\S+);", lines[0])[1]
    architectures = [int(a) for a in re.findall(r"sm_(\d+) registers", lines[1])]
    table = {}
    for line in lines[2:]:
        name, threads, *cells = line.split("\t")
        for i, architecture in enumerate(architectures):
            registers, shared, stack, _ = cells[4 * i:4 * i + 4]
            if registers != "-":
                table.setdefault(name, {})[architecture] = Usage(
                    int(registers), int(shared), int(stack), threads=int(threads))
    return table, release


def compare(name, architecture, now, before):
    """Yields what became worse."""
    where = f"{name}, sm_{architecture}"
    if now.registers > before.registers + REGISTER_TOLERANCE:
        yield f"{where}: {now.registers} registers, {before.registers} in the table"
    if now.shared > before.shared + SHARED_TOLERANCE:
        yield f"{where}: {now.shared} bytes of shared memory, {before.shared} in the table"
    if now.stack > before.stack:
        yield f"{where}: {now.stack} bytes of local memory, {before.stack} in the table"
    if now.threads != before.threads:
        yield f"{where}: blocks of {now.threads} threads, {before.threads} in the table"


def problems_of(table, known, same_release):
    for name, usages in sorted(table.items()):
        for architecture, usage in sorted(usages.items()):
            if usage.spills:
                yield f"{name}, sm_{architecture}: {usage.spills} bytes of spills"
            if name not in known:
                yield f"{name}, sm_{architecture}: not in the table"
            elif architecture in known[name] and same_release:
                yield from compare(name, architecture, usage, known[name][architecture])
    for name in sorted(known.keys() - table.keys()):
        yield f"{name}: in the table, but no longer built"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build/cuda", help="folder of the cuda preset")
    parser.add_argument("--update", action="store_true", help="write the table instead")
    options = parser.parse_args()
    table = measure(options.build)
    release = compiler_release(options.build)
    count = sum(len(usages) for usages in table.values())
    if options.update:
        spilled = [p for p in problems_of(table, table, True) if "spills" in p]
        if spilled:
            sys.exit("\n".join(spilled))
        write_table(table, release)
        print(f"{TABLE.relative_to(ROOT)}: {len(table)} kernels, {count} with their architectures")
        return 0
    known, known_release = read_table()
    if release != known_release:
        print(f"nvcc {release} here, {known_release or 'none'} in the table: registers are not compared")
    problems = list(problems_of(table, known, release == known_release))
    problems += lost_products(options.build)
    for problem in problems:
        print(problem)
    print(f"{count} kernels of all architectures, {len(problems)} problems")
    if problems:
        print("Where that is meant: tools/check_kernels.py --update, and commit the table")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
