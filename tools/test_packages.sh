#!/usr/bin/env bash
# test_packages.sh - builds Debian packages and the wheel, installs them in clean roots, and trains there.
# SPDX-License-Identifier: Apache-2.0
#
#   tools/test_packages.sh                  all of debian12, debian13, docker, wheel
#   tools/test_packages.sh debian13         only this one
#
# A root is a folder with a release of Debian that debootstrap makes, in DTRAIN_ROOTS (default:
# ~/.cache/dtrain/roots). One builds, a new one installs. docker runs the commands of contrib/packaging/Dockerfile.
# Prints a table at its end; exit code 1 if anything in it failed, 77 if this machine can make no roots.
set -euo pipefail
source "$(dirname "$0")/setup.sh"
# shellcheck source=tools/roots.sh
source "$project_dir/tools/roots.sh"

known=(debian12 debian13 docker wheel)
dockerfile=contrib/packaging/Dockerfile
apptainer=contrib/packaging/dtrain.def

usage() { sed -n '5,10s/^# \{0,1\}//p' "$project_dir/tools/test_packages.sh"; }

names=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage; exit 0 ;;
    *)
      [[ " ${known[*]} " = *" $1 "* ]] ||
        { echo "test_packages.sh: there is no $1; known are: ${known[*]}" >&2; exit 2; }
      names+=("$1") ;;
  esac
  shift
