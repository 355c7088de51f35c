#!/bin/bash
# bert_export_test.sh - trains small BERTs of each kind and compares their exports in transformers.
# SPDX-License-Identifier: Apache-2.0
#
# usage: bert_export_test.sh BERT_CLASSIFY BERT_SQUAD BERT_PRETRAIN DTRAIN EXAMPLE_FOLDER
# DTRAIN_PYTHON is the interpreter that has torch and transformers (python3). 77: it has not.
set -euo pipefail
bert_classify=$1 bert_squad=$2 bert_pretrain=$3 dtrain=$4 example=$5
here=$(dirname "$(realpath "$0")")
python=${DTRAIN_PYTHON:-python3}
"$python" -c "import torch, transformers" 2>/dev/null || { echo "skipped: no transformers"; exit 77; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1
# text, label -> text, pair, label, value, two labels.
{
  printf 'text\tpair\tlabel\tvalue\tshort\tyou\n'
  zcat "$example/data/dev.tsv.gz" | awk -F'\t' 'NR > 1 && last != "" {
    n = length($1)
    printf "%s\t%s\t%s\t%.2f\t%d\t%d\n", $1, last, $2, n / 100, n < 40, $1 ~ /[Yy]ou/ }
    { last = $1 }'
} >"$folder/texts.tsv"
head -300 "$folder/texts.tsv" >"$folder/train.tsv"
{ head -1 "$folder/texts.tsv"; tail -40 "$folder/texts.tsv"; } >"$folder/test.tsv"

shape=(model.num_layers=2 model.hidden_size=48 model.ffn_size=80 model.num_heads=3
  model.max_positions=64)
# PROGRAM NAME OVERRIDE...
train() {
  local program=$1 name=$2
  shift 2
  "$program" train --run_dir="$folder/$name" data.vocabulary="$example/data/vocab.txt" \
    data.max_length=64 "${shape[@]}" trainer.max_steps=12 trainer.eval_every= \
    optimizer.learning_rate=3e-3 "$@" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
}

# NAME OVERRIDE...
check() {
  train "$bert_classify" "$@" data.train="$folder/train.tsv" data.dev="$folder/test.tsv"
  "$python" "$here/check_bert_export.py" "$dtrain" "$bert_classify" "$folder/$1" "$folder/test.tsv" \
    2>"$folder/log" || { cat "$folder/log"; exit 1; }
}

# The script takes the column `pair` where there is one: it goes when runs of single texts begin.
check pairs data.label=label data.text_pair=pair model.activation=gelu_tanh
check averaged data.label=label data.text_pair=pair optimizer.ema_decay=0.5 optimizer.type=lamb \
  optimizer.epsilon=1e-6 optimizer.weight_decay=0.01
check value data.label=value data.labels=value data.text_pair=pair
cut -f 1,3- "$folder/train.tsv" >"$folder/x" && mv "$folder/x" "$folder/train.tsv"
cut -f 1,3- "$folder/test.tsv" >"$folder/x" && mv "$folder/x" "$folder/test.tsv"
check classes data.label=label
check distilbert data.label=label model.family=distilbert model.type_vocab_size=0
check electra data.label=label model.family=electra model.embedding_size=20
# Byte-level BPE of the golden file. The places of the older one leave out the space before a word.
"$python" - "$here/../golden/byte_bpe.json" "$folder" <<'PYTHON'
import json, os, sys
for setting in json.load(open(sys.argv[1], encoding="utf-8"))["settings"]:
    folder = os.path.join(sys.argv[2], "of " + setting["name"])
    os.mkdir(folder)
    open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8").write(setting["file"])
PYTHON
roberta=(data.vocabulary="$folder/of roberta/tokenizer.json" model.family=roberta model.type_vocab_size=1
  model.position_offset=2)
