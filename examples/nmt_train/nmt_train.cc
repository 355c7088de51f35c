// nmt_train.cc - trains a translation model, data-parallel over MPI ranks.
// SPDX-License-Identifier: Apache-2.0
//
//   mpirun -n 4 -H a:2,b:2 nmt_train --config examples/nmt_train/configs/base.textproto
//       data.train_source=train.en data.train_target=train.de run.run_dir=runs/base
#include "dtrain/tasks/translation/program.h"

int main(int argc, char** argv) { return dtrain::Main(argc, argv, dtrain::TranslationProgram()); }
