// mpi_functions.h - MPI's functions as Open MPI and as MPICH export them, and the calls over them.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_MPI_FUNCTIONS_H_
#define DTRAIN_COMM_INTERNAL_MPI_FUNCTIONS_H_

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "absl/strings/ascii.h"
#include "dtrain/comm/communicator.h"
#include "dtrain/comm/internal/mpi_library.h"

namespace dtrain::internal {

// The two families. Their numbers have been part of stable binary interfaces since Open MPI 1.7 and
// MPICH 3.1 (the MPICH ABI compatibility initiative).
struct OpenMpiAbi {
  using Handle = void*;
  static constexpr int kTagUpperBound = 0;
  static constexpr int kErrorTruncate = 15;
  static Handle& Of(MpiLibrary::Handle& handle) { return handle.pointer; }
  // MPI's own objects are variables of the library.
  static Handle World(void* library) { return dlsym(library, "ompi_mpi_comm_world"); }
  static Handle Byte(void* library) { return dlsym(library, "ompi_mpi_byte"); }
  static Handle ErrorsReturn(void* library) { return dlsym(library, "ompi_mpi_errors_return"); }
  static Handle NoRequest(void* library) { return dlsym(library, "ompi_request_null"); }
};

struct MpichAbi {
  using Handle = int;
  static constexpr int kTagUpperBound = 0x64400001;
  static constexpr int kErrorTruncate = 14;
  static Handle& Of(MpiLibrary::Handle& handle) { return handle.number; }
  static constexpr Handle World(void* /*library*/) { return 0x44000000; }
  static constexpr Handle Byte(void* /*library*/) { return 0x4c00010d; }
  static constexpr Handle ErrorsReturn(void* /*library*/) { return 0x54000001; }
  static constexpr Handle NoRequest(void* /*library*/) { return 0x2c000000; }
};

// Larger than both families' MPI_Status, which only MPI_Get_count reads.
struct MpiStatus {
  std::array<int64_t, 8> words{};
};

template <typename Handle>
struct MpiFunctions {
  int (*Get_library_version)(char* text, int* length);
  int (*Initialized)(int* flag);
  int (*Finalized)(int* flag);
  int (*Init_thread)(int* argc, char*** argv, int required, int* provided);
  int (*Query_thread)(int* provided);
  int (*Finalize)();
  int (*Abort)(Handle comm, int code);
  int (*Error_string)(int code, char* text, int* length);
  int (*Error_class)(int code, int* error_class);
  int (*Comm_rank)(Handle comm, int* rank);
  int (*Comm_size)(Handle comm, int* size);
  int (*Comm_dup)(Handle comm, Handle* copy);
  int (*Comm_free)(Handle* comm);
  int (*Comm_set_errhandler)(Handle comm, Handle handler);
  int (*Comm_get_attr)(Handle comm, int key, void* value, int* found);
  int (*Get_processor_name)(char* name, int* length);
  int (*Bcast)(void* data, int count, Handle type, int root, Handle comm);
  int (*Allgather)(const void* from, int from_count, Handle from_type, void* to, int to_count,
                   Handle to_type, Handle comm);
  int (*Isend)(const void* data, int count, Handle type, int peer, int tag, Handle comm,
               Handle* request);
  int (*Irecv)(void* data, int count, Handle type, int peer, int tag, Handle comm, Handle* request);
  int (*Test)(Handle* request, int* flag, void* status);
  int (*Get_count)(const void* status, Handle type, int* count);
  int (*Cancel)(Handle* request);
  int (*Request_free)(Handle* request);
};

template <typename Abi>
class LoadedMpi final : public MpiLibrary {
 public:
  // Keeps `library`, a handle of dlopen(). `missing` gets the name of a function that it lacks.
  LoadedMpi(void* library, std::string* missing) : library_(library) {
    const auto load = [&](const char* name, auto& function) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
      if (function == nullptr && missing->empty()) *missing = name;
    };
    load("MPI_Get_library_version", f_.Get_library_version);
    load("MPI_Initialized", f_.Initialized);
    load("MPI_Finalized", f_.Finalized);
    load("MPI_Init_thread", f_.Init_thread);
    load("MPI_Query_thread", f_.Query_thread);
    load("MPI_Finalize", f_.Finalize);
    load("MPI_Abort", f_.Abort);
    load("MPI_Error_string", f_.Error_string);
    load("MPI_Error_class", f_.Error_class);
    load("MPI_Comm_rank", f_.Comm_rank);
    load("MPI_Comm_size", f_.Comm_size);
    load("MPI_Comm_dup", f_.Comm_dup);
    load("MPI_Comm_free", f_.Comm_free);
    load("MPI_Comm_set_errhandler", f_.Comm_set_errhandler);
    load("MPI_Comm_get_attr", f_.Comm_get_attr);
    load("MPI_Get_processor_name", f_.Get_processor_name);
    load("MPI_Bcast", f_.Bcast);
    load("MPI_Allgather", f_.Allgather);
    load("MPI_Isend", f_.Isend);
    load("MPI_Irecv", f_.Irecv);
    load("MPI_Test", f_.Test);
    load("MPI_Get_count", f_.Get_count);
    load("MPI_Cancel", f_.Cancel);
    load("MPI_Request_free", f_.Request_free);
  }

