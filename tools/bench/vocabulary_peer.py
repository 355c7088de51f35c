#!/usr/bin/env python3
# vocabulary_peer.py - learns a vocabulary beside Hugging Face's and Google's trainers, and compares.
# SPDX-License-Identifier: Apache-2.0
#
#   vocabulary_peer.py build/cpu/bin/dtrain byte_bpe|unigram TEXT HELD_OUT [--vocab_size=32000] [--threads=1]
#
# Both learn from TEXT, one line after the other, each in a process of its own. Of byte_bpe the pieces, their ids and the
# merges are compared with those of the package `tokenizers`. Of unigram the common pieces are counted, and how many
# tokens the lines of HELD_OUT become and how likely they are, with `sentencepiece` for both. Times are by the clock and
# in processor seconds, which hold on a busy machine too; memory is the process's largest.
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

SPECIAL = ['<s>', '<pad>', '</s>', '<unk>', '<mask>']


def learn_byte_bpe(text, size, folder):
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=size, min_frequency=2, special_tokens=SPECIAL, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    with open(text, encoding='utf-8', newline='\n') as file:
        tokenizer.train_from_iterator((line.rstrip('\n') for line in file), trainer)
    tokenizer.save(f'{folder}/tokenizer.json')


def learn_unigram(text, size, folder):
    import sentencepiece
    sentencepiece.SentencePieceTrainer.train(
        input=text, model_prefix=f'{folder}/tokenizer', vocab_size=size, model_type='unigram',
        normalization_rule_name='identity', num_threads=int(os.environ['RAYON_NUM_THREADS']), minloglevel=2,
        max_sentence_length=1 << 20, unk_id=3, bos_id=0, pad_id=1, eos_id=2, control_symbols=['<mask>'])
    pathlib.Path(f'{folder}/tokenizer.model').rename(f'{folder}/tokenizer.spm')


def run(name, command, threads):
    """Starts a process; prints its time and its memory."""
    environment = dict(os.environ, RAYON_NUM_THREADS=str(threads), TOKENIZERS_PARALLELISM=str(threads > 1).lower())
    begin = time.monotonic()
    process = subprocess.Popen(command, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f'{name} failed: {command}')
    print(f'{name:8} {time.monotonic() - begin:7.2f} s  processor {usage.ru_utime + usage.ru_stime:7.2f} s  '
          f'memory {usage.ru_maxrss / 1024:6.0f} MB', flush=True)


def compare_byte_bpe(ours, theirs):
    models = [json.loads(pathlib.Path(folder, 'tokenizer.json').read_text())['model'] for folder in (ours, theirs)]
    common = set(models[0]['vocab'].items()) & set(models[1]['vocab'].items())
    merges = [[tuple(merge) for merge in model['merges']] for model in models]
    equal = sum(a == b for a, b in zip(*merges))
    print(f'{len(common)} of {len(models[1]["vocab"])} pieces have the same id, {equal} of {len(merges[1])} merges '
          f'are the same')


def compare_unigram(ours, theirs, held_out):
    import sentencepiece
    models = [sentencepiece.SentencePieceProcessor(model_file=f'{folder}/tokenizer.spm') for folder in (ours, theirs)]
    pieces = [{model.id_to_piece(id) for id in range(model.get_piece_size())} for model in models]
    print(f'{len(pieces[0] & pieces[1])} of {len(pieces[1])} pieces are common')
    lines = pathlib.Path(held_out).read_text(encoding='utf-8').split('\n')
    characters = sum(map(len, lines))
    for name, model in zip(('ours', 'theirs'), models):
        ids = [id for line in lines for id in model.encode(line)]
        known = [id for id in ids if id != model.unk_id()]
        likelihood = sum(map(model.get_score, known)) / characters
        print(f'{name:8} {len(ids)} tokens, {len(ids) - len(known)} of them unknown, {likelihood:.4f} nats a character')


def main():
    parser = argparse.ArgumentParser(description='Learns a vocabulary beside other trainers.')
    parser.add_argument('program')
    parser.add_argument('kind', choices=['byte_bpe', 'unigram'])
    parser.add_argument('text')
    parser.add_argument('held_out')
    parser.add_argument('--vocab_size', type=int, default=32000)
    parser.add_argument('--threads', type=int, default=1)
    parser.add_argument('--worker')  # the folder that a process for the peer writes
    options = parser.parse_args()
    if options.worker:
        learn = learn_byte_bpe if options.kind == 'byte_bpe' else learn_unigram
        return learn(options.text, options.vocab_size, options.worker)
    with tempfile.TemporaryDirectory() as ours, tempfile.TemporaryDirectory() as theirs:
        run('ours', [options.program, 'tokenizer', 'learn', f'--type={options.kind}', f'--output={ours}',
                     f'--vocab_size={options.vocab_size}', f'--threads={options.threads}', options.text],
            options.threads)
        run('theirs', [sys.executable, *sys.argv, f'--worker={theirs}'], options.threads)
        if options.kind == 'byte_bpe':
            compare_byte_bpe(ours, theirs)
        else:
            compare_unigram(ours, theirs, options.held_out)


if __name__ == '__main__':
    main()
