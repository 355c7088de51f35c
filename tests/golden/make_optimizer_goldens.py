#!/usr/bin/env python3
# make_optimizer_goldens.py - makes optimizer_steps.safetensors, weights after updates of each optimizer.
# SPDX-License-Identifier: Apache-2.0
"""Updates of AdamW, BERT's AdamW, LAMB and NVLAMB, computed in float64.

Made with Python 3.11, torch 2.15.0, numpy 2.4.6.
Run: python tests/golden/make_optimizer_goldens.py [output folder]

AdamW is torch.optim.AdamW. The others are typed from their sources: google-research/bert
optimization.py (AdamWeightDecayOptimizer) and NVIDIA's apex multi_tensor_lamb.cu (mode 1 and
use_nvlamb). LAMB's clipping to max_grad_norm 1 is part of that source; the AdamWs are clipped as
Google's train_op does. Weight decay leaves out what Google's exclude_from_weight_decay names:
LayerNorm, layer_norm, bias. Learning rates: base 0.02 and Google's or PolyWarmUp's schedule of
seven updates with two of warm-up.
"""

import math
import re
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file

SHAPES = {
    "embeddings.word_embeddings.weight": (7, 5),
    "dense.weight": (6, 5),
    "dense.bias": (6,),
    "LayerNorm.weight": (5,),
    "LayerNorm.bias": (5,),
}
STEPS, WARMUP, RATE, DECAY = 7, 2, 0.02, 0.1
EXCLUDED = re.compile("LayerNorm|layer_norm|bias")


def decay_of(name):
    return 0.0 if EXCLUDED.search(name) else DECAY


def clip(gradients):
    norm = math.sqrt(sum(float((g * g).sum()) for g in gradients.values()))
    return {name: g / max(1.0, norm) for name, g in gradients.items()}


def polynomial_total(step, power):
    """Google's and NVIDIA's schedule at update `step`, counted from 1."""
    if step < WARMUP:
        return RATE * step / WARMUP
    return RATE * (1.0 - step / STEPS) ** power


class AdamW:
    """torch.optim.AdamW."""

    def __init__(self, weights):
        self.parameters = {n: torch.nn.Parameter(torch.from_numpy(w)) for n, w in weights.items()}
        groups = [dict(params=[p], weight_decay=decay_of(n)) for n, p in self.parameters.items()]
        self.optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.999), eps=1e-8)

    def step(self, gradients, rate):
        for name, parameter in self.parameters.items():
            parameter.grad = torch.from_numpy(gradients[name])
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()

    def weights(self):
        return {n: p.detach().numpy() for n, p in self.parameters.items()}


class Moments:
    def __init__(self, weights):
        self.w = {n: w.copy() for n, w in weights.items()}
        self.m = {n: np.zeros_like(w) for n, w in weights.items()}
        self.v = {n: np.zeros_like(w) for n, w in weights.items()}
        self.t = 0

    def weights(self):
        return self.w


class BertAdamW(Moments):
    """AdamWeightDecayOptimizer.apply_gradients."""

    def step(self, gradients, rate):
        for name, param in self.w.items():
            grad = gradients[name]
            next_m = 0.9 * self.m[name] + (1.0 - 0.9) * grad
            next_v = 0.999 * self.v[name] + (1.0 - 0.999) * np.square(grad)
            update = next_m / (np.sqrt(next_v) + 1e-6)
            if decay_of(name):
                update += decay_of(name) * param
            self.w[name] = param - rate * update
            self.m[name], self.v[name] = next_m, next_v


class Lamb(Moments):
    """multi_tensor_lamb.cu: LAMBStage1Functor in mode MOMENT_MODE_1 and LAMBStage2Functor."""

    def __init__(self, weights, use_nvlamb):
        super().__init__(weights)
        self.use_nvlamb = use_nvlamb

    def step(self, gradients, rate):
        self.t += 1
        beta1, beta2, eps = 0.9, 0.999, 1e-6
        for name, p in self.w.items():
            g = gradients[name]
            m = self.m[name] * beta1 + (1 - beta1) * g
            v = self.v[name] * beta2 + (1 - beta2) * g * g
            next_m = m / (1 - beta1**self.t)
            next_v = v / (1 - beta2**self.t)
            update = next_m / (np.sqrt(next_v) + eps) + decay_of(name) * p
            ratio = rate
            if self.use_nvlamb or decay_of(name) != 0.0:
                param_norm, update_norm = np.linalg.norm(p), np.linalg.norm(update)
                if update_norm != 0.0 and param_norm != 0.0:
                    ratio = rate * (param_norm / update_norm)
            self.w[name] = p - ratio * update
            self.m[name], self.v[name] = m, v


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    random = np.random.default_rng(5)
    # Numbers that float32 holds exactly.
    draw = lambda shape, scale: random.normal(0.0, scale, shape).astype(np.float32)
    start = {name: draw(shape, 0.3) for name, shape in SHAPES.items()}
    start["LayerNorm.bias"][:] = 0.0  # a ratio of 1
    gradients = [{n: draw(s, 0.5) for n, s in SHAPES.items()} for _ in range(STEPS)]
    tensors = {f"start.{n}": w for n, w in start.items()}
    for t, of_step in enumerate(gradients):
        tensors.update({f"gradient.{t}.{n}": g for n, g in of_step.items()})
    wide = lambda arrays: {n: a.astype(np.float64) for n, a in arrays.items()}
    optimizers = {
        "adamw": (AdamW(wide(start)), 1.0),
        "bert_adamw": (BertAdamW(wide(start)), 1.0),
        "lamb": (Lamb(wide(start), use_nvlamb=False), 0.5),
        "nvlamb": (Lamb(wide(start), use_nvlamb=True), 0.5),
    }
    for kind, (optimizer, power) in optimizers.items():
        for t, of_step in enumerate(gradients, 1):
            optimizer.step(clip(wide(of_step)), polynomial_total(t, power))
            if t in (1, STEPS - 1):
                tensors.update({f"{kind}.{t}.{n}": w.astype(np.float32)
                                for n, w in optimizer.weights().items()})
        rates = [polynomial_total(t, power) for t in range(1, STEPS + 1)]
        tensors[f"{kind}.rates"] = np.array(rates, dtype=np.float32)
    save_file(tensors, folder / "optimizer_steps.safetensors", metadata={"format": "pt"})
    print(f"optimizer_steps.safetensors: {len(tensors)} tensors")


if __name__ == "__main__":
    main()
