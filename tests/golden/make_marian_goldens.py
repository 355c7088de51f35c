#!/usr/bin/env python3
# make_marian_goldens.py - tiny published translation models, and what transformers computes with them.
# SPDX-License-Identifier: Apache-2.0
"""Writes folders: what save_pretrained() writes of a MarianMTModel, and golden.json.

| folder | languages | output projection |
|---|---|---|
| opus_tiny | share vocabulary and embeddings | is the embeddings |
| opus_separate | have vocabularies of their own, of different sizes | is the target's embeddings |
| opus_untied | have vocabularies of their own | has weights of its own |

Made with Python 3.11, torch 2.15.0, transformers 5.24.0, sentencepiece 0.2.3. sacremoses must not be
installed: transformers would use it. Run:
    python3 tests/golden/make_marian_goldens.py examples/nmt_train/data/train.en-de.tsv.gz [OUTPUT FOLDER]

- The tokenizers are learned from the first lines of the file, without rules of normalisation: these are
  long, and unigram.json has them. So are bytes that are pieces, user-defined ones and other options.
- The weights are random. They are larger than usual, so that translations differ. So is the row of
  <pad>, as after fine-tuning in transformers.
- golden.json: ids of texts as sources and as targets, and the texts of the latter; logits (the first two
  positions), loss (mean, no smoothing), norms of gradients, values after one AdamW step (lr 1e-3,
  weight_decay .01; the first four of each tensor), and the result of generate() with several settings.
"""
import gzip
import io
import json
import sys
import warnings
from pathlib import Path

import sentencepiece
import torch
import transformers

warnings.simplefilter("ignore")
transformers.logging.set_verbosity_error()

TEXTS = [
    "The dialog is located on the computer.", "Klicken Sie auf die Schaltfläche.", "", "   ", "a", "'",
    "na\u00efve caf\u00e9 \u2014 \u201cquoted\u201d don't", "\u6771\u4eac is \u4eac\u90fd", "\U0001f469\u200d\U0001f469 emoji",
    "tab\there\u00a0nbsp", "control\x01\x7f chars \ufffd", "x" * 60, "1234567890 3.14 50% $7 http://a.b/c?d=e",
    "double  spaces   and trailing ", "[MASK] <mask> </s> <pad> <unk> <s>", "</s>", "a</s>b", "</s> </s>a</s>",
    ">>deu<< The dialog", ">>deu<<The", ">>deu<<", ">>xyz<< The dialog", ">> not a language", ">>a b<< c<<",
    " >>deu<< The", "The >>deu<< dialog", "</s>>>deu<< The", ">>deu<<>>deu<< a", ">><<", "<<>>", "\n new\nlines\r\n",
    "\u2581a \u2581 b\u2581", "\u3000wide\u3000",
]
SEARCHES = [
    dict(num_beams=4, early_stopping=True, max_new_tokens=20),
    dict(num_beams=1, max_new_tokens=12),
    dict(num_beams=3, length_penalty=0.4, max_new_tokens=25),
    dict(num_beams=5, length_penalty=1.7, max_new_tokens=15),
    dict(num_beams=2, length_penalty=0.0, max_new_tokens=9),
    dict(num_beams=4, length_penalty=1.0, max_new_tokens=18, renormalize_logits=True, forbid_pad=True),
    dict(num_beams=2, early_stopping=True, max_new_tokens=3),
]


def learn(lines, size, **options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type="unigram", vocab_size=size, hard_vocab_limit=False,
        minloglevel=2, num_threads=1, normalization_rule_name="identity", **options)
    return model.getvalue()


