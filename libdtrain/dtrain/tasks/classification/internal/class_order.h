// class_order.h - whether the rows of a classifier that was loaded mean the classes of this run.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_CLASSIFICATION_INTERNAL_CLASS_ORDER_H_
#define DTRAIN_TASKS_CLASSIFICATION_INTERNAL_CLASS_ORDER_H_

#include <string>
#include <string_view>
#include <vector>

namespace dtrain::internal {

// The classes of the weights in `file` by number: those of id2label in the config.json beside it,
// or of a checkpoint's labels.txt. None where nothing there names them; "LABEL_0" is no name.
std::vector<std::string> ClassesBeside(const std::string& file);

// Returns a warning if the classes of `file` differ from those of the run or have another order, or
// "". `setting` names the setting that orders the run's classes, or "" if there is none.
std::string OtherClasses(const std::string& file, const std::vector<std::string>& theirs,
                         const std::vector<std::string>& ours, std::string_view setting);

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_CLASSIFICATION_INTERNAL_CLASS_ORDER_H_
