#!/usr/bin/env bash
# gpu_check.sh - tests, sanitizers and benchmarks of the CUDA device on a GPU, in 9 minutes at most.
# SPDX-License-Identifier: Apache-2.0
#
#   tools/gpu_check.sh                     builds the preset cuda here (not counted) and checks it
#   tools/gpu_check.sh --bundle DIR        checks a bundle that tools/bundle.sh made elsewhere
#   tools/gpu_check.sh --stages A,B        only these stages of
#                                          tests,nccl,train,agree,ranks,faults,memcheck,racecheck,
#                                          kernels,steps
#   tools/gpu_check.sh --long              ten times the time; two more sanitizers, more step times
#   tools/gpu_check.sh --peer PYTHON       also PyTorch's steps beside ours, by a python that has it
#   tools/gpu_check.sh --logs DIR          where the logs go (gpu-check-logs)
#
# Ends with 0 where everything passed, 1 where something failed, 2 where there is no GPU, 3 where
# nothing failed but something was not run. Which GPU: CUDA_VISIBLE_DEVICES.
set -uo pipefail

# Seconds a stage may take: 540 in all. Of nccl's two tests the larger has four processes take turns
# on one GPU, whose bytes go through sockets.
declare -A limits=([tests]=60 [nccl]=40 [train]=30 [agree]=30 [ranks]=50 [faults]=80 [memcheck]=60
  [racecheck]=100 [kernels]=30 [steps]=60)
order=(tests nccl train agree ranks faults memcheck racecheck kernels steps)
# A program that takes longer than this has failed, not only come too late.
test_seconds=60 peer_seconds=3600
# The demo's with wider layers, in fp32.
oom_kib_per_token=520
# How many programs share the GPU: most leave it idle mostly.
jobs_at_once=4 sanitizers_at_once=$(($(nproc) > 8 ? $(nproc) : 8))
# Updates of a short training run in each precision.
train_steps=60
# Updates after which the losses of GPU and CPU are compared, in fp32, and how far they may differ.
agree_steps=20 agree_within=0.002
# Our kernels in small; cuBLASLt's, of which these two tests are full, are not ours to check.
sanitized='^ops/' not_sanitized='^ops/(gemm|linear_activation)_test'
step_models=(bert_base bert_large nmt_base)
step_options=(--precision=bf16 --precision=fp16)

fail() { echo "gpu_check.sh: $1" >&2; exit 2; }
usage() { sed -n '5,14s/^# \{0,1\}//p' "$here/gpu_check.sh"; }

# What packages of a distribution other than Debian 12 may be too old for.
check_packages_fit() {
  local has wants
  local instead='make a bundle on Debian 12 (tools/bundle.sh) and check it here: gpu_check.sh --bundle DIR'
  has=$(cmake --version | sed -n 's/^cmake version //p')
  wants=$(sed -n 's/.*"cmakeMinimumRequired".*"major": \([0-9]*\), "minor": \([0-9]*\).*/\1.\2/p' \
    CMakePresets.json)
  printf '%s\n' "$wants" "$has" | sort -CV ||
    fail "cmake is $has here, and the build needs $wants or later: $instead"
  echo '#include "tests/testing/catch.h"' | g++ -std=c++20 -E -I. -x c++ - >/dev/null 2>&1 ||
    fail "there is no Catch2 of version 2 or 3 for the tests (Debian's package catch2): $instead"
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bundle='' peer='' logs=$PWD/gpu-check-logs
[ -e "$here/../tests/tests.txt" ] && bundle=$(dirname "$here")
while [ $# -gt 0 ]; do
  case $1 in
    --bundle) bundle=$(cd "${2:?--bundle takes a directory}" && pwd) || exit 2; shift ;;
    --logs) logs=$(realpath -m "${2:?--logs takes a directory}"); shift ;;
    --stages)
      IFS=, read -ra order <<<"${2:?--stages takes names}"
      for stage in "${order[@]}"; do [ -n "${limits[$stage]:-}" ] || fail "there is no stage $stage"; done
      shift ;;
    --long)
      for stage in "${!limits[@]}"; do limits[$stage]=$((10 * limits[$stage])); done
      test_seconds=$((10 * test_seconds))
      limits[synccheck]=600 limits[initcheck]=600
      order+=(synccheck initcheck)
      step_options+=("--precision=bf16 --recompute="{cheap,every_k,full} '--precision=bf16 --lengths=real') ;;
    --peer) peer=$(command -v "${2:?--peer takes a python}") || fail "there is no $2"; shift ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; fail "unknown argument $1" ;;
  esac
  shift
