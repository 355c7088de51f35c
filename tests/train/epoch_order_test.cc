// epoch_order_test.cc - an epoch that was begun keeps its order, whatever a run goes on with.
// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_join.h"
#include "testing/catch.h"
#include "testing/toy_training.h"

namespace dtrain {
namespace {

TEST_CASE("an epoch that goes on with another order of samples or other batches is whole") {
  const ToyCorpus corpus(140);
  const auto run_epochs = [&](const TemporaryFolder& folder, const BatchOptions& batch,
                              int64_t stop) {
    ToyRun run = MakeToyRun(corpus);
    run.ranks = 2;
    run.task.batch = batch;
    run.trainer.max_steps = 0;
    run.trainer.max_epochs = 2;
    run.trainer.checkpoint_dir = folder.File("ckpt");
    run.resume = "auto";
    StopFlags flags;
    run.stop_flags = &flags;
    run.before_update = [&, stop](int64_t step, ParameterSet&) {
      if (step == stop) flags.stop = true;
    };
    return TrainToy(run)[0];
  };
  const BatchOptions plain{.tokens_per_batch = 120};
  const BatchOptions windows{.tokens_per_batch = 120, .length_window = 20};
  const TemporaryFolder whole_folder;
  const ToyResult whole = run_epochs(whole_folder, plain, -1);
  for (const BatchOptions& first : {plain, windows}) {
    BatchOptions budget = first, seed = first, window = first;
    budget.tokens_per_batch = 200;
    seed.seed = 2;
    window.length_window += 15;
    for (const BatchOptions& second : {budget, seed, window}) {
      INFO("a window of " << first.length_window << ", then " << second.tokens_per_batch
                          << " tokens, seed " << second.seed << ", a window of "
                          << second.length_window);
      const TemporaryFolder folder;
      REQUIRE(run_epochs(folder, first, 2).state.position.sample > 0);
      // And stopped once more, in the order that is not its own.
      const ToyResult again = run_epochs(folder, second, 3);
      REQUIRE(again.state.position.epoch == 0);
      const ToyResult resumed = run_epochs(folder, second, -1);
      CHECK(resumed.reason == "max_epochs");
      CHECK(resumed.state.target_tokens == whole.state.target_tokens);
      const std::string events = absl::StrJoin(resumed.event_texts, "\n");
      const bool differs = !(SampleOrderOf(first) == SampleOrderOf(second));
      CHECK(differs ==
            (events.find("the epoch that has begun goes on in its order") != std::string::npos));
    }
  }
}

TEST_CASE("the order of an epoch is written with its position, and old states have none") {
  TrainState state;
  const auto read = [](const std::string& text) { return StateFromJson(text, "there")->position; };
  CHECK(read(StateToJson(state)) == DataPosition());
  state.position = {.epoch = 3,
                    .sample = 7,
                    .order = SampleOrder{.seed = ~uint64_t{0},
                                         .length_window = 9,
                                         .tokens_per_batch = 800,
                                         .samples_per_batch = 4,
                                         .unit = BudgetUnit::kBothSides}};
  const std::string text = StateToJson(state);
  CHECK(read(text) == state.position);
  nlohmann::json old = nlohmann::json::parse(text);
  old.erase("sample_order");
  CHECK(read(old.dump()) == DataPosition{.epoch = 3, .sample = 7});
}

}  // namespace
}  // namespace dtrain
