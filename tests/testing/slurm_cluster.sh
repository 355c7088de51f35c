#!/usr/bin/env bash
# slurm_cluster.sh - a Slurm cluster of the two hosts of two_hosts.sh, for tests of job scripts.
# SPDX-License-Identifier: Apache-2.0
#
#   slurm_cluster.sh up DIR          hosts a and b, four CPUs each; both run slurmd, a the controller
#   slurm_cluster.sh on DIR CMD...   runs a command on host a (sbatch, scontrol), as two_hosts.sh does
#   slurm_cluster.sh down DIR        ends all of it and removes DIR
#
# Exit code 77: Slurm or munge is not installed, or two_hosts.sh cannot make hosts; stdout says which.
set -euo pipefail

state=${2:-}
two_hosts=$(dirname "$0")/two_hosts.sh

on() {
  local host=$1
  shift
  "$two_hosts" on "$state" "$host" env SLURM_CONF="$state/slurm.conf" "$@"
}

# CPUs are what the file says, not what the machine has. A job that is queued again waits for
# cred_expire: 120 s by default, 5 s is the least.
write_configuration() {
  cat >"$state/slurm.conf" <<END
ClusterName=test
SlurmctldHost=a(10.77.0.1)
SlurmctldPort=16817
SlurmdPort=16818
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$state/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation=$state/controller
SlurmdSpoolDir=$state/%n.spool
SlurmctldPidFile=$state/slurmctld.pid
SlurmdPidFile=$state/%n.slurmd.pid
TmpFS=$state/%n.tmp
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,bf_interval=1
ReturnToService=2
KillWait=5
SlurmdParameters=config_overrides
NodeName=a NodeAddr=10.77.0.1 CPUs=4 State=UNKNOWN
NodeName=b NodeAddr=10.77.0.2 CPUs=4 State=UNKNOWN
PartitionName=all Nodes=a,b Default=YES State=UP
END
}

# start NAME HOST DAEMON...: in the background, with a log of its own.
start() {
  local name=$1
  shift
  on "$@" </dev/null >"$state/$name.log" 2>&1 &
}

up() {
  local program
  for program in munged mungekey slurmctld slurmd sbatch; do
    PATH=$PATH:/usr/sbin command -v "$program" >/dev/null || {
      echo "skipped: there is no $program (packages slurmctld, slurmd, slurm-client and munge)"
      exit 77
    }
  done
  "$two_hosts" up "$state"
  mkdir "$state"/{controller,a.spool,b.spool,a.tmp,b.tmp}
  write_configuration
  /usr/sbin/mungekey --create --keyfile "$state/munge.key"
  # One for both hosts: they share the machine's files. By force, because other users cannot enter a
  # test's folder.
  start munged a /usr/sbin/munged --foreground --force --key-file="$state/munge.key" \
    --socket="$state/munge.socket" --pid-file="$state/munged.pid" \
    --seed-file="$state/munged.seed" --log-file="$state/munged.log"
  for _ in $(seq 100); do
    [ -S "$state/munge.socket" ] && break
    sleep 0.05
  done
  [ -S "$state/munge.socket" ] || { cat "$state/munged.log" >&2; exit 1; }
  start slurmctld a /usr/sbin/slurmctld -D
  start a.slurmd a /usr/sbin/slurmd -D -N a
  start b.slurmd b /usr/sbin/slurmd -D -N b
  for _ in $(seq 300); do
    [ "$(on a sinfo --noheader --states=idle --format=%D 2>/dev/null)" = 2 ] && return
    sleep 0.1
  done
  echo "the cluster's two nodes are not idle:" >&2
  on a sinfo --long --Node >&2 || true
  tail -n 20 "$state"/{munged,slurmctld,a.slurmd,b.slurmd}.log >&2
  exit 1
}

case ${1:-} in
  up) up ;;
  on) shift 2; on a "$@" ;;
  down) "$two_hosts" down "$state" ;;
  *)
    sed -n '4,9s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
