// watchdog.cc - one table of beats and the rules that read it.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/watchdog.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace dtrain::internal {
namespace {

// Ranks named in one message.
constexpr int kMostNamed = 3;
// A rank that is known to be slow is named again after so many times WatchTimes::slow.
constexpr double kSeldom = 7.5;
// A rank that waits for this share of the time less than another one holds it up; those that wait
// nearly as little hold it up as well.
constexpr double kStragglerShare = 0.4;
constexpr double kNearlyShare = 0.1;

// A rank may compute for long here, on the host or waiting for a disk.
bool MayTakeLong(Phase phase) {
  return phase == Phase::kStart || phase == Phase::kEvaluation || phase == Phase::kCheckpoint ||
         phase == Phase::kEnd;
}

// The rank has ended its work: nothing moves there any more, and it waits for nobody's collective.
bool HasEnded(const Beat& beat) { return beat.leaving || beat.phase == Phase::kEnd; }

void Append(std::string* text, const std::string& more) {
  if (more.empty()) return;
  absl::StrAppend(text, text->empty() ? "" : "; ", more);
}

}  // namespace

WatchTimes::WatchTimes(const CommunicatorOptions& options)
    : beat(std::clamp(std::min(options.slow_seconds, options.timeout_seconds / 2) / 10, 0.02, 1.0)),
      silent(5 * beat),
      slow(8 * beat),
      // The end itself takes a moment.
      limit(options.timeout_seconds - std::min(5.0, options.timeout_seconds / 4)) {}

Watchdog::Watchdog(std::vector<std::string> hosts, const std::vector<int>& watched,
                   const WatchTimes& times)
    : hosts_(std::move(hosts)), times_(times) {
  for (const int rank : watched) peers_.push_back({.rank = rank, .beat = {}});
}

void Watchdog::Hear(const Beat& beat, double now) {
  const auto found = std::find_if(peers_.begin(), peers_.end(),
                                  [&](const Peer& peer) { return peer.rank == beat.rank; });
  if (found == peers_.end()) return;
  Peer& peer = *found;
  if (peer.heard && beat.count <= peer.beat.count) return;
  const Beat& last = peer.beat;
  const bool has_worked =
      static_cast<double>(beat.cpu_milliseconds - last.cpu_milliseconds) > 20 * times_.beat;
  const bool went_on = !peer.heard || beat.sequence != last.sequence || beat.moves != last.moves ||
                       beat.waiting != last.waiting;
  // A wait takes time of the processor as well.
  if (went_on || beat.step != last.step || beat.phase != last.phase ||
      (has_worked && !beat.waiting)) {
    peer.moved_at = now;
  }
  if (went_on) peer.freed_at = now;
  peer.heard = true;
  peer.heard_at = now;
  peer.beat = beat;
}

Findings Watchdog::LookForSilence(double now) {
  Findings findings{.complete = true};
  findings.note = NameUnheard(now);
  std::string lost;
  std::string silent;
  std::string back;
  int named = 0;
  for (Peer& peer : peers_) {
    findings.complete = findings.complete && peer.heard;
    if (!peer.heard || peer.beat.leaving) continue;
    const double seconds = now - peer.heard_at;
    if (seconds > times_.limit && ++named <= kMostNamed) {
      Append(&lost, absl::StrFormat("%s has been silent for %.0f s: stopped, dead or cut off",
                                    Describe(peer), seconds));
    }
    if ((seconds > times_.silent) == peer.named_silent) continue;
    peer.named_silent = !peer.named_silent;
    if (peer.named_silent && ++named <= kMostNamed) {
      Append(&silent, absl::StrFormat("%s is silent: stopped, dead or cut off", Describe(peer)));
    } else if (!peer.named_silent) {
      Append(&back, absl::StrFormat("rank %d is back", peer.rank));
    }
  }
  // Whom the others have waited for until now is known.
  for (Peer& peer : peers_) {
    if (!back.empty()) peer.freed_at = now;
  }
  if (named > kMostNamed) Append(&silent, absl::StrFormat("%d in all", named));
  Append(&findings.note, silent);
  Append(&findings.note, back);
  findings.failure = std::move(lost);
  return findings;
}

Findings Watchdog::Look(double now, const DigestAfter& digest_after) {
  Findings findings = LookForSilence(now);
  if (!findings.complete || !findings.failure.empty()) return findings;
  findings.failure = FindOutOfStep(digest_after);
  if (findings.failure.empty()) findings.failure = FindStuck(now);
  if (findings.failure.empty()) {
    Append(&findings.note, NameSlow(now));
    Append(&findings.note, NameStraggler(now));
  }
  return findings;
}

std::string Watchdog::NameUnheard(double now) {
  if (first_look_ < 0) first_look_ = now;
  if (now - first_look_ < 2 * times_.silent) return "";
  std::string text;
  int named = 0;
  for (Peer& peer : peers_) {
    if (peer.heard || std::exchange(peer.named_silent, true) || ++named > kMostNamed) continue;
    Append(&text, absl::StrFormat("no heartbeat of rank %d (host %s) has arrived: datagrams (UDP) "
                                  "do not get through, ranks are judged by their waits alone",
                                  peer.rank, hosts_[static_cast<size_t>(peer.rank)]));
  }
  return text;
}

