# env.sh - source it: paths of this bundle, wherever it lies, and of this machine's CUDA libraries.
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
bundle=$(cd "$(dirname "${BASH_SOURCE:-$0}")" && pwd)
export PATH="$bundle/bin:$PATH"
export DTRAIN_TESTS_DIR="$bundle/tests" DTRAIN_EXAMPLES_DIR="$bundle/share/dtrain"
# Open MPI looks for its plugins and texts below these; it needs no special network and, on one
# machine, no ssh.
export OPAL_PREFIX="$bundle" OPAL_SYSCONFDIR="$bundle/etc" OPAL_DATADIR="$bundle/share"
export PMIX_INSTALL_PREFIX="$bundle" PMIX_LIBDIR="$bundle/lib" PMIX_PKGLIBDIR="$bundle/lib/pmix"
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp OMPI_MCA_osc=^ucx OMPI_MCA_plm_rsh_agent=ssh:rsh:sh
if [ "$(id -u)" = 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
# cuBLASLt, cuDNN and NCCL, in the toolkit or in Python's packages; the driver where containers mount it.
for file in /usr/local/cuda/lib64/libcublasLt.so.1? /usr/local/cuda/targets/*/lib/libcublasLt.so.1? \
  /usr/local/nvidia/lib64/libcuda.so.1 \
  $(python3 -c 'import sys; print(*(p + "/nvidia/" + f for p in sys.path for f in (
      "c*/lib/libcublasLt.so.1?", "cudnn/lib/libcudnn.so.9", "nccl/lib/libnccl.so.2")))' \
    2>/dev/null); do
  if [ -e "$file" ]; then
    LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$(dirname "$file")
  fi
done
# The C++ library, where the machine has none or one that is too old.
if ! "$bundle/bin/nmt_train" --version >/dev/null 2>&1; then
  LD_LIBRARY_PATH=$bundle/lib/fallback${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
export LD_LIBRARY_PATH
