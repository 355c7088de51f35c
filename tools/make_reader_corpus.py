#!/usr/bin/env python3
"""make_reader_corpus.py - makes examples/bert_classify/data from that of examples/nmt_train.

A text is an English line of LibreOffice's help. Its label says whether the German translation of it
addresses the reader ("Sie", "Ihr"), which the English line hints at and does not say. The splits are
those of nmt_train, so that no text of dev or test occurs in train.

  python3 tools/make_reader_corpus.py [output folder]

SPDX-License-Identifier: Apache-2.0
"""
import collections
import gzip
import re
import sys
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "examples/nmt_train/data"
ADDRESS = re.compile(r"\b(Sie|Ihnen|Ihr|Ihre|Ihrem|Ihren|Ihrer|Ihres)\b")
TRAIN_ROWS = 12000
VOCABULARY = 4000


def rows(split):
    with gzip.open(SOURCE / f"{split}.en-de.tsv.gz", "rt", encoding="utf-8") as file:
        for line in file:
            english, german = line.rstrip("\n").split("\t")
            if len(english.split()) >= 4:
                yield english, "yes" if ADDRESS.search(german) else "no"


def vocabulary(texts):
    """Special pieces, all characters with and without ##, frequent words and ends of words."""
    words = collections.Counter()
    for text in texts:
        words.update(re.findall(r"\w+|[^\w\s]", text.lower()))
    characters = collections.Counter(c for word in words for c in word if c.isascii())
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces += sorted(characters)
    pieces += ["##" + c for c in sorted(characters) if c.isalnum() or c == "_"]
    ends = collections.Counter()
    for word, count in words.items():
        for length in (2, 3, 4):
            if len(word) > length + 2:
                ends[word[-length:]] += count
    pieces += ["##" + end for end, _ in ends.most_common(300) if end.isascii()]
    known = set(pieces)
    for word, _ in sorted(words.items(), key=lambda item: (-item[1], item[0])):
        if len(pieces) == VOCABULARY:
            break
        if word not in known and word.isascii():
            pieces.append(word)
    return pieces


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else (
        Path(__file__).parent.parent / "examples/bert_classify/data")
    folder.mkdir(parents=True, exist_ok=True)
    for split in ("train", "dev", "test"):
        examples = list(rows(split))
        if split == "train":
            step = len(examples) / TRAIN_ROWS
            examples = [examples[int(i * step)] for i in range(TRAIN_ROWS)]
            pieces = vocabulary(text for text, _ in examples)
            (folder / "vocab.txt").write_text("".join(p + "\n" for p in pieces), encoding="utf-8")
        text = "text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in examples)
        # No time and no name in the file: the same input gives the same bytes.
        with open(folder / f"{split}.tsv.gz", "wb") as raw:
            with gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
                file.write(text.encode("utf-8"))
        positive = sum(label == "yes" for _, label in examples)
        print(f"{split}: {len(examples)} texts, {positive / len(examples):.1%} address the reader")


main()
