#!/usr/bin/env python3
# make_scheduler_goldens.py - makes scheduler_goldens.json, learning rates at chosen steps.
# SPDX-License-Identifier: Apache-2.0
"""Learning rates of transformers' schedules and of the Transformer paper's.

Made with Python 3.11, torch 2.15.0, transformers 5.23.0; the environment is that of
make_model_goldens.py.  Run: python tests/golden/make_scheduler_goldens.py [output folder]

`step` counts the updates done so far: 0 gives the rate of the first update. The schedules of
transformers therefore start their warm-up with a rate of 0. Each is run through LambdaLR's own
factor function, so that the figures are the library's, not a formula typed again; "paper", "os2s",
"bert" and "lamb" are the exception, as no library here has them.
"""

import json
import math
import sys
from pathlib import Path

import torch
import transformers


def library(name, rate, steps, factory, **params):
    """One entry from a schedule of transformers; params are its arguments by name."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=rate)
    factor = getattr(transformers, factory)(optimizer, **params).lr_lambdas[0]
    return dict(name=name, source=f"transformers.{factory}", learning_rate=rate, **params,
                points=[[s, rate * factor(s)] for s in steps])


def paper(name, scale, hidden, warmup, steps, source):
    """Vaswani et al. (2017), equation 3, times scale; step + 1 because it counts from 1."""
    def rate(step):
        n = step + 1
        return scale / math.sqrt(hidden) * min(n**-0.5, n * warmup**-1.5)

    return dict(name=name, source=source, learning_rate=scale, hidden_size=hidden,
                num_warmup_steps=warmup, points=[[s, rate(s)] for s in steps])


def total(name, rate, warmup, steps, power, points, source):
    """Decays from the first step on; the warm-up hides the beginning. Counts from `source`'s start."""
    def at(step):
        done = min(step, steps)
        return rate * step / warmup if step < warmup else rate * (1.0 - done / steps) ** power

    return dict(name=name, source=source, learning_rate=rate, num_warmup_steps=warmup,
                num_training_steps=steps, power=power, points=[[s, at(s)] for s in points])


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    short = [0, 1, 2, 50, 99, 100, 101, 250, 500, 750, 998, 999, 1000, 1001, 5000]
    long = [0, 1, 99, 3998, 3999, 4000, 7998, 7999, 8000, 8001, 50000, 299999]
    bounds = dict(num_warmup_steps=100, num_training_steps=1000)
    cold = dict(num_warmup_steps=0, num_training_steps=1000)
    linear, cosine = "get_linear_schedule_with_warmup", "get_cosine_schedule_with_warmup"
    polynomial = "get_polynomial_decay_schedule_with_warmup"
    schedules = [
        paper("paper", 1.0, 512, 4000, long, "Vaswani et al. (2017), equation 3"),
        paper("os2s", 2.0, 512, 8000, long,
              "OpenSeq2Seq transformer_policy, learning_rate 2.0, coefficient 1"),
        library("constant_warmup", 3e-4, short, "get_constant_schedule_with_warmup",
                num_warmup_steps=100),
        library("inverse_sqrt", 1e-3, short, "get_inverse_sqrt_schedule", num_warmup_steps=100),
        library("linear", 5e-4, short, linear, **bounds),
        library("linear_cold", 5e-4, short, linear, **cold),
        library("cosine", 5e-4, short, cosine, **bounds),
        library("cosine_cold", 5e-4, short, cosine, **cold),
        library("polynomial_1", 5e-4, short, polynomial, lr_end=1e-6, power=1.0, **bounds),
        library("polynomial_2", 5e-4, short, polynomial, lr_end=1e-5, power=2.0, **bounds),
        library("polynomial_half", 5e-4, short, polynomial, lr_end=0.0, power=0.5, **bounds),
        library("warmup_stable_decay", 5e-4, short, "get_wsd_schedule", num_warmup_steps=100,
                num_decay_steps=300, num_training_steps=1000, min_lr_ratio=0.0,
                decay_type="1-sqrt"),
        total("bert", 5e-5, 100, 1000, 1.0, short, "google-research/bert optimization.py"),
        total("lamb", 6e-3, 284, 1000, 0.5, short, "DeepLearningExamples PyTorch BERT schedulers.py, "
              "PolyWarmUpScheduler, whose first update is step 1"),
    ]
    path = folder / "scheduler_goldens.json"
    # One schedule a line: diffs stay readable.
    path.write_text("[\n" + ",\n".join(json.dumps(s) for s in schedules) + "\n]\n")
    print(f"{path.name}: {len(schedules)} schedules")


if __name__ == "__main__":
    main()
