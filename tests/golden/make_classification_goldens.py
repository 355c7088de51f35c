#!/usr/bin/env python3
"""make_classification_goldens.py - writes classification_metrics.json for tests/train/.

Run with scikit-learn 1.9.1, scipy 1.17.1, numpy 2:
    python3 make_classification_goldens.py > classification_metrics.json
The bias score is written after the competition's benchmark kernel, AUCs by scikit-learn.
SPDX-License-Identifier: Apache-2.0
"""
import json
import math
import sys
import warnings

import numpy as np
import scipy
import scipy.stats
import sklearn
from sklearn import metrics

warnings.simplefilter("ignore")
GROUPS = 9


def number(value):
    """JSON has no NaN: null stands for it."""
    return None if math.isnan(value) else float(value)


def auc(labels, scores):
    return metrics.roc_auc_score(labels, scores) if len(set(labels)) == 2 else float("nan")


def power_mean(series, p):
    total = sum(np.power(series, p))
    return np.power(total / len(series), 1 / p)


def jigsaw(labels, scores, groups):
    labels, scores, groups = np.array(labels), np.array(scores), np.array(groups)
    positive = labels == 1
    columns = {"subgroup": [], "bpsn": [], "bnsp": []}
    for g in range(GROUPS):
        inside = (groups >> g) & 1 == 1
        for name, rows in (("subgroup", inside),
                           ("bpsn", (inside & ~positive) | (~inside & positive)),
                           ("bnsp", (inside & positive) | (~inside & ~positive))):
            columns[name].append(auc(labels[rows], scores[rows]))
    bias = np.average([power_mean(columns[name], -5) for name in columns])
    overall = auc(labels, scores)
    return {"overall": number(overall), "final": number(0.25 * overall + 0.75 * bias),
            **{name: [number(v) for v in column] for name, column in columns.items()}}


def classes_case(rng, rows, classes, right):
    labels = rng.integers(0, classes, rows)
    noise = rng.integers(0, classes, rows)
    predictions = np.where(rng.random(rows) < right, labels, noise)
    if rows == 30:
        predictions[:] = 1  # all of one class
    if rows == 31:
        labels[:] = 0
    return {"classes": classes, "labels": labels.tolist(), "predictions": predictions.tolist(),
            "accuracy": metrics.accuracy_score(labels, predictions),
            "matthews": metrics.matthews_corrcoef(labels, predictions),
            "macro_f1": metrics.f1_score(labels, predictions, average="macro", zero_division=0),
            "f1": metrics.f1_score(labels, predictions, average=None, labels=range(classes),
                                   zero_division=0).tolist(),
            "precision": metrics.precision_score(labels, predictions, average=None,
                                                 labels=range(classes), zero_division=0).tolist(),
            "recall": metrics.recall_score(labels, predictions, average=None,
                                           labels=range(classes), zero_division=0).tolist()}


def scores_case(rng, rows, levels, chance):
    """Scores are whole numbers over 64, so that float32 holds them and many are equal."""
    labels = (rng.random(rows) < chance).astype(int)
    ticks = np.clip(rng.normal(levels * (0.4 + 0.2 * labels), levels * 0.2), 0, levels).astype(int)
    others = np.clip(ticks + rng.integers(-levels // 3, levels // 3 + 1, rows), 0, levels)
    groups = sum((rng.random(rows) < 0.25).astype(int) << g for g in range(GROUPS))
    scores = ticks / 64
    return {"ticks": ticks.tolist(), "others": others.tolist(), "labels": labels.tolist(),
            "groups": groups.tolist(), "auc": number(auc(labels, scores)),
            "pearson": number(scipy.stats.pearsonr(ticks, others)[0]),
            "spearman": number(scipy.stats.spearmanr(ticks, others)[0]),
            "jigsaw": jigsaw(labels, scores, groups)}


def main():
    rng = np.random.default_rng(20240607)
    golden = {
        "versions": {"scikit-learn": sklearn.__version__, "scipy": scipy.__version__},
        "classes": [classes_case(rng, rows, classes, right) for rows, classes, right in
                    ((50, 2, 0.7), (200, 2, 0.0), (120, 3, 0.5), (90, 8, 0.4), (30, 2, 0), (31, 2, 1),
                     (5, 4, 0.2))],
        "scores": [scores_case(rng, rows, levels, chance) for rows, levels, chance in
                   ((60, 64, 0.5), (400, 64, 0.2), (700, 9, 0.3), (300, 3, 0.5), (8, 64, 0.0))],
    }
    json.dump(golden, sys.stdout, separators=(",", ":"))
    sys.stdout.write("\n")


main()
