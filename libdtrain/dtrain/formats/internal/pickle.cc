// pickle.cc - the stack machine of pickletools.py, without instructions that create objects.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/formats/internal/pickle.h"

#include <map>

#include "absl/strings/str_format.h"
#include "dtrain/formats/internal/wire_reader.h"

namespace dtrain::internal {

using Kind = PickleValue::Kind;

class PickleMachine {
 public:
  PickleMachine(const std::string& path, std::string_view bytes)
      : path_(path), size_(bytes.size()), rest_(bytes) {}

  StatusOr<Pickle> Run() {
    while (!done_) {
      const size_t at = size_ - rest_.size();
      uint8_t code = 0;
      if (!TakeFixed(rest_, code)) return Damaged(at);
      const Step step = Execute(code);
      if (step == Step::kDamaged) return Damaged(at);
      if (step == Step::kForeign) {
        return StorageError(absl::StrFormat(
            "%s: the pickle's instruction 0x%02x at byte %d does not occur in a plain state_dict",
            path_, code, at));
      }
    }
    pickle_.root_ = stack_.back();
    return std::move(pickle_);
  }

 private:
  enum class Step { kGood, kDamaged, kForeign };

  Status Damaged(size_t at) const {
    return StorageError(
        absl::StrFormat("%s: damaged: its pickle ends early or is invalid at byte %d", path_, at));
  }

  static Step Good(bool good) { return good ? Step::kGood : Step::kDamaged; }

  Step Execute(uint8_t code) {
    switch (code) {
      case 0x80:  // PROTO
        return Good(Skip(1));
      case 0x95:  // FRAME
        return Good(Skip(8));
      case '.':
        done_ = true;
        return Good(stack_.size() == 1 && marks_.empty());
      case '(':
        marks_.push_back(stack_.size());
        return Step::kGood;
      case '0':
        if (stack_.empty()) return Step::kDamaged;
        stack_.pop_back();
        return Step::kGood;
      case 'K':
      case 'M':
      case 'J':
      case 0x8a:
      case 0x88:
      case 0x89:
        return Good(PushInteger(code));
      case 'N':
        return Good(Push({}));
      case 'G':  // BINFLOAT
        return Good(Skip(8) && Push({}));
      case 'X':
      case 0x8c:
      case 0x8d:
      case 'U':
      case 'T':
        return Good(PushText(code));
      case 'c':
      case 0x93:
        return Good(PushName(code));
      default:
        return Build(code);
    }
  }

  // Instructions that combine values.
  Step Build(uint8_t code) {
    switch (code) {
      case ')':
      case ']':
        return Good(Push({.kind = Kind::kList}));
      case '}':
        return Good(Push({.kind = Kind::kDictionary}));
      case 't':
      case 'l':
        return Good(PushMarked());
      case 0x85:
      case 0x86:
      case 0x87:
        return Good(PushTuple(code - 0x84u));
      case 'a':
        return Good(Append(1));
      case 'e':
        return Good(!marks_.empty() && Append(TakeMark()));
      case 's':
        return Good(SetItems(2));
      case 'u':
        return Good(!marks_.empty() && SetItems(TakeMark()));
      case 'R':
        return Good(Call());
      case 'b':  // BUILD: attributes; for an OrderedDict its _metadata
        if (stack_.size() < 2) return Step::kDamaged;
        stack_.pop_back();
        return Step::kGood;
      case 'Q':
        return Good(PushPersistent());
      case 'q':
      case 'r':
      case 0x94:
        return Good(Remember(code));
      case 'h':
      case 'j':
        return Good(Recall(code));
      default:
        return Step::kForeign;
    }
  }

  bool Skip(size_t bytes) {
    std::string_view unused;
    return TakeBytes(rest_, bytes, unused);
  }

  bool Push(PickleValue value) {
    stack_.push_back(std::make_shared<PickleValue>(std::move(value)));
    pickle_.all_.push_back(stack_.back());
    return true;
  }

  // Reads an unsigned number of `bytes` bytes.
  bool TakeNumber(size_t bytes, uint64_t& value) {
    std::string_view digits;
    if (!TakeBytes(rest_, bytes, digits)) return false;
    value = 0;
    for (size_t i = bytes; i-- > 0;) value = value << 8 | static_cast<uint8_t>(digits[i]);
    return true;
  }

  bool PushInteger(uint8_t code) {
    if (code == 0x88 || code == 0x89) {
      return Push({.kind = Kind::kInteger, .integer = code == 0x88});
    }
    uint64_t bytes = code == 'K' ? 1 : code == 'M' ? 2 : 4;
    if (code == 0x8a && (!TakeNumber(1, bytes) || bytes > 8)) return false;  // LONG1
    uint64_t value = 0;
    if (!TakeNumber(bytes, value)) return false;
    const bool has_sign = code == 'J' || code == 0x8a;
    const uint64_t sign = bytes == 0 ? 0 : value >> (8 * bytes - 1) & 1;
    if (has_sign && sign != 0 && bytes < 8) value |= ~uint64_t{0} << (8 * bytes);
    return Push({.kind = Kind::kInteger, .integer = static_cast<int64_t>(value)});
  }

