// mpi_library.h - the calls that the library makes to MPI, whichever MPI library started the job.
// SPDX-License-Identifier: Apache-2.0
//
// The MPI library is opened when a job starts; it is not linked. So one program runs under Open
// MPI 4 and 5, under MPICH and what has MPICH's binary interface (Intel MPI, MVAPICH, Cray MPICH),
// and, as a single process, on a machine without MPI. In Open MPI a communicator is a pointer, in
// MPICH it is a number: mpi_functions.h has both. mpi_abi.cc compares that with this machine's
// mpi.h, if there is one.
//
// All counts are bytes. Functions that can fail throw CommError with MPI's own text.
#ifndef DTRAIN_COMM_INTERNAL_MPI_LIBRARY_H_
#define DTRAIN_COMM_INTERNAL_MPI_LIBRARY_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "dtrain/base/status.h"
#include "dtrain/comm/launch.h"

namespace dtrain::internal {

class MpiLibrary {
 public:
  // A communicator or a request.
  union Handle {
    void* pointer = nullptr;
    int number;
  };
  enum class Life { kNotStarted, kUp, kEnded };
  enum class State { kPending, kDone, kTruncated };
  // In both families of libraries.
  static constexpr int kThreadSerialized = 2;

  virtual ~MpiLibrary() = default;

  // "Open MPI v4.1.4", "MPICH Version: 4.0.2".
  virtual std::string Version() = 0;

  virtual Life Phase() = 0;
  // Starts MPI, asking for a level of thread support, if it is not up; returns the level it gives.
  virtual int InitThread(int level) = 0;
  virtual void Finalize() = 0;
  // Ends all ranks of the job.
  virtual void Abort(int exit_code) = 0;

  virtual Handle World() = 0;
  virtual int Rank(Handle comm) = 0;
  virtual int Size(Handle comm) = 0;
  // The duplicate returns errors; MPI's own communicators end the process.
  virtual Handle Duplicate(Handle comm) = 0;
  virtual void Free(Handle* comm) = 0;
  virtual int LargestTag(Handle comm) = 0;
  // At most 256 characters.
  virtual std::string ProcessorName() = 0;

  virtual void Broadcast(void* data, int bytes, int root, Handle comm) = 0;
  // `all` has room for `bytes` of each rank.
  virtual void AllGather(const void* mine, void* all, int bytes, Handle comm) = 0;

  virtual Handle Send(const void* data, int bytes, int peer, int tag, Handle comm) = 0;
  virtual Handle Receive(void* data, int bytes, int peer, int tag, Handle comm) = 0;
  // Done: the request is free. If it was a receive, `received` gets the number of bytes that came;
  // it is null for a send. Truncated: more came than the request had room for.
  virtual State Test(Handle* request, int* received) = 0;
  virtual void Cancel(Handle* request) = 0;
};

// Opens the MPI library of this process at the first call; later calls return the same one, which
// stays open. Returns UsageError, with the names that were tried, if there is none that fits.
StatusOr<MpiLibrary*> OpenMpiLibrary(const GetEnv& get_env);
// The library that OpenMpiLibrary() opened, or null.
MpiLibrary* OpenedMpiLibrary();

// The files to try, best first: DTRAIN_MPI_LIBRARY alone if it is set; else the library beside
// `launcher`, the program that started this one ("" if not known), and then the names that Open MPI
// and MPICH have. Only those of the launcher's family, where the environment tells which one it is.
std::vector<std::string> MpiLibraryNames(const GetEnv& get_env, const std::string& launcher);

// Opens the first of `names` that is there.
StatusOr<std::unique_ptr<MpiLibrary>> LoadMpiLibrary(const std::vector<std::string>& names);

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_MPI_LIBRARY_H_
