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
#include "dtrain/tasks/pretraining/program.h"

int main(int argc, char** argv) { return dtrain::Main(argc, argv, dtrain::PretrainingProgram()); }