check roberta data.label=label "${roberta[@]}"
# The same kind in vocab.json, merges.txt and what older versions of transformers wrote beside them.
"$python" - "$here/../golden/merges.json" "$folder" <<'PYTHON'
import json, os, sys
folders = json.load(open(sys.argv[1], encoding="utf-8"))["folders"]
for setting in folders:
    folder = os.path.join(sys.argv[2], setting["name"])
    os.mkdir(folder)
    files = {**folders[0]["files"], **setting["files"]}
    # transformers cuts texts to this length.
    settings = json.loads(files.get("tokenizer_config.json", "{}")) | {"model_max_length": 64}
    files["tokenizer_config.json"] = json.dumps(settings)
    for name, text in files.items():
        open(os.path.join(folder, name), "w", encoding="utf-8", newline="").write(text)
PYTHON
check merges data.label=label "${roberta[@]}" data.vocabulary="$folder/two files/vocab.json"
check older-merges data.label=label "${roberta[@]}" \
  data.vocabulary="$folder/saved by transformers 4/vocab.json"
for name in vocab.json merges.txt tokenizer_config.json special_tokens_map.json added_tokens.json; do
  cmp "$folder/saved by transformers 4/$name" "$folder/older-merges/ckpt/last/$name"
done
modernbert=(data.vocabulary="$folder/of roberta/tokenizer.json" model.family=modernbert
  model.num_layers=3 model.local_attention=8 model.whole_every=2)
check modernbert data.label=label "${modernbert[@]}" model.mean_pooling=true
check labels data.label=short,you data.labels=multi model.vocab_size=4008

# Answers, of questions that may have none.
for part in train test; do
  "$python" "$here/check_squad_export.py" questions "$folder/$part.tsv" "$folder/$part.json"
done
train "$bert_squad" answers data.train="$folder/train.json" data.max_question=16 \
  data.max_length=128 model.max_positions=128
"$python" "$here/check_squad_export.py" compare "$dtrain" "$bert_squad" "$folder/answers" \
  "$folder/test.json" 2>"$folder/log" || { cat "$folder/log"; exit 1; }
train "$bert_squad" roberta-answers data.train="$folder/train.json" data.max_question=40 \
  model.max_positions=600 "${roberta[@]}" data.max_length=600 \
  data.vocabulary="$folder/of older roberta/tokenizer.json"
"$python" "$here/check_squad_export.py" compare "$dtrain" "$bert_squad" "$folder/roberta-answers" \
  "$folder/test.json" 2>"$folder/log" || { cat "$folder/log"; exit 1; }

train "$bert_squad" modernbert-answers data.train="$folder/train.json" data.max_question=40 \
  model.max_positions=600 "${modernbert[@]}" data.max_length=600 \
  data.vocabulary="$folder/of older roberta/tokenizer.json"
"$python" "$here/check_squad_export.py" compare "$dtrain" "$bert_squad" \
  "$folder/modernbert-answers" "$folder/test.json" 2>"$folder/log" || { cat "$folder/log"; exit 1; }

# Guesses, with and without the next sentence.
tail -n +2 "$folder/train.tsv" | cut -f 1 | awk '{ print } NR % 5 == 0 { print "" }' \
  >"$folder/train.txt"
# CLASS OVERRIDE...
check_pretraining() {
  train "$bert_pretrain" "$@" data.train="$folder/train.txt" data.hold_out=0
  "$python" "$here/check_pretraining_export.py" "$dtrain" "$folder/$1" "$1" \
    2>"$folder/log" || { cat "$folder/log"; exit 1; }
}
check_pretraining BertForPreTraining
check_pretraining BertForMaskedLM data.next_sentence=false
check_pretraining DistilBertForMaskedLM data.next_sentence=false model.family=distilbert \
  model.type_vocab_size=0
check_pretraining RobertaForMaskedLM data.next_sentence=false "${roberta[@]}"
check_pretraining ModernBertForMaskedLM data.next_sentence=false "${modernbert[@]}"
check_pretraining ElectraForMaskedLM data.next_sentence=false model.family=electra \
  model.embedding_size=20
