// squad_reader.cc - takes each article out of the JSON as soon as it is parsed, then drops it.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/question_answering/squad_reader.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtrain/base/crc.h"
#include "dtrain/base/internal/abseil_text.h"
#include "dtrain/base/log.h"
#include "dtrain/base/utf8.h"
#include "dtrain/data/internal/byte_source.h"

namespace dtrain {
namespace {

using Json = nlohmann::json;
using Event = Json::parse_event_t;

// "FILE: line 3, column 14: " for a byte of the text.
std::string PlaceOf(const std::string& name, std::string_view text, size_t byte) {
  const std::string_view before = text.substr(0, byte);
  const size_t newline = before.rfind('\n');
  const size_t column = newline == std::string_view::npos ? byte : byte - newline - 1;
  return absl::StrFormat("%s: line %d, column %d: ", name,
                         std::count(before.begin(), before.end(), '\n') + 1, column + 1);
}

// The parser's message, without its own description of the place and the text it quotes.
std::string ReasonOf(const nlohmann::json::exception& error) {
  std::string reason = error.what();
  if (const size_t place = reason.find("syntax error"); place != std::string::npos) {
    reason.erase(0, place);
  }
  return reason.substr(0, reason.find("; last read"));
}

// The byte at which code point `index` begins, or text.size() if there are fewer code points.
size_t ByteOfCodePoint(std::string_view text, int64_t index) {
  size_t byte = 0;
  for (; byte < text.size(); ++byte) {
    const bool begins = (static_cast<uint8_t>(text[byte]) & 0xC0u) != 0x80u;
    if (begins && index-- <= 0) break;
  }
  return byte;
}

// The position of `text` in `context` that is nearest to `wanted`; of two equally near ones, the
// earlier. npos if there is none.
size_t NearestPlace(std::string_view context, std::string_view text, size_t wanted) {
  if (context.substr(wanted).starts_with(text)) return wanted;
  const size_t after = context.find(text, wanted);
  const size_t before = wanted == 0 ? std::string_view::npos : context.rfind(text, wanted - 1);
  if (before == std::string_view::npos) return after;
  if (after == std::string_view::npos) return before;
  return wanted - before <= after - wanted ? before : after;
}

class SquadParser {
 public:
  SquadParser(const std::string& name, SquadAnswers answers, SquadSet& set)
      : name_(name), answers_(answers), set_(set) {
    for (const SquadQuestion& question : set.questions) ids_.insert(question.id);
  }

  Status Parse(std::string_view text) {
    const size_t questions_before = set_.questions.size();
    if (text.empty()) return DataError(name_ + ": is empty; give a JSON file of SQuAD's form");
    if (const auto valid = static_cast<size_t>(ValidUtf8Prefix(text)); valid < text.size()) {
      return DataError(PlaceOf(name_, text, valid) +
                       "not UTF-8; re-encode the file, for example with iconv");
    }
    Json root;
    try {
      root = Json::parse(text.begin(), text.end(), [this](int depth, Event event, Json& parsed) {
        return TakeEvent(depth, event, parsed);
      });
    } catch (const Json::parse_error& error) {
      if (!status_.ok()) return status_;
      const size_t byte = std::min(error.byte == 0 ? 0 : error.byte - 1, text.size());
      return DataError(PlaceOf(name_, text, byte) + "not valid JSON: " + ReasonOf(error));
    } catch (const Json::exception& error) {
      if (!status_.ok()) return status_;
      return DataError(absl::StrFormat("%s: not valid JSON: %s", name_, ReasonOf(error)));
    }
    DT_RETURN_IF_ERROR(status_);
    DT_RETURN_IF_ERROR(CheckRoot(root));
    if (set_.questions.size() == questions_before) {
      return DataError(name_ + ": has no questions; give a file in SQuAD's format");
    }
    set_.crc = Crc32c(text, set_.crc);
    return OkStatus();
  }

