#include "ddl/subject/torch_ddp.h"

#include <filesystem>
#include <cstdlib>
#include <cstring>

#include <unistd.h>

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/core/json.h"
#include "ddl/data/idx.h"
#include "ddl/data/idx_dataset.h"
#include "ddl/data/idx_export.h"
#include "ddl/data/loader.h"
#include "ddl/data/synthetic.h"

namespace ddl {
namespace {

namespace fs = std::filesystem;

std::vector<std::int64_t> order_in(const std::string& folder) {
  const auto bytes = read_file(folder + "/order.i64");
  std::vector<std::int64_t> order(bytes.size() / 8);
  std::memcpy(order.data(), bytes.data(), bytes.size());
  return order;
}

TEST(TorchDdp, HandsOverWholeEpochs) {
  const auto data = make_synthetic("tiny", {1, 28, 28, 10}, 10, 4, 1);
  const PreparedPeer peer({.workers = 2, .batch = 4, .epochs = 2, .weights = {1, 2, 3}}, data, "python", "script.py");
  const Sampler sampler(10, 4, 2, true, 1);
  auto both = sampler.order(0);
  const auto second = sampler.order(1);
  both.insert(both.end(), second.begin(), second.end());
  EXPECT_EQ(order_in(peer.folder()), both);
  EXPECT_EQ(fs::file_size(peer.folder() + "/weights.f32"), 12U);
  const auto json = parse_json(read_file(peer.folder() + "/job.json"), "job.json");
  EXPECT_EQ(json["dataset"]["shape"], Json::array({1, 28, 28}));
  EXPECT_EQ(json["weights"], "weights.f32");
  ASSERT_EQ(peer.commands().size(), 2U);
  EXPECT_EQ(peer.commands()[1].argv, (std::vector<std::string>{"python", "-B", "script.py", peer.folder()}));
  EXPECT_EQ(peer.commands()[1].environment[0], "RANK=1");
}

TEST(TorchDdp, HandsOverOnlyWhatAShortRunVisits) {
  const auto data = make_synthetic("tiny", {1, 28, 28, 10}, 1000, 4, 1);
  const PreparedPeer peer({.batch = 4, .steps = 3, .evaluate = false}, data, "python", "script.py");
  EXPECT_EQ(order_in(peer.folder()), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  const auto images = read_idx(peer.folder() + "/train-images-idx3-ubyte");
  ASSERT_EQ(images.dims[0], 12);
  std::vector<std::uint8_t> image(784);
  require_raw(*data.train).read_raw(Sampler(1000, 4, 1, true, 1).order(0)[5], image.data());
  EXPECT_TRUE(std::equal(image.begin(), image.end(), images.bytes.begin() + 5 * 784));
  EXPECT_FALSE(fs::exists(peer.folder() + "/t10k-images-idx3-ubyte"));
}

TEST(TorchDdp, LeavesNothing) {
  const auto data = make_synthetic("tiny", {1, 28, 28, 10}, 10, 4, 1);
  std::string folder;
  {
    PreparedPeer peer({}, data, "python", "script.py");
    const PreparedPeer moved(std::move(peer));
    folder = moved.folder();
    EXPECT_TRUE(fs::exists(folder));
  }
  EXPECT_FALSE(fs::exists(folder));
  const auto place = (fs::temp_directory_path() / ("ddl-peer-" + std::to_string(::getpid()))).string();
  fs::create_directories(place);
  ::setenv("TMPDIR", place.c_str(), 1);
  EXPECT_THROW(PreparedPeer({.workers = 11}, data, "python", "script.py"), Error);  // more workers than samples
  EXPECT_THROW(PreparedPeer({.model = "mlp"}, data, "python", "script.py"), Error);
  ::unsetenv("TMPDIR");
  EXPECT_TRUE(fs::is_empty(place));
  fs::remove_all(place);
}

}  // namespace
}  // namespace ddl
