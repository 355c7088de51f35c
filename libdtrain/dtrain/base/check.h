// check.h - DT_CHECK throws CheckError with the values, the place and the reason.
// SPDX-License-Identifier: Apache-2.0
//
//   const Tensor x = NewTensor({2, 3}, DType::kFloat32);
//   const Tensor gamma = NewTensor({3}, DType::kFloat32);
//   DT_CHECK(x.is_contiguous()) << "the next product needs rows without gaps";
//   DT_CHECK_EQ(x.dim(1), gamma.dim(0)) << "gamma has one entry per column of x";
//
// Checks guard programming contracts: shapes, order of calls. Errors that users or machines can
// cause (files, flags, data) return Status instead; see status.h.
#ifndef DTRAIN_BASE_CHECK_H_
#define DTRAIN_BASE_CHECK_H_

#include <sstream>
#include <stdexcept>
#include <string>

namespace dtrain {

// Thrown when a contract is broken. what() holds the expression, both values, the file and the
// line.
class CheckError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

namespace internal {

// Collects the message of a failed check and throws when it is destroyed.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const std::string& expression);
  CheckFailure(const CheckFailure&) = delete;
  CheckFailure& operator=(const CheckFailure&) = delete;
  // The destructor throws on purpose: the macro's temporary dies after all << have run.
  ~CheckFailure() noexcept(false);

  template <typename T>
  CheckFailure& operator<<(const T& value) {
    message_ << (has_reason_ ? "" : ": ") << value;
    has_reason_ = true;
    return *this;
  }

 private:
  std::ostringstream message_;
  bool has_reason_ = false;
};

// Makes both branches of the macro's conditional expression void.
struct Voidify {
  void operator&(const CheckFailure& /*failure*/) const {}
};

template <typename A, typename B>
std::string DescribeComparison(const char* text, const A& a, const B& b) {
  std::ostringstream out;
  out << text << " (" << a << " vs " << b << ")";
  return out.str();
}

}  // namespace internal
}  // namespace dtrain

// NOLINTBEGIN(bugprone-macro-parentheses): the reason follows by <<, and operators take none.
// Throws CheckError if the condition does not hold: DT_CHECK(n > 0) << "why".
#define DT_CHECK(condition)                     \
  (condition) ? static_cast<void>(0)            \
              : ::dtrain::internal::Voidify() & \
                    ::dtrain::internal::CheckFailure(__FILE__, __LINE__, #condition)

#define DT_CHECK_OP_(a, op, b)                       \
  ((a)op(b)) ? static_cast<void>(0)                  \
             : ::dtrain::internal::Voidify() &       \
                   ::dtrain::internal::CheckFailure( \
                       __FILE__, __LINE__,           \
                       ::dtrain::internal::DescribeComparison(#a " " #op " " #b, (a), (b)))
// NOLINTEND(bugprone-macro-parentheses)

// Throw CheckError with both values if the comparison does not hold.
#define DT_CHECK_EQ(a, b) DT_CHECK_OP_(a, ==, b)
#define DT_CHECK_NE(a, b) DT_CHECK_OP_(a, !=, b)
#define DT_CHECK_LT(a, b) DT_CHECK_OP_(a, <, b)
#define DT_CHECK_LE(a, b) DT_CHECK_OP_(a, <=, b)
#define DT_CHECK_GT(a, b) DT_CHECK_OP_(a, >, b)
#define DT_CHECK_GE(a, b) DT_CHECK_OP_(a, >=, b)

#endif  // DTRAIN_BASE_CHECK_H_
