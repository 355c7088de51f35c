// pickle.h - a reader of Python pickles that runs nothing: values, and calls noted by name.
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

// One value. Pickles share values (and dictionaries may hold themselves), hence the shared_ptr.
struct PickleValue {
  enum class Kind {
    kNone,        // also what nobody here looks into: floating-point numbers, bytes
    kInteger,     // and truth values
    kText,        // text
    kName,        // text: "module.name" of a class or function
    kList,        // items: of lists and tuples
    kDictionary,  // pairs
    kCall,        // text: of what; items: one list, its arguments
    kPersistent   // items: the one value that stands for something outside
  };
  Kind kind = Kind::kNone;
  int64_t integer = 0;
  std::string text = {};
  std::vector<std::shared_ptr<PickleValue>> items = {};
  std::vector<std::pair<std::shared_ptr<PickleValue>, std::shared_ptr<PickleValue>>> pairs = {};
};
using PicklePointer = std::shared_ptr<PickleValue>;

// The values of one pickle. They are taken apart here, so that one that holds itself frees its
// memory.
class Pickle {
 public:
  // Protocols 2 to 5. StorageError with `path` where the pickle is damaged or holds what no
  // state_dict does.
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
