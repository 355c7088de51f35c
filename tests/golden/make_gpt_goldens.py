#!/usr/bin/env python3
# make_gpt_goldens.py - makes the golden file of a GPT from PyTorch.
# SPDX-License-Identifier: Apache-2.0
"""Writes gpt2_tiny.safetensors; README.md says what is in it.

Made with Python 3.11, torch 2.15.0, transformers 5.24.0, safetensors 0.8.0.  Run:
    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install torch transformers safetensors
    /tmp/golden/bin/python tests/golden/make_gpt_goldens.py [output folder]

Weights are float32; all is computed in float64, one text at a time, and rounded to float32 when
written.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel

LENGTHS = [5, 16, 1, 9]


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    config = GPT2Config(
        vocab_size=67, n_positions=16, n_embd=24, n_layer=2, n_head=3, n_inner=40, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0, attn_implementation="eager", bos_token_id=66, eos_token_id=66)
    assert config.activation_function == "gelu_new" and config.layer_norm_epsilon == 1e-5
    model = GPT2LMHeadModel(config).double().train()
    generator = torch.Generator().manual_seed(31)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.randn(p.shape, generator=generator, dtype=torch.float64) * 0.3)
            if ".ln_" in name and name.endswith("weight"):
                p.add_(1.0)
    model.float().double()  # from here on the weights are what the file says
    rng = np.random.default_rng(32)
    texts = [torch.tensor(rng.integers(0, 67, n + 1)) for n in LENGTHS]
    logits, losses = [], []
    for text in texts:
        output = model(input_ids=text[None, :-1])
        logits.append(output.logits[0])
        losses.append(torch.nn.functional.cross_entropy(
            output.logits[0], text[1:], reduction="sum"))
    loss = torch.stack(losses).sum()
    loss.backward()
    out = {name: p.detach().clone() for name, p in model.named_parameters()}
    assert "lm_head.weight" not in out  # it is the table of the words
    out["input.ids"] = torch.cat([text[:-1] for text in texts]).int()
    out["target.ids"] = torch.cat([text[1:] for text in texts]).int()
    out["offsets"] = torch.tensor(np.cumsum([0] + LENGTHS)).int()
    out["logits"], out["loss"] = torch.cat(logits).detach(), loss.detach()[None]
    for name, p in model.named_parameters():
        out[f"grad.{name}"] = p.grad.clone()
    out = {k: (v if v.dtype == torch.int32 else v.float()).contiguous().clone()
           for k, v in out.items()}
    save_file(out, folder / "gpt2_tiny.safetensors")


if __name__ == "__main__":
    main()
