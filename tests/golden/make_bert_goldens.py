#!/usr/bin/env python3
# make_bert_goldens.py - makes the golden files of classifiers on BERT and its relatives from PyTorch.
# SPDX-License-Identifier: Apache-2.0
"""Writes bert_classes, bert_labels, bert_value and FAMILY.safetensors of the other families;
README.md says what is in them.

Made with Python 3.11, torch 2.15.0, transformers 5.23.0 (the families: 5.24.0), safetensors 0.8.0, numpy 2.4.6.  Run:
    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install torch transformers safetensors
    /tmp/golden/bin/python tests/golden/make_bert_goldens.py [output folder]

The weights are float32. Everything is computed from them in float64, one text at a time (nothing is
padded or masked), and rounded to float32 once, when written. Every parameter is drawn, biases and
layer norms too, so that none of them is trivial.
"""

import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import (BertConfig, BertForSequenceClassification, DistilBertConfig,
                          DistilBertForSequenceClassification, ElectraConfig,
                          ElectraForSequenceClassification, ModernBertConfig,
                          ModernBertForSequenceClassification, RobertaConfig,
                          RobertaForSequenceClassification)

TRAINING_STEPS = 10
# Tokens of each text, and of them those of its second part (type 1).
LENGTHS = [(9, 4), (2, 0), (19, 0), (5, 2), (6, 3), (12, 0), (3, 1)]


def config(hidden, heads, ffn, layers, labels, activation):
    return BertConfig(
        vocab_size=67,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=ffn,
        hidden_act=activation,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        max_position_embeddings=32,
        type_vocab_size=2,
        num_labels=labels,
        attn_implementation="eager",
    )


def relatives(labels=3):
    """A small encoder of each other family."""
    common = dict(vocab_size=67, num_labels=labels, attn_implementation="eager")
    shape = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24,
                 hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return {
        "distilbert": DistilBertConfig(
            dim=16, n_layers=1, n_heads=2, hidden_dim=24, dropout=0.0, attention_dropout=0.0,
            seq_classif_dropout=0.0, max_position_embeddings=32, **common),
        "electra": ElectraConfig(embedding_size=10, max_position_embeddings=32, **shape, **common),
        "roberta": RobertaConfig(
            max_position_embeddings=34, type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1,
            **shape, **common),
        "modernbert": modern("cls", **common),
    }


def modern(pooling, **common):
    """Layers that see whole texts, 2 tokens on either side, whole texts; most texts are longer."""
    return ModernBertConfig(
        hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=2,
        global_attn_every_n_layers=2, local_attention=4, max_position_embeddings=32,
        classifier_pooling=pooling, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1,
        sep_token_id=2, **common)


# The lowest id that is no padding: transformers gives the row of padding no gradient, and
# RoBERTa's tokens behind it other positions.
LOWEST_ID = {"roberta": 2}
CLASSIFIERS = {
    "distilbert": DistilBertForSequenceClassification,
    "electra": ElectraForSequenceClassification,
    "modernbert": ModernBertForSequenceClassification,
    "roberta": RobertaForSequenceClassification,
}


def inputs_of(model, ids, types):
    """The arguments of a model for one text: families without types, or with one, get none."""
    arguments = {"input_ids": ids[None]}
    if getattr(model.config, "type_vocab_size", 0) > 1:
        arguments["token_type_ids"] = types[None]
    return arguments


def randomize(model, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator, dtype=torch.float64)
            if name.endswith(("LayerNorm.weight", "norm.weight")):
                p.copy_(1 + 0.2 * noise)
            elif p.dim() == 1:
                p.copy_(0.1 * noise)
            elif "embeddings" in name:
                p.copy_(0.5 * noise)
            else:
                p.copy_(noise * p.shape[1] ** -0.5)


def losses_of(kind, logits, targets, label_weights):
    """The loss of each row, without the rows' weights."""
    v = label_weights
    if kind == "classes":
        return F.cross_entropy(logits, targets[:, 0].long(), weight=v, reduction="none")
    if kind == "labels":
        return F.binary_cross_entropy_with_logits(
            logits, targets, weight=v, reduction="none").mean(1)
    return F.mse_loss(logits, targets, reduction="none").mean(1)


