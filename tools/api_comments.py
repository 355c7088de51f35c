#!/usr/bin/env python3
# api_comments.py - Doxygen's input filter: the comments of a public header become its API page.
# SPDX-License-Identifier: Apache-2.0
"""Prints a header in which Doxygen finds documentation; every line keeps its number. Of a page, links
to other pages become their texts.

    tools/api_comments.py libdtrain/dtrain/nn/linear.h

The headers have plain comments. Here they get Doxygen's marks:
- The opening comment documents the file. Its indented lines are code.
- A comment above a declaration documents it, and the declarations right below without own comment.
- A comment behind a member or an enumerator documents it, with the comment lines below it.
- Data members, constructors, operators and accessors may go without: their class documents them.
  Classes, enumerations, macros and all other functions may not.
Removed: what users do not call (private parts, namespaces internal, forward declarations, deleted
and defaulted functions, macros that end in an underscore).
"""
import re
import sys

COMMENT = re.compile(r"^(\s*)//(?: (.*)|())$")
SCOPE = re.compile(r"^(\s*)(?:class|struct|enum class|enum)\b[^;]*\{$")
FORWARD = re.compile(r"^\s*(?:(?:class|struct) \w+|enum class \w+ : \w+|friend [^;]*);$")
UNCALLED = re.compile(r"= (?:delete|default);$|~\w+\(|^\s*friend ")


def escape(text):
    text = re.sub(r"\\(?!f)|[<>&#%\"]|::", lambda m: "\\" + m.group(0), text)
    return re.sub(r"@(?!(?:param|return)\b)", r"\\@", text)


def indent_of(line):
    return len(line) - len(line.lstrip())


def text_of(line):
    match = COMMENT.match(line)
    return (match.group(2) or "") if match else None


def marked(texts):
    """The lines of a comment as documentation; indented ones are code."""
    out, in_code = [], False
    for number, text in enumerate(texts):
        goes_on = in_code and not text and any(texts[number:]) and next(
            filter(None, texts[number:])).startswith("  ")
        is_code = text.startswith("  ") and not re.match(r"\s+[-{\[]", text) or goes_on
        mark = "\\code{.cpp} " if is_code and not in_code else "\\endcode " if in_code and not is_code else ""
        out.append("/// " + mark + (text if is_code else escape(text)))
        in_code = is_code
    if in_code:
        out[-1] += " \\endcode"
    return out


def file_comment(lines):
    """The opening comment: a sentence, the license, an example and more."""
    texts = [text_of(line) for line in lines]
    return ["/// \\brief " + escape(texts[0].split(" - ", 1)[-1]), "/// \\file"] + marked(texts[2:])


