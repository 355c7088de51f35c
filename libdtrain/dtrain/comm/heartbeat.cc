// heartbeat.cc - the state behind a lock, and the digest of the order of collectives.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/heartbeat.h"

namespace dtrain {

std::string_view Name(Phase phase) {
  switch (phase) {
    case Phase::kStart:
      return "start";
    case Phase::kData:
      return "data";
    case Phase::kForward:
      return "forward";
    case Phase::kBackward:
      return "backward";
    case Phase::kExchange:
      return "exchange";
    case Phase::kUpdate:
      return "update";
    case Phase::kEvaluation:
      return "evaluation";
    case Phase::kCheckpoint:
      return "checkpoint";
    case Phase::kEnd:
      return "its end";
  }
  return "?";
}

void Heartbeat::BeginCollective(const char* name, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  uint64_t digest = digests_[static_cast<size_t>(sequence_) % kDigests];
  // FNV-1a's step.
  const auto mix = [&](uint64_t value) { digest = (digest ^ value) * 0x100000001b3u; };
  for (const char* c = name; *c != '\0'; ++c) mix(static_cast<unsigned char>(*c));
  mix(static_cast<uint64_t>(bytes) + 1);
  ++sequence_;
  collective_ = name;
  named_ = false;
  digests_[static_cast<size_t>(sequence_) % kDigests] = digest;
}

void Heartbeat::NameCollective(std::string_view name) {
  const std::lock_guard lock(mutex_);
  collective_ = name;
  named_ = true;
}

Heartbeat::State Heartbeat::Read() const {
  const std::lock_guard lock(mutex_);
  return {.step = step_,
          .phase = phase_,
          .sequence = sequence_,
          .digest = digests_[static_cast<size_t>(sequence_) % kDigests],
          .collective = collective_,
          .named = named_,
          .moves = moves_,
          .waiting = waits_ > 0,
          .waited_seconds = static_cast<double>(waited_microseconds_) * 1e-6};
}

std::optional<uint64_t> Heartbeat::DigestAfter(int64_t collectives) const {
  const std::lock_guard lock(mutex_);
  if (collectives > sequence_ || collectives + static_cast<int64_t>(kDigests) <= sequence_) {
    return std::nullopt;
  }
  return digests_[static_cast<size_t>(collectives) % kDigests];
}

Heartbeat::Judgement Heartbeat::judgement() const {
  const std::lock_guard lock(mutex_);
  return judgement_;
}

void Heartbeat::Judge(const Judgement& judgement) {
  const std::lock_guard lock(mutex_);
  judgement_ = judgement;
}

}  // namespace dtrain
