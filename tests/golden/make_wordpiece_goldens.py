#!/usr/bin/env python3
# make_wordpiece_goldens.py - what Google's and Hugging Face's tokenizers make of difficult texts.
# SPDX-License-Identifier: Apache-2.0
#
#   python3 make_wordpiece_goldens.py TOKENIZATION.py UNCASED_VOCAB CASED_VOCAB > wordpiece.json
#
# TOKENIZATION.py is google-research/bert's (also in the package bert-tensorflow 1.0.4), the
# vocabularies are those of bert-base. Made with Python 3.11 (Unicode 14.0) and tokenizers 0.23.3.
# Of the vocabularies the file holds the pieces that the texts need.
import importlib.util
import json
import random
import sys
import types
import zlib

from tokenizers import BertWordPieceTokenizer, normalizers, pre_tokenizers

TEXTS = [
    '', '   ', 'Hi, I am learning new things in w251 about deep learning the cloud and teh edge.', 'My name is John', 'pair',
    'UNwant\u00e9d,running', 'ah\u535a\u63a8zz', ' \tHeLLo!how  \n Are yoU?  ', 'H\u00e9llo',
    '\u0130stanbul', 'I\u0307', '\u0391\u03a3 \u03a3\u0391', 'stra\u00dfe STRASSE', '\u1e9e',
    'a\u200bb', 'a\u00adb', 'a\x85b', '\ufeffhello', 'a\ufffdb\0c', 'a\x0bb\x0cc', 'a\u2028b',
    'a\u00a0b\u3000c\u202fd', '$9.99 `x` ^_^ a|b~c', '[CLS] hi [SEP] [MASK] [UNK]', 'a' * 100,
    'a' * 101, 'a' * 200, 'a' * 201, '\U0001f600 smile\U0001f600s', '\ud55c\uad6d\uc5b4',
    '\u0939\u093f\u0928\u094d\u0926\u0940', '\u65e5\u672c\u8a9e\u30c6\u30ad\u30b9\u30c8',
    '\U0002b820 x', '\U0002b920 x', 'x\ue000y', 'x\u0378y', '##ing', 'unaffable', 'embeddings',
    '\u00b5g \u00b9\u00b2 \u00bd', 'na\u00efve fa\u00e7ade', '\u0111\u0142\u00f8', '\u212a \u212b',
    '\u00ad', "a\n'll !!to?'d of, can't.", 'x[MASK]y', '[MASK', '[[SEP]]', '[pad][PAD]',
    'unwanted running', 'unwantedX running', '\u00e9' * 100, '\u00e9' * 101, '\u535a' * 5,
    '\u0391\u03a3. \u0391\u03a3.\u0391 \u0391.\u03a3 \u0391\u03a3\u0301 \u03a3', '\u226e \u1fef',
    '\u302e\U0001d165 x\U0001d165\u302e \U0001d15e', 'don\u2019t \u201cquote\u201d \u2014 it\u2019s',
    'https://t.co/aBcDeF1234 @user #tag RT', '\u0421\u044a\u0435\u0448\u044c \u0436\u0435 \u0435\u0449\u0451',
    '\u0e19\u0e32\u0e22\u0e2a\u0e31\u0e07\u0e06', '\u0634\u0643\u0631\u0627', '\x01a\x7fb\x1fc d\x1ce',
]

# Where the tables differ from character to character and from one implementation to the other.
ALPHABET = [*'aAzZ09.,[]#\t\n \x01\x1f\x7f', *'\u00e9\u00c9\u00df\u0130\u0131\u03a3\u03c3\u03c2\u0391'
            '\u0301\u0316\u0334\u0345\u0483\u0488\u05bf\u08d4\u0939\u093f\u094d\u0e31\u180e\u200d\u2028'
            '\u2029\u3000\u302e\u3099\u4e2d\uac01\ud55c\ue000\uf951\ufeff\ufffd\uff21\uff0c\ufb01\ua7ca',
            *'\U0001d15e\U0001d165\U0001d16d\U0001e943\U0001e900\U0001f600\U0002b820\U0002f800'
            '\U000e0001\U00010eac\U00016ff0\U000118a0']


def load_google(path):
    # What it imports and does not need here.
    flags = types.SimpleNamespace(FLAGS=types.SimpleNamespace(preserve_unused_tokens=False),
                                  DEFINE_bool=lambda *_: None)
    compat = types.SimpleNamespace(v1=None)
    for name, module in (('tensorflow', types.SimpleNamespace(compat=compat)),
                         ('tensorflow.compat', compat), ('tensorflow.compat.v1', compat),
                         ('absl', types.SimpleNamespace(flags=flags)),
                         ('six', types.SimpleNamespace(PY3=True, PY2=False))):
        sys.modules[name] = module
    spec = importlib.util.spec_from_file_location('google_tokenization', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def hf_words(lower):
    normalize = normalizers.BertNormalizer(lowercase=lower).normalize_str
    split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    return lambda text: [word for word, _ in split(normalize(text))]


def probe(c):
    """A text that shows what a character is, and what it does to its neighbours."""
    c = chr(c)
    return f'A{c}B A\u03a3{c} A\u03a3{c}A {c}\u03a3 \u302e{c}\U0001d165\u08d4'


def probe_sum(words):
    total = 0
    for c in [*range(0xD800), *range(0xE000, 0x32000), *range(0xE0000, 0xE0200)]:
        total = zlib.crc32(''.join(word + '\n' for word in words(probe(c))).encode(), total)
    return total


def main(google_path, *vocabularies):
    google = load_google(google_path)
    rng = random.Random(5)
    random_texts = [''.join(rng.choice(ALPHABET) for _ in range(rng.randint(1, 14)))
                    for _ in range(150)]
    result = {'settings': []}
    for lower, path in zip((True, False), vocabularies):
        pieces = [line.rstrip('\n') for line in open(path, encoding='utf-8')]
        vocabulary = {piece: i for i, piece in enumerate(pieces)}
        word_piece = google.WordpieceTokenizer(vocab=vocabulary)
        basic = google.BasicTokenizer(do_lower_case=lower)
        hf = BertWordPieceTokenizer(path, lowercase=lower)
        used = {'[UNK]', '[CLS]', '[SEP]', '[PAD]', '[MASK]'}
        for name, words, encode in (
                ('google', basic.tokenize,
                 lambda text: [p for w in basic.tokenize(text) for p in word_piece.tokenize(w)]),
                ('hf', hf_words(lower),
                 lambda text: hf.encode(text, add_special_tokens=False).tokens)):
            cases = [[text, encode(text)] for text in TEXTS]
            used.update(piece for _, tokens in cases for piece in tokens)
            result['settings'].append({
                'behavior': name, 'lower_case': lower, 'cases': cases,
                'words': [[text, words(text)] for text in random_texts],
                'probe_sum': probe_sum(words)})
        for setting in result['settings'][-2:]:
            setting['vocabulary'] = [[piece, vocabulary[piece]] for piece in sorted(used)]
    json.dump(result, sys.stdout, ensure_ascii=True, indent=None, separators=(',', ':'))
    print()


if __name__ == '__main__':
    main(*sys.argv[1:])
