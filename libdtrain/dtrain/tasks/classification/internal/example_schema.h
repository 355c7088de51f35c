// example_schema.h - what a schema, and the name of a label, may be.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TASKS_CLASSIFICATION_INTERNAL_EXAMPLE_SCHEMA_H_
#define DTRAIN_TASKS_CLASSIFICATION_INTERNAL_EXAMPLE_SCHEMA_H_

#include <string_view>

#include "dtrain/base/status.h"
#include "dtrain/tasks/classification/example_reader.h"

namespace dtrain::internal {

// UsageError for a schema that cannot be.
Status CheckSchema(const ExampleSchema& schema);

// No name of a label has one: a model's labels.txt has a name a line.
bool HasControlCharacter(std::string_view name);

}  // namespace dtrain::internal

#endif  // DTRAIN_TASKS_CLASSIFICATION_INTERNAL_EXAMPLE_SCHEMA_H_
