#include "ddl/train/worker.h"

#include <sys/socket.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <new>

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "ddl/core/json.h"
#include "ddl/train/plan_job.h"

namespace ddl {
namespace {

/// Whose second batch is too much for somebody.
class TooMuch final : public Dataset {
 public:
  explicit TooMuch(std::function<void()> fail) : fail_(std::move(fail)) {}
  std::int64_t size() const override { return 32; }
  SampleShape shape() const override { return {1, 28, 28, 10}; }
  std::int64_t read(std::int64_t index, float* image) const override {
    if (index >= 8) fail_();
    std::fill_n(image, 784, 0.1F);
    return index % 10;
  }
  std::string digest() const override { return "too much"; }

 private:
  std::function<void()> fail_;
};

/// What a worker that trains on it says last.
Json last_words(const std::function<void()>& fail) {
  int sockets[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  Control ours(sockets[0]), theirs(sockets[1]);
  Job job;
  job.batch = 8;
  job.steps = 4;
  job.shuffle = false;
  job.strategy = {"single", {}};
  const DatasetPair data{std::make_unique<TooMuch>(fail), std::make_unique<TooMuch>(fail)};
  EXPECT_EQ(run_worker(job, 0, data, theirs), 1);
  for (;;) {
    const auto message = ours.receive({10});
    if (!message) return nullptr;
    if (message->type == MessageType::failed) return parse_json(message->body, "its end");
  }
}

// The processor's allocator and a GPU's say it differently; people are told alike, with who held how much.
TEST(Worker, TellsWhoHeldMemoryWhenThereIsNoMore) {
  for (const auto& said : {last_words([] { throw std::bad_alloc(); }),
                           last_words([] {
                             TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 1 GiB. "
                                                                       "See documentation for Memory Management");
                           })}) {
    EXPECT_EQ(said.at("code"), "memory");
    EXPECT_NE(said.at("message").get<std::string>().find("[worker] out of memory"), std::string::npos) << said;
    EXPECT_NE(said.at("message").get<std::string>().find(", parameters "), std::string::npos) << said;
    EXPECT_EQ(said.at("memory_bytes").at("parameters"), 61'706 * 4) << said;
  }
  const auto gpu = last_words([] { TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity"); });
  EXPECT_NE(gpu.at("message").get<std::string>().find("Tried to allocate 20.00 MiB;"), std::string::npos) << gpu;
}

// Of a job with workers of both kinds the processors' say: one format for all.
TEST(PlanJob, PlanesLieDenselyOnGpusInFp32) {
  const auto asked = [](const std::string& precision, const std::vector<std::string>& devices, const char* strategy = "data") {
    Job job;
    job.strategy = parse_spec(strategy);
    job.precision = precision;
    job.workers.clear();
    for (const auto& device : devices) job.workers.emplace_back().device = device;
    return dense_planes(job);
  };
  EXPECT_TRUE(asked("fp32", {"cuda:0", "cuda:1"}));
  EXPECT_FALSE(asked("fp32", {"cuda:0", "cuda:1"}, "tensor"));
  EXPECT_FALSE(asked("fp32", {"cuda:0", "cuda:1"}, "pipeline"));
  EXPECT_FALSE(asked("tf32", {"cuda:0"}));
  EXPECT_FALSE(asked("bf16", {"cuda:0"}));
  EXPECT_FALSE(asked("fp32", {"cuda:0", "cpu"}));
  EXPECT_FALSE(asked("fp32", {"cpu"}));
}

TEST(Worker, TellsOfADeviceThatIsNotHere) {
  int sockets[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  Control ours(sockets[0]), theirs(sockets[1]);
  Job job;
  job.strategy = {"single", {}};
  job.workers[0].device = "cuda:97";
  const DatasetPair data{std::make_unique<TooMuch>([] {}), std::make_unique<TooMuch>([] {})};
  EXPECT_EQ(run_worker(job, 0, data, theirs), 1);
  const auto message = ours.receive({10});
  ASSERT_TRUE(message && message->type == MessageType::failed);
  EXPECT_EQ(parse_json(message->body, "its end").at("code"), "unsupported");
}

}  // namespace
}  // namespace ddl
