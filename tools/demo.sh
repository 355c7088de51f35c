#!/usr/bin/env bash
# demo.sh - installs what is missing, builds, trains English-German, scores it and translates.
# SPDX-License-Identifier: Apache-2.0
#
#   tools/demo.sh                             the LibreOffice help corpus, about 12 minutes in all
#   tools/demo.sh --data train.en train.de    your own two files (plain, .gz or .zst), same recipe
#   tools/demo.sh --minutes 30                train longer
#   tools/demo.sh --ranks 4                   more processes
#
# Run it again to go on where it stopped. It starts anew in another directory: --run runs/other.
set -euo pipefail
start_dir=$PWD
source "$(dirname "$0")/setup.sh"

usage() { sed -n '4,10s/^# \{0,1\}//p' "$project_dir/tools/demo.sh"; }
fail() { echo "demo.sh: $1" >&2; exit 2; }
absolute() { case $1 in /*) echo "$1" ;; *) echo "$start_dir/$1" ;; esac; }

ranks=2 minutes=5 run= data=()
while [ $# -gt 0 ]; do
  case $1 in
    --data)
      [ $# -ge 3 ] || fail "--data takes two files: --data train.en train.de"
      for file in "$2" "$3"; do
        [ -r "$(absolute "$file")" ] || fail "cannot read $file"
      done
      data=("$(absolute "$2")" "$(absolute "$3")")
      shift 2 ;;
    --minutes) minutes=${2:?--minutes takes a number}; shift ;;
    --ranks) ranks=${2:?--ranks takes a number}; shift ;;
    --run) run=$(absolute "${2:?--run takes a directory}"); shift ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; fail "unknown argument $1" ;;
  esac
  shift
done

[ ${#data[@]} -gt 0 ] && default_run=runs/demo-own-data || default_run=runs/demo
run=${run:-$default_run}

started=$SECONDS
echo "== 1/3 packages"
install_packages "${build_packages[@]}"
echo "== 2/3 build ($((SECONDS - started)) s so far)"
build_preset cpu -DDTRAIN_TESTS=OFF --target nmt_train dtrain_tool

settings=()
if [ ${#data[@]} -gt 0 ]; then
  settings+=(data.train_tsv= data.dev_tsv= data.test_tsv=
    "data.train_source=${data[0]}" "data.train_target=${data[1]}")
fi
echo "== 3/3 training for $minutes minutes on $ranks ranks ($((SECONDS - started)) s so far)"
build/cpu/bin/dtrain demo --run="$run" --minutes="$minutes" --ranks="$ranks" "${settings[@]}"
echo "All of it took $((SECONDS - started)) s. To use the programs: export PATH=$PWD/build/cpu/bin:\$PATH"