  bool PushText(uint8_t code) {
    const size_t width = code == 0x8c || code == 'U' ? 1 : code == 0x8d ? 8 : 4;
    uint64_t size = 0;
    std::string_view text;
    if (!TakeNumber(width, size) || !TakeBytes(rest_, size, text)) return false;
    return Push({.kind = Kind::kText, .text = std::string(text)});
  }

  bool PushName(uint8_t code) {
    std::string name;
    if (code == 0x93) {  // STACK_GLOBAL
      if (stack_.size() < 2 || stack_.back()->kind != Kind::kText) return false;
      name = "." + stack_.back()->text;
      stack_.pop_back();
      if (stack_.back()->kind != Kind::kText) return false;
      name = stack_.back()->text + name;
      stack_.pop_back();
    } else {
      for (const char* const between : {".", ""}) {
        const size_t end = rest_.find('\n');
        if (end == std::string_view::npos) return false;
        name.append(rest_.substr(0, end)).append(between);
        rest_.remove_prefix(end + 1);
      }
    }
    return Push({.kind = Kind::kName, .text = std::move(name)});
  }

  // Returns the number of values above the last mark, and removes the mark.
  size_t TakeMark() {
    const size_t mark = marks_.back();
    marks_.pop_back();
    return mark <= stack_.size() ? stack_.size() - mark : stack_.size() + 1;
  }

  bool PushTuple(size_t count) {
    // Values below a mark belong to another object.
    if (count > stack_.size()) return false;
    PickleValue tuple{.kind = Kind::kList};
    tuple.items.assign(stack_.end() - static_cast<ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return Push(std::move(tuple));
  }
  bool PushMarked() { return !marks_.empty() && PushTuple(TakeMark()); }

  bool Append(size_t count) {
    if (stack_.size() < count + 1) return false;
    PickleValue& list = *stack_[stack_.size() - count - 1];
    if (list.kind != Kind::kList) return false;
    list.items.insert(list.items.end(), stack_.end() - static_cast<ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return true;
  }

  bool SetItems(size_t count) {
    if (stack_.size() < count + 1 || count % 2 != 0) return false;
    PickleValue& dictionary = *stack_[stack_.size() - count - 1];
    if (dictionary.kind != Kind::kDictionary) return false;
    for (size_t i = stack_.size() - count; i < stack_.size(); i += 2) {
      dictionary.pairs.emplace_back(stack_[i], stack_[i + 1]);
    }
    stack_.resize(stack_.size() - count);
    return true;
  }

  // Nothing is called. An OrderedDict becomes a dictionary; other calls are stored.
  bool Call() {
    if (stack_.size() < 2) return false;
    const PicklePointer arguments = stack_.back();
    stack_.pop_back();
    const PicklePointer function = stack_.back();
    stack_.pop_back();
    if (function->kind != Kind::kName || arguments->kind != Kind::kList) return false;
    if (function->text == "collections.OrderedDict" && arguments->items.empty()) {
      return Push({.kind = Kind::kDictionary});
    }
    return Push({.kind = Kind::kCall, .text = function->text, .items = {arguments}});
  }

  bool PushPersistent() {
    if (stack_.empty()) return false;
    const PicklePointer id = stack_.back();
    stack_.pop_back();
    return Push({.kind = Kind::kPersistent, .items = {id}});
  }

  bool Remember(uint8_t code) {
    uint64_t slot = memo_.size();
    if (stack_.empty() || (code != 0x94 && !TakeNumber(code == 'q' ? 1 : 4, slot))) return false;
    memo_[slot] = stack_.back();
    return true;
  }

  bool Recall(uint8_t code) {
    uint64_t slot = 0;
    if (!TakeNumber(code == 'h' ? 1 : 4, slot)) return false;
    const auto found = memo_.find(slot);
    if (found == memo_.end()) return false;
    stack_.push_back(found->second);
    return true;
  }

  const std::string& path_;
  size_t size_;
  std::string_view rest_;
  bool done_ = false;
  std::vector<PicklePointer> stack_;
  std::vector<size_t> marks_;
  std::map<uint64_t, PicklePointer> memo_;
  Pickle pickle_;
};

StatusOr<Pickle> Pickle::Parse(const std::string& path, std::string_view bytes) {
  return PickleMachine(path, bytes).Run();
}

Pickle::~Pickle() {
  // Values may form cycles, and chains too deep for nested destructors.
  for (const PicklePointer& value : all_) {
    value->items.clear();
    value->pairs.clear();
  }
}

}  // namespace dtrain::internal
