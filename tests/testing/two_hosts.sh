#!/usr/bin/env bash
# two_hosts.sh - two hosts on one machine, for tests of launches over ssh and of broken networks.
# SPDX-License-Identifier: Apache-2.0
#
#   two_hosts.sh up DIR              hosts a and b: each with its own name, network, processes and
#                                    /dev/shm, an sshd, and the machine's files; state in DIR
#   two_hosts.sh on DIR HOST CMD...  runs a command on a host (in the current folder, as root)
#   two_hosts.sh cut DIR | heal DIR  takes the link between them down, and up again
#   two_hosts.sh rate DIR RATE       limits the link both ways, as tc says it (100mbit); "off" ends
#   two_hosts.sh docker DIR          gives both the bridge that Docker makes, with the same address
#   two_hosts.sh alias DIR           lets each host's own name mean 127.0.1.1, as Debian's installer does
#   two_hosts.sh second DIR          adds a cable eth1 of 10 Gbit/s; eth0 says that it has 1 Gbit/s
#   two_hosts.sh vpn DIR             adds a tunnel wg0
#   two_hosts.sh apart DIR           the same, and eth0 leads each host into a network of its own
#   two_hosts.sh ipv6 DIR            takes the IPv4 addresses away
#   two_hosts.sh firewall DIR [PORTS] drops TCP and UDP between ports above 1023, but for PORTS (5000-5999)
#   two_hosts.sh mtu DIR CARD        sets packets of 9000 bytes, of which the cable drops those above 1500
#   two_hosts.sh kill DIR HOST       takes the power of a host away
#   two_hosts.sh down DIR            ends both and removes DIR
#
# Exit code 77: this machine cannot make namespaces or lacks ip or sshd; stdout says which.
set -euo pipefail

state=${2:-}

# The first process of a host, as the machine sees it.
pid_of() { cat "$state/$1.pid"; }

enter() {
  local host=$1
  shift
  nsenter --target "$(pid_of "$host")" --net --uts --mount --pid --wd="$PWD" -- "$@"
}

skip() {
  echo "skipped: $1"
  rm -rf "$state"
  exit 77
}

# Keys and configurations of ssh; both hosts share them.
write_ssh_files() {
  ssh-keygen -q -t ed25519 -N '' -f "$state/key"
  ssh-keygen -q -t ed25519 -N '' -f "$state/host_key"
  install -m 600 "$state/key.pub" "$state/authorized_keys"
  printf '127.0.0.1 localhost\n10.77.0.1 a\n10.77.0.2 b\n' >"$state/hosts"
  cat >"$state/sshd_config" <<END
HostKey $state/host_key
AuthorizedKeysFile $state/authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
SetEnv TMPDIR=$state/tmp
UseDNS no
PidFile none
END
  cat >"$state/ssh_config" <<END
Host *
  User root
  IdentityFile $state/key
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
  BatchMode yes
END
  # The agent of launchers that take a program but no arguments for it.
  printf '#!/bin/sh\nexec ssh -F %s "$@"\n' "$state/ssh_config" >"$state/ssh"
  chmod +x "$state/ssh"
}

# A cable between the hosts: each end a card of that name, with an address of the network PREFIX.
plug() {
  local card=$1 prefix=$2 host i=0
  nsenter --target "$(pid_of a)" --net \
    ip link add "$card" type veth peer name "$card" netns "$(pid_of b)" || return
  for host in a b; do
    i=$((i + 1))
    enter "$host" ip addr add "$prefix.$i/24" dev "$card"
    enter "$host" ip link set "$card" up
  done
  # A new card's address for IPv6 is of no use until the system knows that nobody else has it.
  for host in a b; do
    for _ in $(seq 100); do
      [ -n "$(enter "$host" ip -6 addr show dev "$card" tentative)" ] || break
      sleep 0.05
    done
  done
}

# Lets the system say that a card has so many Mbit/s: virtual ones all say 10000.
say_speed() {
  local card=$1 mbit=$2 host
  echo "$mbit" >"$state/$card.speed"
  for host in a b; do
    enter "$host" mount --bind "$state/$card.speed" "/sys/class/net/$card/speed"
  done
}

# What runs as a host's first process, in namespaces of its own.
boot() {
  local host=$1
  # /proc is still the machine's: this is our number there.
  read -r pid _ </proc/self/stat
  echo "$pid" >"$state/$host.pid.new"
  hostname "$host"
  mount --make-rprivate /
  mount -t proc proc /proc
  # The machine's /sys shows the machine's network cards.
  mkdir "$state/$host.sys"
  mount -t sysfs sysfs "$state/$host.sys"
  mount --bind "$state/$host.sys/class/net" /sys/class/net
  mount --bind "$state/$host.sys/devices/virtual/net" /sys/devices/virtual/net
  mount --bind "$state/hosts" /etc/hosts
  mount -t tmpfs -o mode=1777 tmpfs /dev/shm
  mkdir -p /run/sshd
  mv "$state/$host.pid.new" "$state/$host.pid"
  exec /usr/sbin/sshd -D -e -f "$state/sshd_config" 2>"$state/$host.sshd.log"
}

