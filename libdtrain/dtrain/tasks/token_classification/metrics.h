// metrics.h - precision, recall and F1 of entities, as the program conlleval counts them.
// SPDX-License-Identifier: Apache-2.0
//
// An entity is a run of words with tags of one type. It begins with B-TYPE, or with I-TYPE after
// another type or O. So files with BIO tags (IOB2) and with the older IOB1 mean the same entities.
// A predicted entity is correct where the gold tags have one with the same words and type (Tjong
// Kim Sang and De Meulder 2003, "Introduction to the CoNLL-2003 shared task").
#ifndef DTRAIN_TASKS_TOKEN_CLASSIFICATION_METRICS_H_
#define DTRAIN_TASKS_TOKEN_CLASSIFICATION_METRICS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

// Words [begin, end) of a sentence.
struct Entity {
  int64_t begin = 0;
  int64_t end = 0;
  std::string type;
  friend bool operator==(const Entity&, const Entity&) = default;
};

// The entities of a sentence's tags, in order.
std::vector<Entity> EntitiesOf(std::span<const std::string> tags);

struct EntityCounts {
  int64_t gold = 0;
  int64_t predicted = 0;
  int64_t correct = 0;

  // Adds a sentence.
  void Add(std::span<const std::string> gold_tags, std::span<const std::string> predicted_tags);

  // 0 where there is nothing to divide by.
  double Precision() const;
  double Recall() const;
  double F1() const;
};

}  // namespace dtrain

#endif  // DTRAIN_TASKS_TOKEN_CLASSIFICATION_METRICS_H_
