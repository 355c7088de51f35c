// job_hosts.cc - reads lists of hosts from variables and command lines.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/job_hosts.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "dtrain/base/internal/abseil_text.h"

namespace dtrain::internal {
namespace {

constexpr int kMostHosts = 10000;

// Splits at commas outside of brackets.
std::vector<std::string_view> SplitGroups(std::string_view list) {
  std::vector<std::string_view> groups;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= list.size(); ++i) {
    if (i == list.size() || (list[i] == ',' && depth == 0)) {
      if (i > begin) groups.push_back(list.substr(begin, i - begin));
      begin = i + 1;
    } else if (list[i] == '[') {
      ++depth;
    } else if (list[i] == ']') {
      --depth;
    }
  }
  return groups;
}

std::string Padded(int number, size_t digits) {
  std::string text = std::to_string(number);
  if (text.size() < digits) text.insert(0, digits - text.size(), '0');
  return text;
}

// Appends the names of "prefix[ranges]suffix"; false if the ranges are none.
bool ExpandGroup(std::string_view group, std::vector<std::string>& names) {
  const size_t open = group.find('[');
  if (open == std::string_view::npos) {
    names.emplace_back(group);
    return true;
  }
  const size_t close = group.find(']', open);
  if (close == std::string_view::npos) return false;
  const std::string_view prefix = group.substr(0, open);
  const std::string_view suffix = group.substr(close + 1);
  std::string_view ranges = group.substr(open + 1, close - open - 1);
  std::optional<int> width;
  if (const size_t colon = ranges.find(':'); colon != std::string_view::npos) {
    int digits = 0;
    if (!absl::SimpleAtoi(ToAbsl(ranges.substr(0, colon)), &digits)) return false;
    width = digits;
    ranges.remove_prefix(colon + 1);
  }
  for (const absl::string_view range : absl::StrSplit(ToAbsl(ranges), ',')) {
    const std::vector<std::string> ends = absl::StrSplit(range, '-');
    int first = 0;
    int last = 0;
    if (ends.size() > 2 || !absl::SimpleAtoi(ends.front(), &first) ||
        !absl::SimpleAtoi(ends.back(), &last) || first < 0 || last - first >= kMostHosts) {
      return false;
    }
    const size_t digits = width ? static_cast<size_t>(std::clamp(*width, 0, 9)) : ends[0].size();
    for (int number = first; number <= last; ++number) {
      names.push_back(absl::StrCat(ToAbsl(prefix), Padded(number, digits), ToAbsl(suffix)));
    }
  }
  return names.size() <= kMostHosts;
}

// The host list of mpirun's -H a:2,b:2: without the numbers of slots.
std::vector<std::string> WithoutSlots(const std::string& list) {
  std::vector<std::string> hosts;
  for (const absl::string_view item : absl::StrSplit(list, ',', absl::SkipEmpty())) {
    const std::string host(item.substr(0, item.find(':')));
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
  }
  return hosts;
}

// The first word of each line of a host file, without comments.
std::vector<std::string> ReadHostFile(const std::string& path) {
  std::vector<std::string> hosts;
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line) && hosts.size() < kMostHosts) {
    const std::vector<std::string> words = absl::StrSplit(
        line.substr(0, line.find('#')), absl::ByAnyChar(" \t:\r"), absl::SkipEmpty());
    if (!words.empty()) hosts.push_back(words[0]);
  }
  return hosts;
}

// Of one of a process's files below /proc.
std::vector<std::string> WordsOf(pid_t process, const char* name) {
  std::ifstream file(absl::StrCat("/proc/", process, "/", name));
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return absl::StrSplit(text, '\0', absl::SkipEmpty());
}

pid_t ParentOf(pid_t process) {
  std::ifstream file(absl::StrCat("/proc/", process, "/status"));
  pid_t parent = 0;
  for (std::string word; file >> word;) {
    if (word == "PPid:") file >> parent;
  }
  return parent;
}

// The part of a host's name before the first dot; numbers have dots of their own.
std::string_view ShortName(std::string_view name) {
  const bool is_address = name.find_first_not_of("0123456789.") == std::string_view::npos;
  return is_address ? name : name.substr(0, name.find('.'));
}

}  // namespace

std::vector<std::string> ExpandHostList(std::string_view list) {
  list = list.substr(0, list.find('@'));
  std::vector<std::string> names;
  for (const std::string_view group : SplitGroups(list)) {
    if (!ExpandGroup(group, names)) return {};
  }
  return names;
}

std::vector<std::string> JobHosts(const GetEnv& get_env,
                                  const std::vector<std::string>& launcher_command) {
  for (const char* const name : {"OMPI_MCA_orte_node_regex", "SLURM_STEP_NODELIST"}) {
    if (const char* const list = get_env(name); list != nullptr) return ExpandHostList(list);
  }
  for (size_t i = 1; i + 1 < launcher_command.size(); ++i) {
    const std::string& option = launcher_command[i];
    const std::string& value = launcher_command[i + 1];
    if (option == "-H" || option == "--host" || option == "-host" || option == "-hosts") {
      return WithoutSlots(value);
    }
    if (option == "--hostfile" || option == "-hostfile" || option == "--machinefile" ||
        option == "-machinefile" || option == "-f") {
      return ReadHostFile(value);
    }
  }
  return {};
}

std::vector<std::string> OtherHosts(const std::vector<std::string>& hosts, std::string_view self) {
  std::vector<std::string> others;
  std::copy_if(hosts.begin(), hosts.end(), std::back_inserter(others),
               [&](const std::string& host) {
                 return ShortName(host) != ShortName(self) && host != "localhost";
               });
  return others;
}

std::vector<std::string> CommandOf(pid_t process) { return WordsOf(process, "cmdline"); }

std::vector<std::string> ParentCommand() {
  const pid_t parent = ::getppid();
  std::vector<std::string> command = CommandOf(parent);
  if (!command.empty() && command.front().ends_with("hydra_pmi_proxy")) {
    command = CommandOf(ParentOf(parent));
  }
  return command;
}

std::vector<std::string> ParentVariables() { return WordsOf(::getppid(), "environ"); }

}  // namespace dtrain::internal
