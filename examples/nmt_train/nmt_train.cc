// nmt_train.cc - trains a translation model, data-parallel over MPI ranks.
// SPDX-License-Identifier: Apache-2.0
//
//   mpirun -n 4 -H a:2,b:2 nmt_train --config examples/nmt_train/configs/base.textproto
//       data.train_source=train.en data.train_target=train.de run.run_dir=runs/base
#include "dtrain/launch/main.h"
#include "dtrain/nmt.pb.h"
#include "dtrain/tasks/translation/config.h"
#include "dtrain/tasks/translation/program.h"

int main(int argc, char** argv) {
  using namespace dtrain;
  return Main<proto::NmtConfig>(argc, argv,
                                {.name = "nmt_train",
                                 .summary = "trains a translation model",
                                 .validate = ValidateNmtConfig,
                                 .run = TrainNmt});
}
