#!/usr/bin/env python3
# make_pretrained_goldens.py - makes pretrained/, one tiny BERT in every format that people hand out.
# SPDX-License-Identifier: Apache-2.0
"""The same weights as TensorFlow checkpoint, PyTorch file, safetensors and shards.

Made with Python 3.11, tensorflow 2.21.0, torch 2.15.0, transformers 5.23.0, safetensors 0.8.0.
Run: python tests/golden/make_pretrained_goldens.py [output folder]

Each file has a habit of its kind: `tensorflow/` the names of google-research/bert, kernels [in, out],
Adam's moments and a step counter; `torch/` the prefix `module.` and weights under "model";
`old/` LayerNorm.gamma and .beta, position_ids and a vocabulary of 24 rows where the others have 19;
`plain/` no prefix `bert.`; `shards/` two files and an index. Weights are numbers that float16 holds,
so that `plain/`, which is float16, is equal to the others. `expected.safetensors` is what
transformers computes with them in float64: gradients are those of the summed loss of three texts.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file

HIDDEN, FFN, LAYERS, VOCAB, POSITIONS = 8, 12, 2, 19, 10


def hugging_face_weights():
    random = np.random.default_rng(3)
    draw = lambda *shape: random.normal(0.0, 0.1, shape).astype(np.float16).astype(np.float32)
    weights = {}

    def dense(name, rows, columns):
        weights[f"{name}.weight"] = draw(rows, columns)
        weights[f"{name}.bias"] = draw(rows)

    def norm(name):
        weights[f"{name}.weight"] = 1 + draw(HIDDEN)
        weights[f"{name}.bias"] = draw(HIDDEN)

    for table, rows in (("word", VOCAB), ("position", POSITIONS), ("token_type", 2)):
        weights[f"bert.embeddings.{table}_embeddings.weight"] = draw(rows, HIDDEN)
    norm("bert.embeddings.LayerNorm")
    for layer in range(LAYERS):
        prefix = f"bert.encoder.layer.{layer}"
        for name in ("self.query", "self.key", "self.value", "output.dense"):
            dense(f"{prefix}.attention.{name}", HIDDEN, HIDDEN)
        norm(f"{prefix}.attention.output.LayerNorm")
        dense(f"{prefix}.intermediate.dense", FFN, HIDDEN)
        dense(f"{prefix}.output.dense", HIDDEN, FFN)
        norm(f"{prefix}.output.LayerNorm")
    dense("bert.pooler.dense", HIDDEN, HIDDEN)
    return {n: w.astype(np.float16).astype(np.float32) for n, w in weights.items()}


def tensorflow_name(name):
    name = name.replace(".layer.", ".layer_").replace(".", "/")
    if "LayerNorm" in name:
        return name.replace("/weight", "/gamma").replace("/bias", "/beta")
    if "embeddings" in name:
        return name.removesuffix("/weight")
    return name.replace("/weight", "/kernel")


def save_tensorflow(weights, folder):
    import tensorflow.compat.v1 as tf
    tf.disable_v2_behavior()
    for name, value in weights.items():
        their_name = tensorflow_name(name)
        value = value.T if their_name.endswith("kernel") else value
        tf.get_variable(their_name, initializer=np.ascontiguousarray(value))
        if "pooler" in name:
            for slot in ("adam_m", "adam_v"):
                tf.get_variable(f"{their_name}/{slot}", initializer=np.zeros_like(value))
    for name, shape in (("cls/predictions/output_bias", [VOCAB]),
                        ("cls/seq_relationship/output_weights", [2, HIDDEN])):
        tf.get_variable(name, initializer=np.ones(shape, np.float32))
    tf.get_variable("global_step", initializer=np.int64(100))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, str(folder / "bert_model.ckpt"), write_meta_graph=False)
    (folder / "checkpoint").unlink()


def save_expected(weights, folder):
    """What transformers computes with them: a batch, hidden states, logits, gradients."""
    import transformers
    torch.manual_seed(2)
    config = transformers.BertConfig(
        vocab_size=VOCAB, hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=2,
        intermediate_size=FFN, max_position_embeddings=POSITIONS, num_labels=3,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, attn_implementation="eager")
    model = transformers.BertForSequenceClassification(config).double().eval()
    state = {n: torch.from_numpy(w).double() for n, w in weights.items()}
    for name in ("classifier.weight", "classifier.bias"):
        state[name] = torch.randn(model.state_dict()[name].shape).float().double()
    model.load_state_dict(state, strict=False)
    texts = [[1, 5, 7, 2], [1, 2], [1, 3, 9, 18, 4, 2, 11, 11, 6, 2]]
    types = [[0] * 4, [0] * 2, [0] * 6 + [1] * 4]
    labels, hidden, logits, loss = [2, 0, 1], [], [], 0.0
    for ids, type_ids, label in zip(texts, types, labels):
        inputs = dict(input_ids=torch.tensor([ids]), token_type_ids=torch.tensor([type_ids]))
        hidden.append(model.bert(**inputs).last_hidden_state[0].detach().numpy())
        output = model(**inputs, labels=torch.tensor([label]))
        logits.append(output.logits.detach().numpy())
        loss = loss + output.loss
    loss.backward()
    tensors = {"token.ids": np.concatenate(texts).astype(np.int32),
               "type.ids": np.concatenate(types).astype(np.int32),
               "offsets": np.cumsum([0] + [len(t) for t in texts]).astype(np.int32),
               "targets": np.array(labels, np.float32),
               "hidden": np.concatenate(hidden), "logits": np.concatenate(logits),
               "classifier.weight": state["classifier.weight"].numpy(),
               "classifier.bias": state["classifier.bias"].numpy(),
               **{f"grad.{n}": p.grad.numpy() for n, p in model.named_parameters()}}
    save_file({n: t.astype(np.float32) if t.dtype == np.float64 else t for n, t in tensors.items()},
              folder / "expected.safetensors", metadata={"format": "pt"})


def main():
    root = (Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent) / "pretrained"
    folders = {n: root / n for n in ("tensorflow", "torch", "old", "plain", "shards")}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    weights = hugging_face_weights()
    save_expected(weights, root)
    save_tensorflow(weights, folders["tensorflow"])

    state = {f"module.{n}": torch.from_numpy(w) for n, w in weights.items()}
    state["module.bert.pooler.dense.weight"] = torch.nn.Parameter(
        state["module.bert.pooler.dense.weight"])
    torch.save({"model": state, "epoch": 3, "rate": 0.5}, folders["torch"] / "pytorch_model.bin")

    old = {n.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): w
           for n, w in weights.items()}
    words = "bert.embeddings.word_embeddings.weight"
    old[words] = np.concatenate([old[words], np.zeros((5, HIDDEN), np.float32)])
    old["bert.embeddings.position_ids"] = np.arange(POSITIONS)[None]
    old["cls.predictions.bias"] = np.zeros(VOCAB + 5, np.float32)
    save_file(old, folders["old"] / "model.safetensors", metadata={"format": "pt"})

    plain = {n.removeprefix("bert."): w.astype(np.float16) for n, w in weights.items()}
    save_file(plain, folders["plain"] / "model.safetensors", metadata={"format": "pt"})

    from huggingface_hub import save_torch_state_dict
    save_torch_state_dict({n: torch.from_numpy(w) for n, w in weights.items()}, folders["shards"],
                          max_shard_size=3000)
    print(*sorted(f"{p.relative_to(root)} {p.stat().st_size}" for p in root.rglob("*") if p.is_file()),
          sep="\n")


if __name__ == "__main__":
    main()
