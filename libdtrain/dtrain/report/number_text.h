// number_text.h - numbers as people read them: 1,234; 21.9 MB; 3 h 05 min; 12 %.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_REPORT_NUMBER_TEXT_H_
#define DTRAIN_REPORT_NUMBER_TEXT_H_

#include <cstdint>
#include <string>

namespace dtrain {

// "1,234,567".
std::string Thousands(double count);
// Three significant digits, thousands separated, millions as a word: "0.0123", "1,234",
// "2.55 million". "not known" for NaN.
std::string ShortNumber(double value);
// With so many decimals, thousands separated.
std::string FixedNumber(double value, int decimals);
// A share of 0 to 1 in percent: "12 %", below 10 % with one decimal.
std::string PercentText(double share);
// Decimal units: "21.9 MB".
std::string BytesText(double bytes);
// "45 s", "3 min 20 s", "18 h 05 min", "2 days 3 h".
std::string DurationText(double seconds);
// "1 time", "2 times".
std::string CountOfThings(double count, const std::string& thing);

}  // namespace dtrain

#endif  // DTRAIN_REPORT_NUMBER_TEXT_H_
