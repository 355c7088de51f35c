// bert_tag.cc - tags words with BERT, such as the names in a text, data-parallel over MPI ranks.
// SPDX-License-Identifier: Apache-2.0
//
//   mpirun -n 8 -H a:4,b:4 bert_tag train --config examples/bert_tag/configs/base.textproto
//       model.pretrained=bert-base-cased data.train=train.conll data.dev=dev.conll
//       --run_dir=runs/names
//   bert_tag eval --run_dir=runs/names
//   bert_tag predict --run_dir=runs/names data.test=words.conll
#include "dtrain/tasks/token_classification/program.h"

int main(int argc, char** argv) {
  return dtrain::Main(argc, argv, dtrain::TokenClassificationProgram());
}
