# check_adapter_export.py - peft puts exported adapters on their base and gets the merged model's outputs.
# SPDX-License-Identifier: Apache-2.0
"""usage: check_adapter_export.py DTRAIN BASE RUN

Exports a run that was trained with model.lora twice: merged, and as adapters. BASE is the folder of
transformers that the run began with. Both models compute on random ids; their outputs must agree, and
must differ from those of BASE. Needs torch, transformers and peft.
"""

import json
import subprocess
import sys
import tempfile

import peft
import torch
import transformers

TOLERANCE = 1e-5


def load(architecture, folder, **options):
    model, report = getattr(transformers, architecture).from_pretrained(
        folder, output_loading_info=True, **options)
    return model.eval(), report


def outputs_of(model, ids):
    extra = {"decoder_input_ids": ids.flip(1)} if model.config.is_encoder_decoder else {}
    with torch.no_grad():
        result = model(input_ids=ids, **extra)
    return torch.cat([value.reshape(-1) for key, value in result.items() if key.endswith("logits")])


def main():
    dtrain, base, run = sys.argv[1:4]
    with tempfile.TemporaryDirectory() as folder:
        merged_folder, adapter_folder = f"{folder}/merged", f"{folder}/adapter"
        subprocess.run([dtrain, "export-hf", run, merged_folder], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([dtrain, "export-hf", "--adapter", run, adapter_folder], check=True,
                       stdout=subprocess.DEVNULL)
        with open(f"{merged_folder}/config.json", encoding="utf-8") as file:
            config = json.load(file)
        architecture = config["architectures"][0]
        merged, report = load(architecture, merged_folder)
        assert not any(report[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), report
        options = {"id2label": config["id2label"], "label2id": config["label2id"]} if "id2label" in config else {}
        torch.manual_seed(5)
        plain, _ = load(architecture, base, ignore_mismatched_sizes=True, **options)
        torch.manual_seed(7)
        ids = torch.randint(5, 60, (4, 17))
        before = outputs_of(plain, ids)
        adapted = peft.PeftModel.from_pretrained(plain, adapter_folder).eval()
        wanted, got = outputs_of(merged, ids), outputs_of(adapted, ids)
    scale = wanted.abs().max()
    worst = ((wanted - got).abs().max() / scale).item()
    change = ((wanted - before).abs().max() / scale).item()
    assert worst <= TOLERANCE, worst
    assert change > 100 * TOLERANCE, change
    for name, factor in adapted.named_parameters():
        assert "lora_B" not in name or factor.abs().max() > 1e-4, f"{name} was not trained"
    trained = sum(p.numel() for n, p in adapted.named_parameters() if "lora_" in n)
    print(f"{architecture} with {trained} values of adapters: largest difference {worst:.1e}, "
          f"change of the base {change:.1e}")


main()
