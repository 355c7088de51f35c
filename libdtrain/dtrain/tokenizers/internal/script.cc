// script.cc - scripts from the Unicode blocks, categories from utf8proc.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tokenizers/internal/script.h"

#include <utf8proc.h>

namespace dtrain::internal {
namespace {

enum Script : uint16_t {
  kLatin = 2,
  kGreek,
  kCyrillic,
  kArmenian,
  kHebrew,
  kArabic,
  kTibetan,
  kGeorgian,
  kHangul,
  kEthiopic,
  kCherokee,
  kMongolian,
  kHan,
  kYi,
  kFirstBlock
};

struct Block {
  uint32_t first;
  uint32_t last;
  Script script;
};

// Scripts that fill one aligned block of 128 code points (most Indian scripts and others) are not
// listed.
constexpr Block kBlocks[] = {
    {0x0000, 0x02FF, kLatin},    {0x0370, 0x03FF, kGreek},     {0x0400, 0x052F, kCyrillic},
    {0x0530, 0x058F, kArmenian}, {0x0590, 0x05FF, kHebrew},    {0x0600, 0x06FF, kArabic},
    {0x0750, 0x077F, kArabic},   {0x0870, 0x08FF, kArabic},    {0x0F00, 0x0FFF, kTibetan},
    {0x10A0, 0x10FF, kGeorgian}, {0x1100, 0x11FF, kHangul},    {0x1200, 0x139F, kEthiopic},
    {0x13A0, 0x13FF, kCherokee}, {0x1800, 0x18AF, kMongolian}, {0x1C80, 0x1C8F, kCyrillic},
    {0x1C90, 0x1CBF, kGeorgian}, {0x1D00, 0x1DBF, kLatin},     {0x1E00, 0x1EFF, kLatin},
    {0x1F00, 0x1FFF, kGreek},    {0x2C60, 0x2C7F, kLatin},     {0x2D00, 0x2D2F, kGeorgian},
    {0x2D80, 0x2DDF, kEthiopic}, {0x2DE0, 0x2DFF, kCyrillic},  {0x2E80, 0x312F, kHan},
    {0x3130, 0x318F, kHangul},   {0x3190, 0x9FFF, kHan},       {0xA000, 0xA4CF, kYi},
    {0xA640, 0xA69F, kCyrillic}, {0xA720, 0xA7FF, kLatin},     {0xA960, 0xA97F, kHangul},
    {0xAB00, 0xAB2F, kEthiopic}, {0xAB30, 0xAB6F, kLatin},     {0xAB70, 0xABBF, kCherokee},
    {0xAC00, 0xD7FF, kHangul},   {0xF900, 0xFAFF, kHan},       {0xFB00, 0xFB06, kLatin},
    {0xFB1D, 0xFB4F, kHebrew},   {0xFB50, 0xFDFF, kArabic},    {0xFE70, 0xFEFF, kArabic},
    {0xFF21, 0xFF5A, kLatin},    {0xFF66, 0xFF9F, kHan},       {0xFFA0, 0xFFDC, kHangul},
    {0x1B000, 0x1B16F, kHan},    {0x20000, 0x323AF, kHan},
};

utf8proc_category_t Category(uint32_t code_point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

}  // namespace

bool IsDigit(uint32_t code_point) { return Category(code_point) == UTF8PROC_CATEGORY_ND; }

uint16_t ScriptOf(uint32_t code_point) {
  switch (Category(code_point)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
      return kAnyScript;
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      break;
    default:
      return kCommonScript;
  }
  for (const Block& block : kBlocks) {
    if (code_point >= block.first && code_point <= block.last) return block.script;
  }
  return static_cast<uint16_t>(kFirstBlock + (code_point >> 7));
}

}  // namespace dtrain::internal
