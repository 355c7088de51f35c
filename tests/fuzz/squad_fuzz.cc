// squad_fuzz.cc - whatever the bytes, a SQuAD file is read or refused, and answers stand in texts.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>
#include <string_view>

#include "dtrain/base/check.h"
#include "dtrain/base/utf8.h"
#include "dtrain/tasks/question_answering/squad_reader.h"

namespace dtrain {
namespace {

void CheckSet(const SquadSet& set) {
  DT_CHECK(!set.questions.empty());
  for (const SquadQuestion& question : set.questions) {
    DT_CHECK(question.context >= 0 && question.context < static_cast<int64_t>(set.contexts.size()));
    const std::string& context = set.contexts[static_cast<size_t>(question.context)];
    DT_CHECK(!context.empty() && IsValidUtf8(context) && IsValidUtf8(question.text));
    DT_CHECK(!question.is_impossible || question.answers.empty());
    for (const SquadAnswer& answer : question.answers) {
      if (answer.begin == SquadAnswer::kNowhere) continue;
      DT_CHECK(!answer.text.empty());
      DT_CHECK(answer.begin >= 0 && answer.begin < static_cast<int64_t>(context.size()));
      DT_CHECK(context.substr(static_cast<size_t>(answer.begin)).starts_with(answer.text));
    }
  }
}

}  // namespace
}  // namespace dtrain

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  dtrain::SquadSet set;
  const dtrain::Status status =
      dtrain::ParseSquad(text, "x.json", dtrain::SquadAnswers::kOptional, set);
  if (status.ok()) {
    dtrain::CheckSet(set);
    for (const auto& question : set.questions) DT_CHECK(question.answers.empty());
    // Its own ids are there already.
    DT_CHECK(!dtrain::ParseSquad(text, "x.json", dtrain::SquadAnswers::kOptional, set).ok());
  } else {
    DT_CHECK(status.code() == dtrain::ExitCode::kData) << status.message();
  }
  dtrain::SquadSet required;
  if (dtrain::ParseSquad(text, "x.json", dtrain::SquadAnswers::kRequired, required).ok()) {
    DT_CHECK(status.ok()) << status.message();
    dtrain::CheckSet(required);
  }
  return 0;
}
