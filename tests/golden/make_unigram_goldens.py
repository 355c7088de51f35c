#!/usr/bin/env python3
# make_unigram_goldens.py - what Hugging Face's `tokenizers` and SentencePiece make of difficult texts with Unigram.
# SPDX-License-Identifier: Apache-2.0
#
#   python3 make_unigram_goldens.py ../../examples/nmt_train/data/train.en-de.tsv.gz > unigram.json
#
# Made with tokenizers 0.23.3 and sentencepiece 0.2.3. The vocabularies are learned from the first lines of the file.
# The rules of normalisation (nmt_nfkc) are cut down to those that the texts need, so that the file stays small.
import base64
import gzip
import io
import json
import random
import struct
import sys
import tempfile

import sentencepiece
import tokenizers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors)

TEXTS = [
    '', ' ', '   ', 'a', "'", 'A man in a blue shirt.', ' leading', 'trailing ', 'two  spaces   three',
    'a\tb\n\nc\r\n d', ' \n x', '\n\n', 'a \u00a0 b\u3000c\u2028d\x85e', '123 4567 3.14 50% $7', '\u00bd\u2168 x\u0661',
    'na\u00efve cafe\u0301 e\u0323\u0301', '\u6771\u4eac is \u4eac\u90fd, \ud55c\uad6d\uc5b4', '\u1112\u1161\u11ab',
    '\U0001f469\u200d\U0001f469 \U0001f3f3\ufe0f', '\0\x01\x7f', '\x01 a', '\u0130stanbul \u03a3\u03af', 'x' * 300,
    'ab' * 150, '<s> hi </s><mask> <pad>', 'a <mask>b', 'a  <mask>  b', '<mask>', '<<mask>>', '<mas', '<unk> x<unk>y',
    'tool mytool tool_ tool.', 'caf\u00e9 cafe\u0301 decaf\u00e9', '\u212b \u2126 \u1e9b\u0323', '#!/bin/sh',
    'The dialog is located on the computer.', 'Klicken Sie auf die Schaltfl\u00e4che.', '\ufeffa', '\u0301a', 'a\u0301\u0300',
    '\u2581a \u2581 b\u2581', 'a\u2581\u2581b', '\uff41\u0301b', '\ufb01\u0301x', '\u2460\ufe0f', '\u2139\u0301', '\u3000\u0301x',
    '\u0600\uff41', '\u0915\u094d\u0958\u0301', '\u0915\u0958\u0301', '\u0958\u0301', '\uff76\uff9e \uff8a\uff9f', '\u00a9\u200d\u00a9', '\u2122\u200d\u2122',
    '\U0001f1e9\U0001f1ea\U0001f1e9', '<0x41> <0xE2>', 'USER<user>x <user>\u2581y', '0000000', '......',
]
# Many equal ways, between which rounding decides.
TIES = [c * n for c in 'abcdef' for n in (5, 7, 11, 30)] + ['aabbbcccccdddddddeeeeeeeeeeeffff ' * 3]
PAIRS = [('A man plays.', 'He sleeps.', 0), ('', '', 0), ('one two three four five', 'six', 8),
         ('one', 'two three four five six', 9), ('one two three four', 'one two three four', 12), ('a', '', 5)]
ALPHABET = [*"aAzZ09.,' \t\n\0#", *'\u00e9\u0301\u00a0\u2028\u3000\u0661\u00bd\u4e2d\ud55c\u1112\u1161\u11ab\u200d'
            '\u0345\u0939\u093f\u094d\ufb01\u212b\ue000\ufeff\ufffd\u2581\uff41\u0300\u00a9\u0600\u0958', *'\U0001f600\U0001d165\U0002f800\U000e0001\U0001f1e9']


