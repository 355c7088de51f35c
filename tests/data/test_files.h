// test_files.h - compressed text for the tests of readers.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_DATA_TEST_FILES_H_
#define DTRAIN_TESTS_DATA_TEST_FILES_H_

#include <zlib.h>
#include <zstd.h>

#include <string>
#include <string_view>

namespace dtrain::testing {

inline std::string Gzip(std::string_view text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  std::string in(text);
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline std::string Zstd(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

}  // namespace dtrain::testing

#endif  // DTRAIN_TESTS_DATA_TEST_FILES_H_
