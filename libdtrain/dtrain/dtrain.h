// dtrain.h - what a trainer of your own includes.
// SPDX-License-Identifier: Apache-2.0
//
//   #include "dtrain/dtrain.h"
//
//   int main(int argc, char** argv) {
//     return dtrain::RunOnRanks(argc, argv, {}, dtrain::OkStatus(), [](dtrain::Runtime& runtime) {
//       std::vector<double> ones = {1.0};
//       runtime.comm.AllReduce(std::span<double>(ones), dtrain::ReduceOp::kSum);
//       std::printf("rank %d of %d sees %g\n", runtime.comm.rank(), runtime.comm.size(), ones[0]);
//       return dtrain::OkStatus();
//     });
//   }
//
// Start it with `mpirun -n 4 ./program`. docs/your-own-trainer.md goes on from here: a model of the
// library's layers, a training loop, checkpoints. dtrain/trained_models.h opens
// models that are trained.
#ifndef DTRAIN_DTRAIN_H_
#define DTRAIN_DTRAIN_H_

// Errors, log, random numbers.
#include "dtrain/base/log.h"     // IWYU pragma: export
#include "dtrain/base/random.h"  // IWYU pragma: export
#include "dtrain/base/status.h"  // IWYU pragma: export

// Tensors.
#include "dtrain/device/sequences.h"  // IWYU pragma: export
#include "dtrain/device/stream.h"     // IWYU pragma: export
#include "dtrain/device/tensor.h"     // IWYU pragma: export

// Layers, losses, the optimizer.
#include "dtrain/nn/context.h"            // IWYU pragma: export
#include "dtrain/nn/embedding.h"          // IWYU pragma: export
#include "dtrain/nn/first_token.h"        // IWYU pragma: export
#include "dtrain/nn/layer_norm.h"         // IWYU pragma: export
#include "dtrain/nn/linear.h"             // IWYU pragma: export
#include "dtrain/nn/output_loss.h"        // IWYU pragma: export
#include "dtrain/nn/parameter.h"          // IWYU pragma: export
#include "dtrain/nn/transformer_layer.h"  // IWYU pragma: export
#include "dtrain/optim/adam.h"            // IWYU pragma: export
#include "dtrain/optim/clip.h"            // IWYU pragma: export

// Ranks and their gradients.
#include "dtrain/comm/collectives.h"                   // IWYU pragma: export
#include "dtrain/comm/communicator.h"                  // IWYU pragma: export
#include "dtrain/distributed/broadcast.h"              // IWYU pragma: export
#include "dtrain/distributed/distributed_gradients.h"  // IWYU pragma: export
#include "dtrain/distributed/gradient_reducer.h"       // IWYU pragma: export

// Texts and measures.
#include "dtrain/metrics/bleu.h"                    // IWYU pragma: export
#include "dtrain/metrics/chrf.h"                    // IWYU pragma: export
#include "dtrain/metrics/classification_metrics.h"  // IWYU pragma: export
#include "dtrain/tokenizers/bpe.h"                  // IWYU pragma: export
#include "dtrain/tokenizers/wordpiece.h"            // IWYU pragma: export

// The training loop, and what a program runs in.
#include "dtrain/launch/run_on_ranks.h"  // IWYU pragma: export
#include "dtrain/launch/version.h"       // IWYU pragma: export
#include "dtrain/train/step_timeline.h"  // IWYU pragma: export
#include "dtrain/train/train_loop.h"     // IWYU pragma: export

#endif  // DTRAIN_DTRAIN_H_