  std::string Version() override {
    std::array<char, kLongestText> text{};
    int length = 0;
    f_.Get_library_version(text.data(), &length);
    // MPICH's is a table, of which the first line is "MPICH Version:\t4.0.2".
    const std::string_view all(text.data());
    std::string line(all.substr(0, all.find_first_of(",\n")));
    absl::RemoveExtraAsciiWhitespace(&line);
    std::replace(line.begin(), line.end(), '\t', ' ');
    return line;
  }

  Life Phase() override {
    int is_initialized = 0;
    int is_finalized = 0;
    f_.Initialized(&is_initialized);
    f_.Finalized(&is_finalized);
    if (is_finalized != 0) return Life::kEnded;
    return is_initialized != 0 ? Life::kUp : Life::kNotStarted;
  }
  int InitThread(int level) override {
    int provided = 0;
    if (Phase() == Life::kUp) {
      Check(f_.Query_thread(&provided), "MPI_Query_thread");
    } else {
      Check(f_.Init_thread(nullptr, nullptr, level, &provided), "MPI_Init_thread");
    }
    return provided;
  }
  void Finalize() override { f_.Finalize(); }
  void Abort(int exit_code) override { f_.Abort(Abi::World(library_), exit_code); }

  Handle World() override {
    Handle world;
    Abi::Of(world) = Abi::World(library_);
    return world;
  }
  int Rank(Handle comm) override {
    int rank = 0;
    Check(f_.Comm_rank(Abi::Of(comm), &rank), "MPI_Comm_rank");
    return rank;
  }
  int Size(Handle comm) override {
    int size = 0;
    Check(f_.Comm_size(Abi::Of(comm), &size), "MPI_Comm_size");
    return size;
  }
  Handle Duplicate(Handle comm) override {
    Handle copy;
    Check(f_.Comm_dup(Abi::Of(comm), &Abi::Of(copy)), "MPI_Comm_dup");
    Check(f_.Comm_set_errhandler(Abi::Of(copy), Abi::ErrorsReturn(library_)),
          "MPI_Comm_set_errhandler");
    return copy;
  }
  void Free(Handle* comm) override { f_.Comm_free(&Abi::Of(*comm)); }
  int LargestTag(Handle comm) override {
    constexpr int kLeastOfAll = 32767;
    int* limit = nullptr;
    int found = 0;
    Check(f_.Comm_get_attr(Abi::Of(comm), Abi::kTagUpperBound, static_cast<void*>(&limit), &found),
          "MPI_Comm_get_attr");
    return found != 0 ? *limit : kLeastOfAll;
  }
  std::string ProcessorName() override {
    std::array<char, kLongestText> name{};
    int length = 0;
    Check(f_.Get_processor_name(name.data(), &length), "MPI_Get_processor_name");
    return name.data();
  }

  void Broadcast(void* data, int bytes, int root, Handle comm) override {
    Check(f_.Bcast(data, bytes, byte_, root, Abi::Of(comm)), "MPI_Bcast");
  }
  void AllGather(const void* mine, void* all, int bytes, Handle comm) override {
    Check(f_.Allgather(mine, bytes, byte_, all, bytes, byte_, Abi::Of(comm)), "MPI_Allgather");
  }

  Handle Send(const void* data, int bytes, int peer, int tag, Handle comm) override {
    Handle request = NoRequest();
    Check(f_.Isend(data, bytes, byte_, peer, tag, Abi::Of(comm), &Abi::Of(request)), "MPI_Isend");
    return request;
  }
  Handle Receive(void* data, int bytes, int peer, int tag, Handle comm) override {
    Handle request = NoRequest();
    Check(f_.Irecv(data, bytes, byte_, peer, tag, Abi::Of(comm), &Abi::Of(request)), "MPI_Irecv");
    return request;
  }
  State Test(Handle* request, int* received) override {
    int flag = 0;
    MpiStatus status;
    const int code = f_.Test(&Abi::Of(*request), &flag, &status);
    if (code != 0) {
      int error_class = 0;
      f_.Error_class(code, &error_class);
      if (error_class == Abi::kErrorTruncate) return State::kTruncated;
      Check(code, "MPI_Test");
    }
    if (flag == 0) return State::kPending;
    if (received != nullptr) Check(f_.Get_count(&status, byte_, received), "MPI_Get_count");
    return State::kDone;
  }
  void Cancel(Handle* request) override {
    f_.Cancel(&Abi::Of(*request));
    f_.Request_free(&Abi::Of(*request));
  }

 private:
  // At least MPI_MAX_LIBRARY_VERSION_STRING, the longest text of any of them.
  static constexpr size_t kLongestText = 8192;

  void Check(int code, const char* call) {
    if (code == 0) return;
    std::array<char, kLongestText> text{};
    int length = 0;
    f_.Error_string(code, text.data(), &length);
    throw CommError(std::string(text.data()) + " in " + call);
  }
  Handle NoRequest() {
    Handle none;
    Abi::Of(none) = Abi::NoRequest(library_);
    return none;
  }

  void* const library_;
  MpiFunctions<typename Abi::Handle> f_{};
  const typename Abi::Handle byte_ = Abi::Byte(library_);
};

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_MPI_FUNCTIONS_H_
