# package.py - dtrain for Spack 1.0 and later, built from the folder in which the command is given.
# SPDX-License-Identifier: Apache-2.0
#
#   spack repo add contrib/packaging/spack/spack_repo/dtrain
#   spack dev-build dtrain@0.1.0            # +cuda cuda_arch=90a for GPUs
#   spack load dtrain
import os

from spack_repo.builtin.build_systems.cmake import CMakePackage
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class Dtrain(CMakePackage, CudaPackage):
    """Trains Transformers on several machines: a C++ library and programs, data-parallel over MPI and NCCL."""

    # An archive made by: git archive --prefix=dtrain-0.1.0/ -o dtrain-0.1.0.tar.gz HEAD
    url = f"file://{os.getcwd()}/dtrain-0.1.0.tar.gz"
    manual_download = True

    license("Apache-2.0")

    version("0.1.0")

    generator("ninja")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("mpi")
    depends_on("protobuf@3.12:")
    depends_on("abseil-cpp@20210324:")
    depends_on("onednn@2: cpu_runtime=omp")
    depends_on("isa-l")
    depends_on("zstd")
    depends_on("zlib-api")
    depends_on("utf8proc")
    depends_on("nlohmann-json", type="build")
    depends_on("cuda@12.4:", when="+cuda")
    # NCCL is loaded when it is first used.
    depends_on("nccl", when="+cuda", type="run")

    conflicts("%gcc@:10", msg="dtrain needs g++ 11 or later")

    def cmake_args(self):
        args = [
            self.define("BUILD_SHARED_LIBS", True),
            self.define("DTRAIN_TESTS", False),
            self.define_from_variant("DTRAIN_CUDA", "cuda"),
        ]
        if self.spec.satisfies("+cuda") and "none" not in self.spec.variants["cuda_arch"].value:
            args.append(self.define("CMAKE_CUDA_ARCHITECTURES", self.spec.variants["cuda_arch"].value))
        return args
