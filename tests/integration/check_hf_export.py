# check_hf_export.py - transformers computes with an exported model what dtrain computes.
# SPDX-License-Identifier: Apache-2.0
"""usage: check_hf_export.py DTRAIN RUN SOURCE REFERENCE [SENTENCES = 32]

Exports the run, loads the folder with transformers and compares, sentence by sentence, the
negative log-likelihood per piece of the reference and the greedy translation. Ends with 77 (skipped)
where torch or transformers is missing. With sentencepiece, MarianTokenizer is compared too.
"""

import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

SKIPPED = 77
TOLERANCE = 1e-4

try:
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(SKIPPED)


def main():
    dtrain, run, source, reference = sys.argv[1:5]
    count = int(sys.argv[5]) if len(sys.argv) > 5 else 32
    read = lambda path: Path(path).read_text(encoding="utf-8").split("\n")[:count]
    sources, references = read(source), read(reference)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([dtrain, "export-hf", run, folder], check=True, stdout=subprocess.DEVNULL)
        model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
        tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_file=f"{folder}/tokenizer.json", pad_token="<pad>", eos_token="</s>"
        )
        worst = 0.0
        for text, translation in zip(sources, references):
            ids = tokenizer(text, return_tensors="pt", return_token_type_ids=False)
            labels = tokenizer(translation, return_tensors="pt").input_ids
            with torch.no_grad():
                theirs = model(**ids, labels=labels).loss.item()
            ours = nll(dtrain, run, folder, text, translation)
            worst = max(worst, abs(theirs - ours))
            assert worst <= TOLERANCE, (theirs, ours, text)
        same = greedy(dtrain, run, model, tokenizer, sources)
        marian = check_marian_tokenizer(folder, tokenizer, sources)
    print(
        f"{type(model).__name__}: {len(sources)} sentences, largest difference of the nll {worst:.1e}, "
        f"{same} greedy translations equal; MarianTokenizer {marian}"
    )
    assert same >= len(sources) - 1, "greedy translations differ"


def nll(dtrain, run, folder, source, reference):
    paths = []
    for name, text in (("source", source), ("reference", reference)):
        paths.append(f"--{name}={folder}/{name}.txt")
        Path(f"{folder}/{name}.txt").write_text(text + "\n", encoding="utf-8")
    command = [dtrain, "eval", run, *paths, "--json", "--beam_size=1", "--threads=1"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["nll"]


def greedy(dtrain, run, model, tokenizer, sources):
    command = [dtrain, "translate", run, "--beam_size=1", "--extra_length=20", "--threads=1"]
    text = "\n".join(sources) + "\n"
    ours = subprocess.run(command, input=text.encode(), check=True, capture_output=True).stdout
    same = 0
    for source, translation in zip(sources, ours.decode().split("\n")):
        ids = tokenizer(source, return_tensors="pt", return_token_type_ids=False)
        # Ours may be as long as the source and 20 pieces, then the end; theirs starts with <pad>.
        limit = ids.input_ids.shape[1] + 20 + 1
        out = model.generate(**ids, num_beams=1, max_new_tokens=limit, max_length=None)
        same += tokenizer.decode(out[0], skip_special_tokens=True) == translation
    return same


def check_marian_tokenizer(folder, tokenizer, sources):
    try:
        import sentencepiece  # noqa: F401
    except ImportError:
        return "not compared: no sentencepiece"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        marian = transformers.MarianTokenizer(
            source_spm=f"{folder}/source.spm",
            target_spm=f"{folder}/target.spm",
            vocab=f"{folder}/vocab.json",
        )
    for source in sources:
        assert marian(source).input_ids == tokenizer(source).input_ids, source
    return "gives the same ids"


main()
