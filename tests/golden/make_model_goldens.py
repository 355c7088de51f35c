#!/usr/bin/env python3
# make_model_goldens.py - makes the golden files of the translation models from PyTorch.
# SPDX-License-Identifier: Apache-2.0
"""Writes marian_tiny.safetensors and pegasus_tiny.safetensors; README.md says what is in them.

Made with Python 3.11, torch 2.15.0, transformers 5.23.0, safetensors 0.8.0, numpy 2.4.6.  Run:
    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install torch transformers safetensors
    /tmp/golden/bin/python tests/golden/make_model_goldens.py [output folder]
Seeds are fixed; another version of PyTorch may move the fitted weights, hence every figure, so
the files are always made together.

What decides the figures:
- The weights are float32. Everything is computed from them in float64, one sentence at a time
  (nothing is padded or masked but the causal part), and rounded to float32 once, when written.
- The weights are first fitted for some hundred updates to a toy task, so that attention,
  softmax and beam search work on something that is not noise.
- The loss is torch's cross_entropy(label_smoothing=0.1, reduction="sum") over all vocab_size
  classes, <pad> included; gradients and training losses are of that sum / target tokens.
- The row of <pad> (last id, also the start symbol of the decoder) is zero and stays zero: the
  embedding gives it no gradient (padding_idx), and what the tied output projection would give it
  is set to zero after each backward pass. Every other row has the gradients of the source
  embedding, of the target embedding and of the output projection.
"""

import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import (
    MarianConfig,
    MarianMTModel,
    PegasusConfig,
    PegasusForConditionalGeneration,
)

EOS = 2
FIRST_WORD = 3  # 0 and 1 are bos and unk, never seen
LABEL_SMOOTHING = 0.1
TRAINING_STEPS = 10
BEAM_SIZE = 4
MAX_NEW_TOKENS = 30
# Tokens of each source sentence, eos included: one of them is empty, one longer than 16.
SOURCE_LENGTHS = [9, 1, 19, 4, 6]


def options(hidden, heads, ffn, layers, vocab, activation):
    """The configuration that Marian and Pegasus share; layers: (encoder, decoder)."""
    return dict(
        vocab_size=vocab,
        decoder_vocab_size=vocab,
        d_model=hidden,
        encoder_layers=layers[0],
        decoder_layers=layers[1],
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=ffn,
        decoder_ffn_dim=ffn,
        activation_function=activation,
        dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        scale_embedding=True,
        tie_word_embeddings=True,
        max_position_embeddings=32,
        pad_token_id=vocab - 1,
        decoder_start_token_id=vocab - 1,
        bos_token_id=0,
        eos_token_id=EOS,
        forced_eos_token_id=None,
        attn_implementation="eager",
    )


def trained(model):
    """(name, parameter) of all that training changes, under the names of the checkpoint."""
    return [(name, p) for name, p in model.named_parameters() if p.requires_grad]


def randomize(model, seed):
    """Draws every parameter, biases and layer norms too, so that none of them is trivial."""
    generator = torch.Generator().manual_seed(seed)
    hidden = model.config.d_model
    with torch.no_grad():
        for name, p in trained(model):
            noise = torch.randn(p.shape, generator=generator, dtype=torch.float64)
            if name == "model.shared.weight":
                p.copy_(noise * hidden**-0.5)
                p[model.config.pad_token_id] = 0
            elif "layer_norm.weight" in name:
                p.copy_(1 + 0.2 * noise)
            elif p.dim() == 1:
                p.copy_(0.1 * noise)
            else:
                p.copy_(noise * p.shape[1] ** -0.5)


def sentence_pair(rng, words, vocab):
    """The toy task: drop every fifth word of the vocabulary, rename the rest, say some twice."""
    source = rng.integers(FIRST_WORD, vocab - 1, words)
    target = []
    for word in source:
        if word % 5 == 0:
            continue
        renamed = FIRST_WORD + (word * 7) % (vocab - 1 - FIRST_WORD)
        target += [renamed] * (2 if word % 7 == 0 else 1)
    return list(source) + [EOS], target + [EOS]


def zero_pad_gradient(model):
    model.model.shared.weight.grad[model.config.pad_token_id] = 0


def shifted(target, pad):
    return [pad] + target[:-1]


def loss_of(logits, target):
    return F.cross_entropy(logits, target, label_smoothing=LABEL_SMOOTHING, reduction="sum")


def fit(model, updates, seed):
    """Fits the toy task with padded batches (the only place where anything is padded)."""
    rng = np.random.default_rng(seed)
    vocab, pad = model.config.vocab_size, model.config.pad_token_id
    optimizer = torch.optim.Adam([p for _, p in trained(model)], lr=4e-3, betas=(0.9, 0.98))
    for _ in range(updates):
        pairs = [sentence_pair(rng, rng.integers(0, 20), vocab) for _ in range(48)]
        width = [max(len(pair[side]) for pair in pairs) for side in (0, 1)]

        def padded(rows, size, fill):
            return torch.tensor([row + [fill] * (size - len(row)) for row in rows])

        source = padded([s for s, _ in pairs], width[0], pad)
        target = padded([t for _, t in pairs], width[1], -100)
        start = padded([shifted(t, pad) for _, t in pairs], width[1], pad)
        logits = model(
            input_ids=source, attention_mask=(source != pad).long(), decoder_input_ids=start
        ).logits
        optimizer.zero_grad()
        F.cross_entropy(
            logits.flatten(0, 1), target.flatten(), label_smoothing=LABEL_SMOOTHING
        ).backward()
        zero_pad_gradient(model)
        optimizer.step()


