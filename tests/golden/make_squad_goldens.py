#!/usr/bin/env python3
# make_squad_goldens.py - where tokenizers finds its tokens in difficult texts.
# SPDX-License-Identifier: Apache-2.0
#
#   python3 make_squad_goldens.py UNCASED_VOCAB CASED_VOCAB > squad.json
#
# The vocabularies are those of bert-base. Made with tokenizers 0.23.3. Of the vocabularies the file
# holds the pieces that the texts need.
import json
import sys

from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

TEXTS = [
    '', '   ', 'What is the Grotto at Notre Dame?', 'in 1858 (in Lourdes, France)', ' \tHeLLo!how  \n Are yoU?  ',
    'unaffable embeddings of Ctenophora', 'caf\u00e9 na\u00efve fa\u00e7ade', 'cafe\u0301 nai\u0308ve',
    'r\u00e9sum\u00e9s re\u0301sume\u0301s', '\u00c5ngstr\u00f6m A\u030angstro\u0308m', 'a\u200bb c\u200b d', 'wo\x00rd\x07 x\x7f.',
    '\ufeffhello\u00ad there', '\u0000\u0000abc', 'a\ufffdb', 'ah\u535a\u63a8zz \u65e5\u672c\u8a9e', '\u30c6\u30ad\u30b9\u30c8',
    '\u30ac\u30ae\u30ab\u3099', '\ud55c\uad6d\uc5b4 \uc11c\uc6b8', 'a\uac01b', '\u0130stanbul I\u0307', 'stra\u00dfe STRASSE \u1e9e',
    '\U0001f600 smile\U0001f600s', 'caf\u00e9\U0001f600caf\u00e9', '\u0391\u03a3 \u03a3\u0391\u03a3', 'a' * 100 + ' b', 'a' * 101 + ' b',
    '\u00e9' * 101 + '\u00e9 b', 'x\u2028y\u00a0z\u3000w\u202fv', '$9.99 `x` ^_^ a|b~c', '[CLS] hi [SEP] [MASK]x', '##ing #',
    '\u201cquote\u201d \u2014 it\u2019s', '\u0939\u093f\u0928\u094d\u0926\u0940', '\u0e19\u0e32\u0e22\u0e2a\u0e31\u0e07', '\u0634\u0643\u0631\u0627\u064b',
    '\u0421\u044a\u0435\u0448\u044c \u0435\u0449\u0451', '\u0415\u0308\u0436', '\u212a \u212b \u226e \u1fef', '\u01c5\u01c4', 'q\u0323\u0307uery\u0307\u0323',
    '\u0301a\u0301', '  \u0301 x', 'e\u0301\u0301', '\u00b5g \u00b9\u00b2 \u00bd', '\ufb01ne \uff21\uff0c', '\U0001d15e x', '1,234.5%', 'U.S.A.-based',
    '\u0958\u0915\u093c', '\U0002f800x', '\uf951', 'Beyonc\u00e9 Giselle Knowles-Carter (/bi\u02d0\u02c8j\u0252nse\u026a/)',
]


def spans_of(lower, path):
    pieces = [line.rstrip('\n') for line in open(path, encoding='utf-8')]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    # Without added tokens: "[SEP]" in a text is text.
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token='[UNK]', max_input_chars_per_word=100))
    tokenizer.normalizer = BertNormalizer(lowercase=lower)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    used = {'[UNK]', '[CLS]', '[SEP]'}
    cases = []
    for text in TEXTS:
        encoding = tokenizer.encode(text)
        used.update(encoding.tokens)
        cases.append({'text': text, 'pieces': encoding.tokens, 'spans': encoding.offsets})
    return {'lower_case': lower, 'vocabulary': sorted(used), 'cases': cases}


def main(uncased, cased):
    result = {'spans': [spans_of(True, uncased), spans_of(False, cased)]}
    json.dump(result, sys.stdout, ensure_ascii=True, indent=None, separators=(',', ':'))
    print()


if __name__ == '__main__':
    main(*sys.argv[1:])
