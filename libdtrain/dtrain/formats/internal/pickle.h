// pickle.h - reads Python pickles without running code: values, and calls by name.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_FORMATS_INTERNAL_PICKLE_H_
#define DTRAIN_FORMATS_INTERNAL_PICKLE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dtrain/base/status.h"

namespace dtrain::internal {

// One value. Values are shared, and dictionaries may contain themselves, so this uses shared_ptr.
struct PickleValue {
  enum class Kind {
    kNone,        // also values that are not needed here: floating-point numbers, bytes
    kInteger,     // also true and false
    kText,        // `text` is the text
    kName,        // `text` is "module.name" of a class or function
    kList,        // `items` are the items of a list or tuple
    kDictionary,  // `pairs` are its entries
    kCall,        // `text` names the function; `items` is one list, its arguments
    kPersistent   // `items` is the one value that identifies an external object
  };
  Kind kind = Kind::kNone;
  int64_t integer = 0;
  std::string text = {};
  std::vector<std::shared_ptr<PickleValue>> items = {};
  std::vector<std::pair<std::shared_ptr<PickleValue>, std::shared_ptr<PickleValue>>> pairs = {};
};
using PicklePointer = std::shared_ptr<PickleValue>;

// The values of one pickle. The destructor takes values apart, so that values which contain
// themselves are freed.
class Pickle {
 public:
  // Supports protocols 2 to 5. Returns StorageError with `path` if the pickle is damaged or
  // contains things that a state_dict does not.
  static StatusOr<Pickle> Parse(const std::string& path, std::string_view bytes);
  Pickle(Pickle&&) = default;
  Pickle& operator=(Pickle&&) = default;
  ~Pickle();

  const PickleValue& root() const { return *root_; }

 private:
  friend class PickleMachine;
  Pickle() = default;

  std::vector<PicklePointer> all_;
  PicklePointer root_;
};

}  // namespace dtrain::internal

#endif  // DTRAIN_FORMATS_INTERNAL_PICKLE_H_
