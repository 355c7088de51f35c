#!/usr/bin/env bash
# slow_network_bleu.sh - BLEU after the same training, plain and with each way to spare the network.
# SPDX-License-Identifier: Apache-2.0
#
#   tools/bench/slow_network_bleu.sh [--build build/cpu] [--steps 2000] [--seed 1] [--config FILE]
#   tools/bench/slow_network_bleu.sh --smoke            a tiny model, a few updates
#
# Trains on 2 ranks of this host: plain, bf16 and fp16 on the wire, PowerSGD of rank 32 and of rank 16
# (a quarter and an eighth of the demo's hidden size) after a tenth of the updates; then plain and
# with an exchange every fourth update, with the learning rate as it is and doubled; then a quarter of
# the batch in four times the updates, and four times the batch in a quarter of them: what gathering
# micro-batches gains and costs. Each over the same sentences. Prints a table of the dev set's
# cross-entropy and of BLEU on the dev and the test set, whole, and how far their mean is from that
# of plain: another --seed alone may move it by a point. FILE names the data as well; without it the
# demo's recipe and corpus are taken.
set -euo pipefail
project_dir=$(cd "$(dirname "$0")/../.." && pwd)

build=$project_dir/build/cpu steps=2000 seed=1 smoke=''
config=$project_dir/examples/nmt_train/configs/demo.textproto
fail() { echo "slow_network_bleu.sh: $1" >&2; exit 2; }
while [ $# -gt 0 ]; do
  case $1 in
    --build) build=${2:?--build takes a folder}; shift ;;
    --steps) steps=${2:?--steps takes a number}; shift ;;
    --seed) seed=${2:?--seed takes a number}; shift ;;
    --config) config=${2:?--config takes a file}; shift ;;
    --smoke) smoke=yes ;;
    -h | --help) sed -n '4,17s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) fail "unknown argument $1" ;;
  esac
  shift
done
[ -x "$build/bin/nmt_train" ] || fail "$build/bin/nmt_train is not there: build it, or give --build"
case $steps in '' | *[!0-9]*) fail "--steps takes a number" ;; esac

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
common=(--config="$config" trainer.max_time= trainer.eval_every= trainer.checkpoint_every=
  optimizer.schedule=linear data.prepared="$folder/data" run.progress=none
  trainer.eval_max_sentences=0 trainer.seed="$seed")
tokens=4096 warmup=$((steps / 10))
rate=$(awk '$1 == "learning_rate:" { print $2 }' "$config")
[ -n "$rate" ] || fail "$config names no optimizer.learning_rate"
if [ -n "$smoke" ]; then
  steps=8 tokens=256 warmup=2
  common+=(model.hidden_size=32 model.ffn_size=64 model.num_heads=2 model.encoder_layers=1
    model.decoder_layers=1 data.vocab_size=1000 trainer.eval_max_sentences=4 trainer.beam_size=1)
fi

# Trains with further arguments; cross-entropy and BLEU of the last evaluation, BLEU of the test set.
bleu_of() {
  local run=$folder/run
  rm -rf "$run"
  mpirun --allow-run-as-root --oversubscribe -n 2 "$build/bin/nmt_train" "${common[@]}" \
    run.run_dir="$run" "$@" >"$folder/log" 2>&1 ||
    { cat "$folder/log" >&2; exit 1; }
  sed -n '$s/.*"nll":\([0-9.]*\).*/\1/p' "$run/metrics/eval.jsonl"
  sed -n '$s/.*"bleu":\([0-9.]*\).*/\1/p' "$run/metrics/eval.jsonl"
  sed -n 's/^test .* bleu \([0-9.]*\).*/\1/p' "$folder/log"
}

plain=
row() {
  local name=$1 bleu
  shift
  bleu=$(bleu_of "$@" | tr '\n' ' ')
  [ -n "$plain" ] || plain=$bleu
  awk -v name="$name" -v bleu="$bleu" -v plain="$plain" 'BEGIN {
    if (split(bleu, b) != 3 || split(plain, p) != 3) exit 1
    printf "| %s | %.3f | %.2f | %.2f | %+.2f |\n", name, b[1], b[2], b[3],
           (b[2] + b[3] - p[2] - p[3]) / 2
  }'
}

whole=(trainer.max_steps="$steps" trainer.tokens_per_batch="$tokens"
  optimizer.warmup_steps="$warmup")
echo "2 ranks, $steps updates of $tokens target tokens"
echo
echo "| way | dev nll | dev BLEU | test BLEU | mean, beside plain |"
echo "|---|---|---|---|---|"
row "plain" "${whole[@]}"
row "bf16 on the wire" "${whole[@]}" trainer.wire_precision=bf16
row "fp16 on the wire" "${whole[@]}" trainer.wire_precision=fp16
low_rank=("${whole[@]}" trainer.power_sgd_start="$warmup")
row "PowerSGD of rank 32" "${low_rank[@]}" trainer.power_sgd_rank=32
row "PowerSGD of rank 16" "${low_rank[@]}" trainer.power_sgd_rank=16
row "an exchange every 4 updates" "${whole[@]}" trainer.sync_every=4
faster=optimizer.learning_rate=$(awk -v r="$rate" 'BEGIN { print 2 * r }')
row "plain, learning rate doubled" "${whole[@]}" "$faster"
row "an exchange every 4 updates, learning rate doubled" "${whole[@]}" "$faster" \
  trainer.sync_every=4
row "the same from a third of the updates on" "${whole[@]}" "$faster" \
  trainer.sync_every=4 trainer.sync_every_start=$((steps / 3))
row "a quarter of the batch, 4 times the updates" trainer.max_steps=$((steps * 4)) \
  trainer.tokens_per_batch=$((tokens / 4)) optimizer.warmup_steps=$((warmup * 4))
row "4 times the batch, a quarter of the updates" trainer.max_steps=$((steps / 4)) \
  trainer.tokens_per_batch=$((tokens * 4)) optimizer.warmup_steps=$((warmup / 4))