class Batch:
    def __init__(self, kind, labels, seed, lowest_id=1):
        rng = np.random.default_rng(seed)
        self.kind = kind
        # No id 0, <pad>: transformers gives its row of the table no gradient.
        self.ids = [torch.tensor(rng.integers(lowest_id, 67, n)) for n, _ in LENGTHS]
        self.types = [
            torch.tensor([0] * (n - second) + [1] * second) for n, second in LENGTHS]
        n = len(LENGTHS)
        if kind == "classes":
            targets = rng.integers(0, labels, (n, 1)).astype(float)
        elif kind == "labels":
            targets = rng.integers(0, 2, (n, labels)).astype(float)
            targets[1] = rng.uniform(size=labels)  # soft
        else:
            targets = rng.normal(size=(n, labels))
        # What the file holds is what the losses are computed from.
        self.targets = torch.tensor(targets).float().double()
        self.weights = torch.tensor(rng.uniform(0.25, 1.5, n)).float().double()
        self.label_weights = None
        if kind != "value":
            self.label_weights = torch.tensor(rng.uniform(0.5, 2.0, labels)).float().double()

    def run(self, model, kept=None):
        """Logits of all texts."""
        rows = []
        for ids, types in zip(self.ids, self.types):
            output = model(
                **inputs_of(model, ids, types), output_hidden_states=True)
            rows.append(output.logits[0])
            if kept is not None:
                kept.append([h[0] for h in output.hidden_states])
        return torch.stack(rows)

    def loss(self, logits):
        return (self.weights * losses_of(
            self.kind, logits, self.targets, self.label_weights)).mean()


def train(model, batch):
    decay = [p for p in model.parameters() if p.dim() > 1]
    other = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.01}, {"params": other, "weight_decay": 0.0}],
        lr=1e-3, betas=(0.9, 0.999), eps=1e-8)
    losses = []
    for _ in range(TRAINING_STEPS):
        optimizer.zero_grad()
        loss = batch.loss(batch.run(model))
        losses.append(loss.detach())
        loss.backward()
        optimizer.step()
    losses.append(batch.loss(batch.run(model)).detach())
    return torch.stack(losses)


def make(path, kind, configuration, seed):
    family = configuration.model_type
    classifier = CLASSIFIERS.get(family, BertForSequenceClassification)
    model = classifier(configuration).double().train()
    randomize(model, seed)
    model.float().double()  # from here on the weights are what the file says
    batch = Batch(kind, configuration.num_labels, seed + 1, LOWEST_ID.get(family, 1))
    out = {name: p.detach().clone() for name, p in model.named_parameters()}
    out["token.ids"] = torch.cat(batch.ids).int()
    out["type.ids"] = torch.cat(batch.types).int()
    out["offsets"] = torch.tensor(np.cumsum([0] + [n for n, _ in LENGTHS])).int()
    out["targets"], out["weights"] = batch.targets, batch.weights
    if batch.label_weights is not None:
        out["label_weights"] = batch.label_weights

    kept = []
    logits = batch.run(model, kept)
    for i, name in enumerate(["embedded"] + [f"layer.{i}" for i in range(len(kept[0]) - 1)]):
        out[f"activation.{name}"] = torch.cat([hidden[i] for hidden in kept]).detach()
    probabilities = {"classes": lambda z: z.softmax(1), "labels": torch.sigmoid}.get(
        kind, lambda z: z)(logits)
    out["logits"], out["probabilities"] = logits.detach(), probabilities.detach()
    out["nll"] = losses_of(kind, logits, batch.targets, None).detach()
    loss = batch.loss(logits)
    out["loss"] = loss.detach()[None]
    model.zero_grad()
    loss.backward()
    for name, p in model.named_parameters():
        out[f"grad.{name}"] = p.grad.clone()

    losses = train(model, batch)
    out["train.losses"], out["train.final_loss"] = losses[:-1], losses[-1:]
    for name, p in model.named_parameters():
        # The gradient of a key's bias is zero but for rounding, which Adam turns into whole steps.
        if not name.endswith(("key.bias", "k_lin.bias")):
            out[f"final.{name}"] = p.detach().clone()
    out = {k: (v if v.dtype == torch.int32 else v.float()).contiguous().clone()
           for k, v in out.items()}
    # One entry of metadata only: safetensors writes several in random order.
    save_file(out, path, metadata={"format": "pt"})
    path.chmod(0o644)
    print(f"{path.name}: {path.stat().st_size} bytes, loss {losses[0]:.4f} -> {losses[-1]:.4f}")


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    make(folder / "bert_classes.safetensors", "classes", config(24, 3, 40, 2, 3, "gelu"), 11)
    make(folder / "bert_labels.safetensors", "labels", config(16, 2, 24, 2, 5, "gelu_new"), 12)
    make(folder / "bert_value.safetensors", "value", config(16, 2, 24, 1, 1, "gelu"), 13)
    for seed, (family, configuration) in enumerate(relatives().items(), 14):
        make(folder / f"{family}.safetensors", "classes", configuration, seed)
    mean = modern("mean", vocab_size=67, num_labels=3, attn_implementation="eager")
    make(folder / "modernbert_mean.safetensors", "classes", mean, 18)


if __name__ == "__main__":
    main()
