#!/bin/bash
# hf_export_test.sh - trains small models of each kind and compares their exports in transformers.
# SPDX-License-Identifier: Apache-2.0
#
# usage: hf_export_test.sh NMT_TRAIN DTRAIN CORPUS_FOLDER
# DTRAIN_PYTHON is the interpreter that has torch and transformers (python3). 77: it has not.
set -euo pipefail
nmt_train=$1 dtrain=$2 corpus=$3
here=$(dirname "$(realpath "$0")")
python=${DTRAIN_PYTHON:-python3}
"$python" -c "import torch, transformers" 2>/dev/null || { echo "skipped: no transformers"; exit 77; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1
zcat "$corpus/dev.en-de.tsv.gz" | cut -f1 >"$folder/source"
zcat "$corpus/dev.en-de.tsv.gz" | cut -f2 >"$folder/reference"
"$dtrain" prepare "$folder/data" --train_tsv="$corpus/dev.en-de.tsv.gz" --vocab_size=1000 \
  --max_length=128 --hold_out_test=0 >"$folder/log"

# The same text, and some of it with a tag; every other line to translate has the tag, too.
zcat "$corpus/dev.en-de.tsv.gz" | awk 'NR <= 200' >"$folder/field.tsv"
"$dtrain" prepare "$folder/tagged_data" --vocab_size=1000 --max_length=128 --hold_out_test=0 \
  --sources="{tsv: '$corpus/dev.en-de.tsv.gz'}" \
  --sources="{tsv: '$folder/field.tsv' weight: 2 tag: '<field>'}" >"$folder/log"
sed '1~2s/^/<field> /' "$folder/source" >"$folder/tagged_source"

# NAME OVERRIDE... with $data and $source
data=$folder/data source=$folder/source
check() {
  local run=$folder/$1
  shift
  "$nmt_train" data.prepared="$data" data.max_length=128 run.run_dir="$run" \
    model.{en,de}coder_layers=2 model.hidden_size=64 model.ffn_size=96 model.num_heads=4 \
    trainer.max_steps=30 trainer.tokens_per_batch=1000 trainer.eval_every= \
    optimizer.learning_rate=3e-3 optimizer.warmup_steps=10 "$@" >"$folder/log" 2>&1 ||
    { cat "$folder/log"; exit 1; }
  "$python" "$here/check_hf_export.py" "$dtrain" "$run" "$source" "$folder/reference" 8 \
    2>"$folder/log" || { cat "$folder/log"; exit 1; }
}

check post
check post_gelu model.activation=gelu_tanh model.tie_embeddings=false
check post_untied model.tie_embeddings=false model.tie_output=false
check pre model.norm=pre model.activation=gelu_erf
check pre_untied model.norm=pre model.tie_output=false
data=$folder/tagged_data source=$folder/tagged_source
check post_tagged
