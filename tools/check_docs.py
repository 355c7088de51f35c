#!/usr/bin/env python3
# check_docs.py - fails on dead links, long lines, and lab notes in pages for users.
# SPDX-License-Identifier: Apache-2.0
"""Checks README.md, CONTRIBUTING.md, CHANGELOG.md, docs/ and the examples' READMEs:

Every page: links and their anchors exist. Pages for users (all but docs/dev): no line is longer than 120
characters, and there is no date, processor model or number of an ADR. README.md has at most 120 lines, an
example's README at most 30.
"""
import pathlib
import re
import sys

PROJECT = pathlib.Path(__file__).resolve().parent.parent
LAB_NOTES = re.compile(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}|Zen [0-9]|Xeon|EPYC|\bADR [0-9]")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HIGHEST = {"README.md": 120}


def text_lines(page):
    """Gives (number, line) of what is outside of code blocks."""
    is_code = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            yield number, line


def anchors(page):
    """The anchors that GitHub makes of the headings."""
    for _, line in text_lines(page):
        if line.startswith("#"):
            heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line.lstrip("#").strip())
            yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def check_links(page):
    # Links may go over the end of a line.
    text = "\n".join(line for _, line in text_lines(page))
    for link in LINK.findall(re.sub(r"`[^`]*`", "", text)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            yield f"dead link {link}"
        elif anchor and target.suffix == ".md" and anchor not in set(anchors(target)):
            yield f"dead anchor {link}"


def check_user_page(page, name):
    lines = page.read_text().splitlines()
    most = HIGHEST.get(name, 30 if name.startswith("examples/") else len(lines))
    if len(lines) > most:
        yield f"{len(lines)} lines, at most {most}"
    for number, line in enumerate(lines, 1):
        if len(line) > 120:
            yield f"line {number} has {len(line)} characters, at most 120"
        if LAB_NOTES.search(line):
            yield f"line {number} has a date, a processor or an ADR; records are in docs/dev/records"


def main():
    pages = [PROJECT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    pages += sorted(PROJECT.glob("docs/**/*.md")) + sorted(PROJECT.glob("examples/*/README.md"))
    problems = []
    for page in pages:
        name = page.relative_to(PROJECT).as_posix()
        found = list(check_links(page))
        if not name.startswith("docs/dev/"):
            found += check_user_page(page, name)
        problems += [f"{name}: {problem}" for problem in found]
    print("\n".join(problems + [f"{len(pages)} pages, {len(problems)} problems"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
