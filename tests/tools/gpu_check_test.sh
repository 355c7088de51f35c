#!/usr/bin/env bash
# gpu_check_test.sh - what gpu_check.sh says of checks that pass, fail or cannot run; no GPU is needed.
# SPDX-License-Identifier: Apache-2.0
#
#   gpu_check_test.sh GPU_CHECK
# Small scripts stand in for the programs of a bundle and for compute-sanitizer.
set -uo pipefail
gpu_check=$1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
bundle=$dir/bundle
mkdir -p "$bundle"/{bin,tests,share/dtrain} "$dir/tools"
: >"$bundle/env.sh"
echo abc123 >"$bundle/share/dtrain/commit"
cat >"$bundle/tests/tests.txt" <<'END'
unit ops/adam_test 60 no_such_program
kernel ops/adam_test/cuda 60 ops_adam_test DTRAIN_TEST_DEVICE=cuda A=1
kernel models/golden_test/cuda 60 models_golden_test DTRAIN_TEST_DEVICE=cuda
mpi comm/mpi_nccl_test/2 60 comm_mpi_nccl_test A=1 B=2
mpi comm/mpi_nccl_test/4 60 comm_mpi_nccl_test A=1 B=4
mpi comm/mpi_communicator_test/2 60 no_such_program
END
script() {
  printf '#!/usr/bin/env bash\n%s\n' "$2" >"$1"
  chmod +x "$1"
}
script "$bundle/tests/ops_adam_test" '[ "$DTRAIN_TEST_DEVICE$A" = cuda1 ]'
script "$bundle/tests/models_golden_test" 'sleep "${GOLDEN_SECONDS:-0}"; exit "${GOLDEN_STATUS:-0}"'
script "$bundle/tests/comm_mpi_nccl_test" 'echo "${NCCL:-}"; [ "$RANKS$A" = "${B}1" ]'
# Starts its ranks, reads its standard input, and ends when one ends or stands still.
script "$dir/tools/mpirun" '
while [[ $1 = -* ]]; do case $1 in -n) export RANKS=$2; shift ;; --bind-to) shift ;; esac; shift; done
cat >/dev/null
for ((rank = 0; rank < RANKS; ++rank)); do
  OMPI_COMM_WORLD_RANK=$rank "$@" &
  ranks[rank]=$!
done
for word in "$@"; do case $word in --run_dir=*) run=${word#*=} ;; esac; done
tell() { [ -n "${NAMED-yes}" ] && echo "rank $1 $2" >>"$run/logs/rank-00000.log"; }
end() { kill -KILL "${ranks[@]}" 2>/dev/null; exit "${ENDS_WITH:-$1}"; }
while true; do
  for ((rank = 0; rank < RANKS; ++rank)); do
    state=$(sed "s/.*) \(.\).*/\1/" /proc/${ranks[rank]}/stat 2>/dev/null)
    case $state in
      T) tell $rank "is silent"; end 6 ;;
      Z | "")
        status=0
        wait ${ranks[rank]} || status=$?
        [ $status -le 128 ] || { tell $rank "was killed"; end $status; }
        [ $status = 0 ] || end $status
        done[rank]=1 ;;
    esac
  done
  [ ${#done[@]} -lt $RANKS ] || exit 0
  sleep 0.05
done'
script "$dir/tools/unshare" 'shift; [ -z "${NO_NAMES:-}" ] && exec "$@"'
script "$dir/tools/hostname" ''
script "$dir/tools/nvidia-smi" 'echo 80000'
script "$bundle/bin/kernel_bench" 'echo "${GPU-GPU 7: 3 us}"; [ -n "${GPU-GPU 7}" ]'
script "$bundle/bin/dtrain_step_bench" 'echo "{\"ms_median\":1.5,\"tokens_s\":2,\"gflops\":3,\"activations_mb\":4,\"end\":0}"'
script "$bundle/bin/nmt_train" '
for word in "$@"; do
  case $word in
    --run_dir=*) run=${word#*=} ;;
    --device=*) device=${word#*=} ;;
    optimizer.schedule=inverse_sqrt) steady=yes ;;
    trainer.max_time=50s) is_long=yes ;;
    trainer.micro_batch_tokens=*) exit "${FULL_GPU:-5}" ;;
  esac
