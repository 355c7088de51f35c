#!/usr/bin/env python3
# make_merges_goldens.py - what RobertaTokenizer of transformers makes of vocab.json and merges.txt.
# SPDX-License-Identifier: Apache-2.0
#
#   python3 make_merges_goldens.py ../../examples/nmt_train/data/train.en-de.tsv.gz > merges.json
#
# Made with transformers 5.24.0. The vocabulary is learned from the first lines of the file.
import gzip
import json
import os
import random
import sys
import tempfile

import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import RobertaTokenizer

TEXTS = [
    '', ' ', '   ', 'a', "it's", "we'll they're I've I'm he'd can't 'tis", 'A man in a blue shirt.', ' leading', 'trailing ',
    'two  spaces   three', 'a\tb\n\nc\r\n d', 'a \u00a0 b\u3000c\u2028d\x85e', '123 4567 3.14 50% $7', 'na\u00efve cafe\u0301',
    '\u6771\u4eac is \u4eac\u90fd', '\U0001f469\u200d\U0001f469 \U0001f3f3\ufe0f', '\0\x01\x7f', '<s> hi </s><mask> <pad>',
    'a <mask>b', 'a  <mask>  b', '<<mask>>', '<mas', 'in <ent>Berlin</ent> today', 'in  <ent> Berlin </ent>  today', '[MASK] [SEP]',
    'x [MASK]y', 'madeupword0000 here', ' madeupword0000', 'The dialog is located on the computer.', 'Klicken Sie auf die Schaltfl\u00e4che.',
    'one<lone>two <lone> three', 'tool mytool tool_ tool.',
]
ALPHABET = [*"aAzZ09.,' \t\n\0#", *'\u00e9\u0301\u00a0\u2028\u3000\u0661\u4e2d\u200d\ufb01\ufeff\ufffd', *'\U0001f600', '<mask>', '<ent>']
PAIRS = [('A man plays.', 'He sleeps.'), ('one <mask>', ' two'), ('in <ent>Berlin', '</ent>')]


def learn(lines):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=['<s>', '<pad>', '</s>', '<unk>'],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    model = json.loads(tokenizer.to_str())['model']
    return model['vocab'], [' '.join(merge) for merge in model['merges']]


def token(content, **flags):
    return {'content': content, 'single_word': False, 'lstrip': False, 'rstrip': False, 'normalized': True, **flags}


def folders(lines):
    vocab, merges = learn(lines)
    # As RoBERTa's own: words that no merge makes, and the mask at the end.
    for piece in ('madeupword0000', 'madeupword0001', '<mask>'):
        vocab[piece] = len(vocab)
    plain = {'vocab.json': json.dumps(vocab), 'merges.txt': '#version: 0.2\n' + '\n'.join(merges) + '\n'}
    end = len(vocab)
    named = {'bos_token': '<s>', 'eos_token': '</s>', 'unk_token': '<unk>', 'sep_token': '</s>', 'pad_token': '<pad>',
             'cls_token': '<s>'}
    yield 'two files', plain
    yield 'windows', {**plain, 'merges.txt': plain['merges.txt'].replace('\n', '\r\n')[:-2]}
    yield 'saved by transformers 3', {
        **plain,
        'special_tokens_map.json': json.dumps({**named, 'mask_token': token('<mask>', lstrip=True)}),
        'tokenizer_config.json': json.dumps({'model_max_length': 512})}
    yield 'saved by transformers 4', {
        **plain,
        'special_tokens_map.json': json.dumps({**named, 'mask_token': token('<mask>', lstrip=True, normalized=False)}),
        'tokenizer_config.json': json.dumps({
            'add_prefix_space': True, 'trim_offsets': True, 'errors': 'replace', 'tokenizer_class': 'RobertaTokenizer', **named,
            'mask_token': {'__type': 'AddedToken', **token('<mask>', lstrip=True)}}),
        'added_tokens.json': json.dumps({'</ent>': end + 1, '<ent>': end})}
    yield 'decoder', {
        **plain,
        'special_tokens_map.json': json.dumps({'mask_token': '[MASK]'}),  # does not count
        'added_tokens.json': json.dumps({'<lone>': end + 7}),  # does not count
        'tokenizer_config.json': json.dumps({
            **named, 'tokenizer_class': 'RobertaTokenizer', 'add_prefix_space': False, 'mask_token': '<mask>',
            'added_tokens_decoder': {
                '0': token('<s>', special=True), '1': token('<pad>', special=True), '2': token('</s>', special=True),
                '3': token('<unk>', special=True), str(end - 1): token('<mask>', lstrip=True, normalized=False, special=True),
                str(end): token('<ent>', rstrip=True, special=False), str(end + 1): token('tool', single_word=True, special=False)}})}
    yield 'other names', {
        **plain,
        'tokenizer_config.json': json.dumps({'mask_token': '[MASK]', 'sep_token': '[SEP]', 'cls_token': token('<s>', __type='AddedToken')}),
        'special_tokens_map.json': json.dumps({'additional_special_tokens': ['<lone>', '<ent>'], 'entity_token': '</ent>'}),
        'added_tokens.json': json.dumps({'tool': end, '<lone>': end + 1})}


def main():
    with gzip.open(sys.argv[1], 'rt', encoding='utf-8') as file:
        lines = [next(file).rstrip('\n') for _ in range(2000)]
    generator = random.Random(1)
    texts = TEXTS + [''.join(generator.choices(ALPHABET, k=generator.randrange(1, 25))) for _ in range(80)]
    result = []
    for name, files in folders(lines):
        with tempfile.TemporaryDirectory() as folder:
            for file, text in files.items():
                with open(os.path.join(folder, file), 'w', encoding='utf-8', newline='') as out:
                    out.write(text)
            reader = RobertaTokenizer.from_pretrained(folder)
        result.append({
            'name': name, 'files': files, 'size': len(reader), 'cls': reader.cls_token_id, 'sep': reader.sep_token_id,
            'cases': [[text, reader(text, add_special_tokens=False)['input_ids']] for text in texts],
            'pairs': [[*pair, reader(*pair)['input_ids']] for pair in PAIRS]})
    # Vocabularies are alike: kept once.
    for entry in result[1:]:
        assert entry['files'].pop('vocab.json') == result[0]['files']['vocab.json']
    json.dump({'transformers': transformers.__version__, 'folders': result}, sys.stdout, separators=(',', ':'))
    print()


main()
