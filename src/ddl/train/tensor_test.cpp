#include "ddl/core/error.h"
#include "ddl/train/trial_testing.h"

// Strategies that split layers among workers train as one worker does.
namespace ddl {
namespace {

using namespace testing;

void expect_like_one(Trial trial, const std::vector<std::string>& forms, const std::vector<int>& counts) {
  const auto reference = train_rank(trial, 0, 1, nullptr);
  for (const auto& form : forms)
    for (const int ranks : counts) {
      trial.strategy = form;
      expect_equal(train(trial, ranks), reference, fmt::format("{} {} {}", trial.model, form, ranks));
    }
}

TEST(Tensor, EqualsOneWorkerInFp64) {
  for (const auto* model : {"transformer[hidden=16,heads=4,layers=1,dropout=0.1]", "gpt[hidden=16,heads=4,layers=2,seq=8,vocab=17,dropout=0.1]"}) {
    Trial trial{model};
    trial.label_smoothing = 0.1;
    expect_like_one(trial, {"tensor", "tensor[sequence=on]", "tensor[split=hidden]", "tensor[split=channels]"}, {2, 4});
  }
  for (const auto* model : {"lenet", "mlp"}) expect_like_one({model}, {"tensor[split=channels]"}, {2, 3});
  expect_like_one({"lenet"}, {"tensor[split=height]", "tensor[split=width]"}, {2, 3});
}

}  // namespace
}  // namespace ddl
