#!/usr/bin/env bash
# gpu_check.sh - tests, sanitizers and benchmarks of the CUDA device on a GPU; ends with one table.
# SPDX-License-Identifier: Apache-2.0
#
#   tools/gpu_check.sh                     builds the preset cuda here and checks it
#   tools/gpu_check.sh --bundle DIR        checks a bundle that tools/make_bundle.sh made elsewhere
#   tools/gpu_check.sh --no-bench          without the benchmarks
#   tools/gpu_check.sh --peer PYTHON       also PyTorch's steps beside ours, by a python that has it
#   tools/gpu_check.sh --logs DIR          where the logs go (gpu-check-logs)
#
# Ends with 0 where everything passed, 1 where something failed, 2 where there is no GPU. Which GPU:
# CUDA_VISIBLE_DEVICES.
set -uo pipefail

# Limits: a test alone; one under compute-sanitizer, which is many times slower; all benchmarks.
test_seconds=120 sanitizer_seconds=300 bench_seconds=300 peer_seconds=3600
# Updates of a short training run in each precision.
train_steps=60 train_seconds=120
# Updates after which the losses of GPU and CPU are compared, in fp32, and how far they may differ.
agree_steps=20 agree_within=0.002
sanitizers=(memcheck racecheck synccheck initcheck)
# Our kernels in small; cuBLASLt's are not ours to check.
sanitized='^ops/' not_sanitized='^ops/gemm_test'

fail() { echo "gpu_check.sh: $1" >&2; exit 2; }
usage() { sed -n '5,9s/^# \{0,1\}//p' "$here/gpu_check.sh"; }

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bundle='' bench=1 peer='' logs=$PWD/gpu-check-logs
[ -e "$here/../tests/kernel_tests.txt" ] && bundle=$(dirname "$here")
while [ $# -gt 0 ]; do
  case $1 in
    --bundle) bundle=$(cd "${2:?--bundle takes a directory}" && pwd) || exit 2; shift ;;
    --logs) logs=$(realpath -m "${2:?--logs takes a directory}"); shift ;;
    --no-bench) bench=0 ;;
    --peer) peer=$(command -v "${2:?--peer takes a python}") || fail "there is no $2"; shift ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; fail "unknown argument $1" ;;
  esac
  shift
done
mkdir -p "$logs" || exit 2

if [ -n "$bundle" ]; then
  [ -r "$bundle/tests/kernel_tests.txt" ] || fail "$bundle is no bundle of tools/make_bundle.sh"
  source "$bundle/env.sh"
  tests_dir=$bundle/tests bin_dir=$bundle/bin configs=$bundle/share/dtrain/nmt_train/configs
  mapfile -t tests <"$bundle/tests/kernel_tests.txt"
  peer_script=$bundle/share/dtrain/bench/peer_torch.py
  commit=$(cat "$bundle/share/dtrain/commit")
else
  set -e
  source "$here/setup.sh"
  install_packages "${build_packages[@]}"
  build_preset cuda -DDTRAIN_TESTS=ON --target kernel_bench dtrain_step_bench nmt_train
  mapfile -t tests < <(ctest --preset cuda -N -L kernel | sed -n 's|^ *Test *#[0-9]*: ||p')
  mapfile -t targets < <(printf '%s\n' "${tests[@]}" | sed 's|/cuda$||; s|/|_|g' | sort -u)
  cmake --build build/cuda --target "${targets[@]}"
  set +e
  tests_dir=$PWD/build/cuda/tests bin_dir=$PWD/build/cuda/bin configs=$PWD/examples/nmt_train/configs
  peer_script=$PWD/tools/bench/peer_torch.py
  commit=$(git describe --always --dirty)
