#!/usr/bin/env python3
# make_byte_level_tables.py - writes the Unicode tables of the byte-level tokenizer.
# SPDX-License-Identifier: Apache-2.0
#
#   python3 tools/make_byte_level_tables.py libdtrain/dtrain/data/internal
#
# GPT-2's pattern splits text by letters, numbers and white space. Which characters these are comes from tables
# compiled into the package `tokenizers`, which is asked about every code point. So does what composes in NFC, and which
# characters NFKC takes for variants of others.
# Needs `pip install tokenizers`.
import sys

import tokenizers
from tokenizers import normalizers, pre_tokenizers

SPLIT = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str
OTHER, LETTER, NUMBER, SPACE = range(4)


def class_of(code_point):
    """A character that joins its like on both sides is of their class."""
    if 0xD800 <= code_point <= 0xDFFF:
        return OTHER  # surrogates are in no text
    character = chr(code_point)
    for kind, like in ((LETTER, 'a'), (NUMBER, '1'), (OTHER, '!')):
        if len(SPLIT(like + character + like)) == 1:
            return kind
    return SPACE


def write(folder, name, what, table, values, kind_of):
    ranges = []
    begin, kind = 0, kind_of(0)
    for code_point in range(1, 0x110001):
        this = kind_of(code_point) if code_point < 0x110000 else -1
        if this == kind:
            continue
        if kind != 0:
            ranges.append(f'{{0x{begin:X}, 0x{code_point - 1:X}, {kind}}},')
        begin, kind = code_point, this
    with open(f'{folder}/{name}', 'w', encoding='utf-8') as file:
        print(f'// {name} - {what}', '// SPDX-License-Identifier: Apache-2.0', '//',
              '// Written by tools/make_byte_level_tables.py from',
              f'// tokenizers {tokenizers.__version__}; do not edit.', '//',
              f'// First code point, last code point, {values}.',
              f'constexpr uint32_t {table}[][3] = {{', sep='\n', file=file)
        for i in range(0, len(ranges), 3):
            print('    ' + ' '.join(ranges[i:i + 3]), file=file)
        print('};', file=file)


def composition():
    """What a character does in NFC, by asking about its neighbours; newer Unicode has more marks."""
    nfc, nfd = normalizers.NFC().normalize_str, normalizers.NFD().normalize_str
    first, changes = set(), set()
    for code_point in range(0x110000):
        if 0xD800 <= code_point <= 0xDFFF:
            continue
        c = chr(code_point)
        # A mark changes places with one of another class: above (230) or below (220).
        is_mark = nfd(f'x\u0301{c}') != f'x\u0301{c}' or nfd(f'x{c}\u0323') != f'x{c}\u0323'
        parts = nfd(c)
        if parts != c:
            first.add(code_point)
            if nfc(c) == c:  # it is composed of a character and one that changes it
                first.add(ord(parts[0]))
                changes.update(map(ord, parts[1:]))
        if nfc(c) != c or (is_mark and parts == c):
            changes.add(code_point)
    return lambda code_point: 2 if code_point in changes else int(code_point in first)


def variants():
    """Characters that NFKD changes and NFD does not, or in another way."""
    nfkd, nfd = normalizers.NFKD().normalize_str, normalizers.NFD().normalize_str

    def kind_of(code_point):
        if 0xD800 <= code_point <= 0xDFFF:
            return 0
        c = chr(code_point)
        return int(nfkd(c) != nfd(c))

    return kind_of


def main():
    folder = sys.argv[1]
    write(folder, 'byte_level_classes.inc', "letters, numbers and white space as GPT-2's pattern sees them.",
          'kClassRanges', 'class (1 letter, 2 number, 3 space)', class_of)
    write(folder, 'composition_ranges.inc', 'which characters compose in NFC as `tokenizers` does it.',
          'kCompositionRanges', 'role (1 composes with what follows, 2 changes what is before it)',
          composition())
    write(folder, 'variant_ranges.inc', 'variants of characters that NFKC replaces as `tokenizers` does it.',
          'kVariantRanges', '1', variants())


main()
