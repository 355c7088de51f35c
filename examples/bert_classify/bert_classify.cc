// bert_classify.cc - trains, evaluates and applies BERT classifiers, data-parallel over MPI ranks.
// SPDX-License-Identifier: Apache-2.0
//
//   mpirun -n 8 -H a:4,b:4 bert_classify train --config
//   examples/bert_classify/configs/base.textproto
//       data.glue=sst-2 data.glue_dir=glue/SST-2 data.vocabulary=vocab.txt --run_dir=runs/sst2
//   bert_classify eval --run_dir=runs/sst2
//   bert_classify predict --run_dir=runs/sst2 data.test=new.tsv
#include "dtrain/tasks/classification/program.h"

int main(int argc, char** argv) {
  return dtrain::Main(argc, argv, dtrain::ClassificationProgram());
}
