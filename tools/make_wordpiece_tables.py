#!/usr/bin/env python3
# make_wordpiece_tables.py - writes the Unicode tables of the WordPiece tokenizer.
# SPDX-License-Identifier: Apache-2.0
#
#   python3 tools/make_wordpiece_tables.py > libdtrain/dtrain/data/internal/wordpiece_tables.inc
#
# Google's tokenizer asks Python's unicodedata, Hugging Face's asks tables of several ages that are
# compiled into the package `tokenizers`: the first are read here from Python 3.11 (Unicode 14.0),
# the second by asking the package about every code point. Needs `pip install tokenizers`.
import sys
import unicodedata

import tokenizers
from tokenizers import normalizers, pre_tokenizers

# A MARK_STARTER vanishes as a mark, but the marks around it do not change places over it.
DROP, SPACE, CJK, PUNCT, MARK, MARK_STARTER = (1 << i for i in range(6))
HF_SHIFT = 6
CASED, CASE_IGNORABLE = 1 << 12, 1 << 13

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
HANGUL = range(0xAC00, 0xD7A4)  # decomposed by arithmetic
GOOGLE_CJK = [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
              (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)]


def hf_normalizer(**on):
    options = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False,
                   lowercase=False)
    return normalizers.BertNormalizer(**{**options, **on}).normalize_str


HF_CLEAN = hf_normalizer(clean_text=True)
HF_CJK = hf_normalizer(handle_chinese_chars=True)
HF_STRIP = hf_normalizer(strip_accents=True)
HF_LOWER = hf_normalizer(lowercase=True)
HF_NFD = normalizers.NFD().normalize_str
HF_SPLIT = pre_tokenizers.BertPreTokenizer().pre_tokenize_str


def google_strip(text):
    return ''.join(x for x in unicodedata.normalize('NFD', text) if unicodedata.category(x) != 'Mn')


def google_flags(c):
    char, category = chr(c), unicodedata.category(chr(c))
    flags = 0
    if c in (0, 0xFFFD) or (category in ('Cc', 'Cf') and char not in '\t\n\r'):
        flags |= DROP
    elif category == 'Zs' or char.isspace():
        flags |= SPACE
    if any(low <= c <= high for low, high in GOOGLE_CJK):
        flags |= CJK
    if 33 <= c <= 47 or 58 <= c <= 64 or 91 <= c <= 96 or 123 <= c <= 126 or category[0] == 'P':
        flags |= PUNCT
    if category == 'Mn':
        flags |= MARK
    parts = unicodedata.normalize('NFD', char)
    if not google_strip(char) and any(unicodedata.combining(part) == 0 for part in parts):
        flags |= MARK_STARTER
    # What str.lower() asks about the neighbours of a capital sigma.
    if ('A\u03a3' + char).lower()[1] == '\u03c3':
        flags |= CASED
    elif ('A\u03a3' + char + 'A').lower()[1] == '\u03c3':
        flags |= CASE_IGNORABLE
    return flags


def hf_is_starter(char):
    return HF_NFD(char + '\u0334')[0] == char and HF_NFD('\u0345' + char)[-1] == char


def hf_flags(c):
    char = chr(c)
    flags = 0
    cleaned = HF_CLEAN('a' + char + 'b')
    if cleaned == 'ab':
        flags |= DROP
    elif len(HF_SPLIT('a' + cleaned[1:-1] + 'b')) == 2:
        flags |= SPACE
    if HF_CJK(char) == ' ' + char + ' ':
        flags |= CJK
    if len(HF_SPLIT('a' + char + 'b')) == 3:
        flags |= PUNCT
    if HF_STRIP('a' + char) == 'a':
        flags |= MARK if HF_NFD(char) == char else 0
        flags |= MARK_STARTER if any(map(hf_is_starter, HF_NFD(char))) else 0
    return flags


def class_examples():
    """A mark of each combining class, known to Hugging Face's older tables too."""
    marks = {}
    for c in CODE_POINTS:
        combining_class = unicodedata.combining(chr(c))
        if combining_class != 0 and not hf_is_starter(chr(c)):
            marks.setdefault(combining_class, chr(c))
    return marks


def hf_combining_class(char, marks):
    if hf_is_starter(char):
        return 0
    found = [k for k, mark in marks.items()
             if HF_NFD(mark + char) == mark + char and HF_NFD(char + mark) == char + mark]
    assert len(found) == 1, (hex(ord(char)), found)
    return found[0]


def flag_ranges():
    """[first, size, flags] of the code points that have any."""
    ranges = []
    for c in CODE_POINTS:
        flags = google_flags(c) | hf_flags(c) << HF_SHIFT
        if flags == 0:
            continue
        if ranges and ranges[-1][0] + ranges[-1][1] == c and ranges[-1][2] == flags:
            ranges[-1][1] += 1
        else:
            ranges.append([c, 1, flags])
    return ranges


