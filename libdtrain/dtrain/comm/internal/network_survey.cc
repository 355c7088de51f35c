// network_survey.cc - a thread that asks, answers and concludes.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/network_survey.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "dtrain/base/status.h"
#include "dtrain/base/timer.h"
#include "dtrain/comm/internal/socket_address.h"
#include "dtrain/comm/internal/survey_round.h"
#include "dtrain/comm/internal/survey_sockets.h"

namespace dtrain::internal {
namespace {

constexpr const char* kChoiceTag = "choice";
constexpr int kMilliseconds = static_cast<int>(SurveyRound::kAskAgain * 1000);

class SurveyThread final : public NetworkSurvey {
 public:
  explicit SurveyThread(const NetworkSurveyOptions& options)
      : job_(options.job),
        seconds_(options.seconds),
        sockets_(options.port),
        round_(options, sockets_),
        stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!sockets_.is_open()) return;
    must_wait_ = !options.hosts.empty() || options.has_others;
    has_begun_ = !options.hosts.empty();
    // Other threads handle signals.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this, hosts = options.hosts] { Run(hosts); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  ~SurveyThread() override {
    const uint64_t one = 1;
    while (::write(stop_, &one, sizeof(one)) < 0) {
    }
    if (thread_.joinable()) thread_.join();
    ::close(stop_);
  }

  bool is_open() const override { return sockets_.is_open(); }

  NetworkFindings Wait() override {
    if (!must_wait_) return {};
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::duration<double>(seconds_),
                           [&] { return has_begun_; })) {
      return {};
    }
    changed_.wait(lock, [&] { return findings_.has_value(); });
    return *findings_;
  }

  void Publish(const std::vector<NetworkInterface>& interfaces) override {
    const std::lock_guard lock(mutex_);
    choice_.emplace();
    for (const NetworkInterface& interface : interfaces) {
      if (interface.obstacle.empty()) choice_->interfaces.push_back({.name = interface.name});
    }
  }

 private:
  void Run(const std::vector<std::string>& hosts) {
    if (!hosts.empty()) round_.Begin(hosts);
    const auto [v4, v6] = sockets_.descriptors();
    std::array<pollfd, 3> waits = {pollfd{.fd = stop_, .events = POLLIN, .revents = 0},
                                   pollfd{.fd = v4, .events = POLLIN, .revents = 0},
                                   pollfd{.fd = v6, .events = POLLIN, .revents = 0}};
    for (;;) {
      if (round_.Advance()) Finish();
      ::poll(waits.data(), waits.size(), round_.is_asking() ? kMilliseconds : -1);
      if ((waits[0].revents & POLLIN) != 0) return;
      while (const auto datagram = sockets_.Receive()) Hear(datagram->first, datagram->second);
    }
  }

  void Hear(const std::string& text, const SocketAddress& from) {
    if (const auto question = ReadQuestion(text); question && question->job == job_) {
      Answer(*question, from);
    } else if (const auto answer = ReadAnswer(text); answer && answer->job == job_) {
      round_.Learn(*answer, from);
    }
  }

  void Answer(const SurveyQuestion& question, const SocketAddress& from) {
    SurveyAnswer answer{.job = job_, .tag = question.tag, .host = round_.self()};
    if (question.tag == kChoiceTag) {
      const std::lock_guard lock(mutex_);
      if (!choice_ || !from.IsLoopback()) return;
      answer.host = *choice_;
    } else if (!question.hosts.empty()) {
      // This host's launcher may not say the hosts.
      round_.Begin(question.hosts);
      const std::lock_guard lock(mutex_);
      has_begun_ = true;
      changed_.notify_all();
    }
    sockets_.Send(WriteAnswer(answer), from);
  }

  void Finish() {
    const std::lock_guard lock(mutex_);
    if (findings_) return;
    findings_ = round_.findings();
    changed_.notify_all();
  }

  const std::string job_;
  const double seconds_;
  bool must_wait_ = false;
  SurveySockets sockets_;
  SurveyRound round_;  // the thread's own
  int stop_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_begun_ = false;  // the hosts are known
  std::optional<NetworkFindings> findings_;
  std::optional<HostNetworks> choice_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<NetworkSurvey> NetworkSurvey::Start(const NetworkSurveyOptions& options) {
  return std::make_unique<SurveyThread>(options);
}

std::optional<std::vector<std::string>> AskChoice(const std::string& job, uint16_t port,
                                                  double seconds) {
  SurveySockets sockets(0);
  const SocketAddress here = SocketAddress::Of("127.0.0.1", port);
  const std::string question = WriteQuestion({.job = job, .tag = kChoiceTag, .hosts = {}}, 0);
  const Timer timer;
  while (timer.Seconds() < seconds) {
    sockets.Send(question, here);
    pollfd wait{.fd = sockets.descriptors()[0], .events = POLLIN, .revents = 0};
    ::poll(&wait, 1, kMilliseconds);
    const auto datagram = sockets.Receive();
    if (!datagram) continue;
    const std::optional<SurveyAnswer> answer = ReadAnswer(datagram->first);
    if (!answer || answer->job != job || answer->tag != kChoiceTag) continue;
    std::vector<std::string> names;
    for (const NetworkInterface& interface : answer->host.interfaces) {
      names.push_back(interface.name);
    }
    return names;
  }
  return std::nullopt;
}

std::string JobName(const GetEnv& get_env) {
  for (const char* const name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}) {
    if (const char* const value = get_env(name); value != nullptr) return value;
  }
  return "";
}

uint16_t SurveyPort(const std::string& job, const GetEnv& get_env) {
  if (const StatusOr<uint16_t> port = PortFrom(get_env); port.ok() && *port > 0) {
    return static_cast<uint16_t>(*port + 1);
  }
  uint32_t hash = 2166136261U;  // FNV-1a
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  constexpr uint32_t kFirst = 20000;
  constexpr uint32_t kCount = 12000;
  return static_cast<uint16_t>(kFirst + hash % kCount);
}

}  // namespace dtrain::internal
