#include "ddl/lab/config.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include <unistd.h>

#include "ddl/core/error.h"
#include "ddl/core/random.h"

namespace ddl {
namespace {

class Config : public testing::Test {
 protected:
  Config() : path_((std::filesystem::temp_directory_path() / ("config_test." + std::to_string(::getpid()) + ".yaml")).string()) {}
  ~Config() override { std::filesystem::remove(path_); }

  const std::string& file(std::string_view text) const {
    std::ofstream(path_, std::ios::binary) << text;
    return path_;
  }
  /// What reading and resolving a file says, without the file's path.
  std::string complaint(std::string_view text) const {
    try {
      resolve(read_experiment(file(text)));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument);
      std::string what = error.what();
      EXPECT_EQ(what.find('\n'), std::string::npos) << what;
      if (what.starts_with(path_)) what.erase(0, path_.size());
      return what;
    }
    return "accepted";
  }

 private:
  std::string path_;
};

std::string complaint_of_set(const std::string& key, const std::string& value) {
  Settings settings;
  try {
    set(settings, key, value, "--set");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST_F(Config, DefaultsAreThoseOfJob) {
  const auto experiment = resolve({});
  const Job job;
  EXPECT_EQ(experiment.job.model, job.model);
  EXPECT_EQ(experiment.job.dataset, job.dataset);
  EXPECT_EQ(experiment.job.batch, job.batch);
  EXPECT_EQ(experiment.job.epochs, job.epochs);
  EXPECT_EQ(experiment.job.learning_rate, job.learning_rate);
  EXPECT_EQ(experiment.job.momentum, job.momentum);
  EXPECT_EQ(experiment.job.transport, job.transport);
  EXPECT_EQ(experiment.job.trace, job.trace);
  EXPECT_EQ(experiment.job.loader_prefetch, job.loader_prefetch);
  EXPECT_EQ(experiment.job.pin, job.pin);
  EXPECT_EQ(experiment.job.collective_timeout, job.collective_timeout);
  EXPECT_EQ(experiment.store, "ddlbench.db");
  for (const auto& [key, origin] : experiment.provenance.items()) EXPECT_EQ(origin, "default") << key;
  EXPECT_EQ(experiment.config.size(), experiment_keys().size());
}

TEST_F(Config, ReadsAFileAndSaysWhereFrom) {
  auto settings = read_experiment(file("model: resnet18\nworkers: cpu[threads=2]:2,cpu\nsteps: 30\nsynthetic: on\ntimeout: 10min\n"));
  set(settings, "batch", "32", "--batch");
  const auto experiment = resolve(settings);
  EXPECT_EQ(experiment.job.model.name, "resnet18");
  ASSERT_EQ(experiment.job.workers.size(), 3U);
  EXPECT_EQ(experiment.job.workers[1].threads, 2);
  EXPECT_EQ(experiment.job.workers[2].threads, 1);
  EXPECT_TRUE(experiment.job.synthetic);
  EXPECT_EQ(experiment.job.timeout.value, 600);
  EXPECT_EQ(experiment.config["workers"], "cpu[threads=2]:2,cpu:1");
  EXPECT_EQ(experiment.config["steps"], 30);
  EXPECT_TRUE(experiment.config["epochs"].is_null());
  EXPECT_EQ(experiment.provenance["batch"], "--batch");
  EXPECT_TRUE(experiment.provenance["steps"].get<std::string>().ends_with(".yaml:3:8"));
}

TEST_F(Config, PointsAtTheMistake) {
  EXPECT_EQ(complaint("model: lenet\nbatc: 3\n"), ":2:1: unknown key 'batc' (did you mean 'batch'?)");
  EXPECT_EQ(complaint("batch: many\n"), ":1:8: batch: wrong type; got 'many', expected an integer from 1 to 1000000000");
  EXPECT_EQ(complaint("batch: 0\n"), ":1:8: batch: out of range; got '0', expected an integer from 1 to 1000000000");
  EXPECT_EQ(complaint("batch: 1.5\n"), ":1:8: batch: wrong type; got '1.5', expected an integer from 1 to 1000000000");
  EXPECT_EQ(complaint("timeout: 10\n"),
            ":1:10: timeout: [units] missing unit of a time; got '10', expected one of: s ms us ns min h");
  EXPECT_EQ(complaint("timeout: 3 weeks\n"),
            ":1:10: timeout: [units] unknown unit of a time; got '3 weeks', expected one of: s ms us ns min h");
  EXPECT_EQ(complaint("precision: fp23\n"),
            ":1:12: precision: unknown choice; got 'fp23' (did you mean 'fp32'?), expected one of: fp32 bf16 fp16 tf32 fp64");
  EXPECT_EQ(complaint("batch: 1\nmodel: lenet\nbatch: 2\n").substr(0, 33), ":3:1: key 'batch' given twice; fi");
  EXPECT_EQ(complaint("batch: [1, 2]\n").substr(0, 49), ":1:8: batch: wrong type; got a list, expected one");
  EXPECT_EQ(complaint("batch: {a: 2}\n"), ":1:8: batch: wrong type; got a mapping, expected one value");
  EXPECT_EQ(complaint("batch:\n"), ":1:1: batch: no value; got nothing, expected one value");
  EXPECT_EQ(complaint("- batch: 2\n"), ":1:1: experiment: wrong type; got a list, expected a mapping");
  EXPECT_EQ(complaint("lenet\n"), ":1:1: experiment: wrong type; got 'lenet', expected a mapping");
  EXPECT_EQ(complaint("model: lenet\n\tbatch: 2\n"), ":2:1: tab used as indentation; expected spaces");
  EXPECT_EQ(complaint("# nothing\n"), ": empty; expected a mapping of keys");
  EXPECT_EQ(complaint(""), ": empty; expected a mapping of keys");
  EXPECT_EQ(complaint("model: lenet\n---\nmodel: lenet\n"), ":2:1: several documents; expected one");
  EXPECT_EQ(complaint("model: lenet\nbatch: 3: 4\n"), ":2:9: not YAML: illegal map value");
  EXPECT_EQ(complaint("study: x\nbase: {}\n").substr(0, 20), ":1:1: this is a stud");
  EXPECT_EQ(complaint("data: \"a\\u0001b\"\n"), ":1:7: data: control character; got 'a\\x01b', expected printable text");
}

TEST_F(Config, RefusesDepthBombs) {
  for (const auto* piece : {"[", "{", "- ", "? ", "a: [", "&a [", "!!x {"}) {
    std::string bomb;
    for (int i = 0; i < 20'000; ++i) bomb += piece;
    EXPECT_NE(complaint(bomb), "accepted") << piece;
  }
  std::string stairs;
  for (int i = 0; i < 1000; ++i) stairs += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  EXPECT_NE(complaint(stairs), "accepted");
  EXPECT_NE(complaint("a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n"), "accepted");
  EXPECT_NE(complaint(std::string(2 << 20, '#')), "accepted");
}

TEST_F(Config, ALeadingCommaEnds) {
  // yaml-cpp's LoadAll never returned from these.
  for (const auto* text : {", {a: b}\n", ",", "]\n", "}", ": ]"}) EXPECT_NE(complaint(text), "accepted") << text;
}

TEST_F(Config, FilesThatAreNotThere) {
  try {
    read_experiment("/nonexistent/x.yaml");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::not_found);
    EXPECT_STREQ(error.what(), "/nonexistent/x.yaml: no such file");
  }
  EXPECT_THROW(read_experiment("/tmp"), Error);
}

TEST_F(Config, SetGoesThroughTheSameChecks) {
  EXPECT_EQ(complaint_of_set("learning-rate", "0.1"), "--set: unknown key 'learning-rate' (did you mean 'learning_rate'?)");
  EXPECT_EQ(complaint_of_set("momentum", "2"), "--set: momentum: out of range; got '2', expected a number from 0 to 1");
  EXPECT_EQ(complaint_of_set("learning_rate", "nan"),
            "--set: learning_rate: wrong type; got 'nan', expected a number from 0 to 1000000");
  EXPECT_EQ(complaint_of_set("data", "\xff"), "--set: data: not UTF-8; got '\\xff', expected printable text");
  EXPECT_EQ(complaint_of_set("batch", "2"), "accepted");
  // A flag of the key's own name has said which.
  Settings flags;
  try {
    set(flags, "learning_rate", "nan", "--learning-rate");
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "--learning-rate: wrong type; got 'nan', expected a number from 0 to 1000000");
  }
  Settings settings;
  set(settings, "batch", "2", "--batch");
  EXPECT_THROW(set(settings, "batch", "3", "--set"), Error);
}

TEST_F(Config, StepsAndEpochsExcludeEachOther) {
  EXPECT_EQ(complaint("epochs: 2\nsteps: 3\n").substr(0, 44), ":2:8: steps: cannot stand beside epochs; got");
  EXPECT_EQ(complaint("epochs: 0\n").substr(0, 26), ":1:9: epochs: nothing to d");
  EXPECT_EQ(complaint("epochs: 0\nsteps: 3\n"), "accepted");
  EXPECT_EQ(complaint("epochs: 2\nsteps: 0\n"), "accepted");
}

TEST_F(Config, WorkersAreParsedAndPrinted) {
  EXPECT_EQ(to_string(parse_workers("4")), "cpu:4");
  EXPECT_EQ(to_string(parse_workers("cpu:2,cuda:1")), "cpu:2,cuda:1");
  EXPECT_EQ(to_string(parse_workers("cpu[threads=2]:2, cpu")), "cpu[threads=2]:2,cpu:1");
  EXPECT_EQ(to_string(parse_workers("cpu,cpu:2")), "cpu:3");
  const auto cuda = parse_workers("cuda:2,cpu,cuda");
  EXPECT_EQ(cuda[1].device, "cuda:1");
  EXPECT_EQ(cuda[3].device, "cuda:2");
  EXPECT_EQ(to_string(cuda), "cuda:2,cpu:1,cuda:1");
  // Several on one GPU.
  for (const auto* text : {"cuda[index=1]:2", "cuda:1,cuda[index=0]:1", "cuda[index=0,threads=2]:3", "cuda:1,cuda[index=3]:2,cuda:1", "cpu:1,cuda[index=2]:1"}) {
    const auto workers = parse_workers(text);
    EXPECT_EQ(parse_workers(to_string(workers)), workers) << text << " became " << to_string(workers);
  }
  EXPECT_EQ(parse_workers("cuda[index=1]:2")[1].device, "cuda:1");
  EXPECT_EQ(parse_workers("cuda,cuda[index=0],cuda")[2].device, "cuda:1");
  EXPECT_EQ(parse_workers("cuda,cuda[index=0],cuda")[1].device, "cuda:0");
  for (const auto* text : {"emulated:v100:8", "emulated:v100[slow=2]:3,cpu:1", "emulated:a100-80gb[slow=1.5]:2", "cpu:1,emulated:k80:1"}) {
    EXPECT_EQ(to_string(parse_workers(text)), text);
    EXPECT_EQ(parse_workers(to_string(parse_workers(text))), parse_workers(text)) << text;
  }
  // By the name that the profile has.
  EXPECT_EQ(to_string(parse_workers("emulated:H100")), "emulated:h100-80gb:1");
  EXPECT_EQ(parse_workers("emulated:v100[slow=2]:3,cpu:1")[2].slow, 2);
  EXPECT_EQ(parse_workers("cpu[slow=2.5]:2,cpu:1")[1].slow, 2.5);
  EXPECT_EQ(to_string(parse_workers("cpu[slow=2.5,threads=2]:2,cpu:1")), "cpu[slow=2.5,threads=2]:2,cpu:1");
  EXPECT_TRUE(parse_workers("emulated:v100[slow=2]:3,cpu:1")[2].emulated());
  EXPECT_FALSE(parse_workers("emulated:v100[slow=2]:3,cpu:1")[3].emulated());
  try {
    parse_workers("emulated:a100-80g:2");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'a100-80gb'?"), std::string::npos) << error.what();
  }
  EXPECT_THROW(parse_workers("cpu[index=0]:2"), Error);
  EXPECT_THROW(parse_workers("cuda[index=-1]"), Error);
  for (const auto* bad : {"", ",", "0", "-1", "cpu:", "cpu:0", "cpu:x", "cpu[threads=0]", "cpu[slow=0.5]", "cpu[slow=x]", "cuda[slow=2]", "gpu:2", "cpu[", "cpu:131073",
                          "131073", "cpu::2", "cpu:2:2", "emulated", "emulated:", "emulated:2", "emulated:v101:8", "emulated:v100:0", "emulated:v100[slow=0]:2", "emulated:v100[index=1]", "emulated:v100:x", "99999999999999999999", "cpu[threads=2]:2]"})
    EXPECT_THROW(parse_workers(bad), Error) << bad;
}

TEST_F(Config, IdentityIgnoresWhatCannotChangeAMeasurement) {
  const auto of = [](std::vector<std::pair<std::string, std::string>> values, const std::string& build = "b", const std::string& data = "d") {
    Settings settings;
    for (const auto& [key, value] : values) settings[key] = {value, "test"};
    return identity(resolve(settings), build, data);
  };
  const auto plain = of({});
  EXPECT_EQ(plain.size(), 32U);
  EXPECT_EQ(of({{"store", "x"}, {"repeat", "3"}, {"trace", "all"}, {"timeout", "1h"}}), plain);
  EXPECT_EQ(of({{"workers", "cpu:1"}, {"model", "lenet[]"}}), plain);
  EXPECT_NE(of({{"batch", "32"}}), plain);
  EXPECT_NE(of({}, "other"), plain);
  EXPECT_NE(of({}, "b", "other"), plain);
}

// Whatever stands in a file, reading it ends in settings or in one ddl::Error.
TEST_F(Config, WhatARecordKeepsResolvesToTheSame) {
  Settings settings;
  set(settings, "learning_rate", "0.1000000000000000055511151231257827", "--a");
  set(settings, "weight_decay", "3e-5", "--b");
  set(settings, "collective_timeout", "1234us", "--c");
  set(settings, "workers", "cpu[threads=2]:2,cpu", "--d");
  set(settings, "seed", "9007199254740993", "--e");
  set(settings, "strategy", "data[bucket=1MiB]", "--f");
  set(settings, "steps", "7", "--g");
  const auto experiment = resolve(settings);
  const auto again = experiment_from(parse_json(experiment.config.dump(), "a record"), experiment.provenance);
  EXPECT_EQ(again.config.dump(), experiment.config.dump());
  EXPECT_EQ(again.provenance, experiment.provenance);
  EXPECT_EQ(again.job.learning_rate, experiment.job.learning_rate);
  EXPECT_EQ(again.job.weight_decay, experiment.job.weight_decay);
  EXPECT_EQ(again.job.collective_timeout, experiment.job.collective_timeout);
  EXPECT_EQ(again.job.seed, experiment.job.seed);
}

TEST_F(Config, MutatedFilesNeverCrash) {
  const std::string_view valid =
      "# comment\nmodel: \"resnet18\"\ndataset: fashion-mnist\nworkers: cpu[threads=2]:2,cpu\nsteps: 30\n"
      "synthetic: on\ntimeout: 10min\nlearning_rate: 5e-2\nstrategy: 'data[bucket=25MiB]'\nmomentum: &m 0.9\nweight_decay: *m\n";
  constexpr std::string_view kPieces = "[]{}:,-?&*!|>'\"%@`#\n\t \\~=<0\xff\xc3\x80\x01";
  Random random(20261121);
  int accepted = 0;
  constexpr int kMutations = 3000;
  for (int i = 0; i < kMutations; ++i) {
    std::string text(valid);
    for (auto edits = 1 + random.below(6); edits > 0 && !text.empty(); --edits) {
      const auto at = random.below(text.size());
      switch (random.below(5)) {
        case 0: text[at] = kPieces[random.below(kPieces.size())]; break;
        case 1: text.insert(at, 1, kPieces[random.below(kPieces.size())]); break;
        case 2: text.erase(at, 1 + random.below(8)); break;
        case 3: text.insert(at, text.substr(random.below(text.size()), random.below(40))); break;
        default: text[at] = static_cast<char>(random.below(256));
      }
    }
    try {
      const auto experiment = resolve(read_experiment(file(text)));
      EXPECT_NO_THROW(experiment.config.dump());
      ++accepted;
    } catch (const Error& error) {
      EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos) << error.what();
    }
  }
  EXPECT_GT(accepted, kMutations / 100);
  EXPECT_LT(accepted, kMutations);
}

}  // namespace
}  // namespace ddl