STRIDES = ((1, 0), (1, 1), (2, 2), (1, 2), (2, 0))  # of sources, of targets


def mapping_runs(mapping):
    """[first, count, index of its strides, target] that cover a mapping of single code points."""
    runs = []
    sources = sorted(mapping)
    i = 0
    while i < len(sources):
        best = (1, 1)
        for which, (stride, target_stride) in enumerate(STRIDES):
            n = 1
            while (i + n < len(sources) and sources[i + n] == sources[i] + n * stride
                   and mapping[sources[i + n]] == mapping[sources[i]] + n * target_stride):
                n += 1
            best = max(best, (n, which))
        runs.append([sources[i], *best, mapping[sources[i]]])
        i += best[0]
    return runs


def print_array(comment, name, numbers):
    print(f'\n// {comment}\nconstexpr int32_t {name}[] = {{')
    line = '    '
    for number in numbers:
        text = f'{number},'
        if len(line) + len(text) > 98:
            print(line)
            line = '    '
        line += text
    print(line + '};')


def print_mapping(comment, name, google, hf):
    """Three arrays of runs and one of expansions: shared, Google's own, Hugging Face's own."""
    parts = {'': {c: t for c, t in google.items() if hf.get(c) == t},
             'Google': {c: t for c, t in google.items() if hf.get(c) != t},
             'Hf': {c: t for c, t in hf.items() if google.get(c) != t}}
    expansions = []
    for which, (suffix, mapping) in enumerate(parts.items()):
        numbers, last = [], 0
        single = {c: ord(t) for c, t in mapping.items() if len(t) == 1}
        for first, count, strides, target in mapping_runs(single):
            numbers += [first - last, count * 8 + strides, target - first]
            last = first
        print_array(comment + {'': '.', 'Google': ' (Google).', 'Hf': ' (HF).'}[suffix],
                    f'k{name}{suffix}', numbers or [0, 0, 0])
        for c, t in mapping.items():
            if len(t) > 1:
                expansions += [c, which, len(t), *map(ord, t)]
    print_array('To several code points: source, 0 both 1 Google 2 Hugging Face, count, targets.',
                f'k{name}Expansions', expansions)


def main():
    assert unicodedata.unidata_version == '14.0.0', 'use Python 3.11'
    google_lower = {c: chr(c).lower() for c in CODE_POINTS if chr(c).lower() != chr(c)}
    hf_lower = {c: HF_LOWER(chr(c)) for c in CODE_POINTS if HF_LOWER(chr(c)) != chr(c)}
    google_stripped, hf_stripped = {}, {}
    for c in CODE_POINTS:
        google, hf = google_strip(chr(c)), HF_STRIP(chr(c))
        if c in HANGUL:
            assert google == hf == unicodedata.normalize('NFD', chr(c))
            continue
        # An empty result of a character that is no mark itself (U+0344) is its first mark.
        if google != chr(c) and unicodedata.category(chr(c)) != 'Mn':
            assert google
            google_stripped[c] = google
        if hf != chr(c) and (hf or HF_NFD(chr(c)) != chr(c)):
            hf_stripped[c] = hf or HF_NFD(chr(c))[0]
        if not google and unicodedata.normalize('NFD', chr(c)) != chr(c):
            google_stripped[c] = unicodedata.normalize('NFD', chr(c))[0]
    marks = class_examples()
    classes = []
    for c in CODE_POINTS:
        char = chr(c)
        google = unicodedata.combining(char) if unicodedata.category(char) != 'Mn' else 0
        kept = HF_STRIP('a' + char) == 'a' + char
        hf = hf_combining_class(char, marks) if kept else 0
        if classes and [c - classes[-1][1], google, hf] == [classes[-1][0], *classes[-1][2:]]:
            classes[-1][1] += 1
        elif google or hf:
            classes.append([c, 1, google, hf])

    print('// wordpiece_tables.inc - Unicode as Google\'s and Hugging Face\'s BERT tokenizers see it.')
    print('// SPDX-License-Identifier: Apache-2.0')
    print('//')
    print('// Written by tools/make_wordpiece_tables.py from Python\'s unicodedata '
          f'{unicodedata.unidata_version} and')
    print(f'// tokenizers {tokenizers.__version__}; do not edit.')
    print('// clang-format off')
    numbers, last = [], 0
    for first, size, flags in flag_ranges():
        numbers += [first - last, size, flags]
        last = first + size
    print_array('Ranges: distance from the end of the one before, size, flags.', 'kFlagRanges',
                numbers)
    print_mapping('Lower case: first - first of the run before, 8 x count + strides, target - first',
                  'Lower', google_lower, hf_lower)
    print_mapping('Canonical decomposition without marks', 'Strip', google_stripped, hf_stripped)
    print_array('Combining characters that stay: first, count, combining class of Google, of HF.',
                'kCombiningClasses', sum(classes, []))
    print('// clang-format on')


if __name__ == '__main__':
    sys.exit(main())
