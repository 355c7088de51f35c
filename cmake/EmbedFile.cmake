# EmbedFile.cmake - turns a file into a C++ function that returns its bytes.
# SPDX-License-Identifier: Apache-2.0
#
# cmake -DINPUT=file -DOUTPUT=file.cc -DFUNCTION=Name -P EmbedFile.cmake
# defines  std::string_view dtrain::internal::Name()  in file.cc. With -DDIGEST=Other also
# Other(), which returns the SHA-256 of the bytes in hexadecimal digits.
file(READ ${INPUT} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "((0x..,)(0x..,)(0x..,)(0x..,)(0x..,)(0x..,)(0x..,)(0x..,))" "\\1\n" bytes
  "${bytes}")
set(digest)
if(DIGEST)
  file(SHA256 ${INPUT} sha256)
  set(digest "std::string_view ${DIGEST}();
std::string_view ${DIGEST}() { return \"${sha256}\"; }
")
endif()
file(WRITE ${OUTPUT} "#include <string_view>
namespace dtrain::internal {
namespace {
constexpr unsigned char kBytes[] = {
${bytes}};
}
std::string_view ${FUNCTION}();
std::string_view ${FUNCTION}() { return {reinterpret_cast<const char*>(kBytes), sizeof(kBytes)}; }
${digest}}  // namespace dtrain::internal
")
