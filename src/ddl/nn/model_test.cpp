#include "ddl/nn/model.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include "ddl/core/error.h"
#include "ddl/nn/network.h"
#include "ddl/nn/plugins.h"

namespace ddl {
namespace {

constexpr SampleShape kShape{1, 8, 8, 10};

/// A folder of files, gone with the test.
class Model : public testing::Test {
 protected:
  Model() : folder_(std::filesystem::temp_directory_path() / fmt::format("ddl-model-{}", ::getpid())) { std::filesystem::create_directories(folder_); }
  ~Model() override { std::filesystem::remove_all(folder_); }

  /// A linear layer and batch statistics, as torch.jit.save leaves them, with `body` as forward.
  std::string save(const std::string& name, bool trains, const std::string& body = "return torch.matmul(x.flatten(1) * self.scale, self.weight)") {
    torch::jit::Module module("net");
    module.register_parameter("weight", at::full({64, 10}, 0.01).requires_grad_(trains), false);
    module.register_parameter("still", at::ones({3}), false);
    module.register_buffer("scale", at::full({1}, 2.0));
    module.define("def forward(self, x):\n    " + body + "\n");
    const auto path = (folder_ / name).string();
    module.save(path);
    return path;
  }
  std::string write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return (folder_ / name).string();
  }

