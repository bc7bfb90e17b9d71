#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "ddl/core/error.h"
#include "ddl/predict/datasheet/library.h"
#include "ddl/predict/validate/accuracy.h"
#include "ddl/predict/validate/estimate.h"
#include "ddl/predict/validate/validate.h"

// Rows as tables have them, and what was measured: what constants were fitted to stays as good.
namespace ddl {
namespace {

constexpr const char* kHeader = "id,model,hidden,layers,heads,seq,vocab,device,devices,devices_per_node,link_intra,link_inter,stack,precision,strategy,dp,tp,pp,schedule,interleave,recompute,overlap,micro_batch,global_batch,measured_ms\n";

MeasuredRow row(const std::string& text) { return parse_table(std::string(kHeader) + text + "\n", "rows").rows.at(0); }

/// Whose exchanges overlap, and whose optimizer keeps parts: as rows that Megatron-Core's constants are of.
MeasuredRow fast_row(const std::string& text) {
  auto out = row(text);
  out.overlap = true;
  out.sharded = "1";
  return out;
}

// Narayanan et al. 2021, table 1.
TEST(GptTables, MegatronOnA100) {
  const std::pair<const char*, double> rows[] = {
      {"1.7B,gpt,2304,24,24,2048,51200,a100-80gb,32,8,nvlink3,8x200Gbps,megatron/nccl,fp16,hybrid,32,1,1,1f1b,1,full,0,16,512,3528.0", 4},
      {"3.6B,gpt,3072,30,32,2048,51200,a100-80gb,64,8,nvlink3,8x200Gbps,megatron/nccl,fp16,hybrid,32,2,1,1f1b,1,full,0,16,512,3697.0", 4}};
  for (const auto& [text, most] : rows) {
    const auto one = row(text);
    const auto estimate = estimate_row(one);
    EXPECT_NEAR(100 * (estimate.seconds / one.measured_seconds() - 1), 0, most) << one.id;
    double sum = 0;
    for (const auto& [name, seconds] : estimate.terms) sum += seconds;
    EXPECT_NEAR(sum, estimate.seconds, 1e-9 * estimate.seconds) << one.id;
    EXPECT_TRUE(estimate.fits);
    const auto [low, high] = interval_of(estimate);
    EXPECT_LT(low, estimate.seconds);
    EXPECT_GT(high, estimate.seconds);
  }
}

// vTrain's first rows.
TEST(GptTables, OneNodeOfA100) {
  const auto one = row("vtrain1-1,gpt,1024,24,16,1024,51200,a100-80gb,8,8,nvlink3,,megatron-deepspeed/nccl,fp16,hybrid,2,2,2,1f1b,,full,0,4,32,219.732754");
  EXPECT_NEAR(estimate_row(one).seconds / one.measured_seconds(), 1, 0.08);
}

// What is noted of measured shapes can be left out, as for shapes of which nothing is.
TEST(GptTables, FormulaeAlone) {
  const auto noted = row("a,gpt,2048,24,16,1024,51200,a100-80gb,4,8,nvlink3,,megatron-deepspeed/nccl,fp16,hybrid,1,4,1,1f1b,,full,0,2,16,1");
  const auto with = estimate_row(noted), without = estimate_row(noted, false);
  EXPECT_TRUE(with.noted_shape);
  EXPECT_FALSE(without.noted_shape);
  EXPECT_LT(with.seconds, 0.9 * without.seconds) << "this shape is one that formulae miss";
  EXPECT_GT(without.sigma, 2 * with.sigma);
  const auto other = row("b,gpt,3072,24,16,1024,51200,a100-80gb,4,8,nvlink3,,megatron-deepspeed/nccl,fp16,hybrid,1,4,1,1f1b,,full,0,2,16,1");
  EXPECT_FALSE(estimate_row(other).noted_shape);
  EXPECT_EQ(estimate_row(other).seconds, estimate_row(other, false).seconds);
  const auto table = parse_table(std::string(kHeader) + "a,gpt,2048,24,16,1024,51200,a100-80gb,4,8,nvlink3,,megatron-deepspeed/nccl,fp16,hybrid,1,4,1,1f1b,,full,0,2,16,100\n", "rows");
  const auto validation = validate(table), plain = validate(table, "", false);
  ASSERT_TRUE(validation.without_shapes.has_value());
  EXPECT_NE(validation.without_shapes->mape, validation.summary.mape);
  EXPECT_EQ(validation.without_shapes->mape, plain.summary.mape);
  EXPECT_FALSE(plain.without_shapes.has_value());
}

// What was never fitted says so: its interval is wider, and a package nobody has measured is named.
TEST(GptTables, WhatWasNotFittedHasAWiderInterval) {
  const auto fitted = row("a,gpt,2304,24,24,2048,51200,a100-80gb,32,8,,,megatron/nccl,fp16,hybrid,32,1,1,1f1b,1,full,0,16,512,1");
  const auto newer = row("b,gpt,2304,24,24,2048,51200,h100-80gb,32,8,,,megatron/nccl,fp16,hybrid,32,1,1,1f1b,1,full,0,16,512,1");
  const auto larger = row("c,gpt,2304,24,24,8192,51200,a100-80gb,8192,8,,,megatron/nccl,fp16,hybrid,8192,1,1,1f1b,1,full,0,1,8192,1");
  const auto other = row("d,gpt,2304,24,24,2048,51200,a100-80gb,32,8,,,colossal/nccl,fp16,hybrid,32,1,1,1f1b,1,full,0,16,512,1");
  EXPECT_GT(estimate_row(newer).sigma, 2 * estimate_row(fitted).sigma);
  EXPECT_GT(estimate_row(larger).sigma, estimate_row(fitted).sigma);
  EXPECT_LT(estimate_row(newer).seconds, estimate_row(fitted).seconds);
  const auto says = [](const Estimate& estimate, const std::string& what) {
    return std::any_of(estimate.notes.begin(), estimate.notes.end(), [&](const std::string& note) { return note.starts_with(what) && note.find("the interval is wider for it") != std::string::npos; });
  };
  for (const auto* what : {"devices 8192 ", "seq 8192 "}) EXPECT_TRUE(says(estimate_row(larger), what)) << what;
  EXPECT_FALSE(says(estimate_row(larger), "hidden"));
  const auto deep = estimate_row(row("g,gpt,2304,256,32,2048,512000,a100-80gb,32,8,,,megatron/nccl,fp16,hybrid,2,16,1,1f1b,1,full,0,1,512,1"));
  for (const auto* what : {"tp 16 ", "layers 256 ", "vocab 512000 "}) EXPECT_TRUE(says(deep, what)) << what;
  EXPECT_TRUE(says(estimate_row(row("h,gpt,2304,128,32,2048,51200,a100-80gb,128,8,,,megatron/nccl,fp16,hybrid,1,1,128,1f1b,1,full,0,1,512,1")), "pp 128 "));
  EXPECT_TRUE(estimate_row(fitted).notes.empty());
  const auto selective = estimate_row(row("f,gpt,2304,24,24,2048,51200,a100-80gb,32,8,,,megatron/nccl,fp16,hybrid,32,1,1,1f1b,1,selective,0,16,512,1"));
  EXPECT_TRUE(says(selective, "recompute selective"));
  ASSERT_FALSE(estimate_row(other).notes.empty());
  EXPECT_NE(estimate_row(other).notes[0].find("colossal"), std::string::npos);
  EXPECT_NE(estimate_row(other).notes[0].find("the interval is wider for it"), std::string::npos);
  EXPECT_GT(estimate_row(other).sigma, 0.3);
  EXPECT_EQ(estimate_row(other).seconds, estimate_row(fitted).seconds);
  const auto core = [&](const char* device) { return estimate_row(fast_row(fmt::format("e,gpt,2304,24,18,2048,51200,{},32,8,,,megatron-core/nccl,fp16,hybrid,32,1,1,1f1b,1,none,0,4,512,1", device))); };
  EXPECT_LT(core("h100-80gb").sigma, 0.05);
  EXPECT_TRUE(core("h100-80gb").notes.empty());
  EXPECT_GE(core("a100-80gb").sigma, 0.1);
  EXPECT_EQ(core("a100-80gb").notes.at(0), "no constant of megatron-core was fitted on a100-80gb");
  // Exchanges that overlap where no row had any, and the other way round; a table that does not say means that they do.
  auto overlapping = fitted, alone = fast_row("i,gpt,2304,24,18,2048,51200,h100-80gb,32,8,,,megatron-core/nccl,fp16,hybrid,32,1,1,1f1b,1,none,0,4,512,1");
  overlapping.overlap = alone.overlap = !fitted.overlap;
  EXPECT_TRUE(says(estimate_row(overlapping), "overlap 1: no row had it"));
  EXPECT_GT(estimate_row(overlapping).sigma, estimate_row(fitted).sigma);
  alone.overlap = false;
  alone.sharded = "";
  for (const auto* what : {"overlap 0: ", "sharded 0: "}) EXPECT_TRUE(says(estimate_row(alone), what)) << what;
}

// So do a head, an MLP, chunks and numbers of micro-batches of other sizes than rows of fitting had, and heads that share keys and values.
TEST(GptTables, ShapesAndSchedulesThatWereNotFittedHaveAWiderInterval) {
  const auto of = [](const char* heads, const char* schedule, int global) { return row(fmt::format("a,gpt,6144,32,{},2048,51200,a100-80gb,32,8,,,megatron/nccl,fp16,hybrid,1,8,4,{},full,0,1,{},1", heads, schedule, global)); };
  const auto fitted = estimate_row(of("48", "1f1b,1", 64));
  EXPECT_TRUE(fitted.notes.empty());
  auto wide = of("48", "1f1b,1", 64), grouped = wide;
  wide.ffn = 16'384;
  grouped.kv_heads = 8;
  const std::pair<MeasuredRow, const char*> others[] = {{of("96", "1f1b,1", 64), "hidden over heads, 64 lies outside of what constants were fitted to, 96 to 160"},
                                                        {of("48", "interleaved-1f1b,8", 64), "chunks of a stage, 8 lies outside of what constants were fitted to, 1 to 3"},
                                                        {of("48", "1f1b,1", 2048), "micro-batches of a step, 2048 lies outside"},
                                                        {wide, "ffn over hidden, 2.66"},
                                                        {grouped, "kv_heads fewer than heads: no row had it"}};
  for (const auto& [other, what] : others) {
    const auto estimate = estimate_row(other);
    EXPECT_GT(estimate.sigma, fitted.sigma) << what;
    EXPECT_TRUE(std::any_of(estimate.notes.begin(), estimate.notes.end(), [&, begins = what](const std::string& note) { return note.starts_with(begins) && note.find("the interval is wider for it") != std::string::npos; })) << what;
  }
}

// Every package says what its own rows had: none has another's range.
TEST(GptTables, EveryPackageHasItsOwnRange) {
  int packages = 0;
  for (const auto& name : shipped_stacks()) {
    const auto stack = stack_with(name, "gpt");
    if (!stack || stack->at("gpt").contains("like") || name == "megatron") continue;
    ++packages;
    EXPECT_TRUE(stack->at("gpt").contains("fitted")) << name << " would have megatron's range";
  }
  EXPECT_EQ(packages, 2);
  const auto says = [](const Estimate& estimate, const std::string& what) { return std::any_of(estimate.notes.begin(), estimate.notes.end(), [&](const std::string& note) { return note.starts_with(what); }); };
  const auto of = [](const char* stack, const char* sizes, const char* divided) { return estimate_row(row(fmt::format("a,gpt,{},a100-80gb,{},{}/nccl,fp16,hybrid,{},1", sizes, divided[0] == '2' ? "512,8,," : "8,8,,", stack, divided + 2))); };
  const auto inside = of("megatron-deepspeed", "2048,24,16,1024,51200", "0,1,8,1,1f1b,,full,0,8,16"), wide = of("megatron-deepspeed", "12288,24,96,1024,51200", "0,1,8,1,1f1b,,full,0,8,16"),
             many = of("megatron-deepspeed", "12288,96,96,2048,51200", "2,8,8,8,1f1b,,full,0,1,1024");
  EXPECT_TRUE(inside.notes.empty() || !says(inside, "hidden"));
  for (const auto* what : {"hidden 12288 lies outside", "devices 512 ", "seq 2048 ", "pp 8 ", "layers 96 "}) EXPECT_TRUE(says(many, what)) << what;
  EXPECT_GT(wide.sigma, inside.sigma);
  EXPECT_GT(many.sigma, wide.sigma);
  EXPECT_FALSE(says(of("megatron", "12288,96,96,2048,51200", "2,8,8,8,1f1b,,full,0,1,1024"), "devices")) << "which megatron's rows had";
}

// A precision, a way to recompute, and tensor parallelism over wires between nodes that no row had: wider, and told.
TEST(GptTables, WaysThatNoRowHadHaveAWiderInterval) {
  const auto of = [](const char* precision, const char* recompute, const char* node, int tp) { return estimate_row(row(fmt::format("a,gpt,4096,24,32,2048,51200,a100-80gb,32,{},,,megatron/nccl,{},hybrid,{},{},1,1f1b,1,{},0,4,128,1", node, precision, 32 / tp, tp, recompute))); };
  const auto fitted = of("fp16", "full", "8", 8);
  EXPECT_TRUE(fitted.notes.empty());
  const std::pair<Estimate, const char*> others[] = {{of("tf32", "full", "8", 8), "precision tf32"}, {of("fp16", "none", "8", 8), "recompute none"}, {of("fp16", "full", "4", 8), "tensor parallelism over 8 devices, 4 of them on a node"}};
  for (const auto& [other, what] : others) {
    EXPECT_GT(other.sigma, 1.5 * fitted.sigma) << what;
    EXPECT_TRUE(std::any_of(other.notes.begin(), other.notes.end(), [&](const std::string& note) { return note.starts_with(what); })) << what;
  }
}

// Tensor parallel workers on several nodes exchange over the wires between them, which an A100's eight make a fifteenth as fast as NVLink for one device and as much as that for all; compute stays.
TEST(GptTables, TensorParallelOverNodes) {
  const auto of = [](int per_node, const char* between) { return estimate_row(row(fmt::format("a,gpt,4096,24,32,2048,51200,a100-80gb,16,{},,{},megatron/nccl,fp16,hybrid,2,8,1,1f1b,1,full,0,4,8,1", per_node, between))); };
  const auto term_of = [](const Estimate& estimate, const char* name) {
    for (const auto& [term, seconds] : estimate.terms)
      if (term == name) return seconds;
    return -1.0;
  };
  const auto within = of(8, "8x200Gbps"), over_two = of(4, "8x200Gbps"), slower = of(4, "8x100Gbps"), slowest = of(4, "8x25Gbps");
  EXPECT_GT(term_of(over_two, "tensor exchange"), 1.1 * term_of(within, "tensor exchange"));
  EXPECT_GT(term_of(slower, "tensor exchange"), 1.5 * term_of(over_two, "tensor exchange"));
  EXPECT_NEAR(term_of(slowest, "tensor exchange") / term_of(slower, "tensor exchange"), 4, 0.6);
  EXPECT_EQ(term_of(of(8, "8x25Gbps"), "tensor exchange"), term_of(within, "tensor exchange")) << "none leaves its node";
}

// A stage with more layers than others is what all wait for; as many each is the even way.
TEST(GptTables, StagesAreTheRows) {
  constexpr const char* header = "id,model,hidden,layers,heads,seq,device,devices,stack,precision,recompute,dp,tp,pp,stages,micro_batch,global_batch,measured_ms\n";
  const auto of = [&](const char* stages) { return estimate_row(parse_table(fmt::format("{}a,gpt,2304,24,24,2048,a100-80gb,4,megatron/nccl,fp16,full,1,1,4,{},1,64,1\n", header, stages), "rows").rows.at(0)).seconds; };
  EXPECT_EQ(of(""), of("6/6/6/6"));
  EXPECT_EQ(of(""), of("7/6/6/7")) << "with embedding and output layer";
  // Nine layers where six and the logits are the slowest.
  EXPECT_NEAR(of("5/9/5/5") / of(""), 1.3, 0.1);
  EXPECT_LT(of("7/6/6/5"), of("5/9/5/5"));
  // Of a package that interleaves whenever messages overlap: stages that a row tells are not cut into chunks.
  const auto told = estimate_row(parse_table("id,model,hidden,layers,heads,seq,device,devices,stack,precision,recompute,dp,tp,pp,overlap,stages,micro_batch,global_batch,measured_ms\n"
                                             "a,gpt,2048,24,16,2048,h100-80gb,8,megatron-core/nccl,bf16,none,1,4,2,1,11/13,1,64,1\n", "rows").rows.at(0));
  EXPECT_GT(told.seconds, 0);
}

// The one-device rate of a gpt is not what it is priced from, and a word for how work is divided that nobody knows is not read: both are told.
TEST(GptTables, ColumnsThatAreNotReadAreTold) {
  constexpr const char* header = "id,model,hidden,layers,heads,seq,device,devices,stack,recompute,dp,tp,pp,strategy,overlap,micro_batch,global_batch,one_device_samples_per_s,measured_ms\n";
  const auto of = [&](const char* strategy, const char* rate) { return estimate_row(parse_table(fmt::format("{}a,gpt,2304,24,24,2048,a100-80gb,4,megatron/nccl,full,1,1,4,{},0,1,64,{},1\n", header, strategy, rate), "rows").rows.at(0)); };
  EXPECT_TRUE(of("pipeline", "").notes.empty());
  ASSERT_EQ(of("pipeline", "3").notes.size(), 1U);
  EXPECT_NE(of("pipeline", "3").notes[0].find("one_device_samples_per_s is not used"), std::string::npos);
  EXPECT_THROW(estimate_row(parse_table("id,model,hidden,layers,heads,seq,image,device,devices,stack,micro_batch,global_batch,measured_ms\na,gpt,2304,24,24,2048,3x224x224,a100-80gb,1,megatron/nccl,1,8,1\n", "rows").rows.at(0)), Error);
  ASSERT_EQ(of("3d", "").notes.size(), 1U);
  EXPECT_NE(of("3d", "").notes[0].find("strategy '3d' is none that tables know (data hybrid pipeline single tensor)"), std::string::npos);
  try {
    of("data", "");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("strategy; got 'data' with 4 devices, dp 1, tp 1, pp 4"), std::string::npos) << error.what();
  }
}

/// Errors of a shipped table's rows, %, by id.
std::map<std::string, double> errors_of(const char* table) {
  const auto found = validate(read_table(find_table(table)));
  EXPECT_TRUE(found.skipped.empty());
  std::map<std::string, double> errors;
  for (const auto& each : found.rows) errors[each.row.id] = each.predicted.error_pct();
  return errors;
}

double mean_of(const std::map<std::string, double>& errors) {
  double sum = 0;
  for (const auto& [id, error] : errors) sum += std::abs(error) / static_cast<double>(errors.size());
  return sum;
}

// No level of these was fitted.
TEST(GptTables, MegatronCoreOnH100) {
  const auto weak = errors_of("megatron-core-h100"), strong = errors_of("megatron-core-h100-strong");
  ASSERT_EQ(weak.size(), 9U);
  EXPECT_LT(mean_of(weak), 3);
  for (const auto& [id, error] : weak) EXPECT_NEAR(error, 0, 6) << id;
  ASSERT_EQ(strong.size(), 8U);
  EXPECT_LT(mean_of(strong), 2);
  for (const auto& [id, error] : strong) EXPECT_NEAR(error, 0, 5) << id;
}

// Products in TF32 run below their printed peak as those in 16 bits do, and values of 32 bits are twice the bytes.
TEST(GptTables, ThirtyTwoBitsOnGH200) {
  const auto errors = errors_of("sailor-memory");
  ASSERT_EQ(errors.size(), 26U);
  EXPECT_LT(mean_of(errors), 10);
  const auto with = [](const char* precision) { return estimate_row(row(fmt::format("a,gpt,4096,24,32,2048,51200,h100-80gb,64,8,,,megatron/nccl,{},hybrid,8,8,1,1f1b,1,none,0,4,512,1", precision))); };
  const auto narrow = with("bf16"), wide = with("tf32");
  ASSERT_EQ(narrow.terms[1].first, "tensor exchange");
  // Twice, but for latencies and kernels' launches.
  for (const int term : {0, 1}) EXPECT_NEAR(wide.terms[term].second / narrow.terms[term].second, 1.9, 0.1);
  ASSERT_EQ(narrow.terms[5].first, "gradients");
  EXPECT_GT(wide.terms[5].second, narrow.terms[5].second);
}

/// A row of Megatron-core on 768 H100: hidden, layers and heads; dp, tp, pp, schedule and interleave; overlap and batches.
Estimate core_row(const char* sizes, const char* divided, const char* end) {
  constexpr const char* header =
      "id,model,hidden,layers,heads,seq,vocab,device,devices,devices_per_node,stack,precision,strategy,dp,tp,pp,schedule,interleave,sharded,sequence_parallel,recompute,overlap,micro_batch,global_batch,measured_ms\n";
  return estimate_row(parse_table(fmt::format("{}a,gpt,{},4096,131072,h100-80gb,768,8,megatron-core/nccl,bf16,hybrid,{},1,1,none,{},1\n", header, sizes, divided, end), "rows").rows.at(0));
}

// What a table does not print is as runs that are made to be fast have it, and said.
TEST(GptTables, WhatTablesSeldomPrint) {
  const auto says = [](const Estimate& estimate, const char* what) { return std::any_of(estimate.notes.begin(), estimate.notes.end(), [&](const std::string& note) { return note.find(what) != std::string::npos; }); };
  const auto untold = core_row("8192,84,64", "48,8,2,,", "1,,384"), layers = core_row("8192,84,64", "48,8,2,interleaved-1f1b,42", "1,1,384"), plain = core_row("8192,84,64", "48,8,2,1f1b,1", "1,1,384");
  EXPECT_EQ(untold.seconds, layers.seconds);
  EXPECT_LT(untold.seconds, 0.95 * plain.seconds);
  EXPECT_TRUE(says(untold, "42 chunks of one layer are taken"));
  EXPECT_TRUE(says(untold, "micro_batch is empty; 1 is taken, one sample in a pipeline"));
  EXPECT_TRUE(layers.notes.empty());
  EXPECT_TRUE(plain.notes.empty());
  // Without a pipeline as many samples as fit.
  const auto fits = core_row("7168,48,56", "96,8,1,,", "1,,384"), told = core_row("7168,48,56", "96,8,1,,", "1,4,384");
  EXPECT_EQ(fits.seconds, told.seconds);
  EXPECT_TRUE(says(fits, "micro_batch is empty; 4 is taken, the most that memory holds"));
  EXPECT_FALSE(says(told, "micro_batch"));
  EXPECT_TRUE(says(core_row("7168,96,56", "96,8,1,,", "1,,1536"), "micro_batch is empty; 2 is taken")) << "twice the layers, and as much of memory";
  // Without overlap nothing says that it is interleaved.
  EXPECT_FALSE(says(core_row("8192,84,64", "48,8,2,,", "0,1,384"), "chunks"));
}

// Of gradients what does not fit behind backward is waited for: more micro-batches in a step leave a smaller share, more chunks leave less, and without overlap there is all of it.
TEST(GptTables, GradientsBehindBackward) {
  const auto exposed_of = [](const Estimate& estimate) { return estimate.terms[5].second; };
  const auto one = core_row("7168,48,56", "96,8,1,,", "1,4,384"), four = core_row("7168,48,56", "96,8,1,,", "1,1,384"), bare = core_row("7168,48,56", "96,8,1,,", "0,4,384");
  ASSERT_EQ(one.terms[5].first, "gradients");
  EXPECT_LT(exposed_of(one), exposed_of(four)) << "a larger micro-batch's backward hides more";
  EXPECT_LT(exposed_of(four), exposed_of(bare));
  const auto two_chunks = core_row("8192,84,64", "48,8,2,interleaved-1f1b,2", "1,1,384"), six = core_row("8192,84,64", "48,8,2,interleaved-1f1b,6", "1,1,384");
  EXPECT_LT(exposed_of(six), exposed_of(two_chunks));
}

// The library behind a package's name carries its collectives; one that is not described is its machine's, with a wider interval and a word.
TEST(GptTables, TheRowsLibrary) {
  const auto with = [](const char* stack) { return estimate_row(row(fmt::format("a,gpt,3072,32,32,2048,51200,a100-80gb,64,8,,,{},fp16,hybrid,16,4,1,1f1b,1,full,0,4,512,1", stack))); };
  const auto nccl = with("megatron/nccl"), none = with("megatron"), both = with("megatron/openmpi+nccl"), mpi = with("megatron/openmpi"), other = with("megatron/rccl");
  EXPECT_EQ(nccl.seconds, none.seconds);
  EXPECT_EQ(nccl.seconds, both.seconds);
  EXPECT_EQ(nccl.seconds, other.seconds);
  EXPECT_NE(nccl.seconds, mpi.seconds);
  EXPECT_EQ(nccl.sigma, both.sigma);
  EXPECT_GT(other.sigma, 2 * nccl.sigma);
  ASSERT_FALSE(other.notes.empty());
  EXPECT_NE(other.notes[0].find("collectives of stack 'megatron/rccl' are not described; taken for those of nccl"), std::string::npos) << other.notes[0];
}

// Wires are those that a row says, where they are not its device's: exchanges in a node and between nodes take as much longer, all else stays. Without a word, or with its own, nothing changes.
TEST(GptTables, WiresAreTheRows) {
  const auto with = [](const char* inside, const char* between) {
    return estimate_row(row(fmt::format("a,gpt,3072,32,32,2048,51200,a100-80gb,64,8,{},{},megatron/nccl,fp16,hybrid,16,4,1,1f1b,1,full,0,4,512,1", inside, between)));
  };
  const auto term_of = [](const Estimate& estimate, const char* name) {
    for (const auto& [term, seconds] : estimate.terms)
      if (term == name) return seconds;
    return -1.0;
  };
  const auto own = with("nvlink3", "8x200Gbps"), silent = with("", ""), pcie = with("pcie4", "8x200Gbps"), slow = with("nvlink3", "25Gbps"), newer = with("NVLink4", "8xNDR");
  EXPECT_EQ(own.seconds, silent.seconds);
  EXPECT_EQ(own.sigma, silent.sigma);
  EXPECT_TRUE(own.notes.empty());
  // The bus is a twelfth; what does not go by its rate, latencies, is a small part of exchanges of 50 MB.
  EXPECT_GT(term_of(pcie, "tensor exchange"), 10 * term_of(own, "tensor exchange"));
  EXPECT_LT(term_of(pcie, "tensor exchange"), 12 * term_of(own, "tensor exchange"));
  EXPECT_EQ(term_of(slow, "tensor exchange"), term_of(own, "tensor exchange"));
  EXPECT_GT(term_of(slow, "gradients"), 20 * term_of(own, "gradients"));
  EXPECT_LT(term_of(newer, "tensor exchange"), term_of(own, "tensor exchange"));
  EXPECT_LT(term_of(newer, "gradients"), term_of(own, "gradients"));
  for (const auto* other : {&pcie, &slow, &newer}) {
    EXPECT_GT(other->sigma, 2 * own.sigma);
    ASSERT_FALSE(other->notes.empty());
    EXPECT_NE(other->notes[0].find("not the"), std::string::npos) << other->notes[0];
  }
  EXPECT_NE(with("nvlink3", "InfiniBand").notes.at(0).find("names no rate; the profile's 8x200Gbps is taken"), std::string::npos);
}

// A word that nobody knows skips its row, with its line; on another machine rows have that machine's wires.
TEST(GptTables, WiresThatNobodyKnows) {
  const auto table = parse_table(std::string(kHeader) + "a,gpt,2304,24,24,2048,51200,a100-80gb,32,8,nvlink3,8x200Gbps,megatron/nccl,fp16,hybrid,32,1,1,1f1b,1,full,0,16,512,3528\n"
                                                        "b,gpt,2304,24,24,2048,51200,a100-80gb,32,8,nvlnk3,8x200Gbps,megatron/nccl,fp16,hybrid,32,1,1,1f1b,1,full,0,16,512,3528\n"
                                                        "c,gpt,2304,24,24,2048,51200,a100-80gb,32,8,nvlink3,8x200,megatron/nccl,fp16,hybrid,32,1,1,1f1b,1,full,0,16,512,3528\n",
                                 "rows");
  const auto found = validate(table);
  EXPECT_EQ(found.rows.size(), 1U);
  ASSERT_EQ(found.skipped.size(), 2U);
  EXPECT_EQ(found.skipped[0].line, 3);
  EXPECT_NE(found.skipped[0].reason.find("link_intra; got 'nvlnk3' (did you mean 'nvlink3'?), expected one of: nvlink1"), std::string::npos) << found.skipped[0].reason;
  EXPECT_NE(found.skipped[1].reason.find("link_inter; got '8x200'"), std::string::npos) << found.skipped[1].reason;
  const auto newer = validate(table, "h100-80gb");
  ASSERT_EQ(newer.rows.size(), 3U);
  EXPECT_EQ(newer.rows[0].estimate.seconds, newer.rows[1].estimate.seconds);
  EXPECT_EQ(newer.rows[0].estimate.seconds, estimate_row(row("a,gpt,2304,24,24,2048,51200,h100-80gb,32,8,,,megatron/nccl,fp16,hybrid,32,1,1,1f1b,1,full,0,16,512,1")).seconds);
}

// A trillion parameters on one device do not fit; on 3,072 with recomputation they do (SC21).
TEST(GptTables, MemorySaysWhatFits) {
  EXPECT_FALSE(estimate_row(row("a,gpt,12288,96,96,2048,51200,a100-80gb,8,8,,,megatron/nccl,fp16,hybrid,1,8,1,1f1b,1,none,0,1,8,1")).fits);
  EXPECT_TRUE(estimate_row(row("b,gpt,25600,128,160,2048,51200,a100-80gb,3072,8,,,megatron/nccl,fp16,hybrid,6,8,64,1f1b,1,full,0,1,3072,1")).fits);
}

double memory_error(const JudgedMemory& each) { return 100 * (each.predicted / each.measured - 1); }

// Sailor's measured peaks: its trainer's tensors are counted, nothing was fitted to these rows. One row lies 8.7 GB below three others of the same stages and micro-batches.
TEST(GptTables, SailorsPeaks) {
  const auto found = validate(read_table(find_table("sailor-memory")));
  EXPECT_TRUE(found.skipped.empty());
  ASSERT_EQ(found.memory.size(), 26U);
  EXPECT_LT(found.memory_mape, 4);
  EXPECT_EQ(found.oom_rows, 26);
  EXPECT_EQ(found.oom_right, 26);
  for (const auto& each : found.memory) {
    if (each.id == "GPT-NEO-N8-D2-P4-m4-b1024") continue;
    EXPECT_NEAR(memory_error(each), 0, 8.5) << each.id;
  }
}

// Peaks of PyTorch's tensors in Megatron-LM's own tests, without pipeline and of the last of four stages with interleaved chunks; in its pull request 482, of 2023; and a run that had no room.
TEST(GptTables, MegatronsPeaks) {
  const auto found = validate(read_table(find_table("megatron-memory")));
  EXPECT_TRUE(found.skipped.empty());
  ASSERT_EQ(found.memory.size(), 9U);
  for (const auto& each : found.memory) {
    EXPECT_EQ(each.oom, !each.fits) << each.id;
    if (each.measured <= 0) continue;
    EXPECT_NEAR(memory_error(each), 0, each.id.starts_with("482") ? 9 : 3) << each.id;
  }
  EXPECT_EQ(found.memory_rows, 8);
  EXPECT_LT(found.memory_mape, 5);
  EXPECT_EQ(found.memory.back().oom, true);
}

// What the driver keeps is no tensor; a stage that is not the fullest holds less.
TEST(GptTables, WhatAPeakCounts) {
  constexpr const char* header = "id,model,hidden,layers,heads,seq,device,devices,stack,dp,tp,pp,micro_batch,global_batch,measured_memory_bytes,memory_counts,memory_stage\n";
  const auto judged = [&](const char* end) {
    const auto found = validate(parse_table(std::string(header) + "a,gpt,2304,24,24,2048,a100-80gb,4,megatron,1,1,4,1,8,1e9," + end + "\n", "rows"));
    return found.skipped.empty() ? found.memory.at(0).predicted : throw std::runtime_error(found.skipped[0].reason);
  };
  EXPECT_EQ(judged(","), judged("device,"));
  EXPECT_EQ(judged(","), judged("device,1"));
  EXPECT_DOUBLE_EQ(judged("device,1") - judged("tensors,1"), 2.5e9);
  EXPECT_DOUBLE_EQ(judged("device,") - judged("tensors,"), 2.5e9);
  EXPECT_LT(judged("device,3"), judged("device,2"));
  for (const auto& [end, expected] : {std::pair("gpu,", "memory_counts; got 'gpu', expected device or tensors"), {"device,5", "memory_stage; got 5, expected at most pp, 4"}, {"device,0", "memory_stage; got '0'"}}) {
    try {
      judged(end);
      ADD_FAILURE() << end;
    } catch (const std::runtime_error& error) {
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
    }
  }
}

// Rows that are judged by memory alone say what was assumed of them, too; one that is skipped is judged by nothing.
TEST(GptTables, RowsOfMemoryAloneHaveNotesAndAreCountedOnce) {
  const auto found = validate(parse_table("id,model,hidden,layers,heads,seq,device,devices,stack,recompute,dp,tp,pp,schedule,micro_batch,global_batch,measured_memory_bytes,oom,memory_stage\n"
                                          "a,gpt,2304,24,24,2048,a100-80gb,4,nobodys/nccl,full,1,1,4,gpipe,1,8,1e9,0,\n"
                                          "b,gpt,2304,24,24,2048,a100-80gb,4,megatron/nccl,full,1,1,4,,1,8,1e9,0,9\n", "rows"));
  ASSERT_EQ(found.memory.size(), 1U);
  EXPECT_EQ(found.skipped.size(), 1U);
  EXPECT_EQ(found.oom_rows, 1);
  EXPECT_FALSE(found.memory[0].timed);
  for (const auto* what : {"stack 'nobodys/nccl' has no profile", "schedule gpipe takes as long as 1f1b"})
    EXPECT_TRUE(std::any_of(found.memory[0].notes.begin(), found.memory[0].notes.end(), [&](const std::string& note) { return note.starts_with(what); })) << what;
  EXPECT_EQ(to_json(found)["memory"][0]["notes"].size(), found.memory[0].notes.size());
}

// A stack may have another's terms where it has none itself; that nobody fitted its times is said.
TEST(GptTables, AStackLikeAnother) {
  const auto own = row("a,gpt,1024,24,16,2048,50257,gh200,4,4,,,sailor-opt/nccl,tf32,hybrid,1,4,1,1f1b,1,none,1,1,4,1");
  const auto estimate = estimate_row(own);
  ASSERT_FALSE(estimate.notes.empty());
  EXPECT_NE(estimate.notes[0].find("sailor-opt: no time of it was fitted; times are those of megatron-deepspeed"), std::string::npos) << estimate.notes[0];
  EXPECT_GE(estimate.sigma, 0.12);
  const auto other = row("a,gpt,1024,24,16,2048,50257,gh200,4,4,,,megatron-deepspeed/nccl,tf32,hybrid,1,4,1,1f1b,1,none,1,1,4,1");
  EXPECT_EQ(estimate.seconds, estimate_row(other).seconds);
  EXPECT_NE(estimate.memory_bytes, estimate_row(other).memory_bytes);
  // What that package notes of shapes is of an A100 in half precision.
  EXPECT_FALSE(estimate_row(other).noted_shape);
  for (const auto* shape : {"a100-80gb,4,4,,,megatron-deepspeed/nccl,fp16", "h100-80gb,4,4,,,megatron-deepspeed/nccl,fp16", "a100-80gb,4,4,,,megatron-deepspeed/nccl,tf32"}) {
    const auto noted = estimate_row(row(fmt::format("a,gpt,2048,24,16,1024,51200,{},hybrid,1,4,1,1f1b,,full,0,2,16,1", shape))).noted_shape;
    EXPECT_EQ(noted, std::string_view(shape) == "a100-80gb,4,4,,,megatron-deepspeed/nccl,fp16") << shape;
  }
}

TEST(GptTables, RowsThatCannotBePricedSayWhy) {
  const std::pair<const char*, const char*> rows[] = {
      {"a,gpt,,24,24,2048,51200,a100-80gb,32,8,,,megatron/nccl,fp16,hybrid,32,1,1,1f1b,1,full,0,16,512,1", "hidden is empty"},
      {"b,gpt,2304,24,24,2048,51200,a100-80gb,32,8,,,megatron/nccl,fp16,hybrid,8,2,1,1f1b,1,full,0,16,512,1", "dp x tp x pp; got 8 x 2 x 1, expected devices, 32"},
      {"b,gpt,2304,24,24,2048,51200,a100-80gb,32,8,,,megatron/nccl,fp16,hybrid,1,2,1,1f1b,1,full,0,16,512,1", "dp x tp x pp; got 1 x 2 x 1, expected devices, 32"},
      {"b,gpt,2304,24,24,2048,51200,a100-80gb,33,8,,,megatron/nccl,fp16,hybrid,,2,1,1f1b,1,full,0,16,512,1", "dp x tp x pp; got 16 x 2 x 1, expected devices, 33"},
      {"c,gpt,2304,24,24,2048,51200,a1000,32,8,,,megatron/nccl,fp16,hybrid,32,1,1,1f1b,1,full,0,16,512,1", "a100-40gb"},
      {"d,gpt,2304,24,24,2048,51200,k80,32,8,,,megatron/nccl,fp16,hybrid,32,1,1,1f1b,1,full,0,16,512,1", "no peak of precision fp16"},
      {"e,gpt,2304,24,24,2048,51200,a100-80gb,32,8,,,megatron/nccl,fp16,hybrid,32,1,1,1f1b,1,full,0,16,32,1", "less than one micro-batch"},
      {"f,gpt,2304,24,24,2048,51200,a100-80gb,32,8,,,megatron/nccl,fp16,hybrid,32,1,1,1f1b,1,full,0,5,512,1", "global_batch; got 512, expected a multiple of dp x micro_batch, 160"},
      {"g,gpt,2304,26,24,2048,51200,a100-80gb,32,8,,,megatron/nccl,fp16,hybrid,8,1,4,1f1b,1,full,0,16,512,1", "layers; got 26, expected a multiple of pp, 4"},
      {"h,gpt,2304,24,24,2048,51200,a100-80gb,32,8,,,megatron/nccl,fp16,hybrid,8,1,4,interleaved,4,full,0,16,512,1", "layers; got 24, expected a multiple of pp x interleave, 16"},
      {"i,gpt,2304,24,18,2048,51200,a100-80gb,32,8,,,megatron/nccl,fp16,hybrid,8,4,1,1f1b,1,full,0,16,512,1", "heads; got 18, expected a multiple of tp, 4"},
      {"j,gpt,2304,24,20,2048,51200,a100-80gb,32,8,,,megatron/nccl,fp16,hybrid,8,4,1,1f1b,1,full,0,16,512,1", "hidden; got 2304, expected a multiple of heads, 20"},
      {"k,gpt,2304,24,24,2048,51200,a100-80gb,32,8,,,megatron/nccl,fp16,hybrid,32,1,1,interleaved,2,full,0,16,512,1", "interleave; got 2, expected 1 where pp is 1"},
      {"l,gpt,2304,24,24,2048,51200,a100-80gb,32,8,,,megatron/nccl,fp16,hybrid,8,1,4,interleaved-1f1b,,full,0,16,512,1", "interleave is empty; schedule interleaved-1f1b needs it, in row 'l'"},
      {"m,gpt,2304,24,24,2048,51200,a100-80gb,32,8,,,megatron/nccl,fp16,hybrid,8,1,4,1f1b,2,full,0,16,512,1", "interleave; got 2 with schedule 1f1b, expected 1, or interleaved-1f1b"},
      {"n,gpt,2304,24,24,2048,51200,cpu-amx,32,8,,,megatron/nccl,bf16,hybrid,32,1,1,1f1b,1,full,0,16,512,1", "a gpt on cpu-amx; expected a GPU"}};
  for (const auto& [text, expected] : rows) {
    try {
      estimate_row(row(text));
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
    }
  }
}

// What tp and pp leave of the devices.
TEST(GptTables, ReplicasThatAreNotPrintedAreWhatIsLeft) {
  const auto with = [](const char* dp) { return estimate_row(row(fmt::format("a,gpt,2304,24,24,2048,51200,a100-80gb,32,8,,,megatron/nccl,fp16,hybrid,{},2,4,1f1b,1,full,0,4,512,1", dp))).seconds; };
  EXPECT_EQ(with(""), with("4"));
  EXPECT_THROW(estimate_row(row("a,gpt,2304,24,24,2048,51200,a100-80gb,8,8,,,megatron/nccl,fp16,tensor,,2,1,1f1b,1,full,0,4,512,1")), Error) << "it is hybrid";
}

// Both count.
TEST(GptTables, AnIdThatComesTwiceIsTold) {
  const auto line = [](const char* id) { return fmt::format("{},gpt,2304,24,24,2048,51200,a100-80gb,32,8,,,megatron/nccl,fp16,hybrid,32,1,1,1f1b,1,full,0,16,512,1\n", id); };
  const auto found = validate(parse_table(kHeader + line("a") + line("b") + line("a") + line("") + line(""), "rows"));
  ASSERT_EQ(found.rows.size(), 5u);
  for (std::size_t i = 0; i < found.rows.size(); ++i) {
    const auto& notes = found.rows[i].estimate.notes;
    EXPECT_EQ(std::count(notes.begin(), notes.end(), "id 'a' is that of line 2, too"), i == 2 ? 1 : 0) << i;
  }
}

}  // namespace
}  // namespace ddl
