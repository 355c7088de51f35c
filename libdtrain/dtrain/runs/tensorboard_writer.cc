// tensorboard_writer.cc - writes events as TFRecords.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/runs/tensorboard_writer.h"

#include <unistd.h>

#include <bit>
#include <cerrno>
#include <chrono>
#include <ctime>

#include "absl/strings/str_format.h"
#include "dtrain/base/crc.h"
#include "dtrain/base/file.h"
#include "dtrain/base/host.h"
#include "dtrain/runs/internal/append_file.h"
#include "dtrain/tensorboard.pb.h"

namespace dtrain {
namespace {

using internal::AppendFile;

constexpr double kEventFlushSeconds = 5;

template <typename T>
void AppendBytes(T value, std::string& out) {
  static_assert(std::endian::native == std::endian::little);
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string Frame(const tensorboard::Event& event) {
  const std::string payload = event.SerializeAsString();
  std::string record;
  AppendBytes(uint64_t{payload.size()}, record);
  AppendBytes(MaskedCrc32c(record), record);
  record += payload;
  AppendBytes(MaskedCrc32c(payload), record);
  return record;
}

tensorboard::Event EventAt(int64_t step) {
  tensorboard::Event event;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  event.set_wall_time(std::chrono::duration<double>(now).count());
  event.set_step(step);
  return event;
}

// Opens the first free name, because two writers may start in the same second.
StatusOr<AppendFile> OpenUnusedPath(const std::string& directory) {
  const std::string stem = absl::StrFormat("%s/events.out.tfevents.%010d.%s.%d", directory,
                                           std::time(nullptr), HostName(), ::getpid());
  for (int n = 0;; ++n) {
    int error = 0;
    auto file =
        AppendFile::Open(absl::StrFormat("%s.%d", stem, n), AppendFile::Mode::kCreate, &error);
    if (file.ok() || error != EEXIST) return file;
  }
}

}  // namespace

struct TensorboardWriter::State {
  AppendFile file;

  Status Write(const tensorboard::Event& event) {
    return file.Append(Frame(event), kEventFlushSeconds);
  }
};

TensorboardWriter::TensorboardWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
TensorboardWriter::TensorboardWriter(TensorboardWriter&&) noexcept = default;
TensorboardWriter::~TensorboardWriter() = default;

StatusOr<TensorboardWriter> TensorboardWriter::Create(const std::string& directory,
                                                      std::optional<int64_t> restored_step) {
  DT_RETURN_IF_ERROR(MakeDirectories(directory));
  DT_ASSIGN_OR_RETURN(AppendFile file, OpenUnusedPath(directory));
  TensorboardWriter writer(std::make_unique<State>(State{std::move(file)}));
  tensorboard::Event version = EventAt(0);
  version.set_file_version("brain.Event:2");
  version.mutable_source_metadata()->set_writer("dtrain");
  DT_RETURN_IF_ERROR(writer.state_->Write(version));
  if (restored_step) {
    // Readers drop this step and later ones, so points at the restored step itself stay.
    tensorboard::Event start = EventAt(*restored_step + 1);
    start.mutable_session_log()->set_status(tensorboard::SessionLog::START);
    DT_RETURN_IF_ERROR(writer.state_->Write(start));
  }
  DT_RETURN_IF_ERROR(writer.Flush());
  return writer;
}

Status TensorboardWriter::AddScalars(int64_t step, std::span<const ScalarPoint> points) {
  tensorboard::Event event = EventAt(step);
  for (const ScalarPoint& point : points) {
    auto* const value = event.mutable_summary()->add_value();
    value->set_tag(std::string(point.tag));
    value->set_simple_value(static_cast<float>(point.value));
  }
  return state_->Write(event);
}

Status TensorboardWriter::AddText(std::string_view tag, std::string_view markdown, int64_t step) {
  tensorboard::Event event = EventAt(step);
  auto* const value = event.mutable_summary()->add_value();
  value->set_tag(std::string(tag));
  value->mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  value->mutable_metadata()->set_data_class(tensorboard::SummaryMetadata::DATA_CLASS_TENSOR);
  value->mutable_tensor()->set_dtype(tensorboard::Tensor::DT_STRING);
  value->mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(1);
  value->mutable_tensor()->add_string_val(std::string(markdown));
  return state_->Write(event);
}

Status TensorboardWriter::Flush() { return state_->file.Flush(); }

const std::string& TensorboardWriter::path() const { return state_->file.path(); }

}  // namespace dtrain
