#!/usr/bin/env python3
# tokenizer_peer.py - compares ids and speed with Hugging Face's and Google's tokenizers.
# SPDX-License-Identifier: Apache-2.0
#
#   tokenizer_peer.py build/cpu/bin/tokenizer_bench VOCAB FILE... [--cased] [--targets]
#       [--google=TOKENIZATION.py [--every=1]] [--time [--rounds=5] [--threads=2]]
#
# VOCAB is a vocab.txt (WordPiece), a tokenizer.json, a .spm or the folder of a Marian model, whose peer is
# transformers' MarianTokenizer: texts are sources, or with --targets targets (no --time). Texts are the lines of a file, the fields of a .csv,
# the strings of a .json; FILE "unicode" means every character between others. Without --google the
# peer is the package `tokenizers` (behaviour hf), or `sentencepiece` for a .spm; with it google-research/bert's
# tokenization.py on every EVERYth text. --time measures instead, ours and theirs in turn, from texts in memory to ids
# in memory: medians by the clock, and in processor seconds, which hold on a busy machine too.
import argparse
import csv
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import tokenizers

try:
    import sentencepiece
except ImportError:  # only needed for a .spm
    sentencepiece = None

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'tests' / 'golden'))
BATCH = 20000


def strings_of(value):
    if isinstance(value, str):
        yield value
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from strings_of(child)


def unicode_texts():
    """Every code point, alone and beside letters, numbers, spaces and marks."""
    for code_point in range(1, 0x110000):
        if not 0xD800 <= code_point <= 0xDFFF:
            c = chr(code_point)
            yield from (c, f'a{c}b {c} {c}{c}', f'1{c}2!{c}?  {c}\u0301e{c}')


def read_texts(path):
    if path == 'unicode':
        return list(unicode_texts())
    with open(path, encoding='utf-8', newline='') as file:
        if path.endswith('.json'):
            texts = strings_of(json.load(file))
        elif path.endswith('.csv'):
            texts = (field for row in csv.reader(file) for field in row)
        else:
            texts = file.read().split('\n')
        return [text.replace('\0', '') for text in texts]


class Bench:
    def __init__(self, args, behavior, folder):
        self.command = [args.bench, args.vocab, f'{folder}/texts', f'behavior={behavior}']
        self.command += ['cased'] if args.cased else []
        self.command += ['targets'] if args.targets else []
        self.folder = folder

    def write(self, texts):
        with open(f'{self.folder}/texts', 'wb') as file:
            file.write(b''.join(text.encode() + b'\0' for text in texts))

    def run(self, *more):
        result = subprocess.run([*self.command, *more], check=True, capture_output=True, text=True)
        seconds, cpu = re.search(r'threads: ([\d.]+) s.* ([\d.]+) CPU s', result.stdout).groups()
        return float(seconds), float(cpu)

    def rows(self):
        self.run('repeat=1', f'ids={self.folder}/ids')
        ids = numpy.fromfile(f'{self.folder}/ids', dtype=numpy.int32)
        at = 0
        while at < len(ids):
            yield ids[at + 1:at + 1 + ids[at]].tolist()
            at += ids[at] + 1


def google_encoder(args):
    import make_wordpiece_goldens
    module = make_wordpiece_goldens.load_google(args.google)
    vocabulary = {line.rstrip('\n'): i for i, line in enumerate(open(args.vocab, encoding='utf-8'))}
    basic = module.BasicTokenizer(do_lower_case=not args.cased)
    pieces = module.WordpieceTokenizer(vocab=vocabulary)

    def encode(text):
        ids = [vocabulary[p] for word in basic.tokenize(text) for p in pieces.tokenize(word)]
        return [vocabulary['[CLS]'], *ids, vocabulary['[SEP]']]
    return lambda texts: map(encode, texts)


def hf_tokenizer(args):
    if args.vocab.endswith('.json'):
        return tokenizers.Tokenizer.from_file(args.vocab)
    return tokenizers.BertWordPieceTokenizer(args.vocab, lowercase=not args.cased)._tokenizer


def hf_encoder(args):
    encoder = hf_tokenizer(args)
    is_row = not args.vocab.endswith('.json')  # with [CLS] and [SEP]

    def encode(texts):
        for begin in range(0, len(texts), BATCH):
            batch = encoder.encode_batch(texts[begin:begin + BATCH], add_special_tokens=is_row)
            yield from (row.ids for row in batch)
    return encode


def is_spm(args):
    return args.vocab.endswith(('.spm', '.model'))


def spm_encoder(args):
    processor = sentencepiece.SentencePieceProcessor(args.vocab)
    return lambda texts: map(processor.encode, texts)


