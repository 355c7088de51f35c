// lm_train.cc - trains a GPT on texts and lets it write, data-parallel over MPI ranks.
// SPDX-License-Identifier: Apache-2.0
//
//   mpirun -n 8 -H a:4,b:4 lm_train train --config examples/lm_train/configs/base.textproto
//       data.train=novels.txt --run_dir=runs/novels
//   lm_train eval --run_dir=runs/novels data.test=another.txt
//   echo "It was" | lm_train generate --run_dir=runs/novels
#include "dtrain/tasks/language_model/program.h"

int main(int argc, char** argv) { return dtrain::Main(argc, argv, dtrain::LanguageModelProgram()); }
