#!/usr/bin/env python3
# make_byte_bpe_goldens.py - what Hugging Face's `tokenizers` makes of difficult texts with byte-level BPE.
# SPDX-License-Identifier: Apache-2.0
#
#   python3 make_byte_bpe_goldens.py ../../examples/nmt_train/data/train.en-de.tsv.gz > byte_bpe.json
#
# Made with tokenizers 0.23.3. The vocabularies are learned from the first lines of the file.
import gzip
import json
import random
import sys

import tokenizers
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

TEXTS = [
    '', ' ', '   ', 'a', "'", "it's", "IT'S", "'s", " 's", "we'll they're I've I'm he'd can't 'tis",
    'A man in a blue shirt.', ' leading', 'trailing ', 'two  spaces   three', 'a\tb\n\nc\r\n d',
    ' \n x', '\n\n', 'a \u00a0 b\u3000c\u2028d\x85e', '123 4567 3.14 50% $7', '\u00bd\u2168 x\u0661',
    'na\u00efve cafe\u0301 e\u0323\u0301', '\u6771\u4eac is \u4eac\u90fd, \ud55c\uad6d\uc5b4', '\u1112\u1161\u11ab',
    '\U0001f469\u200d\U0001f469 \U0001f3f3\ufe0f', '\0\x01\x7f', '\u0130stanbul \u03a3\u03af', 'x' * 300,
    '<s> hi </s><mask> <pad>', 'a <mask>b', 'a  <mask>  b', '<mask>', '<<mask>>', '<mas', 'tool mytool tool_ tool.',
    'caf\u00e9 cafe\u0301 decaf\u00e9', '\u212b \u2126 \u1e9b\u0323', 'def f(x):\n        return  x\n', '#!/bin/sh',
    'The dialog is located on the computer.', 'Klicken Sie auf die Schaltfl\u00e4che.', '\ufeffa', '\u0301a',
]
PAIRS = [('A man plays.', 'He sleeps.', 0), ('', '', 0), ('one two three four five', 'six', 8),
         ('one', 'two three four five six', 9), ('one two three four', 'one two three four', 12), ('a', '', 5)]
ALPHABET = [*"aAzZ09.,' \t\n\0#", *'\u00e9\u0301\u00a0\u2028\u3000\u0661\u00bd\u4e2d\ud55c\u1112\u1161\u11ab\u200d'
            '\u0345\u0939\u093f\u094d\ufb01\u212b\ue000\ufeff\ufffd', *'\U0001f600\U0001d165\U0002f800\U000e0001']


def learn(lines, **pre):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(**pre)
    trainer = trainers.BpeTrainer(vocab_size=420, special_tokens=['<s>', '<pad>', '</s>', '<unk>'],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def template(tokenizer, sep_twice):
    middle = ' </s> </s> $B </s>' if sep_twice else ' </s> $B:1 </s>:1'
    return processors.TemplateProcessing(single='<s> $A </s>', pair='<s> $A' + middle,
                                         special_tokens=[('<s>', 0), ('</s>', 2)])


def settings(lines):
    roberta = learn(lines, add_prefix_space=False)
    roberta.add_special_tokens([AddedToken('<mask>', lstrip=True, normalized=False)])
    roberta.post_processor = template(roberta, True)
    yield 'roberta', roberta, {}

    older = learn(lines, add_prefix_space=True)
    older.add_special_tokens([AddedToken('<mask>', lstrip=True, normalized=False)])
    older.post_processor = processors.RobertaProcessing(('</s>', 2), ('<s>', 0))
    yield 'older roberta', older, {'merges_as_text': True}

    modern = learn(lines, add_prefix_space=False)
    modern.normalizer = normalizers.NFC()
    modern.add_tokens([AddedToken(' ' * n, normalized=False) for n in (8, 4, 2)])
    modern.add_tokens([AddedToken('tool', single_word=True), AddedToken('cafe\u0301', normalized=True),
                       AddedToken('<mask>', lstrip=True, rstrip=True, normalized=True)])
    modern.post_processor = template(modern, False)
    yield 'modernbert', modern, {}

    whole = learn(lines, add_prefix_space=False)
    yield 'ignore_merges', whole, {'ignore_merges': True}

    unsplit = learn(lines, add_prefix_space=False, use_regex=False)
    unsplit.post_processor = processors.BertProcessing(('</s>', 2), ('<s>', 0))
    yield 'unsplit', unsplit, {}


def file_of(tokenizer, change):
    content = json.loads(tokenizer.to_str())
    if change.get('merges_as_text'):
        content['model']['merges'] = [' '.join(merge) for merge in content['model']['merges']]
    if change.get('ignore_merges'):
        content['model']['ignore_merges'] = True
        # Pieces that no merges lead to.
        for piece in ('\u0120dialogue', 'computer', '\u0120sleeps'):
            content['model']['vocab'][piece] = len(content['model']['vocab'])
    return json.dumps(content, ensure_ascii=False, separators=(',', ':'))


def main():
    with gzip.open(sys.argv[1], 'rt', encoding='utf-8') as file:
        lines = [next(file).rstrip('\n') for _ in range(3000)]
    generator = random.Random(1)
    texts = TEXTS + [''.join(generator.choices(ALPHABET, k=generator.randrange(1, 25))) for _ in range(150)]
    result = []
    for name, tokenizer, change in settings(lines):
        file = file_of(tokenizer, change)
        reader = Tokenizer.from_str(file)
        pairs = []
        for first, second, length in PAIRS:
            reader.no_truncation()
            if length:
                reader.enable_truncation(length)
            row = reader.encode(first, second)
            pairs.append([first, second, length, row.ids, row.type_ids])
        reader.no_truncation()
        result.append({'name': name, 'file': file, 'pairs': pairs,
                       'cases': [[text, reader.encode(text, add_special_tokens=False).ids] for text in texts]})
    json.dump({'tokenizers': tokenizers.__version__, 'settings': result}, sys.stdout, separators=(',', ':'))
    print()


main()