done
[ -n "${steady:-}" ] || LOSS_ON_GPU=7  # another learning rate
mkdir -p "$run"/{metrics,logs}
echo "here" >"$run/logs/rank-0000${OMPI_COMM_WORLD_RANK:-0}.log"
[ "${OMPI_COMM_WORLD_RANK:-0}" = 0 ] || { while [ -n "${is_long:-}" ]; do sleep 0.1; done; exit; }
[ "${RANKS:-1}" = 1 ] || [ "$NCCL_HOSTID" != dtrain-0 ] ||
  echo "gradients travel ${GRADIENTS:-from GPU to GPU: NCCL 2.28.9, ${first_of_host_b:+hierarchical}${first_of_host_b-flat}}" >"$run/logs/rank-00000.log"
for i in {1..20}; do echo "{\"step\": $i, \"loss\": 9.$i${LOSS_ON_GPU:+${device/cuda/$LOSS_ON_GPU}}${RANKS:+$((RANKS == 4 ? ${LOSS_ON_4:-0} : 0))}}"; done |
  sed "s/cpu//" >"$run/metrics/steps.jsonl"
while [ -n "${is_long:-}" ]; do sleep 0.1; done
echo "5 tok/s"'
script "$dir/tools/compute-sanitizer" '
while [[ $1 = --* ]]; do shift 2; done
if [ -n "${UNSUPPORTED:-}" ]; then echo "Error: Device not supported."; exit 1; fi
"$@"'

failures=0
# expect STATUS TEXT [VARIABLE=VALUE ...] -- [ARGUMENT...]
expect() {
  local status=$1 text=$2 variables=() output got=0
  shift 2
  while [ "$1" != -- ]; do variables+=("$1"); shift; done
  shift
  output=$(env PATH="$dir/tools:$PATH" "${variables[@]}" "$gpu_check" \
    ${bundle:+--bundle "$bundle"} --logs "$dir/logs" "$@" 2>&1) || got=$?
  if [ $got != "$status" ] || [[ $output != *"$text"* ]]; then
    echo "$output"
    echo "FAILED: ended with $got, not with $status and '$text'"
    failures=$((failures + 1))
  fi
}
expect 0 '33 passed, 0 failed, 0 not run' --
expect 0 'abc123 on GPU 7' -- --stages tests,kernels
expect 1 'FAIL (1): models/golden_test/cuda' GOLDEN_STATUS=1 -- --stages tests
expect 1 'FAIL (1): losses of GPU and CPU agree' LOSS_ON_GPU=5 -- --stages agree
expect 1 'FAIL (1): losses of 1 and 4 ranks agree' LOSS_ON_4=3 -- --stages ranks
expect 3 'not run: losses 4: NCCL does not connect them' GRADIENTS="through the host" -- --stages ranks
expect 3 'not run: losses 2+2: this user cannot name hosts' NO_NAMES=1 -- --stages ranks
expect 1 'FAIL (1): stopped rank' NAMED= -- --stages faults
expect 1 'FAIL (1): rank stopped at start' NAMED= -- --stages faults
expect 1 'FAIL (1): killed rank' ENDS_WITH=0 -- --stages faults
expect 1 'FAIL (1): memory of a rank' FULL_GPU=0 -- --stages faults
expect 2 'no GPU that dtrain can use' GPU= --
expect 2 'there is no stage speed' -- --stages tests,speed
expect 3 'not run: comm/mpi_nccl_test/2: there is no NCCL' NCCL='skipped: no NCCL' -- --stages nccl
expect 3 'not run: compute-sanitizer does not support this GPU' UNSUPPORTED=1 -- --stages memcheck

# From source, on a machine whose packages are not those of Debian 12.
real_bundle=$bundle bundle=''
script "$dir/tools/unshare" 'shift; [ -z "${NO_NAMES:-}" ] && exec "$@"'
script "$dir/tools/hostname" ''
script "$dir/tools/nvidia-smi" ''
script "$dir/tools/dpkg-query" 'echo "install ok installed"'
script "$dir/tools/cmake" 'echo "cmake version ${CMAKE:-3.25.1}"'
script "$dir/tools/g++" 'exit 1'
expect 2 'cmake is 3.16.3 here, and the build needs 3.22 or later' CMAKE=3.16.3 --
expect 2 'there is no Catch2 of version 2 or 3' --
bundle=$real_bundle

# Too late for itself, and too late for the stage.
sed 's/test_seconds=60/test_seconds=1/' "$1" >"$dir/impatient.sh"
sed 's/\[tests\]=60/[tests]=1/' "$1" >"$dir/short.sh"
chmod +x "$dir"/*.sh
gpu_check=$dir/impatient.sh
expect 1 'FAIL (too slow): models/golden_test/cuda' GOLDEN_SECONDS=20 -- --stages tests
gpu_check=$dir/short.sh
expect 3 'not run: models/golden_test/cuda' GOLDEN_SECONDS=20 -- --stages tests
[ $failures = 0 ]
