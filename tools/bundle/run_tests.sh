#!/usr/bin/env bash
# run_tests.sh - runs this bundle's tests here, and ends with a summary.
# SPDX-License-Identifier: Apache-2.0
#
#   run_tests.sh [PATTERN]     all tests, or those whose names match the regular expression
#
# Tests of kernels run where there is a GPU. Ends with 0 where all passed, with 1 where one failed
# or none was there to run.
set -uo pipefail
bundle=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tools/bundle/env.sh
source "$bundle/env.sh"
case ${1:-} in -h | --help) sed -n '5,8s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
pattern=${1:-.}
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT

gpu=0
[ ! -x "$bundle/bin/kernel_bench" ] ||
  ! "$bundle/bin/kernel_bench" --model=tiny --op=adam --repeat=1 >/dev/null 2>&1 || gpu=1

passed=0 failures=() left_out=0
while read -r label name seconds program variables <&3; do
  [[ $name =~ $pattern ]] || continue
  if [ "$label" = kernel ] && [ $gpu = 0 ]; then
    left_out=$((left_out + 1))
    continue
  fi
  command=("$bundle/tests/$program")
  if [[ $label = mpi && $name =~ /([0-9]+)$ ]]; then
    command=(mpirun --oversubscribe --bind-to none -n "${BASH_REMATCH[1]}" "${command[@]}")
  fi
  read -ra variables <<<"$variables"
  started=$SECONDS status=0
  timeout "$seconds" env "${variables[@]}" "${command[@]}" >"$log" 2>&1 </dev/null || status=$?
  if [ $status = 0 ]; then
    passed=$((passed + 1)) result=ok
  else
    failures+=("$name") result="FAIL ($status)"
    [ $status != 124 ] || result='FAIL (too slow)'
    tail -n 25 "$log"
  fi
  printf '%-44s %-16s %4s s\n' "$name" "$result" $((SECONDS - started))
done 3<"$bundle/tests/tests.txt"

echo
[ $left_out = 0 ] || echo "$left_out tests of kernels left out: no GPU here that dtrain can use"
[ ${#failures[@]} = 0 ] || printf 'failed: %s\n' "${failures[@]}"
echo "$passed tests passed, ${#failures[@]} failed, $SECONDS s, dtrain $(cat "$bundle/share/dtrain/commit")"
[ ${#failures[@]} = 0 ] && [ $passed -gt 0 ]