  std::filesystem::path folder_;
};

std::string refused(const std::string& name, Code code, const SampleShape& shape = kShape) {
  try {
    make_model({name, {}}, shape);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "taken";
}

TEST_F(Model, OfAFileIsOneLayerWithItsParameters) {
  const auto graph = make_model({save("net.pt", true), {}}, kShape);
  ASSERT_EQ(graph.layers.size(), 2U);
  EXPECT_EQ(graph.layers[1].kind, LayerKind::script);
  EXPECT_EQ(graph.layers[1].shape, (std::vector<std::int64_t>{10}));
  EXPECT_EQ(graph.parameters(), 640);
  EXPECT_EQ(graph.frozen_parameters(), 3);
  EXPECT_EQ(graph.parameter_specs()[0].name, "weight");
  EXPECT_EQ(graph.flops(), 0);
}

TEST_F(Model, OfAFileTrains) {
  Network net(make_model({save("net.pt", true), {}}, kShape), {.type = at::kDouble});
  const auto x = at::rand({3, 1, 8, 8}, at::kDouble);
  const auto logits = net.forward({x}, true).logits;
  EXPECT_LT((logits - x.flatten(1).mul(2).matmul(net.parameters()[0])).abs().max().item<double>(), 1e-12);
  logits.sum().backward();
  EXPECT_LT((net.parameters()[0].grad() - x.flatten(1).sum(0).mul(2).unsqueeze(1).expand({64, 10})).abs().max().item<double>(), 1e-12);
  ASSERT_EQ(net.buffers().size(), 1U);
  ASSERT_EQ(net.frozen().size(), 1U);
  EXPECT_EQ(net.parameter_names(), std::vector<std::string>{"weight"});
  // What the optimizer changes is what the file's code computes with.
  {
    const at::NoGradGuard guard;
    net.parameters()[0].mul_(3);
  }
  EXPECT_LT((net.forward({x}, false).logits - logits.mul(3)).abs().max().item<double>(), 1e-12);
}

TEST_F(Model, OfAFileThatCannotTrainIsRefusedWithTheReason) {
  EXPECT_EQ(refused("nowhere.pt", Code::not_found), "[script] no such file; got 'nowhere.pt', expected one that torch.jit.save wrote");
  const auto text = write("text.pt", "this is text");
  EXPECT_EQ(refused(text, Code::corrupt).find(fmt::format("[script] '{}' does not load as TorchScript: ", text)), 0U);
  EXPECT_EQ(refused(text, Code::corrupt).find('\n'), std::string::npos);
  EXPECT_NE(refused(write("empty.pt", ""), Code::corrupt), "taken");
  const auto whole = save("whole.pt", true);
  std::string bytes(std::filesystem::file_size(whole), '\0');
  std::ifstream(whole, std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  EXPECT_NE(refused(write("half.pt", bytes.substr(0, bytes.size() / 2)), Code::corrupt), "taken");
  const auto still = save("still.pt", false);
  EXPECT_EQ(refused(still, Code::invalid_argument),
            fmt::format("[script] '{}' has no parameters to train; got frozen ones alone, expected some that require gradients", still));
  const auto narrow = save("narrow.pt", true);
  EXPECT_EQ(refused(narrow, Code::invalid_argument, {1, 8, 8, 12}),
            fmt::format("[script] '{}' does not give a logit for every class; got 2x10 for 2 images, expected 2x12", narrow));
  EXPECT_EQ(refused(narrow, Code::invalid_argument, {3, 8, 8, 10}).find(fmt::format("[script] '{}' does not compute images of 3x8x8: mat1 and mat2", narrow)), 0U);
  EXPECT_EQ(refused(save("pair.pt", true, "return (x, x)"), Code::invalid_argument).find("gives logits as one tensor; got Tuple") == std::string::npos, false);
  EXPECT_NE(refused(narrow, Code::invalid_argument, {.classes = 9, .objective = Objective::language, .target_length = 9}).find("learns from images with labels"),
            std::string::npos);
  EXPECT_THROW(make_model({narrow, {{"depth", "3"}}}, kShape), Error);
}

TEST_F(Model, OfAnUnknownNameIsNotFound) { EXPECT_NE(refused("lennet", Code::not_found).find("did you mean 'lenet'?"), std::string::npos); }

/// Sets $DDLBENCH_PLUGINS for a while.
struct Plugins {
  explicit Plugins(const std::string& list) { ::setenv("DDLBENCH_PLUGINS", list.c_str(), 1); }
  ~Plugins() { ::unsetenv("DDLBENCH_PLUGINS"); }
};

TEST_F(Model, OfAPlugInIsOneAmongOthers) {
  EXPECT_NE(refused("wide-mlp", Code::not_found), "taken");
  const Plugins plugins(DDL_EXAMPLE_PLUGIN);
  const auto graph = make_model(parse_spec("wide-mlp[width=16]"), kShape);
  EXPECT_EQ(graph.parameters(), 2 * (64 * 16 + 16) + 16 * 10 + 10);
  Network net(graph, {});
  net.forward({at::ones({2, 1, 8, 8})}, true).logits.sum().backward();
  for (const auto& parameter : net.parameters()) EXPECT_TRUE(parameter.grad().defined());
  EXPECT_EQ(make_model({"lenet", {}}, {1, 28, 28, 10}).parameters(), 61'706);
  // Its errors are ours.
  EXPECT_NE(refused("wide-mlp", Code::invalid_argument, {.classes = 9, .objective = Objective::language, .target_length = 9}), "taken");
}

TEST_F(Model, OfABrokenPlugInIsRefusedWithTheReason) {
  {
    const Plugins plugins("/nowhere/net.so");
    EXPECT_EQ(refused("lenet", Code::not_found, {1, 28, 28, 10}), "[plugin] no such library; got '/nowhere/net.so' in $DDLBENCH_PLUGINS");
  }
  {
    const auto text = write("text.so", "not a library");
    const Plugins plugins(text);
    EXPECT_EQ(refused("lenet", Code::unsupported, {1, 28, 28, 10}).find(fmt::format("[plugin] '{}' does not load: ", text)), 0U);
  }
  {
    const Plugins plugins(fmt::format("{0}:{0}", DDL_EXAMPLE_PLUGIN));
    EXPECT_NE(refused("lenet", Code::invalid_argument, {1, 28, 28, 10}).find("'wide-mlp' is registered twice"), std::string::npos);
  }
}

}  // namespace
}  // namespace ddl