done
mkdir -p "$logs" || exit 2
results=$logs/results.tsv test_list=$logs/tests.txt nccl_list=$logs/nccl-tests.txt
: >"$results" || exit 2

if [ -n "$bundle" ]; then
  [ -r "$bundle/tests/tests.txt" ] || fail "$bundle is no bundle of tools/bundle.sh"
  # shellcheck source=tools/bundle/env.sh
  source "$bundle/env.sh"
  tests_dir=$bundle/tests bin_dir=$bundle/bin configs=$bundle/share/dtrain/nmt_train/configs
  awk '$1 == "kernel"' "$bundle/tests/tests.txt" >"$test_list"
  awk '$4 == "comm_mpi_nccl_test"' "$bundle/tests/tests.txt" >"$nccl_list"
  peer_script=$bundle/share/dtrain/bench/peer_torch.py
  commit=$(cat "$bundle/share/dtrain/commit")
else
  # Before a build of many minutes.
  [ -e /dev/nvidia0 ] || [ -e /dev/dxg ] || nvidia-smi -L >/dev/null 2>&1 ||
    fail "this machine has no GPU with NVIDIA's driver"
  set -e
  # shellcheck source=tools/setup.sh
  source "$here/setup.sh"
  install_packages "${build_packages[@]}" python3
  check_packages_fit
  configure_preset cuda -DDTRAIN_TESTS=ON
  tools/list_tests.py --preset cuda -L kernel >"$test_list"
  tools/list_tests.py --preset cuda -R '^comm/mpi_nccl_test' >"$nccl_list"
  mapfile -t targets < <(awk '{ print $4 }' "$test_list" "$nccl_list" | sort -u)
  cmake --build build/cuda --target kernel_bench dtrain_step_bench nmt_train "${targets[@]}"
  set +e
  tests_dir=$PWD/build/cuda/tests bin_dir=$PWD/build/cuda/bin configs=$PWD/examples/nmt_train/configs
  peer_script=$PWD/tools/bench/peer_torch.py
  commit=$(git describe --always --dirty)
fi
short_demo=(--config="$configs/demo.textproto" --progress=plain trainer.eval_every= trainer.eval_max_sentences=5)
[ -s "$test_list" ] || fail "there are no kernel tests in it: it was built without CUDA"

# attempt NAME SECONDS COMMAND...: its output goes to a log, whose end is shown where it fails. What
# the stage's end cuts short counts as not run. Functions have no limit.
attempt() {
  local name=$1 seconds=$2 log=$logs/${1//[ \/]/_}.log start=$SECONDS left=$((deadline - SECONDS))
  local status=0 result
  shift 2
  if [ $left -le 0 ]; then
    result='not run'
  else
    if [ "$(type -t "$1")" = function ]; then
      "$@" >"$log" 2>&1 || status=$?
    else
      timeout -k 5 $((seconds < left ? seconds : left)) "$@" >"$log" 2>&1 || status=$?
    fi
    case $status in
      0) result=ok ;;
      124 | 137) [ "$seconds" -lt $left ] && result='FAIL (too slow)' || result='not run' ;;
      *) result="FAIL ($status)" ;;
    esac
    [[ $result != FAIL* ]] || tail -n 15 "$log"
  fi
  record "$name" "$result" $((SECONDS - start))
  [ "$result" = ok ]
}
record() {
  printf '%s\t%s\t%s\t%s\n' "$stage" "$1" "$2" "$3" >>"$results"
  printf '%-44s %-16s %4s s\n' "$1" "$2" "$3"
}
wait_for_place() { while [ "$(jobs -rp | wc -l)" -ge "$1" ]; do wait -n; done; }

stage_tests() {
  local name program variables
  while read -r _ name _ program variables; do
    read -ra variables <<<"$variables"
    wait_for_place $jobs_at_once
    attempt "$name" $test_seconds env "${variables[@]}" "$tests_dir/$program" &
  done <"$test_list"
  wait
}

