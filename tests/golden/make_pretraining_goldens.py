#!/usr/bin/env python3
# make_pretraining_goldens.py - makes the golden files of BERT's pre-training from PyTorch.
# SPDX-License-Identifier: Apache-2.0
"""Writes bert_pretraining and bert_masked.safetensors; README.md says what is in them.

Made with Python 3.11, torch and transformers of the versions that make_bert_goldens.py names.  Run:
    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install torch transformers safetensors
    /tmp/golden/bin/python tests/golden/make_pretraining_goldens.py [output folder]

As in make_bert_goldens.py, whose texts these are: float32 weights, all computed in float64, one
text at a time, rounded to float32 when written. The loss is that of transformers: the mean over
masked tokens plus the mean over pairs.
"""

import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import (BertForMaskedLM, BertForPreTraining, DistilBertForMaskedLM,
                          ElectraForMaskedLM, ModernBertForMaskedLM, RobertaForMaskedLM)

from make_bert_goldens import LENGTHS, LOWEST_ID, config, inputs_of, randomize, relatives

# Masked places of each text.
MASKED = [(1, 5, 8), (1,), (2, 3, 11, 18), (4,), (1, 2), (6, 10), (0,)]


def make(path, kind, configuration, seed):
    model = kind(configuration).double().train()
    randomize(model, seed)
    model.float().double()  # from here on the weights are what the file says
    rng = np.random.default_rng(seed + 1)
    lowest = LOWEST_ID.get(configuration.model_type, 1)
    ids = [torch.tensor(rng.integers(lowest, 67, n)) for n, _ in LENGTHS]
    types = [torch.tensor([0] * (n - second) + [1] * second) for n, second in LENGTHS]
    hidden_ids = [torch.tensor(rng.integers(lowest, 67, len(places))) for places in MASKED]
    next_labels = torch.tensor(rng.integers(0, 2, len(LENGTHS)))
    pairs = kind is BertForPreTraining
    tokens, sentences = [], []
    for text, kinds in zip(ids, types):
        output = model(**inputs_of(model, text, kinds))
        tokens.append(output.prediction_logits[0] if pairs else output.logits[0])
        if pairs:
            sentences.append(output.seq_relationship_logits[0])
    logits = torch.cat([z[list(places)] for z, places in zip(tokens, MASKED)])
    nll = F.cross_entropy(logits, torch.cat(hidden_ids), reduction="none")
    loss = nll.mean()
    offsets = np.cumsum([0] + [n for n, _ in LENGTHS])
    out = {name: p.detach().clone() for name, p in model.named_parameters()}
    if pairs:
        next_nll = F.cross_entropy(torch.stack(sentences), next_labels, reduction="none")
        loss = loss + next_nll.mean()
        out["next_labels"], out["next_nll"] = next_labels.double(), next_nll.detach()
        out["next_probabilities"] = torch.stack(sentences).detach().softmax(1)
    loss.backward()
    out["token.ids"], out["type.ids"] = torch.cat(ids).int(), torch.cat(types).int()
    out["offsets"] = torch.tensor(offsets).int()
    out["masked.rows"] = torch.tensor(
        [offset + place for offset, places in zip(offsets, MASKED) for place in places]).int()
    out["masked.ids"] = torch.cat(hidden_ids).int()
    out["nll"], out["loss"] = nll.detach().sum()[None], loss.detach()[None]
    out["predictions"] = logits.detach().argmax(1).int()
    for name, p in model.named_parameters():
        out[f"grad.{name}"] = p.grad.clone()
    out = {k: (v if v.dtype == torch.int32 else v.float()).contiguous().clone()
           for k, v in out.items()}
    # One entry of metadata only: safetensors writes several in random order.
    save_file(out, path, metadata={"format": "pt"})
    path.chmod(0o644)
    print(f"{path.name}: {path.stat().st_size} bytes, loss {loss:.4f}")


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    make(folder / "bert_pretraining.safetensors", BertForPreTraining,
         config(24, 3, 40, 2, 2, "gelu"), 31)
    make(folder / "bert_masked.safetensors", BertForMaskedLM,
         config(16, 2, 24, 1, 2, "gelu_new"), 32)
    classes = {"distilbert": DistilBertForMaskedLM, "electra": ElectraForMaskedLM,
               "roberta": RobertaForMaskedLM, "modernbert": ModernBertForMaskedLM}
    for seed, (family, configuration) in enumerate(relatives().items(), 33):
        make(folder / f"{family}_masked.safetensors", classes[family], configuration, seed)


if __name__ == "__main__":
    main()