def rules_for(texts, rules):
    """The rules that begin somewhere in one of the texts, compiled again by SentencePiece."""
    units = struct.unpack_from(f'<{struct.unpack_from("<I", rules)[0] // 4}I', rules, 4)
    blob = rules[4 + 4 * len(units):]
    offset = lambda u: (u >> 10) << ((u & 0x200) >> 6)
    kept = {}
    for text in texts:
        data = text.encode()
        for begin in range(len(data)):
            at = offset(units[0])
            for i in range(begin, len(data)):
                at ^= data[i]
                if data[i] == 0 or units[at] & 0x800000FF != data[i]:
                    break
                has_leaf = units[at] >> 8 & 1
                at ^= offset(units[at])
                if has_leaf:
                    place = units[at] & 0x7FFFFFFF
                    kept[data[begin:i + 1].decode()] = blob[place:blob.index(b'\0', place)].decode()
    return kept


def learn(lines, rules=None, **options):
    model = io.BytesIO()
    with tempfile.NamedTemporaryFile('w', suffix='.tsv', encoding='utf-8') as file:
        for source, target in (rules or {}).items():
            print(' '.join(f'{ord(c):X}' for c in source), ' '.join(f'{ord(c):X}' for c in target), sep='\t', file=file)
        file.flush()
        if rules is not None:
            options['normalization_rule_tsv'] = file.name
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=model, model_type='unigram', hard_vocab_limit=False,
            minloglevel=2, num_threads=1, vocab_size=options.pop('vocab_size', 250), **options)
    proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    proto.normalizer_spec.ClearField('normalization_rule_tsv')  # the name of a temporary file
    return proto


def of_json(proto, normalizer, pre_tokenizer, special=('<s>', '<pad>', '</s>', '<unk>'), byte_fallback=False, unk_id=3):
    pieces = [(p, 0.0) for p in special] + [(p.piece, p.score) for p in proto.pieces[3:]]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=unk_id, byte_fallback=byte_fallback))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    scheme = getattr(pre_tokenizer, 'prepend_scheme', 'always')
    tokenizer.decoder = decoders.Metaspace(prepend_scheme=scheme)
    if byte_fallback:
        tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), tokenizer.decoder])
    return tokenizer


def with_ties(seed):
    """Pieces of one and of two equal letters, where two are better than one twice."""
    generator = random.Random(seed)
    pieces = [('\u2581', -2.0)]
    for c in 'abcdef':
        score = generator.uniform(-9, -5)
        pieces += [(c, score), (2 * c, 1.5 * score)]
    return pieces


def ties_proto(proto):
    del proto.pieces[3:]
    for piece, score in with_ties(2):
        proto.pieces.add(piece=piece, score=score)
    return proto


def json_settings(proto, bytes_proto):
    charsmap = normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)
    squeeze = normalizers.Replace(Regex(' {2,}'), ' ')
    xlm = of_json(proto, normalizers.Sequence([charsmap, squeeze]), pre_tokenizers.Metaspace(prepend_scheme='always'))
    xlm.add_special_tokens(['<s>', '<pad>', '</s>', '<unk>', AddedToken('<mask>', lstrip=True, normalized=False)])
    xlm.post_processor = processors.TemplateProcessing(
        single='<s> $A </s>', pair='<s> $A </s> </s> $B </s>', special_tokens=[('<s>', 0), ('</s>', 2)])
    yield 'xlm-roberta', xlm

    older = of_json(proto, charsmap, pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme='always')]))
    older.add_special_tokens(['<s>', '</s>'])
    older.add_tokens([AddedToken('tool', single_word=True), AddedToken('cafe\u0301', normalized=True)])
    yield 'older', older

    first = of_json(proto, normalizers.Sequence([charsmap, normalizers.NFC(), normalizers.Replace("'", '"'), squeeze]),
                    pre_tokenizers.Metaspace(prepend_scheme='first'))
    first.add_special_tokens(['<mask>'])
    yield 'first', first

    never = of_json(proto, normalizers.Sequence([normalizers.Nmt(), normalizers.Strip(left=True, right=True)]), pre_tokenizers.Metaspace(prepend_scheme='never'))
    yield 'never', never

    whole = of_json(bytes_proto, None, pre_tokenizers.Metaspace(prepend_scheme='always', split=False), byte_fallback=True)
    yield 'unsplit, bytes', whole

    ties = Tokenizer(models.Unigram([('<unk>', 0.0)] + with_ties(1), unk_id=0, byte_fallback=False))
    ties.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme='always')
    ties.decoder = decoders.Metaspace(prepend_scheme='always')
    yield 'ties', ties

    nfkc = of_json(proto, normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), squeeze]), pre_tokenizers.Metaspace(prepend_scheme='always'))
    yield 'nfkc', nfkc
    nfkd = of_json(proto, normalizers.NFKD(), pre_tokenizers.Metaspace(prepend_scheme='first'))
    yield 'nfkd', nfkd


