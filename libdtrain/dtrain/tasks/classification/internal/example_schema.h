// example_schema.h - checks of schemas and of label names.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_CLASSIFICATION_INTERNAL_EXAMPLE_SCHEMA_H_
#define DTRAIN_TASKS_CLASSIFICATION_INTERNAL_EXAMPLE_SCHEMA_H_

#include <string_view>

#include "dtrain/base/status.h"
#include "dtrain/tasks/classification/example_reader.h"

namespace dtrain::internal {

// Returns UsageError for an invalid schema.
Status CheckSchema(const ExampleSchema& schema);

// True if a name has a control character. Label names must not, because a model's labels.txt has
// one name per line.
bool HasControlCharacter(std::string_view name);

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_CLASSIFICATION_INTERNAL_EXAMPLE_SCHEMA_H_