# Ranks share the GPUs that there are; the test tells NCCL that each has a host of its own.
stage_nccl() {
  local name program variables
  while read -r _ name _ program variables; do
    read -ra variables <<<"$variables"
    # mpirun hands its standard input on, which here is the list.
    attempt "$name" "$test_seconds" env "${variables[@]}" mpirun --oversubscribe --bind-to none \
      -n "${name##*/}" "$tests_dir/$program" </dev/null
    ! grep -q 'skipped: ' "$logs/${name//\//_}.log" || record "$name: there is no NCCL" 'not run' 0
  done <"$nccl_list"
}

# train NAME ARGUMENT...: a short run of the demo.
train() {
  local name=$1
  shift
  rm -rf "$logs/run $name"
  attempt "$name" "${limits[$stage]}" "$bin_dir/nmt_train" "${short_demo[@]}" \
    --run_dir="$logs/run $name" "$@"
}
stage_train() {
  local precision
  for precision in fp32 bf16 fp16; do
    train "nmt_train $precision" --device=cuda --max_steps=$train_steps trainer.precision=$precision
    grep 'tok/s' "$logs/nmt_train_$precision.log" | tail -n 1
  done
}

# losses RUN: step and loss of every update.
losses() {
  sed -n 's/.*"step": *\([0-9]*\).*"loss": *\([-0-9.e+]*\).*/\1 \2/p' "$1/metrics/steps.jsonl" |
    sort -k1,1
}
compare_losses() {
  join <(losses "$logs/run losses $1") <(losses "$logs/run losses $2") | sort -n |
    awk -v within=$agree_within -v wanted=$agree_steps '
      { difference = $2 - $3; if (difference < 0) difference = -difference
        if (difference > worst) worst = difference
        print "update", $1, "losses", $2, $3 }
      END { print NR, "updates, largest difference", worst
            exit !(NR == wanted && worst <= within) }'
}
# The demo's own learning rate follows the time that has passed.
stage_agree() {
  local device
  for device in cpu cuda; do
    train "losses $device" --device=$device --max_steps=$agree_steps trainer.precision=fp32 \
      trainer.log_every=1 optimizer.schedule=inverse_sqrt || return
  done
  attempt 'losses of GPU and CPU agree' 10 compare_losses cpu cuda
  tail -n 1 "$logs/losses_of_GPU_and_CPU_agree.log"
}

# As the stage above, in 2 and 4 processes that share the GPU and exchange gradients by NCCL.
# From rank $first_of_host_b on they also have another host's name.
# shellcheck disable=SC2016  # mpirun's processes have the variables
rank_of_its_own_host='export NCCL_HOSTID=dtrain-$OMPI_COMM_WORLD_RANK
[ "$OMPI_COMM_WORLD_RANK" -ge "${first_of_host_b:-$OMPI_COMM_WORLD_SIZE}" ] || exec "$@"
exec unshare --uts bash -c '"'"'hostname gpu-check-b && exec "$@"'"'"' - "$@"'
# train_ranks NAME RANKS ARGUMENT...: train() on that many.
train_ranks() {
  local name=$1 ranks=$2
  shift 2
  rm -rf "$logs/run $name"
  NCCL_NET=Socket NCCL_SOCKET_IFNAME=lo NCCL_ALGO=Ring NCCL_PROTO=Simple NCCL_MAX_CTAS=2 \
    NCCL_NVLS_ENABLE=0 NCCL_RAS_ENABLE=0 OMP_NUM_THREADS=1 CUDA_VISIBLE_DEVICES=$one_gpu \
    timeout -k 5 "$test_seconds" mpirun --oversubscribe --bind-to none -n "$ranks" bash -c "$rank_of_its_own_host" - \
    "$bin_dir/nmt_train" "${short_demo[@]}" --run_dir="$logs/run $name" --device=cuda \
    optimizer.schedule=inverse_sqrt "$@" </dev/null
}
# losses_of NAME RANKS WAY ARGUMENT...: trains as one rank does, with gradients going NCCL's way.
losses_of() {
  local name=$1 ranks=$2 way=$3
  shift 3
  attempt "losses $name" "$test_seconds" train_ranks "losses $name" "$ranks" \
    --max_steps=$agree_steps trainer.precision=fp32 trainer.log_every=1 "$@" || return
  [ "$ranks" != 1 ] || return 0
  grep -qs "from GPU to GPU: NCCL .*$way" "$logs/run losses $name/logs"/rank-*.log ||
    record "losses $name: NCCL does not connect them" 'not run' 0
  attempt "losses of 1 and $name ranks agree" 10 compare_losses 1 "$name"
  tail -n 1 "$logs/losses_of_1_and_${name}_ranks_agree.log"
}
stage_ranks() {
  losses_of 1 1 ''
  losses_of 2 2 flat
  losses_of 4 4 flat
  losses_of 2-sharded 2 flat trainer.shard_optimizer=true
  # Its sums are approximate: what is checked is that the ranks keep the same weights.
  attempt 'PowerSGD' "$test_seconds" train_ranks PowerSGD 2 --max_steps=$agree_steps \
    trainer.precision=fp32 trainer.power_sgd_rank=4 trainer.power_sgd_start=2 trainer.replica_check_every=2
  if unshare --uts true 2>/dev/null; then
    first_of_host_b=2 losses_of 2+2 4 hierarchical
  else
    record 'losses 2+2: this user cannot name hosts' 'not run' 0
  fi
}

