# check_gpt_export.py - GPT2LMHeadModel measures and continues texts as lm_train does.
# SPDX-License-Identifier: Apache-2.0
"""usage: check_gpt_export.py FOLDER LINES MEASURED WRITTEN

FOLDER is the exported model; each of LINES is a text. MEASURED is what `lm_train eval` printed of
them, WRITTEN what `generate` continued them to, with the likeliest token at each place.
"""

import re
import sys

import torch
import transformers

TOLERANCE = 1e-4

folder, lines, measured, written = sys.argv[1:]
model, report = transformers.GPT2LMHeadModel.from_pretrained(folder, output_loading_info=True)
assert not any(report[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), report
model.eval()
tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
with open(lines, encoding="utf-8") as file:
    texts = file.read().splitlines()
nll, tokens = 0.0, 0
with torch.no_grad():
    for text in texts:
        ids = tokenizer(text, return_tensors="pt").input_ids[0]
        assert ids.tolist() == [256, *text.encode()], ids
        assert tokenizer.decode(ids[1:]) == text
        targets = torch.cat([ids[1:], torch.tensor([256])])
        logits = model(ids[None]).logits[0]
        nll += torch.nn.functional.cross_entropy(logits, targets, reduction="sum").item()
        tokens += len(targets)
with open(measured, encoding="utf-8") as file:
    loss = float(re.search(r"test \(\d+ windows\)  loss ([\d.]+)", file.read())[1])
assert abs(nll / tokens - loss) < TOLERANCE, (nll / tokens, loss)
expected = ""
for text in texts:
    ids = tokenizer(text, return_tensors="pt").input_ids
    made = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=40, do_sample=False)
    new = bytes(i for i in made[0, ids.shape[1]:].tolist() if i < 256)
    expected += text + new.decode("utf-8", errors="replace") + "\n\n"
with open(written, encoding="utf-8") as file:
    assert file.read() == expected, expected
print(f"loss {loss:.4f}, {tokens} tokens; the same texts")
