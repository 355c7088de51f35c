// agreement.cc - compares hashes; only where they differ the texts travel and are compared.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/distributed/agreement.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dtrain/comm/gather.h"
#include "dtrain/distributed/internal/fingerprint.h"

namespace dtrain {
namespace {

constexpr size_t kShownCharacters = 200;

// Name and text of each section, each preceded by its length.
std::string Serialize(const std::vector<AgreementSection>& sections) {
  std::string out;
  const auto add = [&](const std::string& text) {
    const uint64_t length = text.size();
    out.append(reinterpret_cast<const char*>(&length), sizeof(length));
    out.append(text);
  };
  for (const AgreementSection& section : sections) {
    add(section.name);
    add(section.text);
  }
  return out;
}

std::vector<AgreementSection> Deserialize(std::string_view bytes) {
  const auto take = [&] {
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof(length));
    std::string text(bytes.substr(sizeof(length), length));
    bytes.remove_prefix(sizeof(length) + length);
    return text;
  };
  std::vector<AgreementSection> sections;
  while (!bytes.empty()) {
    std::string name = take();
    sections.push_back({std::move(name), take()});
  }
  return sections;
}

std::vector<std::string_view> Lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

// "rank 1 (host b)", "ranks 0, 2 (hosts a, b)"; of many ranks the first few.
std::string RankList(const std::vector<int>& ranks, const Communicator& comm) {
  constexpr size_t kNamed = 8;
  std::string numbers;
  std::vector<std::string> hosts;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i < kNamed)
      absl::StrAppend(&numbers, i == 0 ? "" : ", ", comm.topology().job_rank(ranks[i]));
    const std::string& host = comm.topology().host(ranks[i]);
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
  }
  if (ranks.size() > kNamed) absl::StrAppend(&numbers, " and ", ranks.size() - kNamed, " more");
  std::string names;
  for (size_t i = 0; i < std::min(hosts.size(), kNamed); ++i) {
    absl::StrAppend(&names, i == 0 ? "" : ", ", hosts[i]);
  }
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", numbers,
                      hosts.size() == 1 ? " (host " : " (hosts ", names, ")");
}

// Who says what, the value of rank 0 first.
std::string Opinions(const std::vector<std::string>& values, const Communicator& comm) {
  std::vector<std::pair<std::string, std::vector<int>>> groups;
  for (int r = 0; r < comm.size(); ++r) {
    const std::string& value = values[static_cast<size_t>(r)];
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& entry) { return entry.first == value; });
    if (group == groups.end()) group = groups.insert(groups.end(), {value, {}});
    group->second.push_back(r);
  }
  std::string text;
  for (const auto& [value, ranks] : groups) {
    absl::StrAppend(&text, "\n  ", RankList(ranks, comm), ": ", value);
  }
  return text;
}

// The values of all ranks, cut so that the first difference is seen.
std::vector<std::string> Shown(const std::vector<std::string_view>& values) {
  size_t common = values[0].size();
  for (const std::string_view value : values) {
    const auto ends = std::mismatch(value.begin(), value.end(), values[0].begin(),
                                    values[0].begin() + static_cast<int64_t>(common));
    common = static_cast<size_t>(ends.first - value.begin());
  }
  const size_t begin = common > kShownCharacters / 2 ? common - kShownCharacters / 2 : 0;
  std::vector<std::string> shown;
  for (const std::string_view value : values) {
    shown.push_back((begin > 0 ? "..." : "") + std::string(value.substr(begin, kShownCharacters)) +
                    (value.size() > begin + kShownCharacters ? "..." : ""));
  }
  return shown;
}

const AgreementSection* Find(const std::vector<AgreementSection>& sections, std::string_view name) {
  const auto it = std::find_if(sections.begin(), sections.end(),
                               [&](const AgreementSection& s) { return s.name == name; });
  return it == sections.end() ? nullptr : &*it;
}

// What the ranks say in one section, or "" where they agree.
std::string Difference(std::string_view name,
                       const std::vector<std::vector<AgreementSection>>& by_rank,
                       const Communicator& comm) {
  std::vector<std::vector<std::string_view>> lines;
  std::vector<std::string> values;
  for (const auto& sections : by_rank) {
    const AgreementSection* const section = Find(sections, name);
    values.push_back(section == nullptr ? "no such section" : "present");
    lines.push_back(section == nullptr ? std::vector<std::string_view>() : Lines(section->text));
  }
  if (std::any_of(values.begin(), values.end(), [&](const auto& v) { return v != values[0]; })) {
    return Opinions(values, comm);
  }
  size_t longest = 0;
  for (const auto& of_rank : lines) longest = std::max(longest, of_rank.size());
  for (size_t i = 0; i < longest; ++i) {
    std::vector<std::string_view> at;
    for (const auto& of_rank : lines) at.push_back(i < of_rank.size() ? of_rank[i] : "(end)");
    if (std::all_of(at.begin(), at.end(), [&](std::string_view line) { return line == at[0]; })) {
      continue;
    }
    return absl::StrCat(", line ", i + 1, Opinions(Shown(at), comm));
  }
  return "";
}

Status Explain(const std::vector<AgreementSection>& sections, Communicator& comm) {
  std::vector<std::vector<AgreementSection>> by_rank;
  for (const std::string& bytes : AllGatherStrings(comm, Serialize(sections))) {
    by_rank.push_back(Deserialize(bytes));
  }
  // In the order of rank 0, then what only others have.
  for (const auto& of_rank : by_rank) {
    for (const AgreementSection& section : of_rank) {
      const std::string difference = Difference(section.name, by_rank, comm);
      if (difference.empty()) continue;
      return UsageError(absl::StrCat("the ranks disagree on ", section.name, difference,
                                     "\nStart every rank with the same program, flags and files"));
    }
  }
  return UsageError("the ranks state their sections in different orders or with different ends");
}

}  // namespace

Status CheckRanksAgree(const std::vector<AgreementSection>& sections, Communicator& comm) {
  if (comm.size() == 1) return OkStatus();
  const std::string bytes = Serialize(sections);
  internal::Fingerprint mine;
  mine.Add(bytes.data(), bytes.size());
  // The minimum of h and of ~h: unanimous exactly where both are of the same h.
  int64_t words[4] = {static_cast<int64_t>(mine.low), static_cast<int64_t>(mine.high),
                      static_cast<int64_t>(~mine.low), static_cast<int64_t>(~mine.high)};
  comm.AllReduce(std::span<int64_t>(words), ReduceOp::kMin);
  if (words[0] == ~words[2] && words[1] == ~words[3]) return OkStatus();
  return Explain(sections, comm);
}

}  // namespace dtrain