# rank_process RUN RANK: the process of that rank.
rank_process() {
  local process
  for process in /proc/[0-9]*; do
    tr '\0' '\n' <"$process/cmdline" | grep -qxF -- "--run_dir=$logs/run $1" &&
      tr '\0' '\n' <"$process/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$2" &&
      echo "${process#/proc/}"
  done 2>/dev/null
}
# is_at RUN RANK MOMENT: whether it has trained five updates, or, at the start, its ranks know each
# other and are about to connect their GPUs.
is_at() {
  case $3 in
    training) [ "$(losses "$logs/run $1" 2>/dev/null | wc -l)" -ge 5 ] ;;
    start) [ -s "$logs/run $1/logs/rank-0000$2.log" ] ;;
  esac
}
# ends_after NAME SIGNAL RANK MOMENT WITHIN ARGUMENT...: four ranks train until one gets a signal. The
# job must end within that time, with an error, leave no process, and its output name the rank.
ends_after() {
  local name=$1 signal=$2 rank=$3 moment=$4 within=$5 job status=0 from took i
  shift 5
  rm -rf "$logs/run $name"
  train_ranks "$name" 4 --max_steps=0 trainer.max_time=50s trainer.log_every=1 "$@" &
  job=$!
  for i in {1..3000}; do
    ! is_at "$name" "$rank" "$moment" || break
    sleep 0.01
  done
  echo "after ${i}0 ms: $signal to rank $rank"
  kill -s "$signal" "$(rank_process "$name" "$rank")" || { kill $job; return 1; }
  from=$(date +%s%N)
  wait $job || status=$?
  took=$((($(date +%s%N) - from) / 1000000))
  echo "the job ended after $took ms with $status"
  sleep 0.5
  for i in {0..3}; do
    [ -z "$(rank_process "$name" "$i")" ] || { echo "rank $i is still there"; return 1; }
  done
  grep -h "rank $rank" "$logs/run $name"/logs/rank-*.log "$logs/${name// /_}.log" | tail -n 3
  [ $status != 0 ] && [ $took -le "$((1000 * within))" ] &&
    grep -qh "rank $rank " "$logs/run $name"/logs/rank-*.log
}
# Four ranks of which not all find the memory they need: 0.3 of the GPU's each.
ends_out_of_memory() {
  local mib status=0
  mib=$(nvidia-smi -i "$one_gpu" --query-gpu=memory.total --format=csv,noheader,nounits) || return
  train_ranks "$1" 4 --max_steps=3 model.ffn_size=16384 trainer.micro_batch_tokens=1000000 \
    trainer.tokens_per_batch=$((4 * mib * 1024 * 3 / 10 / oom_kib_per_token)) || status=$?
  echo "ended with $status"
  [ $status = 5 ]
}
stage_faults() {
  attempt 'killed rank' 60 ends_after 'killed rank' KILL 2 training 10
  attempt 'stopped rank' 60 ends_after 'stopped rank' STOP 1 training 23 run.comm_timeout=8s
  attempt 'rank stopped at start' 60 ends_after 'rank stopped at start' STOP 1 start 23 \
    run.comm_timeout=8s
  attempt 'memory of a rank' 60 ends_out_of_memory 'memory of a rank'
}