class Header:
    """The part of a header below its opening comment."""

    def __init__(self, lines):
        self.lines = lines
        self.out = []
        self.indents = [0]    # of the declarations in each open scope
        self.shared = None    # the comment that the next declaration may share
        self.is_above = False  # the last line of out documents the next declaration
        self.column = None    # of a comment behind a member, which the next line may go on with

    def skip(self, i, last):
        """Leaves lines i to last out and returns the next one."""
        self.out += [""] * (last + 1 - i)
        self.column = None
        return last + 1

    def find(self, i, pattern):
        return next(k for k in range(i, len(self.lines)) if re.match(pattern, self.lines[k]))

    def comment(self, i):
        """Comment lines: documentation if a declaration follows, else removed."""
        last = i
        while text_of(self.lines[last + 1]) is not None:
            last += 1
        texts = [text_of(line) for line in self.lines[i:last + 1]]
        if not self.lines[last + 1].strip() or re.match(r"\s*\}|\s+\w+:$", self.lines[last + 1]):
            return self.skip(i, last)
        self.out += marked(texts)
        self.shared = escape(" ".join(texts)).replace("*/", "* /")
        self.column = None
        self.is_above = True
        return last + 1

    def end_of_declaration(self, i):
        """The last line of the declaration that begins at line i."""
        depth = 0
        for k in range(i, len(self.lines)):
            code = re.sub(r'"(?:\\.|[^"\\])*"|//.*', "", self.lines[k])
            depth += sum(map(code.count, "({[")) - sum(map(code.count, ")}]"))
            if depth <= 0 and re.search(r"[;,}]\s*$", code) and not re.match(r"\s*template\b", code):
                return k
            if depth <= 0 and self.lines[k + 1].strip().startswith("}"):
                return k
        return len(self.lines) - 1

    def is_named(self, line, last, i):
        """Whether the name says what it is: data, an enumerator, a constructor, an accessor."""
        code = " ".join(self.lines[i:last + 1]).strip()
        head = code.split("(")[0]
        is_data = "(" not in re.sub(r"[={].*", "", code)
        return bool(is_data or "operator" in head or re.match(r"(explicit )?[A-Z]\w*$", head) or
                    re.match(r"[^(]*\(\) const\b", code) or re.match(r"[^(]*& \w+\(\)", code))

    def declaration(self, i):
        line = self.lines[i]
        has_own, self.is_above = self.is_above, False
        if has_own:
            line_out = line
        else:
            line_out = f"/** {self.shared} */ {line.lstrip()}" if self.shared else line
        scope = i + 1 if re.match(r"\s*template <.*>$", line) else i
        if SCOPE.match(self.lines[scope]):
            self.out += [line_out] + self.lines[i + 1:scope + 1]
            self.indents.append(indent_of(line) + 2)
            self.shared = None
            return scope + 1
        last = self.end_of_declaration(i)
        if UNCALLED.search(self.lines[last]) and not has_own:
            return self.skip(i, last)
        if "=" not in line and re.match(r"\s*(?:enum class|enum) \w+[^;{]*\{.*\};", line):
            values = re.search(r"\{(.*)\}", line).group(1)
            line_out = line_out.replace(values, re.sub(r"(\w+)(,| *$)", r"\1 /**< As its name says. */\2", values))
        if (line_out is line and len(self.indents) > 1 and not has_own and
                not re.search(r"//", self.lines[last]) and self.is_named(line, last, i)):
            line_out = "/** See the description of the class. */ " + line
        for k in range(i, last + 1):
            text = line_out if k == i else self.lines[k]
            behind = re.match(r"^(.*\S)\s+// (.*)$", text) if k == last else None
            if behind and not behind.group(1).startswith("//"):
                self.column = self.lines[k].index("//", len(self.lines[k]) - len(behind.group(2)) - 3)
                text = f"{behind.group(1)} /**< {escape(behind.group(2))} */"
                if k == i and self.shared and line_out is not line:
                    text = f"{line.split('//')[0].rstrip()} /**< {escape(behind.group(2))} */"
            self.out.append(text)
        return last + 1

    def run(self):
        i = 0
        while i < len(self.lines):
            line = self.lines[i]
            indent = indent_of(line)
            if not line.strip():
                self.shared = self.column = None
                self.is_above = False
                self.out.append("")
                i += 1
            elif text_of(line) is not None and self.column == indent:
                self.out[-1] = self.out[-1][:-3]
                self.out.append(f"{escape(text_of(line))} */")
                i += 1
            elif re.match(r"namespace internal \{", line):
                i = self.skip(i, self.find(i, r"\}  // namespace internal"))
            elif re.match(r"#define \w+_H_$|#ifndef|#endif|// NOLINT", line):
                i = self.skip(i, i)
            elif re.match(r"#define", line):
                last = next(k for k in range(i, len(self.lines)) if not self.lines[k].endswith("\\"))
                if re.match(r"#define \w+_\(", line):
                    i = self.skip(i, last)
                else:
                    if self.shared and not self.is_above:
                        line = f"/** {self.shared} */ {line}"
                    self.is_above = False
                    self.out.append(line)
                    self.out += self.lines[i + 1:last + 1]
                    i = last + 1
            elif re.match(r"\s*(private|protected):$", line):
                i = self.skip(i, self.find(i, r"\s{0,%d}\};" % (indent - 1)) - 1)
            elif re.match(r"\s*\};?(  //.*)?$", line) and indent < self.indents[-1]:
                self.indents.pop()
                self.shared = None
                self.out.append(line)
                i += 1
            elif FORWARD.match(line):
                i = self.skip(i, i)
            elif text_of(line) is not None and indent == self.indents[-1]:
                i = self.comment(i)
            elif re.match(r"#include|namespace|\}  // namespace|\s+public:", line):
                self.out.append(line)
                i += 1
            elif indent == self.indents[-1]:
                i = self.declaration(i)
            else:
                self.out.append(line)
                i += 1
        return self.out


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        text = file.read()
    if sys.argv[1].endswith(".md"):
        print(re.sub(r"\[([^\]]*)\]\([\w/-]+\.md\)", r"\1", text), end="")
        return
    lines = text.split("\n")
    body = next(i for i, line in enumerate(lines) if text_of(line) is None)
    print("\n".join(file_comment(lines[:body]) + Header(lines[body:]).run()), end="")


if __name__ == "__main__":
    main()