def marian_encoder(args):
    import transformers
    transformers.logging.set_verbosity_error()  # of texts longer than the model's
    tokenizer = transformers.MarianTokenizer.from_pretrained(args.vocab)

    def encode(text):
        return tokenizer(**{'text_target' if args.targets else 'text': text}).input_ids[:-1]  # without </s>
    return lambda texts: map(encode, texts)


def compare(args, folder):
    bench = Bench(args, 'google' if args.google else 'hf', folder)
    is_marian = pathlib.Path(args.vocab).is_dir()
    encode = (google_encoder if args.google else marian_encoder if is_marian
              else spm_encoder if is_spm(args) else hf_encoder)(args)
    total = differing = 0
    for path in args.files:
        texts = read_texts(path)[::args.every if args.google else 1]
        bench.write(texts)
        here = 0
        for text, ours, theirs in zip(texts, bench.rows(), encode(texts), strict=True):
            if ours != theirs:
                here += 1
                if here <= 3:
                    print(f'  {text[:200]!r}\n    ours {ours[:40]}\n    theirs {theirs[:40]}')
        print(f'{path}: {here} of {len(texts)} texts differ')
        total += len(texts)
        differing += here
    print(f'{differing} of {total} texts differ')
    return int(differing > 0)


def measure(args, folder):
    texts = [text for path in args.files for text in read_texts(path)]
    bench = Bench(args, 'hf', folder)
    bench.write(texts)
    os.environ['RAYON_NUM_THREADS'] = str(args.threads)
    processor = sentencepiece.SentencePieceProcessor(args.vocab) if is_spm(args) else None
    hf = None if processor else hf_tokenizer(args)

    def run_hf(parallel, encode):
        os.environ['TOKENIZERS_PARALLELISM'] = 'true' if parallel else 'false'
        begin, cpu_begin = time.perf_counter(), time.process_time()
        rows = encode(texts)
        seconds = time.perf_counter() - begin, time.process_time() - cpu_begin
        assert len(rows) == len(texts)
        return seconds

    runs = {
        'ours, 1 thread': lambda: bench.run('repeat=3'),
        'tokenizers, 1 thread': lambda: run_hf(False, hf.encode_batch),
        'tokenizers, 1 thread, no offsets': lambda: run_hf(False, hf.encode_batch_fast),
        f'ours, {args.threads} threads': lambda: bench.run('repeat=3', f'threads={args.threads}'),
        f'tokenizers, {args.threads} threads': lambda: run_hf(True, hf.encode_batch),
        f'tokenizers, {args.threads} threads, no offsets':
            lambda: run_hf(True, hf.encode_batch_fast),
    }
    if processor:
        runs = {name: run for name, run in runs.items() if name == 'ours, 1 thread'}
        runs['sentencepiece, 1 thread'] = lambda: run_hf(False, lambda texts: processor.encode(texts, num_threads=1))
    elif args.vocab.endswith('.json'):
        runs = {name: run for name, run in runs.items() if ', 1 thread' in name}
    seconds = {name: [] for name in runs}
    for _ in range(args.rounds):
        for name, run in runs.items():
            seconds[name].append(run())
    print(f'{len(texts)} texts, {sum(len(t.encode()) for t in texts)} bytes, '
          f'tokenizers {tokenizers.__version__}, sentencepiece {getattr(sentencepiece, "__version__", "none")}, load {os.getloadavg()[0]:.1f}')
    ours = {}
    for name, values in seconds.items():
        clock, cpu = (statistics.median(v) for v in zip(*values))
        threads = name.split(', ')[1]
        ours.setdefault(threads, (clock, cpu))
        print(f'{name:34} {clock:8.4f} s {len(texts) / clock:10.0f} texts/s   {cpu:8.4f} CPU s '
              f'{len(texts) / cpu:10.0f} texts/s a core   ours is {clock / ours[threads][0]:.1f} x '
              f'by the clock, {cpu / ours[threads][1]:.1f} x by CPU')
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('bench')
    parser.add_argument('vocab')
    parser.add_argument('files', nargs='+')
    parser.add_argument('--cased', action='store_true')
    parser.add_argument('--targets', action='store_true')
    parser.add_argument('--google')
    parser.add_argument('--every', type=int, default=1)
    parser.add_argument('--time', action='store_true')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--threads', type=int, default=2)
    args = parser.parse_intermixed_args()
    with tempfile.TemporaryDirectory() as folder:
        return measure(args, folder) if args.time else compare(args, folder)


if __name__ == '__main__':
    sys.exit(main())
