// submitted_collective.cc - finishing a result, and copying a submission.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/comm/internal/submitted_collective.h"

#include <utility>

#include "dtrain/device/copy.h"
#include "dtrain/device/stream.h"
#include "dtrain/device/tensor.h"

namespace dtrain::internal {

Status CollectiveOutcome::status() const {
  if (ok()) return OkStatus();
  return Status(code, message);
}

void CollectiveResult::Finish(CollectiveOutcome how) {
  const std::lock_guard lock(mutex);
  if (done) return;
  outcome = std::move(how);
  done = true;
  finished.notify_all();
}

std::unique_ptr<SubmittedCollective> CopyOf(const SubmittedCollective& submitted) {
  auto copy = std::make_unique<SubmittedCollective>();
  copy->request = submitted.request;
  copy->result = std::make_shared<CollectiveResult>();
  for (const Tensor& input : submitted.inputs) {
    Tensor& own =
        copy->inputs.emplace_back(NewTensor(input.shape(), input.dtype(), input.device()));
    if (input.bytes() == 0) continue;
    Stream stream(input.device());
    if (submitted.ready) RunBehind(stream, *submitted.ready);
    CopyOnDevice(own.raw(), input.raw(), input.bytes(), stream);
    stream.Synchronize();
  }
  if (!submitted.outputs.empty()) copy->outputs = copy->inputs;
  return copy;
}

}  // namespace dtrain::internal