std::string Watchdog::FindOutOfStep(const DigestAfter& digest_after) const {
  std::string text;
  int named = 0;
  for (const Peer& peer : peers_) {
    const std::optional<uint64_t> expected = digest_after(peer.beat.sequence);
    if (!expected || *expected == peer.beat.digest || ++named > kMostNamed) continue;
    Append(&text, Describe(peer));
  }
  if (text.empty()) return "";
  return absl::StrCat("the ranks are out of step: other collectives, or in another order, than on ",
                      "rank 0 were called by ", text);
}

std::string Watchdog::FindStuck(double now) const {
  bool some_work = false;
  bool all_wait = true;
  double last_move = 0;
  std::string waits;
  std::string stuck;
  int named = 0;
  for (const Peer& peer : peers_) {
    const double seconds = now - peer.moved_at;
    const bool ended = HasEnded(peer.beat);
    if (!ended) {
      some_work = true;
      all_wait = all_wait && peer.beat.waiting;
      last_move = std::max(last_move, peer.moved_at);
    }
    if (++named <= kMostNamed) {
      Append(&waits, Describe(peer) + (ended ? ", which has ended" : ""));
    }
    // A silent rank is judged by its silence.
    if (!ended && !peer.beat.waiting && !peer.named_silent && !MayTakeLong(peer.beat.phase) &&
        seconds > times_.limit) {
      Append(&stuck, absl::StrFormat("%s has not moved for %.0f s", Describe(peer), seconds));
    }
  }
  if (!stuck.empty()) return stuck;
  if (!some_work || !all_wait || now - last_move <= times_.limit) return "";
  return absl::StrFormat("every rank waits and nothing has moved for %.0f s: %s", now - last_move,
                         waits);
}

std::string Watchdog::NameSlow(double now) {
  double waited = 0;
  for (const Peer& peer : peers_) {
    if (peer.beat.waiting) waited = std::max(waited, now - peer.moved_at);
  }
  std::string text;
  int named = 0;
  for (Peer& peer : peers_) {
    if (waited < times_.slow || peer.beat.waiting || HasEnded(peer.beat) || peer.named_silent) {
      peer.named_slow_at = -1;
      continue;
    }
    const bool named_before = peer.named_slow_at >= 0;
    // The beat of one that waited may be older than that of one that has gone on with it.
    const double since = std::max(named_before ? peer.named_slow_at : now - waited, peer.freed_at);
    const bool has_time = named_before || MayTakeLong(peer.beat.phase);
    if (now - since < (has_time ? kSeldom : 1) * times_.slow) continue;
    peer.named_slow_at = now;
    if (++named <= kMostNamed) {
      Append(&text, absl::StrFormat("for %.0f s others have waited for %s",
                                    std::min(waited, now - peer.freed_at), Describe(peer)));
    }
  }
  return text;
}

std::string Watchdog::NameStraggler(double now) {
  const bool in_steps = std::none_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
    return peer.beat.leaving || peer.named_silent || MayTakeLong(peer.beat.phase);
  });
  // What was waited for the end of an evaluation is no wait for a step.
  const bool counts = std::exchange(was_in_steps_, in_steps) && in_steps;
  const double since = now - std::exchange(last_look_, now);
  for (Peer& peer : peers_) {
    const double total = peer.beat.waited_seconds;
    const double waited = total - std::exchange(peer.waited_before, total);
    if (counts) peer.waited_in_window += waited;
  }
  if (counts) window_ += since;
  if (window_ < times_.slow) return "";
  const double window = std::exchange(window_, 0.0);
  std::vector<double> shares;
  for (Peer& peer : peers_) {
    shares.push_back(std::min(std::exchange(peer.waited_in_window, 0.0) / window, 1.0));
  }
  const auto [least, most] = std::minmax_element(shares.begin(), shares.end());
  const bool named_lately =
      named_straggler_at_ >= 0 && now - named_straggler_at_ < kSeldom * times_.slow;
  if (*most - *least < kStragglerShare || named_lately) return "";
  named_straggler_at_ = now;
  std::string stragglers;
  int named = 0;
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (shares[i] > *least + kNearlyShare || ++named > kMostNamed) continue;
    Append(&stragglers, Describe(peers_[i]));
  }
  return absl::StrFormat(
      "others have waited for %.0f %% of %.0f s of training, a part of each step, for %s",
      100 * *most, window, stragglers);
}

std::string Watchdog::Describe(const Peer& peer) const {
  const Beat& beat = peer.beat;
  std::string text = absl::StrFormat("rank %d (host %s, process %d), at step %d in %s", peer.rank,
                                     hosts_[static_cast<size_t>(peer.rank)], beat.process,
                                     beat.step, std::string(Name(beat.phase)));
  const char* const doing = beat.waiting ? "waiting in" : "its last";
  if (beat.named) {
    absl::StrAppendFormat(&text, ", %s collective \"%s\"", doing, beat.collective.data());
  } else if (beat.sequence > 0) {
    absl::StrAppendFormat(&text, ", %s collective number %d (%s)", doing, beat.sequence - 1,
                          beat.collective.data());
  }
  return text;
}

}  // namespace dtrain::internal
