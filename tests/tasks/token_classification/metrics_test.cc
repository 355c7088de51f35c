// metrics_test.cc - entities of tags, and worked examples of conlleval's counts.
// SPDX-License-Identifier: Apache-2.0
#include "dtrain/tasks/token_classification/metrics.h"

#include <string>
#include <vector>

#include "testing/catch.h"

namespace dtrain {
namespace {

using Tags = std::vector<std::string>;

TEST_CASE("entities begin with B, and with I after another type or O") {
  const auto entities = [](const Tags& tags) { return EntitiesOf(tags); };
  CHECK(entities({"O", "O"}).empty());
  CHECK(entities({"B-PER", "I-PER", "O", "B-LOC"}) ==
        std::vector<Entity>{{0, 2, "PER"}, {3, 4, "LOC"}});
  CHECK(entities({"B-PER", "B-PER"}) == std::vector<Entity>{{0, 1, "PER"}, {1, 2, "PER"}});
  // IOB1: I begins an entity, B only between two of one type.
  CHECK(entities({"I-PER", "I-PER", "B-PER", "O", "I-PER"}) ==
        std::vector<Entity>{{0, 2, "PER"}, {2, 3, "PER"}, {4, 5, "PER"}});
  CHECK(entities({"B-PER", "I-LOC"}) == std::vector<Entity>{{0, 1, "PER"}, {1, 2, "LOC"}});
  CHECK(entities({}).empty());
}

TEST_CASE("an entity is correct where its words and its type are the gold ones") {
  EntityCounts counts;
  counts.Add(Tags{"B-PER", "I-PER", "O", "B-LOC", "O"},   // two entities
             Tags{"B-PER", "I-PER", "O", "B-ORG", "O"});  // one right, one of another type
  counts.Add(Tags{"O", "B-ORG", "I-ORG", "I-ORG"},        // one
             Tags{"O", "B-ORG", "I-ORG", "O"});           // too short
  counts.Add(Tags{"O"}, Tags{"B-PER"});                   // none, one
  CHECK(counts.gold == 3);
  CHECK(counts.predicted == 4);
  CHECK(counts.correct == 1);
  CHECK(counts.Precision() == Approx(1.0 / 4));
  CHECK(counts.Recall() == Approx(1.0 / 3));
  CHECK(counts.F1() == Approx(2.0 / 7));
}

TEST_CASE("without entities all figures are 0, and not a number that nobody can compare") {
  EntityCounts counts;
  counts.Add(Tags{"O", "O"}, Tags{"O", "O"});
  CHECK(counts.Precision() == 0.0);
  CHECK(counts.Recall() == 0.0);
  CHECK(counts.F1() == 0.0);
}

}  // namespace
}  // namespace dtrain
