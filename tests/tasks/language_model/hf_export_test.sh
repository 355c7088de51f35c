#!/bin/bash
# hf_export_test.sh - transformers reads an exported language model as lm_train does.
# SPDX-License-Identifier: Apache-2.0
#
# usage: hf_export_test.sh LM_TRAIN DTRAIN EXAMPLE_FOLDER
# DTRAIN_PYTHON is the interpreter that has torch and transformers (python3). 77: it has not.
set -euo pipefail
lm_train=$1 dtrain=$2 example=$3
here=$(dirname "$(realpath "$0")")
python=${DTRAIN_PYTHON:-python3}
"$python" -c "import torch, transformers" 2>/dev/null || { echo "skipped: no transformers"; exit 77; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1
"$lm_train" train --config="$example/configs/demo.textproto" --run_dir="$folder/run" \
  model.num_layers=2 model.hidden_size=64 model.ffn_size=128 trainer.max_epochs=1 \
  run.progress=none >"$folder/log" || { cat "$folder/log"; exit 1; }
"$dtrain" export-hf "$folder/run" "$folder/hf"
printf 'Monday, 1 January.\nThe lamp was lit at dusk, na\303\257ve.\n' >"$folder/lines"
"$lm_train" eval --run_dir="$folder/run" data.test="$folder/lines" run.device=cpu >"$folder/measured"
"$lm_train" generate --run_dir="$folder/run" generate.prompts="$folder/lines" \
  generate.temperature=0 generate.max_tokens=40 run.device=cpu >"$folder/written"
"$python" "$here/check_gpt_export.py" "$folder/hf" "$folder/lines" "$folder/measured" \
  "$folder/written"
