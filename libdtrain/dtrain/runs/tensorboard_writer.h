// tensorboard_writer.h - writes curves and texts for TensorBoard.
// SPDX-License-Identifier: Apache-2.0
//
//   DT_ASSIGN_OR_RETURN(TensorboardWriter writer, TensorboardWriter::Create(run + "/tb/train"));
//   const ScalarPoint points[] = {{"train/loss", loss}, {"train/lr", rate}};
//   DT_RETURN_IF_ERROR(writer.AddScalars(step, points));
//
// Event files consist of records {uint64 length, masked CRC32C of the length, payload, masked
// CRC32C of the payload}, little-endian. The payload is a dtrain.tensorboard.Event.
#ifndef DTRAIN_RUNS_TENSORBOARD_WRITER_H_
#define DTRAIN_RUNS_TENSORBOARD_WRITER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "dtrain/base/status.h"

namespace dtrain {

struct ScalarPoint {
  std::string_view tag;  // for example "train/loss"; the part before the slash groups charts
  double value = 0;
};

// Writes one event file. TensorBoard supports one writer per folder at a time.
class TensorboardWriter {
 public:
  // Creates `directory` and in it a new file events.out.tfevents.<seconds>.<host>.<pid>.<n>. If
  // `restored_step` is given, TensorBoard ignores later steps in earlier files. This and the
  // functions below return StorageError (exit code 7) for disk errors.
  static StatusOr<TensorboardWriter> Create(const std::string& directory,
                                            std::optional<int64_t> restored_step = {});
  TensorboardWriter(TensorboardWriter&&) noexcept;
  ~TensorboardWriter();

  // Adds points at x = step. Records are written to the file every five seconds and by Flush().
  Status AddScalars(int64_t step, std::span<const ScalarPoint> points);
  // Adds Markdown for the text tab.
  Status AddText(std::string_view tag, std::string_view markdown, int64_t step);
  Status Flush();

  const std::string& path() const;

 private:
  struct State;
  explicit TensorboardWriter(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace dtrain

#endif  // DTRAIN_RUNS_TENSORBOARD_WRITER_H_
