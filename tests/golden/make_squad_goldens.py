#!/usr/bin/env python3
# make_squad_goldens.py - where tokenizers finds its tokens, and how transformers scores answers.
# SPDX-License-Identifier: Apache-2.0
#
#   python3 make_squad_goldens.py UNCASED_VOCAB CASED_VOCAB > squad.json
#
# The vocabularies are those of bert-base; of them the file holds the pieces that the texts need.
# Made with Python 3.11 (Unicode 14.0), transformers 4.57.6 and tokenizers 0.22.2; tokenizers 0.23.3
# gives the same, but transformers 5 has no squad_metrics any more.
import json
import sys
from types import SimpleNamespace

from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from transformers.data.metrics import squad_metrics

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


NORMALIZED = [
    '', 'The  Cat', 'a', 'An apple, a day', 'theatre the-atre a.m. U.S.A.', "o'clock the's", 'a\u00e9 a \u00e9a', 'a\u0301 b a\u0301',
    '\u00c0 LA carte', '\u0391\u03a3 \u03a3\u0391\u03a3.', '\u0130stanbul', '\u00a0a\u2003x\u3000y\u202fz\u200bq', 'a\u200ban\u200bx', 'a\u2013b the\u2014an',
    '\u201cthe\u201d \u00aba\u00bb', 'the\u0901 a\u0903', 'a\u00b2 a\u00bd \u2167a', '_the_ a_b', '\u4e2da\u6587 a\u3002the', 'x\x1cy\x1fa\x0bb', 'A\u00df \u1e9e',
    '\u01c5\u01c4 \u2160', '$1,000.50 %', '\u0660a a\u0660', 'a\ufe0f an\u20dd', '\U0001f600a\U0001f600 the', '\U0001d400 \U00010400a', 'The The the', '`a`~an',
]

# Golds, prediction, odds of no answer. Among the odds are equal ones.
QUESTIONS = [
    (['Paris'], 'Paris', -5.0), (['Paris', 'the city of Paris'], 'city of paris!', -2.5), (['Denver Broncos'], 'the Broncos', -2.5),
    (['in 1858', '1858'], '1858', 0.25), (['a b c d'], 'b b c', 0.25), (['b b c'], 'a B b c d', 0.5), (['caf\u00e9'], 'Caf\u00e9s', 0.5),
    (['\u00c9cole Normale'], '\u00e9cole', 1.0), (['the'], 'an', 1.0), (['the', 'x'], '', 1.5), ([], '', 2.0), ([], 'something', -1.0),
    ([], 'a', 0.5), ([], '', -3.0), ([], 'x y', 3.5), ([], 'z', 0.25), (['yes'], '', 4.0), (['yes no'], 'no yes', -4.5),
    (['one two three'], 'three four', 2.5), (['\u0391\u03a3'], '\u03b1\u03c2', -0.5), (['10,000'], '10000', 0.75), (['\u4e2d\u6587'], '\u4e2d \u6587', 0.125),
    (['x'], 'y', -6.0), (['long answer of many words here'], 'answer of many other words', 1.25), ([], 'q', 6.0), (['q'], 'q', 6.0), (['.'], '', -1.0),
]


def scores():
    examples = [SimpleNamespace(qas_id=str(i), answers=[{'text': gold} for gold in golds])
                for i, (golds, _, _) in enumerate(QUESTIONS)]
    predictions = {str(i): text for i, (_, text, _) in enumerate(QUESTIONS)}
    odds = {str(i): value for i, (_, _, value) in enumerate(QUESTIONS)}
    plain = [e for e in examples
             if e.answers and all(squad_metrics.normalize_answer(a['text']) for a in e.answers)]
    return {
        'normalized': [[text, squad_metrics.normalize_answer(text)] for text in NORMALIZED],
        'questions': QUESTIONS,
        'pairs': [[gold, text, squad_metrics.compute_exact(gold, text), squad_metrics.compute_f1(gold, text)]
                  for golds, text, _ in QUESTIONS for gold in [*golds, '']],
        # Questions that 1.1 could hold: there both programs agree.
        'version_1': {'questions': [int(e.qas_id) for e in plain],
                      'result': squad_metrics.squad_evaluate(plain, {e.qas_id: predictions[e.qas_id] for e in plain})},
        'version_2': [{'threshold': threshold,
                       'result': squad_metrics.squad_evaluate(examples, predictions, odds, threshold)}
                      for threshold in (-10.0, -2.5, 0.0, 0.5, 1.0, 10.0)]}


def main(uncased, cased):
    result = {'spans': [spans_of(True, uncased), spans_of(False, cased)], 'scores': scores()}
    json.dump(result, sys.stdout, ensure_ascii=True, indent=None, separators=(',', ':'))
    print()


if __name__ == '__main__':
    main(*sys.argv[1:])
