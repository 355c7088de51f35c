#!/usr/bin/env python3
# make_learned_goldens.py - vocabularies that Hugging Face's `tokenizers` and SentencePiece learn.
# SPDX-License-Identifier: Apache-2.0
#
#   python3 make_learned_goldens.py ../../examples/nmt_train/data/train.en-de.tsv.gz > learned.json
#
# Made with tokenizers 0.23.3 and sentencepiece 0.2.3. The text is the file's first lines, and some that are
# difficult. Of byte-level BPE the file has the pieces and merges, of Unigram how many tokens SentencePiece's
# vocabulary makes of the lines behind it, and how likely they are.
import gzip
import io
import json
import sys

import sentencepiece
import tokenizers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

DIFFICULT = [
    'aaaa aaaaaaa aaaaa', '----- ---------- ---', '......', '\t\t\tx  y    z', "it's we'll they're I've",
    'na\u00efve cafe\u0301 \u6771\u4eac\u4eac\u6771 \ud55c\uad6d\uc5b4 \U0001f600\U0001f600', '123 4567 12 1212',
    '<s> hi </s><mask> <pad>', ' a b c', 'abcabc abc bc bcd abcd',
]
SPECIAL = ['<s>', '<pad>', '</s>', '<unk>', '<mask>']


def learn(lines, vocab_size, min_frequency):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, min_frequency=min_frequency, special_tokens=SPECIAL,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    model = json.loads(tokenizer.to_str())['model']
    return {'vocab_size': vocab_size, 'min_frequency': min_frequency,
            'pieces': sorted(model['vocab'], key=model['vocab'].get), 'merges': model['merges']}


def learn_unigram(lines, held_out, vocab_size):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=vocab_size, model_type='unigram',
        normalization_rule_name='identity', num_threads=1, minloglevel=2, unk_id=3, bos_id=0, pad_id=1, eos_id=2,
        control_symbols=['<mask>'])
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    ids = [id for line in held_out for id in processor.encode(line) if id != processor.unk_id()]
    return {'vocab_size': vocab_size, 'tokens': len(ids), 'log_likelihood': sum(map(processor.get_score, ids))}


def main():
    with gzip.open(sys.argv[1], 'rt', encoding='utf-8') as file:
        sides = [side for _, line in zip(range(400), file) for side in line.rstrip('\n').split('\t')]
    lines, held_out = sides[:600], sides[600:]
    unigram = [learn_unigram(lines, held_out, size) for size in (500, 1000)]
    lines += DIFFICULT * 2
    settings = [learn(lines, *sizes) for sizes in ((600, 2), (261, 2), (100000, 3))]
    json.dump({'tokenizers': tokenizers.__version__, 'sentencepiece': sentencepiece.__version__, 'lines': lines,
               'settings': settings, 'held_out': held_out, 'unigram': unigram}, sys.stdout, separators=(',', ':'))
    print()


main()
