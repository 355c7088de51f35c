#!/usr/bin/env python3
# make_en_de_corpus.py - makes the sample English-German corpus from Debian's LibreOffice help packages.
# SPDX-License-Identifier: Apache-2.0
"""Makes examples/nmt_train/data/{train,dev,test}.en-de.tsv.gz from LibreOffice's help.

  apt-get install --no-install-recommends libreoffice-help-en-us libreoffice-help-de
  python3 tools/make_en_de_corpus.py

Pages of the two languages pair by path, paragraphs by their id. Tags are stripped, program code and
untranslated paragraphs are left out, a pair is kept once. A hash of the normalised English chooses
the split, so it does not depend on the order of the pages and hardly changes between versions of the
packages; train then loses every pair one side of which also occurs in dev or test, dev those of test.
Output is the same byte for byte for the same packages. Standard library only.
"""
import argparse
import gzip
import hashlib
import io
import pathlib
import re
import subprocess
import sys
import unicodedata
from html.parser import HTMLParser

PACKAGES = ("libreoffice-help-en-us", "libreoffice-help-de")
BLOCKS = {"p", "h1", "h2", "h3", "h4", "h5"}
CODE_CLASSES = {"code", "codeintable", "smathcode", "bascode", "pycode"}
VOID_TAGS = {"br", "img", "meta", "input", "link", "hr", "wbr", "source", "col"}


