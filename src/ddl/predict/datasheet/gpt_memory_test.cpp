#include "ddl/predict/datasheet/gpt_memory.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ddl/core/error.h"
#include "ddl/predict/datasheet/gpt_step.h"
#include "ddl/predict/datasheet/library.h"

namespace ddl {
namespace {

GptKept kept_of(const char* stack) { return gpt_kept(find_stack(stack).at("gpt").at("memory")); }

GptStep opt(double tensor) {
  return {.hidden = 1024, .ffn = 4096, .layers = 24, .heads = 16, .sequence = 2048, .vocabulary = 50257, .tensor = tensor, .value_bytes = 4};
}

std::vector<double> tensors_of(const GptStep& step, const GptKept& kept) {
  std::vector<double> out;
  for (const auto& stage : gpt_stage_bytes(step, kept, 1, false)) out.push_back(stage.tensors);
  return out;
}

/// What one more layer adds to a worker without pipeline: its state and what it keeps.
double layer_bytes(GptStep step, const char* stack) {
  step.layers = 3;
  const double three = tensors_of(step, kept_of(stack)).at(0);
  step.layers = 2;
  return three - tensors_of(step, kept_of(stack)).at(0);
}

// What Sailor's own profiles say of one layer (sailor/Planner/llm_info.json: params_floats and act_mem_floats, what a layer's forward left allocated at one sample, its output included), which no constant was fitted to.
TEST(GptMemory, LayersKeepWhatTheTrainersOwnProfilesSay) {
  struct Profile {
    const char* stack;
    double hidden, heads, tensor, parameters, kept;
    bool keeps_output;  ///< as the next layer's norm keeps its input; otherwise the output goes once the next layer has run
  };
  const Profile profiles[] = {{"sailor-opt", 1024, 16, 1, 12596224, 90181632, false},     {"sailor-opt", 1024, 16, 2, 6301184, 48238592, false},     {"sailor-opt", 1024, 16, 4, 3153664, 27267072, false},
                              {"sailor-opt", 1024, 16, 8, 1579904, 16781312, false},      {"sailor-opt", 7168, 56, 1, 616655872, 396496896, false},  {"sailor-opt", 7168, 56, 4, 154196224, 132124672, false},
                              {"sailor-gpt-neo", 2560, 20, 1, 78676480, 170401792, true}, {"sailor-gpt-neo", 2560, 20, 2, 39345920, 97001472, true}, {"sailor-gpt-neo", 2560, 20, 4, 19680640, 60563456, true}};
  for (const auto& each : profiles) {
    auto step = opt(each.tensor);
    step.hidden = each.hidden;
    step.ffn = 4 * each.hidden;
    step.heads = each.heads;
    const double output = each.keeps_output ? 0 : step.sequence * each.hidden;
    constexpr double kState = 16;  // weight, gradient, two moments
    const double profiled = kState * each.parameters + 4 * (each.kept - output);
    EXPECT_NEAR(layer_bytes(step, each.stack) / profiled, 1, 0.004) << each.stack << " hidden " << each.hidden << " tensor " << each.tensor;
  }
}

// Korthikanti et al. 2022, equations 1, 2 and 4: s b h (34 + 5 a s / h) in 16 bits; split, all but 10; with sequence parallelism, all.
TEST(GptMemory, MegatronsLayersAreKorthikantis) {
  GptStep step{.hidden = 4096, .ffn = 16384, .layers = 2, .heads = 32, .sequence = 2048, .micro_batch = 2, .global_batch = 2};
  const double sbh = 2048 * 2 * 4096, scores = 5.0 * 32 * 2048 / 4096;
  const auto activations = [&](const GptStep& of) { return layer_bytes(of, "megatron") - 18 * ((4 * 4096.0 * 4096 + 2 * 16384.0 * 4096 + 3 * 4096 + 16384) / of.tensor + 6 * 4096); };
  EXPECT_NEAR(activations(step), sbh * (34 + scores), 1);
  step.tensor = 8;
  EXPECT_NEAR(activations(step), sbh * (10 + (24 + scores) / 8), 1);
  step.sequence_parallel = true;
  EXPECT_NEAR(activations(step), sbh * (34 + scores) / 8, 1);
  step.recompute = GptStep::Recompute::selective;
  EXPECT_NEAR(activations(step), sbh * 34 / 8, 1);
  step.recompute = GptStep::Recompute::full;
  EXPECT_NEAR(activations(step), sbh * 2 / 8, 1);
}

// 1F1B: stage i of p holds p - i micro-batches, as many as there are at most; interleaved chunks those that warm up.
TEST(GptMemory, StagesHoldTheirMicroBatches) {
  auto step = opt(4);
  auto kept = kept_of("sailor-opt");
  kept.edge_values = 0;
  step.pipeline = 4;
  step.micro_batch = 8;
  step.global_batch = 8 * 32;
  const auto deep = tensors_of(step, kept);
  ASSERT_EQ(deep.size(), 4U);
  const double one = deep[1] - deep[2];  // stages without embedding and output layer differ by one micro-batch
  EXPECT_NEAR(one, 6 * 12 * 4.0 * 2048 * 8 * 1024, 1);
  step.global_batch = 8;  // one alone
  const auto shallow = tensors_of(step, kept);
  EXPECT_NEAR(shallow[1], shallow[2], 1);
  EXPECT_NEAR(deep[1] - shallow[1], 2 * one, 1);
  step.global_batch = 8 * 32;
  step.chunks = 2;  // 2 (p - i - 1) + (v - 1) p + 1 chunks of half a stage
  EXPECT_NEAR(tensors_of(step, kept)[1] - shallow[1], (9 / 2.0 - 1) * one, 1);
}

TEST(GptMemory, UnevenStagesCountEmbeddingAndOutputLayerOrNot) {
  auto step = opt(4);
  const auto kept = kept_of("sailor-opt");
  step.pipeline = 2;
  step.global_batch = 8;
  const auto even = tensors_of(step, kept);
  step.stages = {12, 12};
  EXPECT_EQ(tensors_of(step, kept), even);
  step.stages = {13, 13};
  EXPECT_EQ(tensors_of(step, kept), even);
  step.stages = {12, 14};
  EXPECT_LT(tensors_of(step, kept)[0], even[0]);
  EXPECT_GT(tensors_of(step, kept)[1], even[1]);
  for (const auto& [stages, expected] : {std::pair(std::vector<int>{8, 8, 8}, "got 3 of them, expected pp, 2"), {std::vector<int>{12, 13}, "got 25 layers in all, expected 24, or 26"}}) {
    step.stages = stages;
    try {
      tensors_of(step, kept);
      ADD_FAILURE() << expected;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument);
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
    }
  }
}

// What is split over the optimizer's workers, what has weights of its own, fewer heads of keys, and 32 bits in place of 16.
TEST(GptMemory, StatesFollowTheirWorkersAndPrecision) {
  const GptStep step{.hidden = 1024, .ffn = 4096, .layers = 2, .heads = 16, .sequence = 128, .vocabulary = 51200};
  const auto kept = kept_of("megatron");
  const auto bytes = [&](const GptStep& of) { return tensors_of(of, kept).at(0); };
  const double layers = 2 * (12 * 1024.0 * 1024 + 13 * 1024), all = layers + 51200.0 * 1024 + 128 * 1024 + 2 * 1024;
  auto sharded = step;
  sharded.data = 4;
  sharded.global_batch = 4;
  const double whole = bytes(sharded);
  sharded.shards_optimizer = true;
  EXPECT_NEAR(whole - bytes(sharded), 9 * all, 1);  // 12 bytes, three quarters of them elsewhere
  auto untied = step;
  untied.untied = true;
  EXPECT_NEAR(bytes(untied) - bytes(step), 18 * 51200.0 * 1024, 1);
  auto grouped = step;
  grouped.key_heads = 4;
  EXPECT_NEAR(bytes(step) - bytes(grouped), 2 * (18 * 1.5 * (1024.0 * 1024 + 1024) + 1.5 * 2 * 128 * 1024), 1);
  auto wide = step;
  wide.value_bytes = 4;
  EXPECT_NEAR(bytes(wide) - bytes(step), -2 * all + 2 * (2 * 16.0 * 128 * 1024 + 2 * 2.0 * 16 * 128 * 128) + 2 * 128.0 * 1024 - 2 * 128.0 * 51200, 1);
}

// Beside tensors: flat gradients, and what waits for its all-reduce, which one tensor parallel worker has none of.
TEST(GptMemory, TheAllocatorsCacheComesOnTop) {
  auto step = opt(4);
  const double hidden = 4.0 * 2048 * 1024, parameters = 24 * 3153664.0 + 2 * 12672.0 * 1024 + 2048 * 1024 + 2 * 1024;  // Sailor's profiles
  EXPECT_NEAR(gpt_stage_bytes(step, kept_of("sailor-opt"), 1, false).at(0).cached, 4 * parameters + 24 * 2 * hidden, 1);
  EXPECT_EQ(gpt_stage_bytes(step, kept_of("megatron"), 1, false).at(0).cached, 0);
  auto kept = kept_of("sailor-opt");
  kept.gradient_copies = 0;
  step.tensor = 1;
  EXPECT_EQ(gpt_stage_bytes(step, kept, 1, false).at(0).cached, 0);
}

TEST(GptMemory, AStackWithoutATermSaysWhich) {
  auto stack = find_stack("megatron");
  stack["gpt"]["memory"].erase("logits");
  EXPECT_THROW(gpt_stack(stack), Error);
  stack["gpt"].erase("memory");
  try {
    gpt_stack(stack);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'megatron' has no gpt.memory"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace ddl
