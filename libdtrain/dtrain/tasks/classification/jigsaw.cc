// jigsaw.cc - builds the schema of the columns.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/classification/jigsaw.h"

#include <algorithm>

#include "dtrain/data/delimited_reader.h"

namespace dtrain {
namespace {

bool Has(const std::vector<std::string>& header, std::string_view name) {
  return std::ranges::find(header, name) != header.end();
}

}  // namespace

std::string JigsawLabelColumn(const std::vector<std::string>& paths) {
  if (!paths.empty()) {
    const StatusOr<DelimitedReader> reader =
        DelimitedReader::Open(paths.front(), {.format = RecordFormat::kCsv, .columns = {}});
    if (reader.ok() && !Has(reader->header(), "target") && Has(reader->header(), "toxicity")) {
      return "toxicity";
    }
  }
  return "target";
}

ExampleSchema JigsawSchema(const JigsawOptions& options) {
  ExampleSchema schema{.format = RecordFormat::kCsv,
                       .text = "comment_text",
                       .labels = {},
                       .label_kind = LabelKind::kMultiLabel,
                       .id = "id",
                       .bad_rows = options.bad_rows,
                       .share = options.share,
                       .max_rows = options.max_rows};
  schema.label_names = {"toxic"};
  if (options.auxiliary) {
    schema.label_names.insert(schema.label_names.end(), kJigsawAuxiliaries.begin(),
                              kJigsawAuxiliaries.end());
  }
  schema.labels_optional = !options.labelled;
  schema.labels = {options.label};
  if (options.auxiliary) {
    schema.labels.insert(schema.labels.end(), kJigsawAuxiliaries.begin(), kJigsawAuxiliaries.end());
    schema.labels[1] = options.label;  // again, as a soft target
  }
  schema.threshold = 0.5;
  schema.groups.assign(kJigsawIdentities.begin(), kJigsawIdentities.end());
  if (options.labelled) schema.group_weights = options.group_weights;
  return schema;
}

}  // namespace dtrain