# The stages named after a tool of compute-sanitizer.
stage_sanitizer() {
  local sanitizer name program variables
  sanitizer=$(PATH=$PATH:/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer \
    command -v compute-sanitizer)
  if [ -z "$sanitizer" ]; then
    record 'compute-sanitizer is not installed' 'not run' 0
    return
  elif ! "$sanitizer" --error-exitcode 1 "${probe[@]}" >"$logs/sanitizer_probe.log" 2>&1 &&
    grep -qi 'not supported\|unable to' "$logs/sanitizer_probe.log"; then
    record 'compute-sanitizer does not support this GPU' 'not run' 0
    return
  fi
  while read -r _ name _ program variables; do
    [[ $name =~ $sanitized && ! $name =~ $not_sanitized ]] || continue
    read -ra variables <<<"$variables"
    wait_for_place $sanitizers_at_once
    attempt "$stage ${name%/cuda}" "${limits[$stage]}" env "${variables[@]}" \
      "$sanitizer" --tool "$stage" --error-exitcode 99 "$tests_dir/$program" &
  done <"$test_list"
  wait
}

stage_kernels() {
  attempt kernel_bench "${limits[$stage]}" "$bin_dir/kernel_bench" --model=all
  cat "$logs/kernel_bench.log"
}

stage_steps() {
  local model options name word words
  for options in "${step_options[@]}"; do
    for model in "${step_models[@]}"; do
      read -ra words <<<"--model=$model $options"
      name=step
      for word in "${words[@]}"; do name+=" ${word#--*=}"; done
      attempt "$name" "${limits[$stage]}" "$bin_dir/dtrain_step_bench" --device=cuda \
        --gemm_tuning=measure --steps=30 "${words[@]}"
      tail -n 1 "$logs/${name// /_}.log" | sed -n 's/.*"ms_median":\([^,]*\).*"tokens_s":\([^,]*\),"gflops":\([^,]*\),"activations_mb":\([^,]*\).*/  \1 ms, \2 tokens\/s, \3 GFLOP\/s, activations \4 MB/p'
    done
  done
}

stage_peer() {
  attempt peer_torch $peer_seconds "$peer" "$peer_script" --bench="$bin_dir/dtrain_step_bench" \
    --json="$logs/peer_torch.json"
  cat "$logs/peer_torch.log"
}

probe=("$bin_dir/kernel_bench" --model=tiny --op=adam --repeat=1)
if ! gpu=$("${probe[@]}" 2>&1); then
  echo "$gpu" >&2
  fail "this machine has no GPU that dtrain can use"
fi
gpu=${gpu%%:*}
echo "dtrain $commit on $gpu"
if [ -n "$peer" ]; then order+=(peer) limits[peer]=$peer_seconds; fi

# That of CUDA_VISIBLE_DEVICES, or the first: of one that is all they see ranks need not have a share.
one_gpu=${CUDA_VISIBLE_DEVICES:-0} one_gpu=${one_gpu%%,*}

declare -A took
started=$SECONDS
for stage in "${order[@]}"; do
  echo
  echo "== $stage, at most ${limits[$stage]} s"
  start=$SECONDS deadline=$((SECONDS + limits[$stage]))
  case $stage in
    *check) stage_sanitizer ;;
    *) "stage_$stage" ;;
  esac
  took[$stage]=$((SECONDS - start))
done

# count STAGE RESULT: how many of the stage's attempts ended so; of all stages for "".
count() { awk -F '\t' -v s="$1" -v r="$2" '(s == "" || $1 == s) && $3 ~ r { ++n } END { print n + 0 }' "$results"; }
echo
echo "== summary: dtrain $commit on $gpu, $(date -u +%F)"
printf '%-12s %8s %8s %6s %6s %8s\n' stage time limit ok failed 'not run'
for stage in "${order[@]}"; do
  printf '%-12s %6s s %6s s %6s %6s %8s\n' "$stage" "${took[$stage]}" "${limits[$stage]}" \
    "$(count "$stage" ^ok)" "$(count "$stage" ^FAIL)" "$(count "$stage" '^not run')"
done
awk -F '\t' '$3 != "ok" { print "  " $3 ": " $2 }' "$results"
failed=$(count '' ^FAIL) not_run=$(count '' '^not run')
echo "$(count '' ^ok) passed, $failed failed, $not_run not run, $((SECONDS - started)) s; logs in $logs"
[ "$failed" = 0 ] || exit 1
[ "$not_run" = 0 ] || exit 3
