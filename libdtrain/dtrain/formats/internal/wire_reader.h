// wire_reader.h - reads varints and protocol buffer fields from bytes that may be damaged.
// SPDX-License-Identifier: Apache-2.0
//
// https://protobuf.dev/programming-guides/encoding. It is for the few messages in foreign files,
// for which a .proto would be larger than this reader.
#ifndef DTRAIN_FORMATS_INTERNAL_WIRE_READER_H_
#define DTRAIN_FORMATS_INTERNAL_WIRE_READER_H_

#include <cstdint>
#include <cstring>
#include <string_view>

namespace dtrain::internal {

// Removes a varint from the front of `rest`. Returns false if it does not end or has more than 64
// bits.
inline bool TakeVarint(std::string_view& rest, uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; shift < 64 && !rest.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(rest.front());
    rest.remove_prefix(1);
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

// Removes `size` bytes from the front of `rest`. Returns false if there are fewer.
inline bool TakeBytes(std::string_view& rest, uint64_t size, std::string_view& bytes) {
  if (size > rest.size()) return false;
  bytes = rest.substr(0, size);
  rest.remove_prefix(size);
  return true;
}

// Removes a little-endian number from the front of `rest`.
template <typename T>
bool TakeFixed(std::string_view& rest, T& value) {
  if (rest.size() < sizeof(T)) return false;
  std::memcpy(&value, rest.data(), sizeof(T));
  rest.remove_prefix(sizeof(T));
  return true;
}

// Reads the fields of a message one after the other.
class WireReader {
 public:
  explicit WireReader(std::string_view message) : rest_(message) {}

  // Moves to the next field. Returns false at the end of the message or if it is damaged.
  bool Next() {
    uint64_t tag = 0;
    if (rest_.empty()) return false;
    if (!TakeVarint(rest_, tag)) return Fail();
    number_ = tag >> 3;
    value_ = 0;
    bytes_ = {};
    switch (tag & 7) {
      case 0:
        return TakeVarint(rest_, value_) || Fail();
      case 1:
        return TakeFixed(rest_, value_) || Fail();
      case 2:
        return (TakeVarint(rest_, value_) && TakeBytes(rest_, value_, bytes_)) || Fail();
      case 5: {
        uint32_t value = 0;
        if (!TakeFixed(rest_, value)) return Fail();
        value_ = value;
        return true;
      }
      default:
        return Fail();
    }
  }
  bool failed() const { return failed_; }

  // The current field: its number, its value (for bytes, their count), and its bytes.
  uint64_t number() const { return number_; }
  uint64_t value() const { return value_; }
  std::string_view bytes() const { return bytes_; }

 private:
  bool Fail() {
    failed_ = true;
    return false;
  }

  std::string_view rest_;
  uint64_t number_ = 0;
  uint64_t value_ = 0;
  std::string_view bytes_;
  bool failed_ = false;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_FORMATS_INTERNAL_WIRE_READER_H_