 private:
  // Called while the text is parsed. depth is 0 for the whole, 1 for its members, 2 for articles.
  // Returning false drops the parsed value.
  bool TakeEvent(int depth, Event event, Json& parsed) {
    if (!status_.ok()) return false;
    if (depth == 1 && event == Event::key) {
      in_data_key_ = parsed == "data";
      if (in_data_key_ && saw_data_) status_ = DataError(name_ + ": \"data\" occurs twice");
      saw_data_ |= in_data_key_;
      return in_data_key_ || parsed == "version";
    }
    if (depth == 1 && event == Event::array_start) in_data_ = in_data_key_;
    if (depth == 1 && event == Event::array_end) in_data_ = false;
    if (depth != 2 || !in_data_ || event == Event::object_start) return true;
    const std::string place = absl::StrFormat("data[%d]", num_articles_++);
    status_ = event == Event::object_end ? TakeArticle(parsed, place)
                                         : Problem(place, "is not an object with \"paragraphs\"");
    return false;
  }

  Status CheckRoot(const Json& root) {
    if (!root.is_object()) {
      return DataError(absl::StrFormat("%s: is a JSON %s; a SQuAD file is a JSON object", name_,
                                       root.type_name()));
    }
    DT_RETURN_IF_ERROR(Member(root, "data", "", Json::value_t::array).status());
    const auto version = root.find("version");
    if (version != root.end() && version->is_string() && set_.version.empty()) {
      set_.version = version->get<std::string>();
    }
    return OkStatus();
  }

  Status Problem(const std::string& place, std::string_view what) const {
    return DataError(absl::StrFormat("%s: %s %s", name_, place, ToAbsl(what)));
  }

  // The member `key` of `object`, which must have that type. `place` is the object's place in
  // messages.
  StatusOr<const Json*> Member(const Json& object, const char* key, const std::string& place,
                               Json::value_t type) const {
    const std::string at = place.empty() ? key : place + "." + key;
    const auto found = object.find(key);
    if (found == object.end()) {
      return Problem(at,
                     place.empty() ? "is missing, a key that SQuAD's files have" : "is missing");
    }
    if (found->type() != type) {
      return Problem(at, absl::StrFormat("is a JSON %s; it should be %s", found->type_name(),
                                         type == Json::value_t::array ? "an array" : "a string"));
    }
    return &*found;
  }
  StatusOr<std::string> Text(const Json& object, const char* key, const std::string& place) const {
    DT_ASSIGN_OR_RETURN(const Json* text, Member(object, key, place, Json::value_t::string));
    return text->get<std::string>();
  }

  // Calls take(object, "PLACE.KEY[i]") for each object in the member `key`.
  template <typename Take>
  Status ForEachObject(const Json& object, const char* key, const std::string& place,
                       const Take& take) const {
    DT_ASSIGN_OR_RETURN(const Json* array, Member(object, key, place, Json::value_t::array));
    for (size_t i = 0; i < array->size(); ++i) {
      const std::string at = absl::StrFormat("%s.%s[%d]", place, key, i);
      if (!(*array)[i].is_object()) return Problem(at, "is not an object");
      DT_RETURN_IF_ERROR(take((*array)[i], at));
    }
    return OkStatus();
  }

  Status TakeArticle(const Json& article, const std::string& place) {
    return ForEachObject(
        article, "paragraphs", place,
        [&](const Json& paragraph, const std::string& at) { return TakeParagraph(paragraph, at); });
  }

  Status TakeParagraph(const Json& paragraph, const std::string& place) {
    DT_ASSIGN_OR_RETURN(std::string context, Text(paragraph, "context", place));
    if (context.empty()) return Problem(place + ".context", "is empty");
    set_.contexts.push_back(std::move(context));
    return ForEachObject(paragraph, "qas", place, [&](const Json& qa, const std::string& at) {
      return TakeQuestion(qa, at);
    });
  }

