#!/usr/bin/env python3
# make_configuration_page.py - writes docs/configuration-keys.md from what the programs say of their settings.
# SPDX-License-Identifier: Apache-2.0
"""Usage: tools/make_configuration_page.py [BIN_DIR]   (default: build/cpu/bin)

Runs `PROGRAM --help_config` for each of the programs. Run it again when a .proto file has changed.
With --check it writes nothing, and fails if the page is out of date.
"""
import pathlib
import re
import subprocess
import sys
import textwrap

PROJECT = pathlib.Path(__file__).resolve().parent.parent
PAGE = PROJECT / "docs" / "configuration-keys.md"
# A program, and the one before it whose keys it mostly shares.
PROGRAMS = [("nmt_train", None), ("bert_classify", None), ("bert_squad", "bert_classify"),
            ("bert_pretrain", "bert_classify"),
            ("bert_tag", "bert_classify"), ("lm_train", None)]
HEAD = """# All settings

Written by `tools/make_configuration_page.py` from `PROGRAM --help_config`: do not edit.
[Configuration](configuration.md) says how settings are written. Each entry has the key, its default, and in
brackets its type, unit and range. A *period* is a number with a unit: `500u` updates, `2e` epochs, `10Mt`
target tokens, `90s`, `5m` or `2h`; a *duration* is one of the last three. `""` is an empty text, `[]` an empty list.
"""


def parse(text):
    """Gives [(section, comment, [(key, default, rules, comment, [meaning of a value])])]."""
    sections = []
    for line in text.splitlines():
        if heading := re.match(r"\[([\w.]+)\] ?(.*)", line):
            sections.append((heading[1], heading[2], []))
        elif field := re.match(r"([\w.]+)=(.*?)  \((.*)\)$", line):
            sections[-1][2].append((field[1], field[2], field[3], [], []))
        elif line.startswith("      "):
            values = sections[-1][2][-1][4]
            if re.match(r" {6}\w+: ", line):
                values.append(line.strip())
            elif values:
                values[-1] += " " + line.strip()
        elif line.startswith("    "):
            sections[-1][2][-1][3].append(line.strip())
        elif line.strip():
            raise SystemExit(f"make_configuration_page.py: cannot read {line!r}")
    return sections


def item(text, indent=""):
    return textwrap.fill(text, 118, initial_indent=indent + "- ", subsequent_indent=indent + "  ",
                         break_long_words=False, break_on_hyphens=False)


def entry(key, default, rules, comment, values):
    lines = [item(f"`{key}={default}` ({rules}): {' '.join(comment)}")]
    lines += [item("`" + value.replace(": ", "`: ", 1), "  ") for value in values]
    return "\n".join(lines)


def page(bin_dir):
    out = [HEAD]
    known = {}
    for program, like in PROGRAMS:
        text = subprocess.run([bin_dir / program, "--help_config"], check=True, capture_output=True,
                              text=True).stdout
        known[program] = set()
        out.append(f"## {program}\n")
        if like:
            out.append(f"As [{like}](#{like}), and where it differs:\n")
        for section, comment, fields in parse(text):
            if section == "most_used":
                out.append(textwrap.fill("Most used: " + ", ".join(f"`{field[0]}`" for field in fields) + ".", 118,
                                         break_long_words=False, break_on_hyphens=False) + "\n")
                continue
            entries = [entry(*field) for field in fields]
            known[program].update(entries)
            new = [text for text in entries if text not in known.get(like, ())]
            if new:
                out += [f"### {program}: {section}\n", comment + "\n", "\n".join(new) + "\n"]
    return "\n".join(out)


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--check"]
    bin_dir = pathlib.Path(arguments[0]) if arguments else PROJECT / "build/cpu/bin"
    if not (bin_dir / "nmt_train").exists():
        sys.exit(f"make_configuration_page.py: {bin_dir} has no nmt_train; build the programs, or name their folder")
    text = page(bin_dir)
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text)
    elif text != PAGE.read_text():
        sys.exit("docs/configuration-keys.md is out of date: run tools/make_configuration_page.py")


if __name__ == "__main__":
    main()
