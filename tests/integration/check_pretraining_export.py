# check_pretraining_export.py - transformers takes all weights of an exported pre-trained model.
# SPDX-License-Identifier: Apache-2.0
"""usage: check_pretraining_export.py DTRAIN RUN CLASS

Exports the run and loads the folder with CLASS: nothing may be missing, unused or said, and the
projection to the vocabulary and its bias are those that the run tied to it. What the heads compute is
compared in tests/golden/. Ends with 77 (skipped) where torch or transformers is missing.
"""

import logging
import subprocess
import sys
import tempfile

SKIPPED = 77

try:
    import torch
    import transformers
    from safetensors.torch import load_file
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(SKIPPED)


class Messages(logging.Handler):
    def __init__(self):
        super().__init__(logging.WARNING)
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())


def main():
    dtrain, run, class_name = sys.argv[1:]
    messages = Messages()
    transformers.utils.logging.add_handler(messages)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([dtrain, "export-hf", run, folder], check=True, stdout=subprocess.DEVNULL)
        model, report = getattr(transformers, class_name).from_pretrained(
            folder, output_loading_info=True)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        weights = load_file(f"{folder}/model.safetensors")
    assert not any(report[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), report
    assert not messages.texts, messages.texts
    assert model.config.architectures == [class_name], model.config
    model.eval()
    words = next(w for name, w in weights.items() if name.endswith(("word_embeddings.weight", "tok_embeddings.weight")))
    biases = [w for name, w in weights.items() if w.shape == words.shape[:1]]
    assert len(biases) == 1, list(weights)
    decoder = model.get_output_embeddings()
    assert torch.equal(decoder.weight, words)
    assert torch.equal(decoder.bias, biases[0])
    hidden = []
    decoder.register_forward_hook(lambda module, inputs, output: hidden.append(inputs[0]))
    encoded = tokenizer(f"one {tokenizer.mask_token} two", return_tensors="pt")
    assert tokenizer.mask_token_id in encoded.input_ids[0]
    with torch.no_grad():
        outputs = model(**encoded)
    logits = outputs.prediction_logits if class_name == "BertForPreTraining" else outputs.logits
    difference = (logits - (hidden[0] @ words.T + biases[0])).abs().max().item()
    assert difference < 1e-4, difference
    print(f"{class_name}: {len(weights)} tensors, nothing missing")


main()
