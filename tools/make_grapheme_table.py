#!/usr/bin/env python3
# make_grapheme_table.py - writes the table of characters that belong to one grapheme cluster.
# SPDX-License-Identifier: Apache-2.0
#
#   python3 tools/make_grapheme_table.py libdtrain/dtrain/data/internal
#
# Unicode Standard Annex 29 says by classes of characters where a cluster ends. The classes come from the package
# `regex`, which must know the same version of Unicode as the package `tokenizers`: both are asked which characters join
# an "a". Needs `pip install regex==2025.11.3 tokenizers==0.23.3` (Unicode 17).
import struct
import sys

import regex
import tokenizers
from tokenizers import normalizers

# In the order of GraphemeClass in tokenizers/internal/graphemes.h. Syllables of Hangul (LV, LVT) are computed.
CLASSES = [r'\p{GCB=Control}', r'\p{InCB=Linker}', r'\p{GCB=ZWJ}', r'[\p{GCB=Extend}&&\p{InCB=Extend}]',
           r'\p{GCB=Extend}', r'\p{GCB=SpacingMark}', r'\p{GCB=Prepend}', r'\p{InCB=Consonant}',
           r'\p{Extended_Pictographic}', r'\p{GCB=Regional_Indicator}', r'\p{GCB=L}', r'\p{GCB=V}', r'\p{GCB=T}',
           r'\p{GCB=CR}', r'\p{GCB=LF}']


def joins_a():
    """Whether "a" and the character are one cluster to `tokenizers`, whose Precompiled replaces a whole cluster."""
    # A double array with one rule: "a" becomes "b". Units: root, the node of "a", its value.
    units = [0] * 512
    units[0] = 1 << 10  # offset 1: the child for byte x is at 1 ^ x
    units[1 ^ 0x61] = 0x61 | 1 << 8 | (0x60 ^ 0x100) << 10
    units[0x100] = 1 << 31
    units = struct.pack('<512I', *units)
    normalizer = normalizers.Precompiled(struct.pack('<I', len(units)) + units + b'b\0')
    return lambda c: normalizer.normalize_str('a' + c) == 'b'


def main():
    patterns = [regex.compile(p, regex.V1) for p in CLASSES]
    joins = joins_a()
    assert joins('\u0301') and not joins('a'), 'the rule does not work'
    ranges = []
    for code_point in range(0x110000):
        c = chr(code_point)
        if 0xD800 <= code_point <= 0xDFFF:
            continue
        kind = next((i + 1 for i, p in enumerate(patterns) if p.fullmatch(c)), 0)
        if joins(c) != (2 <= kind <= 6):
            sys.exit(f'U+{code_point:04X} is of class {kind} to regex, not to tokenizers: take another version of regex')
        if ranges and ranges[-1][1:] == [code_point - 1, kind]:
            ranges[-1][1] = code_point
        elif kind:
            ranges.append([code_point, code_point, kind])
    texts = [f'{{0x{a:X}, 0x{b:X}, {kind}}},' for a, b, kind in ranges]
    with open(f'{sys.argv[1]}/grapheme_classes.inc', 'w', encoding='utf-8') as file:
        print('// grapheme_classes.inc - the classes of characters that grapheme clusters are made of.',
              '// SPDX-License-Identifier: Apache-2.0', '//',
              '// Written by tools/make_grapheme_table.py from',
              f'// regex {regex.__version__}, compared with tokenizers {tokenizers.__version__}; do not edit.', '//',
              '// First code point, last code point, class (GraphemeClass in graphemes.h); the rest is 0.',
              'constexpr uint32_t kGraphemeRanges[][3] = {', sep='\n', file=file)
        for i in range(0, len(texts), 3):
            print('    ' + ' '.join(texts[i:i + 3]), file=file)
        print('};', file=file)


main()