class Recorder:
    """Keeps what the modules put out, and their gradients, sentence after sentence."""

    def __init__(self, model):
        self.kept = {}
        inner = model.model
        for side, stack in (("encoder", inner.encoder), ("decoder", inner.decoder)):
            # What enters layer 0: scaled embedding plus position.
            stack.layers[0].register_forward_pre_hook(
                lambda _, inputs, key=f"{side}.embedded": self.keep(key, inputs[0])
            )
            # Without a norm after the stack, its last layer's output is the stack's.
            own_output = stack.layers if hasattr(stack, "layer_norm") else stack.layers[:-1]
            for index, layer in enumerate(own_output):
                self.watch(layer, f"{side}.layers.{index}")
            blocks = ["self_attn", "fc2"] + (["encoder_attn"] if side == "decoder" else [])
            for block in blocks:
                self.watch(getattr(stack.layers[0], block), f"{side}.layers.0.{block}")
            self.watch(stack, f"{side}.output")

    def watch(self, module, key):
        def hook(_, inputs, output):
            is_tuple = isinstance(output, tuple)
            self.keep(key, output[0] if is_tuple or hasattr(output, "keys") else output)

        module.register_forward_hook(hook)

    def keep(self, key, value):
        value.retain_grad()
        self.kept.setdefault(key, []).append(value)

    def packed(self, key, gradient=False):
        rows = [(v.grad if gradient else v.detach())[0] for v in self.kept[key]]
        return torch.cat(rows)


def step_gradients(model, pairs):
    """One backward pass over the batch; returns logits and per-token losses, packed."""
    pad = model.config.pad_token_id
    tokens = sum(len(t) for _, t in pairs)
    all_logits, all_targets = [], []
    for source, target in pairs:
        logits = model(
            input_ids=torch.tensor([source]),
            decoder_input_ids=torch.tensor([shifted(target, pad)]),
            use_cache=False,
        ).logits[0]
        (loss_of(logits, torch.tensor(target)) / tokens).backward()
        all_logits.append(logits.detach())
        all_targets += target
    zero_pad_gradient(model)
    logits, targets = torch.cat(all_logits), torch.tensor(all_targets)
    smoothed = F.cross_entropy(
        logits, targets, label_smoothing=LABEL_SMOOTHING, reduction="none")
    return logits, smoothed, F.cross_entropy(logits, targets, reduction="none")


def train(model, pairs):
    """Ten updates on one batch; returns their losses and the loss after the last of them."""
    optimizer = torch.optim.Adam(
        [p for _, p in trained(model)], lr=1e-3, betas=(0.9, 0.98), eps=1e-9
    )
    losses = []
    for step in range(TRAINING_STEPS + 1):
        optimizer.zero_grad()
        losses.append(step_gradients(model, pairs)[1].mean())
        if step < TRAINING_STEPS:
            optimizer.step()
    return torch.stack(losses)


def beam_search(model, pairs, length_penalty, early_stopping):
    """n-best lists of transformers' generate, best first, without start symbol and padding."""
    pad = model.config.pad_token_id
    lists = []
    for source, _ in pairs:
        out = model.generate(
            input_ids=torch.tensor([source]),
            num_beams=BEAM_SIZE,
            num_return_sequences=BEAM_SIZE,
            do_sample=False,
            length_penalty=length_penalty,
            early_stopping=early_stopping,
            max_new_tokens=MAX_NEW_TOKENS,
            bad_words_ids=[[pad]],
            return_dict_in_generate=True,
            output_scores=True,
        )
        hypotheses = []
        for row, score in zip(out.sequences.tolist(), out.sequences_scores.tolist()):
            ids = row[1:]
            assert EOS in ids, "a hypothesis ran into the length limit: fit the model longer"
            hypotheses.append((ids[: ids.index(EOS) + 1], score))
        lists.append(hypotheses)
    return lists


def greedy(model, pairs):
    """The most probable next token, again and again, until eos."""
    pad, rows = model.config.pad_token_id, []
    for source, _ in pairs:
        row = model.generate(
            input_ids=torch.tensor([source]), num_beams=1, do_sample=False,
            max_new_tokens=MAX_NEW_TOKENS, bad_words_ids=[[pad]],
        )[0].tolist()[1:]
        assert row[-1] == EOS
        rows.append(row)
    return rows


def log_probability(model, source, target):
    with torch.no_grad():
        logits = model(
            input_ids=torch.tensor([source]),
            decoder_input_ids=torch.tensor([shifted(target, model.config.pad_token_id)]),
        ).logits[0]
    return -F.cross_entropy(logits, torch.tensor(target), reduction="sum").item()


