#!/usr/bin/env python3
# peer_encoder.py - fine-tunes one encoder in dtrain and in transformers: losses, speed and memory.
# SPDX-License-Identifier: Apache-2.0
"""Makes an encoder with random weights and a tokenizer for the texts, fine-tunes it as a classifier in
dtrain (bert_classify) and in transformers on the same batches, and compares losses, milliseconds of
a step, and the peak of memory. The sides run in turns, each in a process of its own.

    python3 -m venv /tmp/peer && /tmp/peer/bin/pip install torch transformers
    /tmp/peer/bin/python tools/bench/peer_encoder.py --bench=build/cpu/bin/bert_classify \\
        --texts=texts.tsv --family=modernbert --max_length=1024 --batch=8 --steps=12

TEXTS is a TSV file with the columns `text` and `label`. Sizes: --hidden, --layers, --heads, --ffn.

Alike on both sides: AdamW 0.9, 0.999, 1e-8, weight decay 0.01 on matrices, a constant rate, no
dropout, no clipping, fp32, batches in the order of the file. transformers pads a batch to its longest
text and runs scaled_dot_product_attention, with fused AdamW and a malloc that keeps its pages. The
first steps (--warm_up) do not count for the time. `rss import` is what torch and transformers take
before any model exists.
"""

import argparse
import csv
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RATE, DECAY = 1e-4, 0.01
CLASSES = {
    "distilbert": ("DistilBert", dict(dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0)),
    "roberta": ("Roberta", dict(type_vocab_size=1, layer_norm_eps=1e-5, hidden_dropout_prob=0.0,
                                attention_probs_dropout_prob=0.0, classifier_dropout=0.0)),
    "modernbert": ("ModernBert", dict()),
}


