// common.h - headers of others that most files include, which clang-tidy parses once for all.
// SPDX-License-Identifier: Apache-2.0
//
// Files still include what they use: the compilers do not see this one.
#ifndef DTRAIN_TOOLS_TIDY_COMMON_H_
#define DTRAIN_TOOLS_TIDY_COMMON_H_

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>
#include <absl/strings/string_view.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#endif  // DTRAIN_TOOLS_TIDY_COMMON_H_
