// bert_classify.cc - trains, evaluates and applies BERT classifiers, data-parallel over MPI ranks.
// SPDX-License-Identifier: Apache-2.0
//
//   mpirun -n 8 -H a:4,b:4 bert_classify train --config
//   examples/bert_classify/configs/base.textproto
//       data.glue=sst-2 data.glue_dir=glue/SST-2 data.vocabulary=vocab.txt --run_dir=runs/sst2
//   bert_classify eval --run_dir=runs/sst2
//   bert_classify predict --run_dir=runs/sst2 data.test=new.tsv
#include "dtrain/bert.pb.h"
#include "dtrain/launch/main.h"
#include "dtrain/tasks/classification/program.h"
#include "dtrain/tasks/shared/bert_config.h"

int main(int argc, char** argv) {
  using namespace dtrain;
  return Main<proto::BertConfig>(
      argc, argv,
      {.name = "bert_classify",
       .summary = "classifies texts with BERT",
       .defaults = BertDefaults(),
       .commands = {{.name = "train",
                     .summary = "trains a classifier",
                     .validate = ValidateBertConfig,
                     .run = TrainClassifier},
                    {.name = "eval",
                     .summary = "measures a trained classifier on dev and test sets",
                     .validate = ValidateBertUse,
                     .run = EvaluateClassifier},
                    {.name = "predict",
                     .summary = "writes what a trained classifier says about texts",
                     .validate = ValidateBertUse,
                     .run = PredictWithClassifier}}});
}