def read_rows(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def make_tokenizer(args, rows):
    """A tokenizer of the family's kind, learned from the texts."""
    import tokenizers
    from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    if args.family == "distilbert":
        names = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
        tokenizer = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece()
        trainer = trainers.WordPieceTrainer(vocab_size=args.vocab, special_tokens=[*names.values()])
    else:
        names = {"cls": "<s>", "pad": "<pad>", "sep": "</s>", "unk": "<unk>", "mask": "<mask>"}
        tokenizer = tokenizers.Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(vocab_size=args.vocab, special_tokens=[*names.values()],
                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator((row["text"] for row in rows), trainer)
    cls, sep = (tokenizer.token_to_id(names[key]) for key in ("cls", "sep"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{names['cls']} $A {names['sep']}",
        pair=f"{names['cls']} $A {names['sep']} $B {names['sep']}",
        special_tokens=[(names["cls"], cls), (names["sep"], sep)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **{f"{key}_token": name for key, name in names.items()})


def labels_of(rows):
    return sorted({row["label"] for row in rows})


def make_folder(args, rows, folder):
    import torch
    import transformers

    labels = labels_of(rows)
    torch.manual_seed(args.seed)
    tokenizer = make_tokenizer(args, rows)
    tokenizer.save_pretrained(folder)
    name, fields = CLASSES[args.family]
    config_class = getattr(transformers, name + "Config")
    sizes = dict(hidden_size=args.hidden, num_hidden_layers=args.layers,
                 num_attention_heads=args.heads, intermediate_size=args.ffn)
    if args.family == "distilbert":
        sizes = dict(dim=args.hidden, n_layers=args.layers, n_heads=args.heads,
                     hidden_dim=args.ffn)
    if args.family == "modernbert":
        fields = dict(bos_token_id=tokenizer.cls_token_id, eos_token_id=tokenizer.sep_token_id,
                      cls_token_id=tokenizer.cls_token_id, sep_token_id=tokenizer.sep_token_id)
    rows_of_positions = args.max_length + (tokenizer.pad_token_id + 1) * (args.family == "roberta")
    config = config_class(
        **sizes, **fields, vocab_size=len(tokenizer), num_labels=len(labels),
        max_position_embeddings=rows_of_positions, pad_token_id=tokenizer.pad_token_id,
        id2label=dict(enumerate(labels)), label2id={name: i for i, name in enumerate(labels)})
    model = getattr(transformers, name + "ForSequenceClassification")(config)
    model.save_pretrained(folder)


def worker(args):
    """Trains with transformers in this process and prints one line of JSON."""
    import torch
    import transformers

    torch.set_num_threads(args.threads)
    rss_import = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows = read_rows(args.texts)
    tokenizer = transformers.AutoTokenizer.from_pretrained(args.worker)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        args.worker, attn_implementation="sdpa").train()
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": DECAY},
                                   {"params": others, "weight_decay": 0.0}],
                                  lr=RATE, betas=(0.9, 0.999), eps=1e-8, fused=True)
    losses, times, tokens = [], [], []
    for step in range(args.steps):
        batch = rows[step * args.batch:(step + 1) * args.batch]
        encoded = tokenizer([row["text"] for row in batch], truncation=True, padding=True,
                            max_length=args.max_length, return_tensors="pt")
        encoded["labels"] = torch.tensor([model.config.label2id[row["label"]] for row in batch])
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = model(**encoded).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        times.append((time.perf_counter() - start) * 1e3)
        tokens.append(int(encoded["attention_mask"].sum()))
    print(json.dumps({
        "losses": losses, "times": times, "tokens": tokens, "rss_import": rss_import,
        "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "versions": f"torch {torch.__version__}, transformers {transformers.__version__}"}))


def run(command, threads, keep_pages):
    """Standard output of a process, and the peak of its memory in MiB."""
    env = dict(os.environ)
    for key in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        env[key] = str(threads)
    if keep_pages:
        # Otherwise glibc gives every large tensor back to the kernel and faults it in again.
        env["MALLOC_MMAP_THRESHOLD_"] = env["MALLOC_TRIM_THRESHOLD_"] = str(4 << 30)
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=log, text=True)
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        if status != 0:
            log.seek(0)
            sys.exit(f"{' '.join(command)}\nended with {status}:\n{output[-2000:]}{log.read()[-2000:]}")
    return output, usage.ru_maxrss / 1024


def run_dtrain(args, folder, place, labels):
    command = [
        args.bench, "train", f"model.pretrained={folder}", f"data.train={args.texts}",
        "data.text=text", "data.label=label", f"data.label_names={','.join(labels)}",
        "data.hold_out=0", "data.shuffle=false", f"data.max_length={args.max_length}",
        "model.dropout=0", "model.attention_dropout=0", "model.classifier_dropout=0",
        f"trainer.batch_size={args.batch}", f"trainer.max_steps={args.steps}",
        "trainer.eval_every=", "trainer.log_every=1", "optimizer.schedule=constant",
        f"optimizer.learning_rate={RATE}", f"optimizer.weight_decay={DECAY}", "optimizer.clip_norm=0",
        "trainer.checkpoint_every=", "trainer.warmup_ratio=0", f"--run_dir={place}", *args.settings]
    output, rss = run(command, args.threads, keep_pages=False)
    lines = (Path(place) / "metrics" / "steps.jsonl").read_text().splitlines()[1:]
    steps = [json.loads(line) for line in lines]
    return {"losses": [step["loss"] for step in steps], "times": [step["step_ms"] for step in steps],
            "rss": rss}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", help="the program bert_classify")
    parser.add_argument("--texts", required=True)
    parser.add_argument("--family", choices=CLASSES, default="modernbert")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--make", help=argparse.SUPPRESS)
    parser.add_argument("settings", nargs="*", help="further settings of bert_classify")
    for name, value in dict(hidden=256, layers=6, heads=4, ffn=512, vocab=8000, max_length=256,
                            batch=16, steps=50, threads=2, rounds=1, warm_up=3, seed=1).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    if args.worker:
        return worker(args)
    rows = read_rows(args.texts)
    if args.make:
        return make_folder(args, rows, args.make)
    if len(rows) < args.batch * args.steps:
        sys.exit(f"{args.texts} has {len(rows)} texts, {args.batch * args.steps} are needed")
    labels = labels_of(rows)
    found = {"dtrain": [], "transformers": []}
    with tempfile.TemporaryDirectory() as place:
        folder = place + "/model"
        # In a process of its own: the peak of memory of a child is at least what its parent has.
        run([args.python, __file__, f"--make={folder}", *sys.argv[1:]], args.threads, False)
        for turn in range(args.rounds):
            found["dtrain"].append(run_dtrain(args, folder, f"{place}/run-{turn}", labels))
            peer = [args.python, __file__, f"--worker={folder}", f"--texts={args.texts}",
                    *(f"--{name}={getattr(args, name)}"
                      for name in ("batch", "steps", "threads", "max_length"))]
            output, _ = run(peer, args.threads, keep_pages=True)
            found["transformers"].append(json.loads(output.splitlines()[-1]))
    peer = found["transformers"][0]
    worst = max(abs(a - b) for a, b in zip(found["dtrain"][0]["losses"], peer["losses"]))
    print(f"{args.family}, {args.layers} layers of {args.hidden}, batches of {args.batch} texts, "
          f"{statistics.mean(peer['tokens']) / args.batch:.0f} tokens each on average, "
          f"{args.threads} threads; {peer['versions']}")
    print(f"losses of {len(peer['losses'])} steps: {peer['losses'][0]:.4f} to "
          f"{peer['losses'][-1]:.4f}, differ by at most {worst:.1e}")
    medians, peaks = {}, {}
    for side, turns in found.items():
        medians[side] = statistics.median(t for turn in turns for t in turn["times"][args.warm_up:])
        peaks[side] = statistics.median(turn["rss"] for turn in turns)
        print(f"{side:14} {medians[side]:9.1f} ms a step  {peaks[side]:7.0f} MiB")
    print(f"dtrain is {medians['transformers'] / medians['dtrain']:.2f} times as fast, with "
          f"{peaks['dtrain'] / peaks['transformers']:.2f} of the memory "
          f"(rss import {peer['rss_import']:.0f} MiB)")


if __name__ == "__main__":
    main()
