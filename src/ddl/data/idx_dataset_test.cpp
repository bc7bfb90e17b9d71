#include "ddl/data/idx_dataset.h"

#include <cmath>
#include <filesystem>

#include <unistd.h>

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/core/json.h"
#include "ddl/data/idx.h"
#include "ddl/data/idx_export.h"
#include "ddl/data/synthetic.h"

namespace ddl {
namespace {

namespace fs = std::filesystem;

const IdxSource kSource{"tiny", {1, 4, 4, 10}, "", "dataset-tiny"};

class IdxDataset : public testing::Test {
 protected:
  IdxDataset() : pair_(make_synthetic("tiny", kSource.shape, 50, 20, 1)) {
    fs::create_directories(folder_);
    write_idx(pair_, folder_);
  }
  ~IdxDataset() override { fs::remove_all(folder_); }

  std::string refused(Code code) {
    try {
      open_idx_dataset(kSource, {.folder = folder_});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "was opened";
    return {};
  }
  void put(const std::string& file, std::vector<std::int64_t> dims, std::uint8_t value = 0) {
    std::int64_t item = 1;
    for (std::size_t i = 1; i < dims.size(); ++i) item *= dims[i];
    write_idx(folder_ + "/" + file, dims,
              [&](std::int64_t, std::uint8_t* bytes) { std::fill(bytes, bytes + item, value); });
  }

  std::string folder_ = (fs::temp_directory_path() / ("ddl-idx-set-" + std::to_string(::getpid()))).string();
  DatasetPair pair_;
};

TEST_F(IdxDataset, ReadsBackWhatWasWritten) {
  const auto read = open_idx_dataset(kSource, {.folder = folder_});
  EXPECT_EQ(read.train->size(), 50);
  EXPECT_EQ(read.test->size(), 20);
  EXPECT_EQ(read.train->shape(), kSource.shape);
  std::vector<float> ours(16), theirs(16);
  for (std::int64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(read.train->read(i, ours.data()), pair_.train->read(i, theirs.data()));
    for (std::size_t k = 0; k < 16; ++k) EXPECT_NEAR(ours[k], theirs[k], 1e-6F);
  }
  EXPECT_EQ(read.train->digest(), open_idx_dataset(kSource, {.folder = folder_}).train->digest());
  EXPECT_NE(read.train->digest(), read.test->digest());
  EXPECT_THROW(read.train->read(50, ours.data()), Error);
  EXPECT_THROW(read.train->read(-1, ours.data()), Error);
}

TEST_F(IdxDataset, NormalisesByTheTrainingSet) {
  const auto read = open_idx_dataset(kSource, {.folder = folder_});
  std::vector<float> image(16);
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < 50; ++i) {
    read.train->read(i, image.data());
    for (const float x : image) sum += x, squares += double{x} * x;
  }
  EXPECT_NEAR(sum / 800, 0, 1e-5);
  EXPECT_NEAR(squares / 800, 1, 1e-5);
  EXPECT_EQ(require_raw(*read.train).normalisation().mean, require_raw(*read.test).normalisation().mean);
}

TEST_F(IdxDataset, DescribesWhatItWrote) {
  const auto json = parse_json(read_file(folder_ + "/dataset.json"), "dataset.json");
  EXPECT_EQ(json["shape"], Json::array({1, 4, 4}));
  EXPECT_EQ(json["classes"], 10);
  EXPECT_EQ(json["mean"].size(), 1U);
}

TEST_F(IdxDataset, RefusesPartsThatDoNotFit) {
  put("train-labels-idx1-ubyte", {49});
  EXPECT_NE(refused(Code::corrupt).find("as many labels as images are wanted; got 49, expected 50"), std::string::npos);
  put("train-labels-idx1-ubyte", {50}, 10);
  EXPECT_NE(refused(Code::corrupt).find("label out of range at byte 8 (sample 0); got 10, expected 0 to 9"),
            std::string::npos);
  put("train-labels-idx1-ubyte", {50, 1});
  EXPECT_NE(refused(Code::corrupt).find("labels of another shape; got 50x1, expected 50"), std::string::npos);
  put("train-labels-idx1-ubyte", {50});
  put("train-images-idx3-ubyte", {50, 4, 5});
  EXPECT_NE(refused(Code::corrupt).find("images of another shape; got 50x4x5, expected 50x4x4"), std::string::npos);
  put("train-images-idx3-ubyte", {0, 4, 4});
  put("train-labels-idx1-ubyte", {0});
  EXPECT_NE(refused(Code::corrupt).find("no samples"), std::string::npos);
}

TEST_F(IdxDataset, NamesEveryPlaceAndThePackage) {
  fs::remove(folder_ + "/t10k-labels-idx1-ubyte");
  EXPECT_NE(refused(Code::not_found).find("t10k-labels-idx1-ubyte: no such file"), std::string::npos);
  fs::remove(folder_ + "/train-images-idx3-ubyte");
  // A folder that was asked for is the only place.
  EXPECT_NE(refused(Code::not_found).find(folder_), std::string::npos);
  ::setenv("DDLBENCH_DATA", "/nowhere", 1);
  std::string what;
  try {
    open_idx_dataset(kSource, {});
    ADD_FAILURE() << "opened";
  } catch (const Error& error) {
    what = error.what();
  }
  ::unsetenv("DDLBENCH_DATA");
  for (const auto& word : {std::string("/nowhere/tiny"), std::string("apt-get install dataset-tiny")})
    EXPECT_NE(what.find(word), std::string::npos) << what;
}

TEST_F(IdxDataset, ColourImagesHaveRankFour) {
  const IdxSource colour{"colour", {3, 5, 4, 7}, "", ""};
  write_idx(make_synthetic("colour", colour.shape, 9, 3, 1), folder_);
  EXPECT_EQ(read_idx(folder_ + "/train-images-idx3-ubyte").dims, (std::vector<std::int64_t>{9, 3, 5, 4}));
  EXPECT_EQ(open_idx_dataset(colour, {.folder = folder_}).train->size(), 9);
}

TEST(Datasets, ThePublishedFashionMnistIsReadWhereItIs) {
  if (!fs::exists("/usr/share/datasets/fashion-mnist")) GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  const auto pair = builtin_datasets().at("fashion-mnist").make({});
  EXPECT_EQ(pair.train->size(), 60'000);
  EXPECT_EQ(pair.test->size(), 10'000);
  // Mean and deviation that its users quote: 0.2860 and 0.3530.
  EXPECT_NEAR(require_raw(*pair.train).normalisation().mean[0], 0.2860F, 5e-5F);
  EXPECT_NEAR(require_raw(*pair.train).normalisation().deviation[0], 0.3530F, 5e-5F);
}

TEST(Datasets, SayWhatIsNotHere) {
  try {
    builtin_datasets().at("cifar10").make({});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unsupported);
    EXPECT_NE(std::string(error.what()).find("use --synthetic"), std::string::npos);
  }
  EXPECT_THROW(builtin_datasets().at("fashion"), Error);
  EXPECT_THROW(dataset_shape("fashion"), Error);
  EXPECT_EQ(dataset_shape("cifar10"), (SampleShape{3, 32, 32, 10}));
}

}  // namespace
}  // namespace ddl
