#!/usr/bin/env python3
# make_normal_forms_goldens.py - what `tokenizers` makes of every character in each normal form of Unicode.
# SPDX-License-Identifier: Apache-2.0
#
#   python3 make_normal_forms_goldens.py > normal_forms.json
#
# Made with tokenizers 0.23.3. For each form, and each 4,096 code points: the CRC-32 of what it makes of a text with each of
# them alone, between a letter and two marks, between parts of a Korean syllable, and twice after a mark. Planes without
# assigned characters, and those for private use, are left out.
import json
import sys
import zlib

import tokenizers
from tokenizers import normalizers

WAYS = ['{}', 'a{}\u0301\u0323', '\u1100{}\u11a8', '\u0345{0}{0}']
FORMS = {'NFC': normalizers.NFC(), 'NFD': normalizers.NFD(), 'NFKC': normalizers.NFKC(), 'NFKD': normalizers.NFKD()}
BLOCK = 4096
BEGINS = [*range(0, 0x33000, BLOCK), 0xE0000, 0xF0000]


def text_of(begin):
    characters = [chr(c) for c in range(begin, begin + BLOCK) if not 0xD800 <= c <= 0xDFFF]
    return '\n'.join(way.format(c) for c in characters for way in WAYS)


def main():
    blocks = []
    for begin in BEGINS:
        text = text_of(begin)
        sums = {name: zlib.crc32(form.normalize_str(text).encode()) for name, form in FORMS.items()}
        blocks.append({'begin': begin, 'sums': sums})
    json.dump({'tokenizers': tokenizers.__version__, 'size': BLOCK, 'blocks': blocks}, sys.stdout, separators=(',', ':'))
    print()


main()
