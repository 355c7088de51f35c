// bert_pretrain.cc - pre-trains BERT on running text, data-parallel over MPI ranks.
// SPDX-License-Identifier: Apache-2.0
//
//   mpirun -n 8 -H a:4,b:4 bert_pretrain train
//       --config examples/bert_pretrain/configs/base-phase1.textproto
//       data.train=wiki.txt.zst data.vocabulary=vocab.txt --run_dir=runs/phase1
//   mpirun -n 8 -H a:4,b:4 bert_pretrain train
//       --config examples/bert_pretrain/configs/base-phase2.textproto
//       data.train=wiki.txt.zst data.vocabulary=vocab.txt --run_dir=runs/phase2
//       model.pretrained=runs/phase1/ckpt/last/model.safetensors
//   bert_pretrain eval --run_dir=runs/phase2
#include "dtrain/launch/main.h"
#include "dtrain/pretrain.pb.h"
#include "dtrain/tasks/pretraining/config.h"
#include "dtrain/tasks/pretraining/program.h"

int main(int argc, char** argv) {
  using namespace dtrain;
  return Main<proto::PretrainConfig>(
      argc, argv,
      {.name = "bert_pretrain",
       .summary = "pre-trains BERT on running text",
       .defaults = PretrainDefaults(),
       .commands = {{.name = "train",
                     .summary = "trains a model to guess hidden words and next sentences",
                     .validate = ValidatePretrainConfig,
                     .run = TrainPretraining},
                    {.name = "eval",
                     .summary = "measures a trained model on a dev set",
                     .validate = ValidatePretrainUse,
                     .run = EvaluatePretrained}}});
}