class Paragraphs(HTMLParser):
    """Collects {paragraph id: text} of one page."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.texts = {}
        self._id = None
        self._stack = []  # one entry a tag open inside the paragraph: None, or a buffer to fold
        self._buffers = []  # where text goes; the last one is open

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag in BLOCKS:
            self._finish()
            if attrs.get("id") and attrs.get("class") not in CODE_CLASSES:
                self._id, self._stack, self._buffers = attrs["id"], [], [[]]
            return
        if self._id is None:
            return
        if tag in VOID_TAGS:
            if tag == "br":
                self._buffers[-1].append(" ")
            return
        # <span class="switchinline"> holds one hidden span for each system or module, and a default.
        kind = None
        if tag == "span" and attrs.get("class") == "switchinline":
            kind = "switch"
        elif tag == "span" and "hidden" in attrs:
            name = attrs.get("class") or "default"
            kind = "choice:" + name
        if kind:
            self._buffers.append({} if kind == "switch" else [])
        self._stack.append((tag, kind))

    def handle_endtag(self, tag):
        if self._id is None:
            return
        if tag in BLOCKS:
            self._finish()
            return
        if not any(open_tag == tag for open_tag, _ in self._stack):
            return
        while self._stack:
            open_tag, kind = self._stack.pop()
            self._fold(kind)
            if open_tag == tag:
                return

    def handle_data(self, data):
        if self._id is not None and isinstance(self._buffers[-1], list):
            self._buffers[-1].append(data)

    def close(self):
        super().close()
        self._finish()

    def _fold(self, kind):
        """Puts a finished switch or choice into the buffer around it."""
        if kind is None:
            return
        buffer = self._buffers.pop()
        outer = self._buffers[-1]
        if kind == "switch":
            others = [text for name, text in buffer.items() if name != "MAC"]
            chosen = buffer.get("default", others[0] if others else "")
            if isinstance(outer, list):
                outer.append(chosen)
        elif isinstance(outer, dict):
            outer[kind.partition(":")[2]] = "".join(buffer)

    def _finish(self):
        if self._id is None:
            return
        while self._stack:
            self._fold(self._stack.pop()[1])
        text = tidy("".join(self._buffers[0]))
        if text and self._id not in self.texts:
            self.texts[self._id] = text
        self._id = None


def tidy(text):
    """Unicode NFC, all white space single spaces, no control or invisible characters."""
    text = unicodedata.normalize("NFC", text)
    text = "".join(" " if c.isspace() else c for c in text
                   if c.isspace() or unicodedata.category(c) not in ("Cc", "Cf", "Co", "Cs", "Cn"))
    return re.sub(r" +", " ", text).strip()


def normalised(text):
    """What makes two lines "the same": no case, no punctuation, digits alike."""
    text = re.sub(r"\d+", "0", text.casefold())
    return " ".join(re.findall(r"\w+", text)) or text


def is_useful(english, german):
    if not any(c.isalpha() for c in english) or not any(c.isalpha() for c in german):
        return False
    if english == german and len(english.split()) > 3:  # code, or not translated
        return False
    return True


def read_pairs(help_dir):
    """Yields (english, german) in the order of the pages."""
    english_root, german_root = help_dir / "en-US" / "text", help_dir / "de" / "text"
    for root in (english_root, german_root):
        if not root.is_dir():
            sys.exit(f"{root}: no such folder; run apt-get install {' '.join(PACKAGES)}")
    for page in sorted(english_root.rglob("*.html")):
        other = german_root / page.relative_to(english_root)
        if not other.exists():
            continue
        sides = []
        for path in (page, other):
            parser = Paragraphs()
            parser.feed(path.read_text(encoding="utf-8"))
            parser.close()
            sides.append(parser.texts)
        for identifier, english in sides[0].items():
            german = sides[1].get(identifier)
            if german and is_useful(english, german):
                yield english, german


def choose_split(english, dev_permille, test_permille):
    digest = hashlib.sha256(normalised(english).encode()).digest()
    bucket = int.from_bytes(digest[:8], "big") % 1000
    if bucket < test_permille:
        return "test"
    return "dev" if bucket < test_permille + dev_permille else "train"


def make_splits(pairs, dev_permille, test_permille):
    splits = {"train": [], "dev": [], "test": []}
    seen = set()
    for english, german in pairs:
        split = choose_split(english, dev_permille, test_permille)
        # An English line is tested once, however many translations of it there are.
        key = normalised(english) if split != "train" else (english, german)
        if key not in seen:
            seen.add(key)
            splits[split].append((english, german))
    taken = set()
    for split in ("test", "dev", "train"):
        kept = [pair for pair in splits[split]
                if not any(normalised(side) in taken for side in pair)]
        splits[split] = kept
        if split != "train":
            taken.update(normalised(side) for pair in kept for side in pair)
    return splits


def write_tsv(path, pairs):
    text = "".join(f"{english}\t{german}\n" for english, german in pairs)
    raw = io.BytesIO()
    # No file name and no time in the header: the same pairs give the same bytes.
    with gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=9, mtime=0) as out:
        out.write(text.encode())
    path.write_bytes(raw.getvalue())
    words = sum(len(english.split()) for english, _ in pairs)
    print(f"{path}: {len(pairs)} pairs, {words} English words, {len(raw.getvalue())} bytes")


def package_versions():
    versions = []
    for package in PACKAGES:
        result = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package],
                                capture_output=True, text=True, check=False)
        versions.append(f"{package} {result.stdout or '(unknown version)'}")
    return ", ".join(versions)


def main():
    default_output = pathlib.Path(__file__).resolve().parent.parent / "examples/nmt_train/data"
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--help-dir", type=pathlib.Path,
                        default=pathlib.Path("/usr/share/libreoffice/help"),
                        help="folder that holds en-US/text and de/text (default: %(default)s)")
    parser.add_argument("--output", type=pathlib.Path, default=default_output,
                        help="folder to write to (default: %(default)s)")
    parser.add_argument("--dev-permille", type=int, default=30)
    parser.add_argument("--test-permille", type=int, default=30)
    args = parser.parse_args()

    splits = make_splits(read_pairs(args.help_dir), args.dev_permille, args.test_permille)
    args.output.mkdir(parents=True, exist_ok=True)
    for split, pairs in splits.items():
        write_tsv(args.output / f"{split}.en-de.tsv.gz", pairs)
    print(f"made from {package_versions()}")


if __name__ == "__main__":
    main()