done
[ ${#names[@]} -gt 0 ] || names=("${known[@]}")
need_roots

# The lines of a file, continued ones as one.
joined() { sed -e ':again' -e '/\\$/{N;s/ *\\\n */ /;b again' -e '}' "$1"; }
# The shell commands of a stage of the Dockerfile (1 or 2), one line each.
docker_commands() { joined $dockerfile | awk -v stage="$1" '/^FROM /{at++} at == stage && sub(/^RUN /, "")'; }
# The same of the Apptainer recipe. What stands in lines there is joined by && in the Dockerfile.
apptainer_commands() {
  joined $apptainer | awk -v stage="$1" \
    '/^Stage:/{at++} /^%/{is_post = $0 == "%post"} at == stage && is_post && sub(/^ +/, "")'
}
# Nothing tries the Apptainer recipe, so it must do what the Dockerfile does. That one copies into a fresh folder.
check_apptainer() {
  local stage command
  for stage in 1 2; do
    while read -r command; do
      case $command in 'cd /dtrain' | 'rm -rf build') continue ;; esac
      docker_commands $stage | grep -qF -- "$command" ||
        { echo "$apptainer: stage $stage does what $dockerfile does not: $command"; return 1; }
    done < <(apptainer_commands $stage)
  done
}

build_packages_in() {
  local root=$1 commands
  copy_project "$root" || return 1
  # What the first stage of the Dockerfile runs in the same folder.
  commands=$(docker_commands 1)
  [ "$commands" = tools/make_packages.sh ] || { echo "$dockerfile builds by: $commands"; return 1; }
  inside "$root" bash -c "cd /dtrain && $commands"
}

# The address is that of whoever builds them; here it is nobody's.
build_wheel_in() {
  copy_project "$1"
  inside "$1" bash -c 'cd /dtrain && rm -rf build/wheel && tools/make_wheel.sh'
}

check_packages() {
  inside "$1" bash -c 'lintian --fail-on error --allow-root \
    --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog /dtrain/build/deb/packages/*.deb'
}

# A root with nothing but the release, and the packages as downloads in /packages.
make_clean_root() {
  local root=$1 builder=$2 files
  files=("$builder"/dtrain/build/deb/packages/*.deb)
  [ "$3" != wheel ] || files=("$builder"/dtrain/build/wheel/*.whl)
  rm -rf "$root"
  make_root "$root" && mkdir "$root/packages" && cp "${files[@]}" "$root/packages/"
}

# What a user of the wheel does. PyPI, for the MPI library of its extras, is not asked.
install_wheel() {
  inside "$1" bash -c 'set -e; apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv
    python3 -m venv /root/env && /root/env/bin/pip install --no-index /packages/*.whl && /root/env/bin/dtrain version'
}

# Trains, scores and translates in one process without any MPI.
run_demo() {
  inside "$1" bash -o pipefail -c 'cd /root && env/bin/dtrain demo --run=run --minutes=0.3 2>&1 |
    while IFS= read -r line; do
      echo "$line"
      [[ $line != *\ loss\ * || -e first_loss ]] || date +%s.%N >first_loss
    done && grep -q "^exit_code 0" run/STATUS'
}

# Nothing of the wheel stays in the environment.
remove_wheel() {
  inside "$1" bash -e -c '/root/env/bin/pip uninstall -y dtrain
    left=$(find /root/env -iname "*dtrain*" ! -type d)
    [ -z "$left" ] || { echo "left: $left"; exit 1; }'
}

install_programs() {
  local commands='apt-get update && apt-get install -y /packages/dtrain_*.deb /packages/libdtrain[0-9]*.deb'
  [ "$2" != docker ] || commands=$(docker_commands 2)
  # The Dockerfile removes the packages when they are installed.
  inside "$1" bash -c "set -e; cp -r /packages /root/; $commands; cp -r /root/packages /; dtrain version"
}

# Trains on two ranks; leaves in /root/first_loss when the first line with a loss came.
train() {
  inside "$1" bash -o pipefail -c 'cd /root && rm -rf run &&
    mpirun --oversubscribe -n 2 nmt_train --config=/usr/share/dtrain/nmt_train/configs/demo.textproto \
      --run_dir=run trainer.max_time=20s 2>&1 |
    while IFS= read -r line; do
      echo "$line"
      [[ $line != *\ loss\ * || -e first_loss ]] || date +%s.%N >first_loss
    done && grep -q "^exit_code 0" run/STATUS'
}

# One line for one; after 20 seconds of training it may be empty.
translate() {
  inside "$1" bash -o pipefail -c 'cd /root &&
    echo "Click the button." | dtrain translate run | tee answer && [ "$(wc -l <answer)" = 1 ]'
}

# Builds the example that the package of headers ships, as a user would, and trains with it.
use_library() {
  inside "$1" bash -e -o pipefail -c '
    apt-get install -y --no-install-recommends g++ cmake make /packages/libdtrain-dev_*.deb
    cp -r /usr/share/doc/libdtrain-dev/examples/custom_trainer /root/
    cd /root/custom_trainer
    cmake -B build -DCMAKE_BUILD_TYPE=Release && cmake --build build
    # A model that learns two classes has a loss near 0 after 200 updates, and not 0.69.
    build/custom_trainer one 200 | tail -n 1 | tee last
    grep -qE "^update 200: loss 0\.[01]" last
    mpirun --oversubscribe -n 2 build/custom_trainer two 200 | tail -n 1 | tee last
    grep -qE "^update 200: loss 0\.[01]" last'
}

# Nothing of the packages stays.
remove_packages() {
  inside "$1" bash -e -c '
    apt-get purge -y "libdtrain*" dtrain
    left=$(find /usr /etc /var/lib/dpkg/info -iname "*dtrain*" ! -path "/etc/apt/*")
    [ -z "$left" ] || { echo "left: $left"; exit 1; }'
}

row() { printf '%-9s %-10s %-10s %-9s %-9s %-9s %-9s %-9s %-9s %-11s %s\n' "$@"; }

# Makes one row of the table: what it tries, in this order, until something fails.
run_row() {
  local name=$1 builder root=$roots/packages-clean-$1 logs=$roots/logs/packages-$1 cells=() part begin first=-
  case $name in debian13) choose_release trixie ;; *) choose_release bookworm ;; esac
  builder=$roots/packages-$release
  mkdir -p "$logs"
  echo "== $name ($release; logs in $logs)"
  for part in root build lintian install train translate library remove; do
    # An image has no headers, and is not changed; a wheel has programs only.
    case $name/$part in
      docker/library | docker/remove | wheel/lintian | wheel/translate | wheel/library)
        cells+=(-)
        continue ;;
      wheel/root) set -- make_root "$builder" "${build_packages[@]}" patchelf python3 python3-wheel ;;
      */root) set -- make_root "$builder" "${build_packages[@]}" lintian ;;
      wheel/build) set -- build_wheel_in "$builder" ;;
      */build) set -- build_packages_in "$builder" ;;
      */lintian) set -- check_packages "$builder" ;;
      */install)
        make_clean_root "$root" "$builder" "$name"
        begin=$(date +%s.%N)
        set -- install_programs "$root" "$name"
        [ "$name" != wheel ] || set -- install_wheel "$root" ;;
      wheel/train) set -- run_demo "$root" ;;
      */train) set -- train "$root" ;;
      */translate) set -- translate "$root" ;;
      */library) set -- use_library "$root" ;;
      wheel/remove) set -- remove_wheel "$root" ;;
      */remove) set -- remove_packages "$root" ;;
    esac
    if ! step "$logs/$part.log" "$@"; then
      cells+=("$took")
      tail -n 5 "$logs/$part.log"
      bad=1
      break
    fi
    cells+=("$took")
    [ $part != train ] || first=$(echo "$begin $(cat "$root/root/first_loss")" | awk '{printf "%.0f s", $2 - $1}')
    [ $part != install ] || needed=$(sed -n 's/^After this operation, \(.*\) of additional.*/\1/p' "$logs/install.log")
  done
  while [ ${#cells[@]} -lt 8 ]; do cells+=(-); done
  rows+=("$(row "$name" "${cells[@]}" "$first" "${needed:--}")")
  case $name in
    docker) ;;
    wheel) sizes+=("$(tail -n 1 "$logs/build.log" | sed 's|.*/||')") ;;
    *) sizes_of "$builder"/dtrain/build/deb/packages/*.deb ;;
  esac
}

sizes_of() {
  local package
  for package in "$@"; do
    [ ! -e "$package" ] || sizes+=("$(printf '%-44s %5d KiB %6d KiB' "$(basename "$package")" \
      $(($(stat -c %s "$package") >> 10)) "$(dpkg-deb -c "$package" | awk '{ sum += $3 } END { printf "%d", sum / 1024 }')")")
  done
}

bad=''
rows=()
sizes=()
check_apptainer || bad=1
for name in "${names[@]}"; do needed=''; run_row "$name"; done

printf '\n%-44s %9s %10s\n' package size installed
printf '%s\n' "${sizes[@]}"
echo
row '' root build lintian install train translate library remove 'first loss' 'disk space taken'
printf '%s\n' "${rows[@]}"
echo "first loss: since the clean root, which has no packages and no lists of them yet"
[ -z "$bad" ]
