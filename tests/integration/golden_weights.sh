#!/usr/bin/env bash
# golden_weights.sh - trains each program for some updates and prints the SHA-256 of its weights.
# SPDX-License-Identifier: Apache-2.0
#
#   tests/integration/golden_weights.sh build/cpu/bin >after.txt    # and the same of the build before
#
# A change that should not alter training leaves the two lists equal. Only builds on one machine
# compare: processors and versions of oneDNN round differently. UPDATES=200 is the default length.
set -euo pipefail
bin=$(cd "$1" && pwd)
examples=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../examples" && pwd)
updates=${UPDATES:-200}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1

# Questions whose answers are words of the sentence asked about.
python3 - "$examples/nmt_train/data/train.en-de.tsv.gz" "$work/squad.json" <<'PY'
import gzip, json, sys
paragraphs = []
with gzip.open(sys.argv[1], "rt", encoding="utf-8") as lines:
    for i, line in enumerate(lines):
        text = line.split("\t")[0]
        words = text.split()
        if len(words) < 6:
            continue
        start = text.index(words[3])
        paragraphs.append({"context": text, "qas": [{
            "id": str(i), "question": f"What follows {words[2]} ?",
            "answers": [{"text": words[3], "answer_start": start}]}]})
        if len(paragraphs) == 3000:
            break
json.dump({"version": "1.1", "data": [{"title": "help", "paragraphs": paragraphs}]}, open(sys.argv[2], "w"))
PY

train() {
  local name=$1 ranks=$2
  shift 2
  local run=$work/$name-$ranks
  mpirun --oversubscribe --bind-to none -n "$ranks" "$@" run.run_dir="$run" \
    "trainer.max_steps=$updates" trainer.max_time= trainer.max_epochs=0 trainer.eval_every= \
    >"$work/log" 2>&1 || { cat "$work/log" >&2; return 1; }
  printf '%s %s %s\n' "$(sha256sum <"$run/ckpt/last/model.safetensors" | cut -c1-64)" "$name" "$ranks"
}

small="model.num_layers=2 model.hidden_size=64 model.ffn_size=128 model.num_heads=2 model.max_positions=64"
vocabulary=data.vocabulary=$examples/bert_classify/data/vocab.txt
for ranks in 1 2; do
  # shellcheck disable=SC2086
  {
    train nmt_train $ranks "$bin/nmt_train" --config "$examples/nmt_train/configs/demo.textproto" \
      model.hidden_size=64 model.ffn_size=128 model.num_heads=2 trainer.tokens_per_batch=512 \
      optimizer.schedule=inverse_sqrt data.vocab_size=1000
    train nmt_train_fancy $ranks "$bin/nmt_train" --config "$examples/nmt_train/configs/demo.textproto" \
      model.hidden_size=64 model.ffn_size=128 model.num_heads=2 trainer.tokens_per_batch=512 \
      optimizer.schedule=linear optimizer.warmup_steps=20 data.vocab_size=1000 optimizer.ema_decay=0.99 \
      trainer.power_sgd_rank=2 trainer.wire_precision=bf16 trainer.micro_batch_tokens=300
    train nmt_train_local $ranks "$bin/nmt_train" --config "$examples/nmt_train/configs/demo.textproto" \
      model.hidden_size=64 model.ffn_size=128 model.num_heads=2 trainer.tokens_per_batch=512 \
      optimizer.schedule=constant data.vocab_size=1000 trainer.sync_every=4 trainer.sync_every_start=50
    train nmt_train_sharded $ranks "$bin/nmt_train" --config "$examples/nmt_train/configs/demo.textproto" \
      model.hidden_size=64 model.ffn_size=128 model.num_heads=2 trainer.tokens_per_batch=512 \
      optimizer.schedule=constant data.vocab_size=1000 trainer.shard_optimizer=true trainer.recompute=full
    train bert_classify $ranks "$bin/bert_classify" train \
      --config "$examples/bert_classify/configs/demo.textproto" $small
    train bert_pretrain $ranks "$bin/bert_pretrain" train \
      --config "$examples/bert_pretrain/configs/demo.textproto" $small trainer.batch_size=16
    train bert_squad $ranks "$bin/bert_squad" train $small $vocabulary "data.train=$work/squad.json" \
      data.max_length=64 data.max_question=16 data.stride=16 trainer.batch_size=8 optimizer.learning_rate=1e-3
  }
done