def offsets(rows):
    return torch.tensor(np.cumsum([0] + [len(row) for row in rows]), dtype=torch.int32)


def flat(rows):
    return torch.tensor([i for row in rows for i in row], dtype=torch.int32)


def beam_goldens(model, pairs):
    """Greedy translations and two searches' n-best lists, the same in float32 (no near ties)."""
    rows = greedy(model, pairs)
    out = {"greedy.ids": flat(rows), "greedy.offsets": offsets(rows)}
    searches = {"beam.sum": (0.0, "never"), "beam.mean": (1.0, "never")}
    for prefix, (penalty, stopping) in searches.items():
        lists = beam_search(model.double(), pairs, penalty, stopping)
        single = beam_search(model.float(), pairs, penalty, stopping)
        model.double()
        ids = [[h for h, _ in hypotheses] for hypotheses in lists]
        assert ids == [[h for h, _ in hypotheses] for hypotheses in single], prefix
        for (source, _), hypotheses in zip(pairs, lists):
            for target, score in hypotheses:
                total = log_probability(model, source, target)
                assert abs(total / len(target) ** penalty - score) < 1e-5
            scores = [s for _, s in hypotheses]
            assert min(a - b for a, b in zip(scores, scores[1:])) > 1e-4, "a near tie"
        rows = [h for hypotheses in ids for h in hypotheses]
        out[f"{prefix}.ids"] = flat(rows)
        out[f"{prefix}.offsets"] = offsets(rows)
        out[f"{prefix}.scores"] = torch.tensor([s for hyps in lists for _, s in hyps])
    return out


def make(path, model_class, config, seed, updates, with_beam):
    torch.manual_seed(seed)
    model = model_class(config).double().train()
    randomize(model, seed)
    fit(model, updates, seed)
    model.float().double()  # from here on the weights are what the file says

    rng = np.random.default_rng(seed + 1)
    pairs = [sentence_pair(rng, n - 1, config.vocab_size) for n in SOURCE_LENGTHS]
    pairs[3] = (pairs[3][0], [EOS])  # a target that is empty though its source is not
    pad = config.pad_token_id
    out = {name: p.detach().clone() for name, p in trained(model)}
    for side in ("encoder", "decoder"):
        positions = getattr(model.model, side).embed_positions.weight
        out[f"model.{side}.embed_positions.weight"] = positions.detach().clone()
    out["final_logits_bias"] = torch.zeros(1, config.vocab_size)

    out["source.ids"] = flat([s for s, _ in pairs])
    out["source.offsets"] = offsets([s for s, _ in pairs])
    out["target.ids"] = flat([t for _, t in pairs])
    out["target.offsets"] = offsets([t for _, t in pairs])
    out["decoder_input.ids"] = flat([shifted(t, pad) for _, t in pairs])
    if with_beam:
        model.eval()
        out |= beam_goldens(model, pairs)
        model.train()

    recorder = Recorder(model)
    model.zero_grad()
    logits, smoothed, nll = step_gradients(model, pairs)
    out["logits"], out["loss"], out["nll"] = logits, smoothed, nll
    out["loss_sum"], out["nll_sum"] = smoothed.sum()[None], nll.sum()[None]
    out["loss_mean"] = smoothed.mean()[None]
    for key in recorder.kept:
        out[f"activation.{key}"] = recorder.packed(key)
        if ".layers.0." not in key:
            out[f"activation_grad.{key}"] = recorder.packed(key, gradient=True)
    for name, p in trained(model):
        out[f"grad.{name}"] = p.grad.clone()

    losses = train(model, pairs)
    out["train.losses"], out["train.final_loss"] = losses[:-1], losses[-1:]
    for name, p in trained(model):
        # The gradient of a key's bias is zero but for rounding, which Adam turns into whole steps.
        if not name.endswith("k_proj.bias"):
            out[f"final.{name}"] = p.detach().clone()

    # A tensor kept under two names would not be written twice: clone. int32 stays as it is.
    out = {k: (v if v.dtype == torch.int32 else v.float()).contiguous().clone()
           for k, v in out.items()}
    # One entry of metadata only: safetensors writes several in random order.
    save_file(out, path, metadata={"format": "pt"})
    path.chmod(0o644)
    print(f"{path.name}: {path.stat().st_size} bytes, loss {losses[0]:.4f} -> {losses[-1]:.4f}, "
          f"{len(out['source.ids'])} source and {len(out['target.ids'])} target tokens")


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    marian = MarianConfig(**options(24, 3, 40, (2, 2), 67, "relu"))
    make(folder / "marian_tiny.safetensors", MarianMTModel, marian, 1, 400, with_beam=True)
    # Pegasus is the same model with the layer norms in front and one after each stack.
    pegasus = PegasusConfig(**options(16, 2, 24, (1, 2), 43, "gelu"))
    make(folder / "pegasus_tiny.safetensors", PegasusForConditionalGeneration, pegasus, 2, 400,
         with_beam=False)


if __name__ == "__main__":
    main()
