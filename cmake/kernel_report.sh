#!/bin/sh
# kernel_report.sh - runs a compiler of kernels and keeps ptxas' report beside the object.
# SPDX-License-Identifier: Apache-2.0
#
#   kernel_report.sh nvcc -Xptxas=-v ... -o FILE.o     leaves FILE.o and FILE.o.ptxas
object='' previous=''
for argument; do
  [ "$previous" = -o ] && object=$argument
  previous=$argument
done
"$@" 2>"$object.ptxas"
status=$?
# What is no part of the report is for whoever builds.
grep -vE '^ptxas info|bytes stack frame|^$' "$object.ptxas" >&2
exit $status
