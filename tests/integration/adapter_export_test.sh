#!/bin/bash
# adapter_export_test.sh - trains adapters on small models of each kind and compares them in peft.
# SPDX-License-Identifier: Apache-2.0
#
# usage: adapter_export_test.sh PROGRAMS DTRAIN EXAMPLES, PROGRAMS: the folder of nmt_train and the rest
# DTRAIN_PYTHON is the interpreter that has torch, transformers and peft (python3). 77: it has not.
set -euo pipefail
programs=$1 dtrain=$2 examples=$3
here=$(dirname "$(realpath "$0")")
python=${DTRAIN_PYTHON:-python3}
"$python" -c "import torch, transformers, peft" 2>/dev/null || { echo "skipped: no peft"; exit 77; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1
vocabulary=$examples/bert_classify/data/vocab.txt
{ printf 'text\tlabel\n'; zcat "$examples/bert_classify/data/dev.tsv.gz" | awk 'NR > 1 && NR <= 201'; } \
  >"$folder/texts.tsv"
# Each word is tagged by its length.
tail -n +2 "$folder/texts.tsv" | cut -f 1 | awk '{ for (i = 1; i <= NF; ++i) print $i, (length($i) > 4 ? "B-LONG" : "O")
  print "" }' >"$folder/tags.conll"
"$python" "$here/check_squad_export.py" questions "$folder/texts.tsv" "$folder/answers.json"
zcat "$examples/nmt_train/data/train.en-de.tsv.gz" | awk 'NR <= 600' >"$folder/pairs.tsv"

# PROGRAM NAME OVERRIDE...
train() {
  local program=$1 name=$2 command=(train)
  shift 2
  [ "$program" != nmt_train ] || command=()
  "$programs/$program" "${command[@]}" --run_dir="$folder/$name" "$@" trainer.max_steps=8 trainer.eval_every= \
    >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
}

# PROGRAM BASE NAME OVERRIDE...
adapt() {
  local program=$1 base=$2
  shift 2
  train "$program" "$@" model.pretrained="$base" optimizer.learning_rate=1e-2 model.lora.rank=4 "${missing[@]}"
  "$python" "$here/check_adapter_export.py" "$dtrain" "$base" "$folder/$1" 2>"$folder/log" ||
    { cat "$folder/log"; exit 1; }
}

# FAMILY OVERRIDE...: an encoder to begin with.
base() {
  local family=$1
  shift
  train bert_pretrain "base-$family" data.train="$folder/words.txt" data.hold_out=0 \
    data.next_sentence=false data.vocabulary="$vocabulary" data.max_length=64 model.family="$family" \
    model.num_layers=2 model.hidden_size=48 model.ffn_size=80 model.num_heads=3 model.max_positions=128 "$@"
  "$dtrain" export-hf "$folder/base-$family" "$folder/$family" >/dev/null 2>"$folder/log" ||
    { cat "$folder/log"; exit 1; }
}

tail -n +2 "$folder/texts.tsv" | cut -f 1 >"$folder/words.txt"
classes=(data.train="$folder/texts.tsv" data.label=label data.max_length=64)
base bert
missing=(model.allow_missing=true)  # the pooler
adapt bert_classify "$folder/bert" classes "${classes[@]}"
adapt bert_classify "$folder/bert" more-classes "${classes[@]}" model.lora.targets=query,output.dense \
  optimizer.ema_decay=0.5
adapt bert_tag "$folder/bert" tags data.train="$folder/tags.conll" data.max_length=64 \
  model.lora.targets=all-linear
adapt bert_squad "$folder/bert" answers data.train="$folder/answers.json" data.max_question=16 \
  data.max_length=128
missing=()
base distilbert model.type_vocab_size=0
adapt bert_classify "$folder/distilbert" distilbert-classes "${classes[@]}"
base electra model.embedding_size=20
adapt bert_classify "$folder/electra" electra-classes "${classes[@]}" model.lora.targets=all-linear
base modernbert model.local_attention=8 model.whole_every=2
adapt bert_classify "$folder/modernbert" modernbert-classes "${classes[@]}"

pairs=(data.train_tsv="$folder/pairs.tsv" data.source_language=en data.target_language=de)
train nmt_train translator "${pairs[@]}" data.vocab_size=500 model.hidden_size=32 model.ffn_size=48 \
  model.num_heads=2 model.encoder_layers=2 model.decoder_layers=2
"$dtrain" export-hf "$folder/translator" "$folder/marian" >/dev/null
adapt nmt_train "$folder/marian" domain "${pairs[@]}" optimizer.schedule=constant optimizer.warmup_steps=0
# Adapters on a run of one's own: the base is that run's export.
train nmt_train own-domain "${pairs[@]}" model.init="$folder/translator" model.lora.rank=2 \
  optimizer.learning_rate=1e-2 optimizer.schedule=constant optimizer.warmup_steps=0
"$python" "$here/check_adapter_export.py" "$dtrain" "$folder/marian" "$folder/own-domain" \
  2>"$folder/log" || { cat "$folder/log"; exit 1; }