def save_tokenizer(lines, folder, separate):
    sources, targets = zip(*lines)
    models = {"source": learn(sources, 90), "target": learn(targets, 100)}
    # transformers takes the same ids of special tokens for both languages.
    marks = ("</s>", "<unk>", "<pad>") if separate else ("</s>", "<unk>")
    source = {token: i for i, token in enumerate(marks)}
    target = dict(source) if separate else source
    for name, vocabulary in (("source", source), ("target", target)):
        (folder / f"{name}.spm").write_bytes(models[name])
        model = sentencepiece.SentencePieceProcessor(model_proto=models[name])
        for piece in map(model.id_to_piece, range(len(model))):
            if piece != "<s>":
                vocabulary.setdefault(piece, len(vocabulary))
    for token in (">>deu<<", ">>nld<<", "<pad>"):
        source.setdefault(token, len(source))
    names = {"vocab": (f"{folder}/vocab.json", source)}
    if separate:
        names["target_vocab_file"] = (f"{folder}/target_vocab.json", target)
    for path, vocabulary in names.values():
        Path(path).write_text(json.dumps(vocabulary, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    tokenizer = transformers.MarianTokenizer(
        source_spm=f"{folder}/source.spm", target_spm=f"{folder}/target.spm", source_lang="en", target_lang="de",
        **{name: path for name, (path, _) in names.items()}, **({"separate_vocabs": True} if separate else {}))
    tokenizer.save_pretrained(folder)
    return tokenizer


def make_model(tokenizer, folder, separate, tied, seed):
    pad = tokenizer.pad_token_id
    options = {}
    if separate:
        options = dict(decoder_vocab_size=len(tokenizer.target_encoder), share_encoder_decoder_embeddings=False,
                       tie_word_embeddings=tied)
    config = transformers.MarianConfig(
        **options,
        vocab_size=len(tokenizer), d_model=24, encoder_layers=2, decoder_layers=1, encoder_attention_heads=3,
        decoder_attention_heads=3, encoder_ffn_dim=40, decoder_ffn_dim=40, max_position_embeddings=96,
        activation_function="swish", scale_embedding=True, pad_token_id=pad, decoder_start_token_id=pad, eos_token_id=0,
        forced_eos_token_id=0)
    torch.manual_seed(seed)
    model = transformers.MarianMTModel(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if not weight.requires_grad:  # positions
                continue
            if weight.dim() > 1:
                weight.normal_(0, 0.12 if "shared" in name or "embed_tokens" in name else 0.45)
            elif name.endswith("bias"):
                weight.normal_(0, 0.1)
        model.final_logits_bias.normal_(0, 0.3)
        model.final_logits_bias[0, 0] += 1.5  # so that some translations end by themselves
    model.save_pretrained(folder)
    return model


def make_folder(lines, folder, separate=False, tied=True, seed=3):
    folder.mkdir(exist_ok=True)
    tokenizer = save_tokenizer(lines, folder, separate)
    model = make_model(tokenizer, folder, separate, tied, seed)
    pad = tokenizer.pad_token_id
    of_target = lambda text: tokenizer(text_target=text)["input_ids"]
    golden = {"texts": TEXTS, "ids": [tokenizer(text)["input_ids"] for text in TEXTS],
              "target_ids": [of_target(text) for text in TEXTS],
              "decoded": [tokenizer.decode(of_target(text), skip_special_tokens=True) for text in TEXTS]}
    rows = lines[20:26]
    batch = tokenizer([source for source, _ in rows], padding=True, truncation=True, max_length=40, return_tensors="pt")
    goal = tokenizer(text_target=[target for _, target in rows], padding=True, truncation=True, max_length=30,
                     return_tensors="pt")["input_ids"]
    labels = goal.masked_fill(goal == pad, -100)
    golden["batch"] = {name: value.tolist() for name, value in batch.items()} | {"labels": labels.tolist()}
    golden["searches"] = []
    for settings in SEARCHES:
        options = dict(settings)
        if options.pop("forbid_pad", False):
            options["bad_words_ids"] = [[pad]]
        golden["searches"].append(settings | {"sequences": model.generate(**batch, **options).tolist()})
    result = model(**batch, labels=labels)
    result.loss.backward()
    golden["logits"] = [row[:2] for row in result.logits.tolist()]
    golden["loss"] = result.loss.item()
    norms = {name: weight.grad.norm().item() for name, weight in model.named_parameters() if weight.grad is not None}
    golden["gradient_norms"] = norms | {"total": sum(norm * norm for norm in norms.values())**.5}
    torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=.01).step()
    golden["after_adamw"] = {name: weight.detach().flatten()[:4].tolist() for name, weight in model.named_parameters()}
    (folder / "golden.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n", encoding="utf-8")


def main():
    root = Path(sys.argv[2] if len(sys.argv) > 2 else Path(__file__).parent)
    with gzip.open(sys.argv[1], "rt", encoding="utf-8") as file:
        lines = [next(file).rstrip("\n").split("\t") for _ in range(1500)]
    make_folder(lines, root / "opus_tiny")
    make_folder(lines, root / "opus_separate", separate=True, seed=4)
    make_folder(lines, root / "opus_untied", separate=True, tied=False)


main()
