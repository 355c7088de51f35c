// bert_squad.cc - trains BERT to answer questions about texts, data-parallel over MPI ranks.
// SPDX-License-Identifier: Apache-2.0
//
//   mpirun -n 8 -H a:4,b:4 bert_squad train --config examples/bert_squad/configs/base.textproto
//       model.pretrained=bert-base-uncased data.train=train-v1.1.json data.dev=dev-v1.1.json
//       --run_dir=runs/squad
//   bert_squad eval --run_dir=runs/squad
//   bert_squad predict --run_dir=runs/squad data.test=questions.json
#include "dtrain/tasks/question_answering/program.h"

int main(int argc, char** argv) {
  return dtrain::Main(argc, argv, dtrain::QuestionAnsweringProgram());
}