fi
[ ${#tests[@]} -gt 0 ] || fail "there are no kernel tests"
export DTRAIN_TEST_DEVICE=cuda

names=() results=() times=() failures=0
# record NAME STATUS SECONDS: 0 is a pass, 124 ran past its limit.
record() {
  local result=ok
  case $2 in 0) ;; 124) result='FAIL (too slow)' ;; skipped*) result=$2 ;; *) result="FAIL ($2)" ;; esac
  [[ $result != FAIL* ]] || failures=$((failures + 1))
  names+=("$1") results+=("$result") times+=("$3")
  printf '%-44s %-16s %6s s\n' "$1" "$result" "$3"
}
# check NAME LIMIT COMMAND...: its output goes to a log, whose end is shown where it fails. Functions
# have no limit.
check() {
  local name=$1 limit=$2 log start=$SECONDS status=0
  log=$logs/${name//[ \/]/_}.log
  shift 2
  if [ "$(type -t "$1")" = function ]; then
    "$@" >"$log" 2>&1 || status=$?
  else
    timeout "$limit" "$@" >"$log" 2>&1 || status=$?
  fi
  [ $status = 0 ] || tail -n 15 "$log"
  record "$name" $status $((SECONDS - start))
}
program_of() { local name=${1%/cuda}; echo "$tests_dir/${name//\//_}"; }

probe=("$bin_dir/kernel_bench" --model=tiny --op=adam --repeat=1)
if ! gpu=$("${probe[@]}" 2>&1); then
  echo "$gpu" >&2
  fail "this machine has no GPU that dtrain can use"
fi
gpu=${gpu%%:*}
echo "== dtrain $commit on $gpu"

echo "== kernel and model tests on the GPU"
for test in "${tests[@]}"; do check "$test" $test_seconds "$(program_of "$test")"; done

echo "== training on the GPU"
for precision in fp32 bf16 fp16; do
  run=$logs/run-$precision
  rm -rf "$run"
  check "nmt_train $precision" $train_seconds "$bin_dir/nmt_train" \
    --config="$configs/demo.textproto" --run_dir="$run" --device=cuda --progress=plain \
    --max_steps=$train_steps --max_time=${train_seconds}s trainer.precision=$precision \
    trainer.eval_every= trainer.eval_max_sentences=20
  grep 'tok/s' "$logs/nmt_train_$precision.log" | tail -n 1
done

echo "== GPU against CPU"
# losses RUN: step and loss of every update.
losses() {
  sed -n 's/.*"step": *\([0-9]*\).*"loss": *\([-0-9.e+]*\).*/\1 \2/p' "$1/metrics/steps.jsonl"
}
agree() {
  local device
  for device in cpu cuda; do
    rm -rf "$logs/agree-$device"
    "$bin_dir/nmt_train" --config="$configs/demo.textproto" --run_dir="$logs/agree-$device" \
      --device=$device --progress=none --max_steps=$agree_steps trainer.precision=fp32 \
      trainer.log_every=1 trainer.eval_every= trainer.eval_max_sentences=5 || return 1
  done
  join <(losses "$logs/agree-cpu" | sort -k1,1) <(losses "$logs/agree-cuda" | sort -k1,1) | sort -n |
    awk -v within=$agree_within -v wanted=$agree_steps '
      { difference = $2 - $3; if (difference < 0) difference = -difference
        if (difference > worst) worst = difference
        print "update", $1, "loss on the CPU", $2, "on the GPU", $3 }
      END { print NR, "updates, largest difference", worst
            exit !(NR == wanted && worst <= within) }'
}
check 'losses of GPU and CPU agree' $((2 * train_seconds)) agree
tail -n 1 "$logs/losses_of_GPU_and_CPU_agree.log"

echo "== compute-sanitizer"
sanitizer=$(PATH=$PATH:/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer \
  command -v compute-sanitizer)
if [ -z "$sanitizer" ]; then
  record sanitizers 'skipped: no compute-sanitizer' 0
elif ! "$sanitizer" --error-exitcode 1 "${probe[@]}" >"$logs/sanitizer_probe.log" 2>&1 &&
  grep -qi 'not supported\|unable to' "$logs/sanitizer_probe.log"; then
  record sanitizers 'skipped: it does not support this device' 0
else
  # One tool after the other; the tests of each side by side, as they leave the GPU idle mostly.
  for tool in "${sanitizers[@]}"; do
    jobs=()
    for test in "${tests[@]}"; do
      [[ $test =~ $sanitized && ! $test =~ $not_sanitized ]] && jobs+=("$test")
    done
    start=$SECONDS
    for test in "${jobs[@]}"; do
      (
        timeout $sanitizer_seconds "$sanitizer" --tool "$tool" --error-exitcode 99 \
          "$(program_of "$test")" >"$logs/${tool}_${test//\//_}.log" 2>&1
        echo $? >"$logs/${tool}_${test//\//_}.status"
      ) &
    done
    wait
    for test in "${jobs[@]}"; do
      status=$(cat "$logs/${tool}_${test//\//_}.status")
      [ "$status" = 0 ] || grep -m 8 '^=========' "$logs/${tool}_${test//\//_}.log"
      record "$tool ${test%/cuda}" "$status" $((SECONDS - start))
    done
  done
fi

if [ $bench = 1 ]; then
  echo "== benchmarks"
  check kernel_bench $bench_seconds "$bin_dir/kernel_bench"
  cat "$logs/kernel_bench.log"
  # The same again for programs: how far two runs differ is how far to trust either.
  check 'kernel_bench json' $bench_seconds "$bin_dir/kernel_bench" --json
  step_bench=("$bin_dir/dtrain_step_bench" --device=cuda --gemm_tuning=measure --steps=100)
  step_name() { echo "step $*" | sed 's/--[a-z]*=//g'; }
  for model in bert_base bert_large nmt_base; do
    for options in --precision={bf16,fp16}" --recompute=none" --precision=bf16" --recompute="{cheap,every_k,full} \
      --precision=bf16" --lengths=real" --precision=bf16" --gelu=tanh"; do
      [[ $model = nmt_base && $options = *gelu* ]] && continue
      read -ra words <<<"--model=$model $options"
      name=$(step_name "${words[@]}")
      check "$name" $bench_seconds "${step_bench[@]}" "${words[@]}"
      tail -n 1 "$logs/${name// /_}.log" | sed -n 's/.*"ms_median":\([^,]*\).*"tokens_s":\([^,]*\),"gflops":\([^,]*\),"activations_mb":\([^,]*\).*/  \1 ms, \2 tokens\/s, \3 GFLOP\/s, activations \4 MB/p'
    done
  done
fi
if [ -n "$peer" ]; then
  echo "== PyTorch on the same GPU"
  check peer_torch $peer_seconds "$peer" "$peer_script" --bench="$bin_dir/dtrain_step_bench" \
    --json="$logs/peer_torch.json"
  cat "$logs/peer_torch.log"
fi

echo
echo "== summary: dtrain $commit on $gpu, $(date -u +%F)"
for i in "${!names[@]}"; do
  printf '%-44s %-16s %6s s\n' "${names[i]}" "${results[i]}" "${times[i]}"
done
echo "${#names[@]} checks, $failures failed, $SECONDS s; logs in $logs"
[ $failures = 0 ]
