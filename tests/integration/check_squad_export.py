# check_squad_export.py - transformers scores with an exported model what bert_squad scores.
# SPDX-License-Identifier: Apache-2.0
"""usage: check_squad_export.py questions TEXTS.tsv OUT.json
       check_squad_export.py compare DTRAIN BERT_SQUAD RUN QUESTIONS.json

`questions` asks for the longest word of each text of the column `text`, in SQuAD's form; every third
text does not have the word. `compare` exports the run, loads the folder with the class of its family
and its tokenizer, and compares logits of starts and ends with nbest_predictions.json; each text fits
in one window. Ends with 77 (skipped) where torch or transformers is missing.
"""

import csv
import json
import subprocess
import sys
import tempfile

SKIPPED = 77
TOLERANCE = 1e-4
LONGEST_ANSWER = 30  # tokens: answer.max_length

try:
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(SKIPPED)


def write_questions(texts, out):
    paragraphs = []
    with open(texts, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    for number, row in enumerate(rows):
        text = row["text"]
        word = max(text.split(), key=len)
        impossible = number % 3 == 0
        answer = [] if impossible else [{"text": word, "answer_start": text.index(word)}]
        asked = "Which word is missing?" if impossible else "Which word is the longest?"
        paragraphs.append({"context": text, "qas": [{"id": f"q{number}", "question": asked,
                                                     "answers": answer, "is_impossible": impossible}]})
    with open(out, "w", encoding="utf-8") as file:
        json.dump({"version": "v2.0", "data": [{"title": "words", "paragraphs": paragraphs}]}, file)


def scores_of(model, tokenizer, question, context):
    """The best (start, end) logits of each text that may be an answer, and of none as ""."""
    encoded = tokenizer(question, context, return_tensors="pt", return_offsets_mapping=True)
    offsets = encoded.pop("offset_mapping")[0].tolist()
    with torch.no_grad():
        logits = model(**encoded)
    start, end = logits.start_logits[0].tolist(), logits.end_logits[0].tolist()
    best = {"": (start[0], end[0])}
    places = [i for i, of in enumerate(encoded.sequence_ids(0)) if of == 1]
    for first in places:
        for last in places:
            if not first <= last < first + LONGEST_ANSWER:
                continue
            text = context[offsets[first][0]:offsets[last][1]]
            if text not in best or start[first] + end[last] > sum(best[text]):
                best[text] = (start[first], end[last])
    return best


def compare(dtrain, bert_squad, run, questions):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([dtrain, "export-hf", run, folder], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([bert_squad, "predict", f"--run_dir={run}", f"data.test={questions}",
                        f"predict.output={run}/answers"], check=True, stdout=subprocess.DEVNULL)
        model, report = transformers.AutoModelForQuestionAnswering.from_pretrained(
            folder, output_loading_info=True)
        assert not any(report[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), report
        model.eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with open(f"{run}/answers/nbest_predictions.json", encoding="utf-8") as file:
        ours = json.load(file)
    with open(questions, encoding="utf-8") as file:
        paragraphs = [p for article in json.load(file)["data"] for p in article["paragraphs"]]
    worst, compared = 0.0, 0
    for paragraph in paragraphs:
        for question in paragraph["qas"]:
            theirs = scores_of(model, tokenizer, question["question"], paragraph["context"])
            candidates = ours.pop(question["id"])
            likeliest = max(theirs.values(), key=sum)
            assert abs(sum(likeliest) - candidates[0]["start_logit"] - candidates[0]["end_logit"]) \
                <= TOLERANCE, (likeliest, candidates[0], question)
            for candidate in candidates:
                start, end = theirs[candidate["text"]]
                difference = max(abs(start - candidate["start_logit"]),
                                 abs(end - candidate["end_logit"]))
                assert difference <= TOLERANCE, (start, end, candidate, question)
                worst, compared = max(worst, difference), compared + 1
    assert not ours and compared, ours
    print(f"{type(model).__name__}: {compared} answers, largest difference {worst:.1e}")


if sys.argv[1] == "questions":
    write_questions(*sys.argv[2:])
else:
    compare(*sys.argv[2:])
