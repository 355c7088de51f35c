// number_text.cc - numbers with separators and units.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/report/number_text.h"

#include <cmath>

#include "absl/strings/str_format.h"

namespace dtrain {
namespace {

constexpr char kNotKnown[] = "not known";

// Puts commas between the thousands of "-1234567.89".
std::string WithSeparators(std::string digits) {
  const size_t first = digits.find_first_of("0123456789");
  size_t end = digits.find('.');
  if (end == std::string::npos) end = digits.size();
  for (size_t i = end; i > first + 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

}  // namespace

std::string Thousands(double count) { return FixedNumber(count, 0); }

std::string FixedNumber(double value, int decimals) {
  if (!std::isfinite(value)) return kNotKnown;
  if (std::abs(value) >= 1e15) return absl::StrFormat("%.3g", value);
  return WithSeparators(absl::StrFormat("%.*f", decimals, value));
}

std::string ShortNumber(double value) {
  if (!std::isfinite(value)) return kNotKnown;
  const double size = std::abs(value);
  if (size >= 1e15) return absl::StrFormat("%.3g", value);
  if (size >= 1e6) return FixedNumber(value / 1e6, 2) + " million";
  if (size >= 1000.0) return FixedNumber(value, 0);
  return absl::StrFormat("%.3g", value);
}

std::string PercentText(double share) {
  if (!std::isfinite(share)) return kNotKnown;
  return absl::StrFormat("%.*f %%", std::abs(share) < 0.0995 ? 1 : 0, 100.0 * share);
}

std::string BytesText(double bytes) {
  if (!std::isfinite(bytes)) return kNotKnown;
  if (bytes >= 1e9) return FixedNumber(bytes / 1e9, 2) + " GB";
  if (bytes >= 1e5) return FixedNumber(bytes / 1e6, 1) + " MB";
  if (bytes >= 1e3) return FixedNumber(bytes / 1e3, 1) + " kB";
  return FixedNumber(bytes, 0) + " bytes";
}

std::string DurationText(double seconds) {
  if (!std::isfinite(seconds) || std::abs(seconds) > 1e12) return "an unknown time";
  if (seconds < 9.95) return absl::StrFormat("%.1f s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  const int64_t minutes = whole / 60;
  const int64_t hours = whole / 3600;
  if (hours >= 48) return absl::StrFormat("%d days %d h", hours / 24, hours % 24);
  if (hours > 0) return absl::StrFormat("%d h %02d min", hours, minutes % 60);
  if (minutes > 0) return absl::StrFormat("%d min %02d s", minutes, whole % 60);
  return absl::StrFormat("%d s", whole);
}

std::string CountOfThings(double count, const std::string& thing) {
  return Thousands(count) + " " + thing + (count == 1.0 ? "" : "s");
}

}  // namespace dtrain
