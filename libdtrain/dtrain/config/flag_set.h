// flag_set.h - the flags of a command, bound to variables that hold the defaults.
// SPDX-License-Identifier: Apache-2.0
//
//   int64_t beam_size = 4;
//   FlagSet flags("dtrain translate RUN < in > out", "translates lines");
//   flags.Add("beam_size", "hypotheses", &beam_size);
//   DT_ASSIGN_OR_RETURN(const std::vector<std::string> positional, flags.Parse(argc, argv));
//   if (flags.help_wanted()) ...print flags.Help()
#ifndef DTRAIN_CONFIG_FLAG_SET_H_
#define DTRAIN_CONFIG_FLAG_SET_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "dtrain/base/status.h"

namespace dtrain {

// Flags are --name=value or --name value. A bool is --name, --name=false or --noname. A list flag
// may be given several times. An optional value stays empty unless given. "--" ends the flags.
class FlagSet {
 public:
  FlagSet(std::string_view usage, std::string_view summary) : usage_(usage), summary_(summary) {}

  // The variable for a flag's value, which must outlive Parse() and Help().
  using Target = std::variant<bool*, int64_t*, double*, std::optional<int64_t>*,
                              std::optional<double>*, std::string*, std::vector<std::string>*>;
  void Add(std::string_view name, std::string_view help, Target target);
  // A bool flag that appends "true" or "false" to a list: --name, --name=false or --noname.
  void AddSwitch(std::string_view name, std::string_view help, std::vector<std::string>* target);

  // Sets the variables and returns the other arguments. argv[0] is the command. Returns UsageError
  // that names the flag, its type and the value, or suggests the nearest flags.
  StatusOr<std::vector<std::string>> Parse(int argc, char** argv);
  // Parse() for commands without other arguments.
  Status ParseAll(int argc, char** argv);

  // True if --help or -h was among the arguments.
  bool help_wanted() const { return help_wanted_; }
  // True if the flag of that name was among the arguments.
  bool is_given(std::string_view name) const;
  std::string Help() const;

 private:
  struct Flag {
    std::string name;
    std::string help;
    Target target;
    std::string default_text;
    bool is_switch = false;  // --name alone means true
  };

  const Flag* Find(std::string_view name) const;
  Status Unknown(const std::string& argument) const;

  std::string usage_;
  std::string summary_;
  std::vector<Flag> flags_;
  std::set<std::string, std::less<>> given_;
  bool help_wanted_ = false;
};

}  // namespace dtrain

#endif  // DTRAIN_CONFIG_FLAG_SET_H_
