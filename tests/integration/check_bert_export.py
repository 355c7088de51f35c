# check_bert_export.py - transformers predicts with an exported classifier what bert_classify predicts.
# SPDX-License-Identifier: Apache-2.0
"""usage: check_bert_export.py DTRAIN BERT_CLASSIFY RUN TEXTS.tsv [PREDICT_ARGUMENT...]

Exports the run, loads the folder with its class in transformers and its tokenizer, and compares
the predictions for each text of the column `text` (and `pair`, where there is one): probabilities, or
values of a regression. Ends with 77 (skipped) where torch or transformers is missing.
"""

import csv
import subprocess
import sys
import tempfile

SKIPPED = 77
TOLERANCE = 1e-5

try:
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(SKIPPED)


def rows_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def main():
    dtrain, bert_classify, run, texts = sys.argv[1:5]
    rows = rows_of(texts)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([dtrain, "export-hf", run, folder], check=True, stdout=subprocess.DEVNULL)
        predictions = f"{run}/predictions.tsv"
        subprocess.run([bert_classify, "predict", f"--run_dir={run}", f"data.test={texts}",
                        f"predict.output={predictions}", *sys.argv[5:]],
                       check=True, stdout=subprocess.DEVNULL)
        model, report = transformers.AutoModelForSequenceClassification.from_pretrained(
            folder, output_loading_info=True)
        assert not any(report[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), report
        model.eval()
        tokenizers = [transformers.AutoTokenizer.from_pretrained(folder)]
        if model.config.model_type == "bert" and hasattr(transformers, "BertTokenizerFast"):
            tokenizers.append(transformers.BertTokenizerFast.from_pretrained(folder))
    worst = 0.0
    kind = model.config.problem_type
    predicted = rows_of(predictions)
    assert len(predicted) == len(rows), (len(predicted), len(rows))
    for row, ours in zip(rows, predicted):
        encoded = [t(row["text"], row.get("pair"), truncation=True, return_tensors="pt")
                   for t in tokenizers]
        assert all((e.input_ids == encoded[0].input_ids).all() for e in encoded), row
        with torch.no_grad():
            logits = model(**encoded[0]).logits[0]
        if kind == "regression":
            theirs = logits
        elif kind == "multi_label_classification":
            theirs = logits.sigmoid()
        else:
            theirs = logits.softmax(0)
            assert ours["label"] == model.config.id2label[int(logits.argmax())] or \
                abs(theirs[0] - theirs[1]) < TOLERANCE, (ours, theirs)
        names = [f"p_{model.config.id2label[i]}" for i in range(len(theirs))]
        if kind == "regression":
            names = list(ours)[-1:]
        values = [float(ours[name]) for name in names]
        worst = max(worst, (theirs - torch.tensor(values)).abs().max().item())
        assert worst <= TOLERANCE, (theirs, ours, row)
    print(f"{type(model).__name__}, {kind}: {len(rows)} texts, largest difference {worst:.1e}")


main()
