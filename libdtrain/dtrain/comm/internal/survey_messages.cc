// survey_messages.cc - lines of columns, separated by tabs.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/survey_messages.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "dtrain/base/internal/abseil_text.h"

namespace dtrain::internal {
namespace {

constexpr const char* kQuestion = "dtrain networks?";
constexpr const char* kAnswer = "dtrain networks:";
// IPv6 promises packets of 1280 bytes, with headers, on every way.
constexpr size_t kLargestAnswer = 1200;

std::vector<std::string> Columns(absl::string_view line) { return absl::StrSplit(line, '\t'); }

std::vector<std::string> Items(const std::string& list) {
  return absl::StrSplit(list, ',', absl::SkipEmpty());
}

std::string InterfaceLine(const NetworkInterface& interface) {
  std::string line = absl::StrCat(interface.name, "\t", interface.obstacle.empty() ? "" : "tunnel",
                                  "\t", interface.megabits_per_second, "\t", interface.mtu);
  for (size_t i = 0; i < interface.addresses.size() && i < interface.networks.size(); ++i) {
    absl::StrAppend(&line, "\t", interface.addresses[i], " ", interface.networks[i]);
  }
  return line;
}

std::optional<NetworkInterface> ReadInterface(absl::string_view line) {
  const std::vector<std::string> columns = Columns(line);
  NetworkInterface interface;
  if (columns.size() < 4 || !absl::SimpleAtoi(columns[2], &interface.megabits_per_second) ||
      !absl::SimpleAtoi(columns[3], &interface.mtu)) {
    return std::nullopt;
  }
  interface.name = columns[0];
  interface.obstacle = columns[1].empty() ? "" : kTunnel;
  for (size_t i = 4; i < columns.size(); ++i) {
    const std::vector<std::string> parts = absl::StrSplit(columns[i], ' ');
    if (parts.size() != 2) return std::nullopt;
    interface.addresses.push_back(parts[0]);
    interface.networks.push_back(parts[1]);
  }
  return interface;
}

}  // namespace

std::string WriteQuestion(const SurveyQuestion& question, size_t bytes) {
  std::string text = absl::StrCat(kQuestion, "\t", question.job, "\t", question.tag, "\t",
                                  absl::StrJoin(question.hosts, ","), "\n");
  if (text.size() < bytes) text.resize(bytes, '.');
  return text;
}

std::optional<SurveyQuestion> ReadQuestion(std::string_view text) {
  const std::vector<std::string> columns = Columns(ToAbsl(text.substr(0, text.find('\n'))));
  if (columns.size() != 4 || columns[0] != kQuestion) return std::nullopt;
  return SurveyQuestion{.job = columns[1], .tag = columns[2], .hosts = Items(columns[3])};
}

std::string WriteAnswer(const SurveyAnswer& answer) {
  const HostNetworks& host = answer.host;
  const NetworkVerdict verdict = host.verdict.value_or(NetworkVerdict{});
  std::string text =
      absl::StrCat(kAnswer, "\t", answer.job, "\t", answer.tag, "\t", host.id, "\t", host.name,
                   "\t", host.verdict ? "done" : "", "\t", verdict.needs_tunnel ? "tunnel" : "",
                   "\t", absl::StrJoin(verdict.good, ","), "\n");
  for (const NetworkInterface& interface : host.interfaces) {
    const std::string line = InterfaceLine(interface);
    if (text.size() + line.size() + 1 > kLargestAnswer) break;
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

std::optional<SurveyAnswer> ReadAnswer(std::string_view text) {
  const std::vector<absl::string_view> lines =
      absl::StrSplit(ToAbsl(text), '\n', absl::SkipEmpty());
  if (lines.empty()) return std::nullopt;
  const std::vector<std::string> columns = Columns(lines[0]);
  if (columns.size() != 8 || columns[0] != kAnswer) return std::nullopt;
  SurveyAnswer answer{
      .job = columns[1], .tag = columns[2], .host = {.id = columns[3], .name = columns[4]}};
  if (columns[5] == "done") {
    answer.host.verdict =
        NetworkVerdict{.good = Items(columns[7]), .needs_tunnel = columns[6] == "tunnel"};
  }
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::optional<NetworkInterface> interface = ReadInterface(lines[i]);
    if (!interface) return std::nullopt;
    answer.host.interfaces.push_back(*interface);
  }
  return answer;
}

}  // namespace dtrain::internal
