// mpi_abi.cc - mpi_functions.h against the mpi.h of this machine, while compiling.
// SPDX-License-Identifier: Apache-2.0
#include <mpi.h>

#include <type_traits>

#include "dtrain/comm/internal/abi_check.h"
#include "dtrain/comm/internal/mpi_functions.h"

namespace dtrain::internal {
namespace {

#ifdef OPEN_MPI
using Abi = OpenMpiAbi;
static_assert(std::is_pointer_v<MPI_Comm> && std::is_pointer_v<MPI_Request> &&
              std::is_pointer_v<MPI_Datatype> && std::is_pointer_v<MPI_Errhandler>);
#else
using Abi = MpichAbi;
static_assert(std::is_same_v<MPI_Comm, int> && std::is_same_v<MPI_Request, int> &&
              std::is_same_v<MPI_Datatype, int> && std::is_same_v<MPI_Errhandler, int>);
static_assert(MpichAbi::World(nullptr) == MPI_COMM_WORLD);
static_assert(MpichAbi::Byte(nullptr) == MPI_BYTE);
static_assert(MpichAbi::ErrorsReturn(nullptr) == MPI_ERRORS_RETURN);
static_assert(MpichAbi::NoRequest(nullptr) == MPI_REQUEST_NULL);
#endif
static_assert(Abi::kTagUpperBound == MPI_TAG_UB);
static_assert(Abi::kErrorTruncate == MPI_ERR_TRUNCATE);
static_assert(MpiLibrary::kThreadSerialized == MPI_THREAD_SERIALIZED);
static_assert(MPI_SUCCESS == 0);
static_assert(sizeof(MpiStatus) >= sizeof(MPI_Status) && alignof(MpiStatus) >= alignof(MPI_Status));
static_assert(MPI_MAX_LIBRARY_VERSION_STRING <= 8192 && MPI_MAX_ERROR_STRING <= 8192 &&
              MPI_MAX_PROCESSOR_NAME <= 256);

constexpr MpiFunctions<Abi::Handle> kMpi{};
static_assert(TakesTheSame(kMpi.Get_library_version, decltype(&MPI_Get_library_version){}));
static_assert(TakesTheSame(kMpi.Initialized, decltype(&MPI_Initialized){}));
static_assert(TakesTheSame(kMpi.Finalized, decltype(&MPI_Finalized){}));
static_assert(TakesTheSame(kMpi.Init_thread, decltype(&MPI_Init_thread){}));
static_assert(TakesTheSame(kMpi.Query_thread, decltype(&MPI_Query_thread){}));
static_assert(TakesTheSame(kMpi.Finalize, decltype(&MPI_Finalize){}));
static_assert(TakesTheSame(kMpi.Abort, decltype(&MPI_Abort){}));
static_assert(TakesTheSame(kMpi.Error_string, decltype(&MPI_Error_string){}));
static_assert(TakesTheSame(kMpi.Error_class, decltype(&MPI_Error_class){}));
static_assert(TakesTheSame(kMpi.Comm_rank, decltype(&MPI_Comm_rank){}));
static_assert(TakesTheSame(kMpi.Comm_size, decltype(&MPI_Comm_size){}));
static_assert(TakesTheSame(kMpi.Comm_dup, decltype(&MPI_Comm_dup){}));
static_assert(TakesTheSame(kMpi.Comm_free, decltype(&MPI_Comm_free){}));
static_assert(TakesTheSame(kMpi.Comm_set_errhandler, decltype(&MPI_Comm_set_errhandler){}));
static_assert(TakesTheSame(kMpi.Comm_get_attr, decltype(&MPI_Comm_get_attr){}));
static_assert(TakesTheSame(kMpi.Get_processor_name, decltype(&MPI_Get_processor_name){}));
static_assert(TakesTheSame(kMpi.Bcast, decltype(&MPI_Bcast){}));
static_assert(TakesTheSame(kMpi.Allgather, decltype(&MPI_Allgather){}));
static_assert(TakesTheSame(kMpi.Isend, decltype(&MPI_Isend){}));
static_assert(TakesTheSame(kMpi.Irecv, decltype(&MPI_Irecv){}));
static_assert(TakesTheSame(kMpi.Test, decltype(&MPI_Test){}));
static_assert(TakesTheSame(kMpi.Get_count, decltype(&MPI_Get_count){}));
static_assert(TakesTheSame(kMpi.Cancel, decltype(&MPI_Cancel){}));
static_assert(TakesTheSame(kMpi.Request_free, decltype(&MPI_Request_free){}));

}  // namespace
}  // namespace dtrain::internal
