// dtrain.h - everything a training program needs, in one include.
// SPDX-License-Identifier: Apache-2.0
//
// Left out, to be included by name: configurations as messages (dtrain/nmt.pb.h, bert.pb.h,
// squad.pb.h, pretrain.pb.h), and what they become for BERT (config/bert_options.h,
// programs/classifier_data.h); what RunOnRanks() calls and a main() of one's own may
// (runtime/signals.h, base/bus_error.h); the work of the tool `dtrain` and of command lines
// (doctor.h, scaling_plan.h, flag_set.h, config/command_line.h, config/nearest_name.h,
// files/output_folder.h); readers of files and formats below what prepares data
// (delimited_reader.h, glue.h, data/jigsaw.h, data/sentences.h, utf8.h); how tasks divide updates
// (tasks/micro_batches.h) and replicas are compared (ops/checksum.h); what files, threads and
// processors are made of (base/); communicators of one kind (thread_communicator.h); the insides of
// devices; and internal/.
#ifndef DTRAIN_DTRAIN_H_
#define DTRAIN_DTRAIN_H_

#include "dtrain/base/log.h"                          // IWYU pragma: export
#include "dtrain/base/random.h"                       // IWYU pragma: export
#include "dtrain/base/status.h"                       // IWYU pragma: export
#include "dtrain/base/timeline.h"                     // IWYU pragma: export
#include "dtrain/comm/collectives.h"                  // IWYU pragma: export
#include "dtrain/comm/communicator.h"                 // IWYU pragma: export
#include "dtrain/comm/device_communicator.h"          // IWYU pragma: export
#include "dtrain/comm/environment.h"                  // IWYU pragma: export
#include "dtrain/comm/root_status.h"                  // IWYU pragma: export
#include "dtrain/config/bert_config.h"                // IWYU pragma: export
#include "dtrain/config/config.h"                     // IWYU pragma: export
#include "dtrain/config/nmt_config.h"                 // IWYU pragma: export
#include "dtrain/config/nmt_options.h"                // IWYU pragma: export
#include "dtrain/config/pretrain_config.h"            // IWYU pragma: export
#include "dtrain/config/squad_config.h"               // IWYU pragma: export
#include "dtrain/data/bpe.h"                          // IWYU pragma: export
#include "dtrain/data/classification_shard.h"         // IWYU pragma: export
#include "dtrain/data/loader.h"                       // IWYU pragma: export
#include "dtrain/data/packed_texts.h"                 // IWYU pragma: export
#include "dtrain/data/prepare.h"                      // IWYU pragma: export
#include "dtrain/data/prepare_classification.h"       // IWYU pragma: export
#include "dtrain/data/prepare_documents.h"            // IWYU pragma: export
#include "dtrain/data/pretraining_loader.h"           // IWYU pragma: export
#include "dtrain/data/wordpiece.h"                    // IWYU pragma: export
#include "dtrain/data/wordpiece_trainer.h"            // IWYU pragma: export
#include "dtrain/device/stream_order.h"               // IWYU pragma: export
#include "dtrain/files/average_checkpoints.h"         // IWYU pragma: export
#include "dtrain/files/checkpoint_directory.h"        // IWYU pragma: export
#include "dtrain/files/pretrained_weights.h"          // IWYU pragma: export
#include "dtrain/files/weight_file.h"                 // IWYU pragma: export
#include "dtrain/metrics/bleu.h"                      // IWYU pragma: export
#include "dtrain/metrics/chrf.h"                      // IWYU pragma: export
#include "dtrain/metrics/classification_metrics.h"    // IWYU pragma: export
#include "dtrain/metrics/squad_metrics.h"             // IWYU pragma: export
#include "dtrain/models/beam_search.h"                // IWYU pragma: export
#include "dtrain/models/bert_classifier.h"            // IWYU pragma: export
#include "dtrain/models/bert_pretraining.h"           // IWYU pragma: export
#include "dtrain/models/bert_question_answering.h"    // IWYU pragma: export
#include "dtrain/models/seq2seq_costs.h"              // IWYU pragma: export
#include "dtrain/models/seq2seq_transformer.h"        // IWYU pragma: export
#include "dtrain/nn/context.h"                        // IWYU pragma: export
#include "dtrain/nn/costs.h"                          // IWYU pragma: export
#include "dtrain/nn/embedding.h"                      // IWYU pragma: export
#include "dtrain/nn/first_token.h"                    // IWYU pragma: export
#include "dtrain/nn/linear.h"                         // IWYU pragma: export
#include "dtrain/nn/loss_sums.h"                      // IWYU pragma: export
#include "dtrain/nn/output_loss.h"                    // IWYU pragma: export
#include "dtrain/nn/parameter.h"                      // IWYU pragma: export
#include "dtrain/nn/transformer_layer.h"              // IWYU pragma: export
#include "dtrain/nn/transformer_stack.h"              // IWYU pragma: export
#include "dtrain/ops/cast.h"                          // IWYU pragma: export
#include "dtrain/ops/dropout_residual.h"              // IWYU pragma: export
#include "dtrain/ops/gemm.h"                          // IWYU pragma: export
#include "dtrain/ops/layer_norm.h"                    // IWYU pragma: export
#include "dtrain/ops/reduce.h"                        // IWYU pragma: export
#include "dtrain/ops/span_loss.h"                     // IWYU pragma: export
#include "dtrain/optim/adam.h"                        // IWYU pragma: export
#include "dtrain/optim/clip.h"                        // IWYU pragma: export
#include "dtrain/optim/lr_schedule.h"                 // IWYU pragma: export
#include "dtrain/parallel/adasum.h"                   // IWYU pragma: export
#include "dtrain/parallel/broadcast.h"                // IWYU pragma: export
#include "dtrain/parallel/contract.h"                 // IWYU pragma: export
#include "dtrain/parallel/distributed_gradients.h"    // IWYU pragma: export
#include "dtrain/parallel/gradient_reducer.h"         // IWYU pragma: export
#include "dtrain/parallel/optimizer_shards.h"         // IWYU pragma: export
#include "dtrain/parallel/replica_check.h"            // IWYU pragma: export
#include "dtrain/planning/estimate.h"                 // IWYU pragma: export
#include "dtrain/programs/attention_plan_file.h"      // IWYU pragma: export
#include "dtrain/programs/bert_head.h"                // IWYU pragma: export
#include "dtrain/programs/classifier_runs.h"          // IWYU pragma: export
#include "dtrain/programs/gemm_plan_file.h"           // IWYU pragma: export
#include "dtrain/programs/kernel_plans.h"             // IWYU pragma: export
#include "dtrain/programs/memory_plan.h"              // IWYU pragma: export
#include "dtrain/programs/nmt_runs.h"                 // IWYU pragma: export
#include "dtrain/programs/pretrain_runs.h"            // IWYU pragma: export
#include "dtrain/programs/squad_runs.h"               // IWYU pragma: export
#include "dtrain/runtime/main.h"                      // IWYU pragma: export
#include "dtrain/runtime/run_on_ranks.h"              // IWYU pragma: export
#include "dtrain/runtime/run_recorder.h"              // IWYU pragma: export
#include "dtrain/runtime/run_training.h"              // IWYU pragma: export
#include "dtrain/runtime/version.h"                   // IWYU pragma: export
#include "dtrain/tasks/classification_task.h"         // IWYU pragma: export
#include "dtrain/tasks/pretraining_task.h"            // IWYU pragma: export
#include "dtrain/tasks/squad_task.h"                  // IWYU pragma: export
#include "dtrain/tasks/translation_task.h"            // IWYU pragma: export
#include "dtrain/tasks/translator.h"                  // IWYU pragma: export
#include "dtrain/tensor/new_tensor.h"                 // IWYU pragma: export
#include "dtrain/tensor/sequences.h"                  // IWYU pragma: export
#include "dtrain/train/step_timeline.h"               // IWYU pragma: export
#include "dtrain/train/train_state.h"                 // IWYU pragma: export
#include "dtrain/train/trainer.h"                     // IWYU pragma: export
#include "dtrain/trained/classification_model.h"      // IWYU pragma: export
#include "dtrain/trained/classifier_use.h"            // IWYU pragma: export
#include "dtrain/trained/hf_export.h"                 // IWYU pragma: export
#include "dtrain/trained/pretrain_use.h"              // IWYU pragma: export
#include "dtrain/trained/question_answering_model.h"  // IWYU pragma: export
#include "dtrain/trained/squad_use.h"                 // IWYU pragma: export
#include "dtrain/trained/translation_model.h"         // IWYU pragma: export

#endif  // DTRAIN_DTRAIN_H_
