// fuzz_file.h - the fuzzer's bytes as a file, for parsers that take a path.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_FUZZ_FUZZ_FILE_H_
#define DTRAIN_TESTS_FUZZ_FUZZ_FILE_H_

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace dtrain {

// Lies in memory and is gone with this object.
class FuzzFile {
 public:
  FuzzFile(const uint8_t* data, size_t size) : descriptor_(::memfd_create("fuzz", 0)) {
    if (descriptor_ < 0) std::abort();
    for (size_t done = 0; done < size;) {
      const ssize_t written = ::write(descriptor_, data + done, size - done);
      if (written <= 0) std::abort();
      done += static_cast<size_t>(written);
    }
  }
  FuzzFile(const FuzzFile&) = delete;
  FuzzFile& operator=(const FuzzFile&) = delete;
  ~FuzzFile() { ::close(descriptor_); }

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace dtrain

#endif  // DTRAIN_TESTS_FUZZ_FUZZ_FILE_H_
