// mpi_error.h - DT_MPI: calls MPI, and throws CommError with MPI's own text if the call fails.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_MPI_ERROR_H_
#define DTRAIN_COMM_INTERNAL_MPI_ERROR_H_

#include <mpi.h>

#include <string>

#include "dtrain/comm/communicator.h"

namespace dtrain::internal {

inline void ThrowOnMpiError(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw CommError(std::string(text, static_cast<size_t>(length)) + " in " + call);
}

}  // namespace dtrain::internal

#define DT_MPI(call) ::dtrain::internal::ThrowOnMpiError((call), #call)

#endif  // DTRAIN_COMM_INTERNAL_MPI_ERROR_H_
