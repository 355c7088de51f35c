#!/usr/bin/env python3
# make_question_goldens.py - makes the golden file of BERT's question answering from PyTorch.
# SPDX-License-Identifier: Apache-2.0
"""Writes bert_questions.safetensors; README.md says what is in it.

Made with Python 3.11, torch and transformers of the versions that make_bert_goldens.py names.  Run:
    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install torch transformers safetensors
    /tmp/golden/bin/python tests/golden/make_question_goldens.py [output folder]

As in make_bert_goldens.py, whose model and texts these are but for the head: float32 weights, all
computed in float64, one text at a time, rounded to float32 when written.
"""

import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import BertForQuestionAnswering

from make_bert_goldens import LENGTHS, config, randomize

# First and last token of the answer in each text; (0, 0) where there is none.
ANSWERS = [(5, 8), (0, 0), (3, 3), (1, 4), (5, 5), (0, 11), (2, 2)]


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    model = BertForQuestionAnswering(config(24, 3, 40, 2, 2, "gelu")).double().train()
    randomize(model, 21)
    model.float().double()  # from here on the weights are what the file says
    rng = np.random.default_rng(22)
    ids = [torch.tensor(rng.integers(1, 67, n)) for n, _ in LENGTHS]
    types = [torch.tensor([0] * (n - second) + [1] * second) for n, second in LENGTHS]
    starts, ends, losses = [], [], []
    for text, kinds, (start, end) in zip(ids, types, ANSWERS):
        output = model(
            input_ids=text[None], token_type_ids=kinds[None],
            start_positions=torch.tensor([start]), end_positions=torch.tensor([end]))
        starts.append(output.start_logits[0])
        ends.append(output.end_logits[0])
        own = (F.cross_entropy(output.start_logits, torch.tensor([start])) +
               F.cross_entropy(output.end_logits, torch.tensor([end]))) / 2
        assert torch.allclose(own, output.loss, rtol=1e-12)
        losses.append(output.loss)
    loss = torch.stack(losses).mean()
    loss.backward()
    out = {name: p.detach().clone() for name, p in model.named_parameters()}
    out["token.ids"], out["type.ids"] = torch.cat(ids).int(), torch.cat(types).int()
    out["offsets"] = torch.tensor(np.cumsum([0] + [n for n, _ in LENGTHS])).int()
    out["targets"] = torch.tensor(ANSWERS).T.contiguous().int()
    out["start"], out["end"] = torch.cat(starts).detach(), torch.cat(ends).detach()
    out["loss"] = loss.detach()[None]
    for name, p in model.named_parameters():
        out[f"grad.{name}"] = p.grad.clone()
    out = {k: (v if v.dtype == torch.int32 else v.float()).contiguous().clone()
           for k, v in out.items()}
    path = folder / "bert_questions.safetensors"
    # One entry of metadata only: safetensors writes several in random order.
    save_file(out, path, metadata={"format": "pt"})
    path.chmod(0o644)
    print(f"{path.name}: {path.stat().st_size} bytes, loss {loss:.4f}")


if __name__ == "__main__":
    main()
