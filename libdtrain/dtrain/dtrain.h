// dtrain.h - everything a training program needs, in one include.
// SPDX-License-Identifier: Apache-2.0
//
// Left out, to be included by name: configurations as messages (dtrain/nmt.pb.h, bert.pb.h,
// squad.pb.h, pretrain.pb.h), and what they become for BERT (tasks/shared/bert_options.h,
// tasks/classification/data.h); what RunOnRanks() calls and a main() of one's own may
// (launch/signals.h, base/bus_error.h); the work of the tool `dtrain` and of command lines
// (doctor.h, scaling_plan.h, flag_set.h, config/command_line.h, config/nearest_name.h,
// runs/output_folder.h); readers of files and formats below what prepares data
// (delimited_reader.h, glue.h, tasks/classification/jigsaw.h, tasks/pretraining/sentences.h,
// utf8.h); how tasks divide updates (train/micro_batches.h) and replicas are compared
// (ops/checksum.h); what files, threads and processors are made of (base/); communicators of one
// kind (thread_communicator.h); the insides of devices; and internal/.
#ifndef DTRAIN_DTRAIN_H_
#define DTRAIN_DTRAIN_H_

#include "dtrain/base/log.h"                                           // IWYU pragma: export
#include "dtrain/base/random.h"                                        // IWYU pragma: export
#include "dtrain/base/status.h"                                        // IWYU pragma: export
#include "dtrain/base/timeline.h"                                      // IWYU pragma: export
#include "dtrain/comm/collectives.h"                                   // IWYU pragma: export
#include "dtrain/comm/communicator.h"                                  // IWYU pragma: export
#include "dtrain/comm/device_communicator.h"                           // IWYU pragma: export
#include "dtrain/comm/environment.h"                                   // IWYU pragma: export
#include "dtrain/comm/root_status.h"                                   // IWYU pragma: export
#include "dtrain/config/config.h"                                      // IWYU pragma: export
#include "dtrain/data/packed_texts.h"                                  // IWYU pragma: export
#include "dtrain/device/new_tensor.h"                                  // IWYU pragma: export
#include "dtrain/device/sequences.h"                                   // IWYU pragma: export
#include "dtrain/device/stream_order.h"                                // IWYU pragma: export
#include "dtrain/distributed/adasum.h"                                 // IWYU pragma: export
#include "dtrain/distributed/broadcast.h"                              // IWYU pragma: export
#include "dtrain/distributed/contract.h"                               // IWYU pragma: export
#include "dtrain/distributed/distributed_gradients.h"                  // IWYU pragma: export
#include "dtrain/distributed/gradient_reducer.h"                       // IWYU pragma: export
#include "dtrain/distributed/optimizer_shards.h"                       // IWYU pragma: export
#include "dtrain/distributed/replica_check.h"                          // IWYU pragma: export
#include "dtrain/formats/weight_file.h"                                // IWYU pragma: export
#include "dtrain/launch/gemm_plan_file.h"                              // IWYU pragma: export
#include "dtrain/launch/main.h"                                        // IWYU pragma: export
#include "dtrain/launch/run_on_ranks.h"                                // IWYU pragma: export
#include "dtrain/launch/run_recorder.h"                                // IWYU pragma: export
#include "dtrain/launch/run_training.h"                                // IWYU pragma: export
#include "dtrain/launch/version.h"                                     // IWYU pragma: export
#include "dtrain/metrics/bleu.h"                                       // IWYU pragma: export
#include "dtrain/metrics/chrf.h"                                       // IWYU pragma: export
#include "dtrain/metrics/classification_metrics.h"                     // IWYU pragma: export
#include "dtrain/models/beam_search.h"                                 // IWYU pragma: export
#include "dtrain/models/pretrained_weights.h"                          // IWYU pragma: export
#include "dtrain/models/seq2seq_costs.h"                               // IWYU pragma: export
#include "dtrain/models/seq2seq_transformer.h"                         // IWYU pragma: export
#include "dtrain/nn/context.h"                                         // IWYU pragma: export
#include "dtrain/nn/costs.h"                                           // IWYU pragma: export
#include "dtrain/nn/embedding.h"                                       // IWYU pragma: export
#include "dtrain/nn/first_token.h"                                     // IWYU pragma: export
#include "dtrain/nn/linear.h"                                          // IWYU pragma: export
#include "dtrain/nn/loss_sums.h"                                       // IWYU pragma: export
#include "dtrain/nn/output_loss.h"                                     // IWYU pragma: export
#include "dtrain/nn/parameter.h"                                       // IWYU pragma: export
#include "dtrain/nn/transformer_layer.h"                               // IWYU pragma: export
#include "dtrain/nn/transformer_stack.h"                               // IWYU pragma: export
#include "dtrain/ops/cast.h"                                           // IWYU pragma: export
#include "dtrain/ops/dropout_residual.h"                               // IWYU pragma: export
#include "dtrain/ops/gemm.h"                                           // IWYU pragma: export
#include "dtrain/ops/layer_norm.h"                                     // IWYU pragma: export
#include "dtrain/ops/reduce.h"                                         // IWYU pragma: export
#include "dtrain/ops/span_loss.h"                                      // IWYU pragma: export
#include "dtrain/optim/adam.h"                                         // IWYU pragma: export
#include "dtrain/optim/clip.h"                                         // IWYU pragma: export
#include "dtrain/optim/lr_schedule.h"                                  // IWYU pragma: export
#include "dtrain/runs/average_checkpoints.h"                           // IWYU pragma: export
#include "dtrain/runs/checkpoint_directory.h"                          // IWYU pragma: export
#include "dtrain/tasks/classification/classification_model.h"          // IWYU pragma: export
#include "dtrain/tasks/classification/config.h"                        // IWYU pragma: export
#include "dtrain/tasks/classification/export.h"                        // IWYU pragma: export
#include "dtrain/tasks/classification/head.h"                          // IWYU pragma: export
#include "dtrain/tasks/classification/head_costs.h"                    // IWYU pragma: export
#include "dtrain/tasks/classification/prepare.h"                       // IWYU pragma: export
#include "dtrain/tasks/classification/program.h"                       // IWYU pragma: export
#include "dtrain/tasks/classification/shard.h"                         // IWYU pragma: export
#include "dtrain/tasks/classification/task.h"                          // IWYU pragma: export
#include "dtrain/tasks/classification/use.h"                           // IWYU pragma: export
#include "dtrain/tasks/pretraining/config.h"                           // IWYU pragma: export
#include "dtrain/tasks/pretraining/export.h"                           // IWYU pragma: export
#include "dtrain/tasks/pretraining/head.h"                             // IWYU pragma: export
#include "dtrain/tasks/pretraining/loader.h"                           // IWYU pragma: export
#include "dtrain/tasks/pretraining/prepare.h"                          // IWYU pragma: export
#include "dtrain/tasks/pretraining/program.h"                          // IWYU pragma: export
#include "dtrain/tasks/pretraining/task.h"                             // IWYU pragma: export
#include "dtrain/tasks/pretraining/use.h"                              // IWYU pragma: export
#include "dtrain/tasks/question_answering/config.h"                    // IWYU pragma: export
#include "dtrain/tasks/question_answering/export.h"                    // IWYU pragma: export
#include "dtrain/tasks/question_answering/head.h"                      // IWYU pragma: export
#include "dtrain/tasks/question_answering/head_costs.h"                // IWYU pragma: export
#include "dtrain/tasks/question_answering/metrics.h"                   // IWYU pragma: export
#include "dtrain/tasks/question_answering/program.h"                   // IWYU pragma: export
#include "dtrain/tasks/question_answering/question_answering_model.h"  // IWYU pragma: export
#include "dtrain/tasks/question_answering/task.h"                      // IWYU pragma: export
#include "dtrain/tasks/question_answering/use.h"                       // IWYU pragma: export
#include "dtrain/tasks/registry.h"                                     // IWYU pragma: export
#include "dtrain/tasks/shared/attention_plan_file.h"                   // IWYU pragma: export
#include "dtrain/tasks/shared/bert_head.h"                             // IWYU pragma: export
#include "dtrain/tasks/shared/bert_memory.h"                           // IWYU pragma: export
#include "dtrain/tasks/shared/hf_export.h"                             // IWYU pragma: export
#include "dtrain/tasks/shared/kernel_plans.h"                          // IWYU pragma: export
#include "dtrain/tasks/shared/memory_plan.h"                           // IWYU pragma: export
#include "dtrain/tasks/translation/config.h"                           // IWYU pragma: export
#include "dtrain/tasks/translation/export.h"                           // IWYU pragma: export
#include "dtrain/tasks/translation/loader.h"                           // IWYU pragma: export
#include "dtrain/tasks/translation/memory_plan.h"                      // IWYU pragma: export
#include "dtrain/tasks/translation/options.h"                          // IWYU pragma: export
#include "dtrain/tasks/translation/prepare.h"                          // IWYU pragma: export
#include "dtrain/tasks/translation/program.h"                          // IWYU pragma: export
#include "dtrain/tasks/translation/task.h"                             // IWYU pragma: export
#include "dtrain/tasks/translation/translation_model.h"                // IWYU pragma: export
#include "dtrain/tasks/translation/translator.h"                       // IWYU pragma: export
#include "dtrain/tokenizers/bpe.h"                                     // IWYU pragma: export
#include "dtrain/tokenizers/wordpiece.h"                               // IWYU pragma: export
#include "dtrain/tokenizers/wordpiece_trainer.h"                       // IWYU pragma: export
#include "dtrain/train/step_timeline.h"                                // IWYU pragma: export
#include "dtrain/train/train_loop.h"                                   // IWYU pragma: export
#include "dtrain/train/train_state.h"                                  // IWYU pragma: export
#include "dtrain/train/trainer.h"                                      // IWYU pragma: export

#endif  // DTRAIN_DTRAIN_H_
