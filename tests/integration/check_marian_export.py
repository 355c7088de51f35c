# check_marian_export.py - transformers and CTranslate2 compute with an exported translator what dtrain computes.
# SPDX-License-Identifier: Apache-2.0
"""usage: check_marian_export.py DTRAIN RUN PUBLISHED OUT SOURCE REFERENCE SENTENCES

Exports the run, which began with the model in PUBLISHED, to OUT, loads that with transformers and compares, sentence by
sentence, the negative log-likelihood per piece of the reference and the translation of a beam search. Saves the model
again by transformers in OUT-again, and translates with that folder. With the package ctranslate2 (DTRAIN_CTRANSLATE2
may name a folder that has it), greedy translations there are compared, too, if the row of <pad> is zero: CTranslate2
begins with zeros whatever it is.
"""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import torch
import transformers

warnings.simplefilter("ignore")
transformers.logging.set_verbosity_error()
TOLERANCE = 1e-4
EXTRA = 12


def translate(dtrain, model, sources, beams):
    command = [dtrain, "translate", model, f"--beam_size={beams}", f"--extra_length={EXTRA}", "--threads=1"]
    text = "\n".join(sources) + "\n"
    output = subprocess.run(command, input=text.encode(), check=True, capture_output=True).stdout
    return output.decode().split("\n")[: len(sources)]


def nll(dtrain, model, folder, source, reference):
    paths = []
    for name, text in (("source", source), ("reference", reference)):
        paths.append(f"--{name}={folder}.{name}")
        Path(f"{folder}.{name}").write_text(text + "\n", encoding="utf-8")
    command = [dtrain, "eval", model, *paths, "--json", "--beam_size=1", "--threads=1"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["nll"]


def check_files(published, out):
    """What is not weights is what the published folder has."""
    for name in ("source.spm", "target.spm", "vocab.json", "tokenizer_config.json", "generation_config.json"):
        assert (published / name).read_bytes() == (out / name).read_bytes(), name
    theirs, ours = (json.loads((folder / "config.json").read_text()) for folder in (published, out))
    for key, value in theirs.items():
        assert key == "dtype" or ours[key] == value, (key, value, ours.get(key))


def check_ctranslate2(out, tokenizer, dtrain, sources):
    sys.path.insert(0, os.environ.get("DTRAIN_CTRANSLATE2", "."))
    try:
        import ctranslate2
        from ctranslate2.converters import TransformersConverter
    except ImportError:
        return "not compared: no ctranslate2"
    folder = f"{out}-ct2"
    TransformersConverter(str(out)).convert(folder, force=True)
    translator = ctranslate2.Translator(folder, inter_threads=1, intra_threads=1)
    same = 0
    for source, ours in zip(sources, translate(dtrain, str(out), sources, 1)):
        pieces = tokenizer.convert_ids_to_tokens(tokenizer(source).input_ids)
        # By default it allows no empty translation.
        result = translator.translate_batch([pieces], beam_size=1, min_decoding_length=0,
                                            max_decoding_length=len(pieces) + EXTRA)
        ids = tokenizer.convert_tokens_to_ids(result[0].hypotheses[0])
        same += tokenizer.decode(ids, skip_special_tokens=True) == ours
    assert same == len(sources), same
    return f"{same} greedy translations equal"


def main():
    dtrain, run, published, out, source, reference, count = sys.argv[1:]
    read = lambda path: Path(path).read_text(encoding="utf-8").split("\n")[: int(count)]
    sources, references = read(source), read(reference)
    out = Path(out)
    subprocess.run([dtrain, "export-hf", run, str(out)], check=True, stdout=subprocess.DEVNULL)
    check_files(Path(published), out)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(out).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    assert type(model).__name__ == "MarianMTModel" and type(tokenizer).__name__ == "MarianTokenizer"
    bias = transformers.AutoModelForSeq2SeqLM.from_pretrained(published).final_logits_bias
    assert torch.equal(model.final_logits_bias, bias)
    worst = 0.0
    for text, translation in zip(sources, references):
        labels = tokenizer(text_target=translation, return_tensors="pt").input_ids
        with torch.no_grad():
            theirs = model(**tokenizer(text, return_tensors="pt"), labels=labels).loss.item()
        worst = max(worst, abs(theirs - nll(dtrain, run, out, text, translation)))
        assert worst <= TOLERANCE, (theirs, text)
    ours = translate(dtrain, run, sources, 4)
    assert len(set(ours)) > 2, ours
    same = 0
    for text, translation in zip(sources, ours):
        ids = tokenizer(text, return_tensors="pt")
        # The most pieces of ours are the source's, its end mark counted, and EXTRA; then comes the end.
        limit = ids.input_ids.shape[1] + EXTRA + 1
        found = model.generate(**ids, num_beams=4, max_new_tokens=limit, bad_words_ids=[[tokenizer.pad_token_id]])
        same += tokenizer.decode(found[0], skip_special_tokens=True) == translation
    assert same == len(sources), "translations differ"
    again = f"{out}-again"
    model.save_pretrained(again)
    tokenizer.save_pretrained(again)
    assert translate(dtrain, again, sources, 4) == ours == translate(dtrain, str(out), sources, 4)
    is_zero = not model.model.shared.weight[tokenizer.pad_token_id].any()
    is_zero_there = not transformers.AutoModelForSeq2SeqLM.from_pretrained(published).model.shared.weight[-1].any()
    assert is_zero == is_zero_there
    converted = check_ctranslate2(out, tokenizer, dtrain, sources) if is_zero else "begins otherwise"
    print(f"{len(sources)} sentences, largest difference of the nll {worst:.1e}, {same} translations equal; "
          f"CTranslate2 {converted}")


main()
