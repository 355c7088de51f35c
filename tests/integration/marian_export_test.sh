#!/bin/bash
# marian_export_test.sh - fine-tunes a published translator, and compares its export in transformers and CTranslate2.
# SPDX-License-Identifier: Apache-2.0
#
# usage: marian_export_test.sh NMT_TRAIN DTRAIN CORPUS_FOLDER
# DTRAIN_PYTHON is the interpreter that has torch, transformers and sentencepiece (python3). 77: it has not.
set -euo pipefail
nmt_train=$1 dtrain=$2 corpus=$3
here=$(dirname "$(realpath "$0")")
published=$here/../golden/opus_tiny
python=${DTRAIN_PYTHON:-python3}
"$python" -c "import torch, transformers, sentencepiece" 2>/dev/null ||
  { echo "skipped: no transformers"; exit 77; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1
zcat "$corpus/dev.en-de.tsv.gz" | awk -F'\t' 'length($1) < 80 && length($2) < 80 && ++n <= 120' \
  >"$folder/texts.tsv"
cut -f1 "$folder/texts.tsv" >"$folder/source"
cut -f2 "$folder/texts.tsv" >"$folder/reference"

# NAME MODEL: a run that begins with the model's weights, and what transformers says of it.
check() {
  "$nmt_train" model.pretrained="$2" data.train_tsv="$folder/texts.tsv" data.max_length=90 data.hold_out_dev=0 \
    data.hold_out_test=0 run.run_dir="$folder/$1" trainer.max_steps=8 trainer.tokens_per_batch=1000 \
    trainer.eval_every= optimizer.learning_rate=1e-3 optimizer.schedule=constant optimizer.warmup_steps=5 \
    >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
  "$python" "$here/check_marian_export.py" "$dtrain" "$folder/$1" "$2" "$folder/$1-out" "$folder/source" \
    "$folder/reference" 12 2>"$folder/log" || { cat "$folder/log"; exit 1; }
}

check learned "$published"
# Once more, from what transformers wrote.
check again "$folder/learned-out-again"
# As OPUS-MT's: the row of <pad> is zero, and stays so.
cp -r "$published" "$folder/zero"
"$python" - "$folder/zero" <<'PYTHON' 2>/dev/null
import sys, transformers
model = transformers.MarianMTModel.from_pretrained(sys.argv[1])
model.model.shared.weight.data[model.config.pad_token_id] = 0
model.save_pretrained(sys.argv[1])
PYTHON
check zero-pad "$folder/zero"
