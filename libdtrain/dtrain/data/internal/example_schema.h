// example_schema.h - what a schema, and the name of a label, may be.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_DATA_INTERNAL_EXAMPLE_SCHEMA_H_
#define DTRAIN_DATA_INTERNAL_EXAMPLE_SCHEMA_H_

#include <string_view>

#include "dtrain/base/status.h"
#include "dtrain/data/example_reader.h"

namespace dtrain::internal {

// UsageError for a schema that cannot be.
absl::Status CheckSchema(const ExampleSchema& schema);

// No name of a label has one: a model's labels.txt has a name a line.
bool HasControlCharacter(std::string_view name);

}  // namespace dtrain::internal

#endif  // DTRAIN_DATA_INTERNAL_EXAMPLE_SCHEMA_H_
