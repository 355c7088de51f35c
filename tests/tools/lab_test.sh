#!/usr/bin/env bash
# lab_test.sh - what lab.py says of ways that are faster, equal, wrong or not timed; no GPU is needed.
# SPDX-License-Identifier: Apache-2.0
#
#   lab_test.sh LAB
# Small scripts stand in for the programs of a bundle.
set -uo pipefail
lab=$1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
bundle=$dir/bundle
mkdir -p "$bundle"/{bin,tests} "$dir/older"/{bin,tests}
script() {
  printf '#!/usr/bin/env bash\n%s\n' "$2" >"$1"
  chmod +x "$1"
}
for folder in "$bundle" "$dir/older"; do echo 'export FROM_ENV=1' >"$folder/env.sh"; done
echo 'kernel ops/attention_test/cuda 60 ops_attention_test DTRAIN_TEST_DEVICE=cuda' >"$bundle/tests/tests.txt"
script "$bundle/tests/ops_attention_test" '[ "$DTRAIN_TEST_DEVICE" = cuda ] && exit "${TEST_STATUS:-0}"'
# Times by way, model and turn: a file counts the turns.
script "$bundle/bin/dtrain_step_bench" '
[ "$FROM_ENV" = 1 ] || exit 9
[ -z "${NO_GPU:-}" ] || { echo "no GPU here"; exit 1; }
turn=$(cat "$COUNT" 2>/dev/null || echo 0)
echo $((turn + 1)) >"$COUNT"
ms=10.0
case "$*" in
  *bert_large*--attention=warpgroups*) ms=8.0 ;;
  *bert_base*--attention=warpgroups*) ms=9.$((9 - turn % 3)) ;;
  *nmt_base*--attention=warpgroups*) ms=12.5 ;;
  *--attention=cudnn*) echo "there is no cuDNN"; exit 1 ;;
  *--graph*) ms=9.8 ;;
esac
echo "{\"model\":\"x\",\"ms_median\":$ms,\"ms_min\":1}"'
cp "$bundle/bin/dtrain_step_bench" "$dir/older/bin/"
export COUNT=$dir/count
failures=0
# expect STATUS WORDS...: the exit code of the lab's last run, and words of its output.
expect() {
  local wanted=$1 words
  shift
  [ "$status" = "$wanted" ] || { echo "exit code $status instead of $wanted"; failures=1; }
  for words; do
    grep -qF -- "$words" "$dir/out" || { echo "missing: $words"; cat "$dir/out"; failures=1; }
  done
}
run() {
  status=0
  python3 "$lab" --bundle "$bundle" --log "$dir/log" "$@" >"$dir/out" 2>&1 || status=$?
}

run --only warpgroups --json "$dir/times.json"
expect 0 'ops/attention_test/cuda passed' 'bert_large  native : warpgroups        1.250  warpgroups is faster' \
  'bert_base   native : warpgroups' 'equal' 'nmt_base    native : warpgroups        0.800  native is faster'
python3 -c 'import json, sys; x = json.load(open(sys.argv[1])); assert x[0]["ms"]["native"] == [10.0] * 3' \
  "$dir/times.json" || { echo "the times are not in the file"; failures=1; }

TEST_STATUS=1 run --only warpgroups
expect 1 'ops/attention_test/cuda FAILED: not timed'
run --only cudnn
expect 3 'bert_large  native 10.000 ms of 3, cudnn -: not timed'
run --only graph --seconds 1
expect 3 'not timed'
run --only before --before "$dir/older"
expect 0 'before : now' 'equal'
NO_GPU=1 run
expect 2 'no GPU that dtrain can use'
run --only nothing
expect 2 'there is no experiment nothing; there are warpgroups, graph, cudnn, tuning, before'
run --list
expect 0 'warpgroups   attention by products of warpgroups'
exit $failures