def proto_settings(lines, rules):
    yield 'marian', learn(lines, rules)
    yield 'bytes', learn(lines, rules, byte_fallback=True, vocab_size=450, user_defined_symbols=['<user>', 'USE', '0000'])
    # No rules, and words that reach over spaces.
    yield 'identity', learn(lines, normalization_rule_name='identity', split_by_whitespace=False)
    yield 'suffix', learn(lines, normalization_rule_name='identity', treat_whitespace_as_suffix=True,
                          add_dummy_prefix=True, remove_extra_whitespaces=False)
    positive = learn(lines, rules, add_dummy_prefix=False)
    for piece in positive.pieces[::7]:  # which no learning gives, but files may have
        if piece.type == 1:
            piece.score = 1.0
    yield 'odd scores', positive
    yield 'ties', ties_proto(learn(lines[:200], rules))


def main():
    with gzip.open(sys.argv[1], 'rt', encoding='utf-8') as file:
        lines = [part for _ in range(1500) for part in next(file).rstrip('\n').split('\t')]
    generator = random.Random(1)
    texts = TEXTS + TIES + [''.join(generator.choices(ALPHABET, k=generator.randrange(1, 25))) for _ in range(120)] + lines[:30]
    full = learn(lines[:400], normalization_rule_name='nmt_nfkc', vocab_size=200)
    rules = rules_for(texts, full.normalizer_spec.precompiled_charsmap)
    result = {'tokenizers': tokenizers.__version__, 'sentencepiece': sentencepiece.__version__, 'texts': texts, 'json': [], 'spm': []}
    protos = list(proto_settings(lines, rules))
    for name, tokenizer in json_settings(protos[0][1], protos[1][1]):
        file = tokenizer.to_str()
        reader = Tokenizer.from_str(file)
        pairs = []
        for first, second, length in PAIRS:
            reader.no_truncation()
            if length:
                reader.enable_truncation(length)
            row = reader.encode(first, second)
            pairs.append([first, second, length, row.ids, row.type_ids])
        reader.no_truncation()
        ids = [reader.encode(text, add_special_tokens=False).ids for text in texts]
        more = [[generator.randrange(reader.get_vocab_size()) for _ in range(generator.randrange(1, 12))] for _ in range(60)]
        result['json'].append({'name': name, 'file': file, 'pairs': pairs, 'ids': ids, 'decoded': [
            [row, reader.decode(row, skip_special_tokens=False)] for row in ids[:60] + more
            # `tokenizers` decodes an added token to its normalised form, dtrain to its text.
            if all(reader.id_to_token(i) != 'caf\u00e9' for i in row)]})
    for name, proto in protos:
        data = proto.SerializeToString()
        processor = sentencepiece.SentencePieceProcessor(model_proto=data)
        ids = [processor.encode(text) for text in texts]
        more = [[generator.randrange(len(proto.pieces)) for _ in range(generator.randrange(1, 12))] for _ in range(100)]
        setting = {'name': name, 'file': base64.b64encode(data).decode(), 'ids': ids,
                   'decoded': [[row, processor.decode(row)] for row in ids[:60] + more]}
        if name in ('marian', 'bytes'):
            setting['pieces'] = [processor.encode(text, out_type=str) for text in texts]
        result['spm'].append(setting)
    json.dump(result, sys.stdout, separators=(',', ':'))
    print()


main()