up() {
  command -v ip >/dev/null || skip "there is no ip (package iproute2)"
  [ -x /usr/sbin/sshd ] || skip "there is no sshd (package openssh-server)"
  unshare --net --uts --mount --pid --fork true 2>/dev/null ||
    skip "this machine allows no namespaces (root needed)"
  mkdir -p "$state"
  chmod 755 "$state"
  # Open MPI 5 names its folder there by a process's number, and the numbers of a host are the same each time.
  mkdir "$state/tmp"
  write_ssh_files
  local host
  for host in a b; do
    setsid unshare --net --uts --mount --pid --fork --kill-child \
      "$0" boot "$state" "$host" </dev/null >"$state/$host.log" 2>&1 &
    for _ in $(seq 100); do
      [ -s "$state/$host.pid" ] && break
      sleep 0.05
    done
    [ -s "$state/$host.pid" ] || { cat "$state/$host.log" >&2; exit 1; }
  done
  for host in a b; do enter "$host" ip link set lo up; done
  plug eth0 10.77.0 || skip "this machine allows no virtual network cards"
  for _ in $(seq 100); do
    enter a ssh -F "$state/ssh_config" b true 2>/dev/null && return
    sleep 0.05
  done
  echo "host b does not answer ssh" >&2
  cat "$state/b.sshd.log" >&2
  exit 1
}

down() {
  local host
  for host in a b; do
    if [ -f "$state/$host.pid" ]; then kill -9 "$(pid_of "$host")" 2>/dev/null || true; fi
  done
  rm -rf "$state"
}

case ${1:-} in
  up) up ;;
  boot) boot "$3" ;;
  on)
    host=$3
    shift 3
    # As Open MPI 4, Open MPI 5 and MPICH call the program that reaches another host. UCX, below MPICH, takes
    # these hosts for one, because their kernel is.
    enter "$host" env TMPDIR="$state/tmp" OMPI_MCA_plm_rsh_agent="$state/ssh" PRTE_MCA_plm_ssh_agent="$state/ssh" \
      HYDRA_LAUNCHER_EXEC="$state/ssh" UCX_NET_DEVICES=eth0 UCX_TLS=tcp,self "$@"
    ;;
  cut) enter b ip link set eth0 down ;;
  heal) enter b ip link set eth0 up ;;
  rate)
    for host in a b; do
      if [ "$3" = off ]; then
        enter "$host" tc qdisc del dev eth0 root
      else
        enter "$host" tc qdisc replace dev eth0 root tbf rate "$3" burst 256kb latency 50ms
      fi
    done
    ;;
  docker)
    for host in a b; do
      enter "$host" ip link add docker0 type bridge
      enter "$host" ip addr add 172.17.0.1/16 dev docker0
      enter "$host" ip link set docker0 up
      # A container's cable keeps the bridge running.
      enter "$host" ip link add veth0 type veth peer name veth1
      enter "$host" ip link set veth0 master docker0 up
      enter "$host" ip link set veth1 up
    done
    ;;
  alias)
    printf '127.0.0.1 localhost\n127.0.1.1 a\n10.77.0.2 b\n' >"$state/hosts.a"
    printf '127.0.0.1 localhost\n127.0.1.1 b\n10.77.0.1 a\n' >"$state/hosts.b"
    for host in a b; do enter "$host" mount --bind "$state/hosts.$host" /etc/hosts; done
    ;;
  second)
    plug eth1 10.78.0
    say_speed eth0 1000
    say_speed eth1 10000
    ;;
  vpn) plug wg0 10.79.0 ;;
  apart)
    plug wg0 10.79.0
    enter a ip addr flush dev eth0
    enter b ip addr flush dev eth0
    enter a ip addr add 192.168.1.1/24 dev eth0
    enter b ip addr add 192.168.2.1/24 dev eth0
    printf '127.0.0.1 localhost\n10.79.0.1 a\n10.79.0.2 b\n' >"$state/hosts"
    ;;
  ipv6)
    enter a ip -6 addr add fd77::1/64 dev eth0 nodad
    enter b ip -6 addr add fd77::2/64 dev eth0 nodad
    for host in a b; do enter "$host" ip -4 addr flush dev eth0; done
    printf '127.0.0.1 localhost\n::1 localhost\nfd77::1 a\nfd77::2 b\n' >"$state/hosts"
    ;;
  firewall)
    for host in a b; do
      # Packets for this host itself match the first rule, number 0, before any other: it moves behind.
      enter "$host" ip rule add pref 100 lookup local
      enter "$host" ip rule del pref 0
      for protocol in tcp udp; do
        if [ -n "${3:-}" ]; then
          enter "$host" ip rule add pref 5 iif eth0 ipproto "$protocol" dport "$3" lookup local
          enter "$host" ip rule add pref 6 iif eth0 ipproto "$protocol" sport "$3" lookup local
        fi
        enter "$host" ip rule add pref 10 iif eth0 ipproto "$protocol" sport 1024-65534 \
          dport 1024-65534 blackhole
      done
    done
    ;;
  mtu)
    for host in a b; do
      enter "$host" ip link set "$3" mtu 9000
      # A bucket that holds no larger packet drops it.
      enter "$host" tc qdisc replace dev "$3" root tbf rate 1gbit burst 1600 latency 50ms
    done
    ;;
  kill) kill -9 "$(pid_of "$3")" ;;
  down) down ;;
  *)
    sed -n '4,23s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