  Status TakeQuestion(const Json& qa, const std::string& place) {
    SquadQuestion question{.id = {},
                           .text = {},
                           .context = static_cast<int64_t>(set_.contexts.size()) - 1,
                           .answers = {}};
    DT_ASSIGN_OR_RETURN(question.id, Text(qa, "id", place));
    DT_ASSIGN_OR_RETURN(question.text, Text(qa, "question", place));
    if (!ids_.insert(question.id).second) {
      return Problem(place + ".id",
                     "is \"" + question.id + "\", which is the id of an earlier question");
    }
    if (const auto found = qa.find("is_impossible"); found != qa.end()) {
      if (!found->is_boolean()) return Problem(place + ".is_impossible", "is not true or false");
      question.is_impossible = found->get<bool>();
    }
    set_.has_impossible |= question.is_impossible;
    const bool required = answers_ == SquadAnswers::kRequired && !question.is_impossible;
    if (required) {
      DT_RETURN_IF_ERROR(
          ForEachObject(qa, "answers", place, [&](const Json& answer, const std::string& at) {
            return TakeAnswer(answer, at, question);
          }));
      if (qa["answers"].empty()) {
        return Problem(place + ".answers",
                       "is empty; for training or evaluation, a question needs an answer or "
                       "is_impossible; `predict` needs none");
      }
    }
    set_.questions.push_back(std::move(question));
    return OkStatus();
  }

  Status TakeAnswer(const Json& answer, const std::string& place, SquadQuestion& question) {
    DT_ASSIGN_OR_RETURN(std::string text, Text(answer, "text", place));
    const auto start = answer.find("answer_start");
    if (start == answer.end()) return Problem(place + ".answer_start", "is missing");
    if (!start->is_number_integer()) {
      return Problem(place + ".answer_start", "is not a whole number");
    }
    const std::string& context = set_.contexts.back();
    const auto said = start->get<int64_t>();
    const size_t wanted = ByteOfCodePoint(context, said);
    const size_t begin = NearestPlace(context, text, wanted);
    if (text.empty() || begin == std::string::npos) {
      ++set_.lost_answers;
      question.answers.push_back({std::move(text), SquadAnswer::kNowhere});
    } else {
      set_.moved_answers += begin != wanted || said < 0;
      question.answers.push_back({std::move(text), static_cast<int64_t>(begin)});
    }
    return OkStatus();
  }

  const std::string& name_;
  const SquadAnswers answers_;
  SquadSet& set_;
  std::unordered_set<std::string> ids_;
  Status status_;             // the first error in the data
  bool in_data_key_ = false;  // true if the last member's key was "data"
  bool saw_data_ = false;
  bool in_data_ = false;
  int64_t num_articles_ = 0;
};

StatusOr<std::string> ReadText(const std::string& path) {
  constexpr size_t kBlock = 1 << 20;
  DT_ASSIGN_OR_RETURN(const std::unique_ptr<internal::ByteSource> source,
                      internal::OpenByteSource(path));
  std::string text;
  for (;;) {
    const size_t size = text.size();
    text.resize(size + kBlock);
    DT_ASSIGN_OR_RETURN(const int64_t count, source->Read(text.data() + size, kBlock));
    text.resize(size + static_cast<size_t>(count));
    if (count == 0) return text;
  }
}

}  // namespace

Status ParseSquad(std::string_view text, const std::string& name, SquadAnswers answers,
                  SquadSet& set) {
  return SquadParser(name, answers, set).Parse(text);
}

StatusOr<SquadSet> ReadSquad(const std::vector<std::string>& paths, SquadAnswers answers,
                             InvalidText invalid) {
  if (paths.empty()) return UsageError("no SQuAD file is given");
  SquadSet set;
  for (const std::string& path : paths) {
    DT_ASSIGN_OR_RETURN(std::string text, ReadText(path));
    const auto valid = static_cast<size_t>(ValidUtf8Prefix(text));
    if (valid < text.size() && invalid == InvalidText::kReplace) {
      LogWarning(PlaceOf(path, text, valid) +
                 "not UTF-8; here and further on U+FFFD replaces the bad bytes");
      text = ReplaceInvalidUtf8(text);
    }
    DT_RETURN_IF_ERROR(ParseSquad(text, path, answers, set));
  }
  return set;
}

}  // namespace dtrain
