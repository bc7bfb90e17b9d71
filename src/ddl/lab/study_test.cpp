#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include <unistd.h>

#include "ddl/core/error.h"
#include "ddl/core/random.h"
#include "ddl/lab/config.h"

namespace ddl {
namespace {

class StudyFile : public testing::Test {
 protected:
  StudyFile() : path_((std::filesystem::temp_directory_path() / ("study_test." + std::to_string(::getpid()) + ".yaml")).string()) {}
  ~StudyFile() override { std::filesystem::remove(path_); }

  Study read(std::string_view text, const Settings& overrides = {}) const {
    std::ofstream(path_, std::ios::binary) << text;
    return read_study(path_, overrides);
  }
  std::string complaint(std::string_view text, const Settings& overrides = {}) const {
    try {
      read(text, overrides);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument);
      std::string what = error.what();
      EXPECT_EQ(what.find('\n'), std::string::npos) << what;
      for (auto at = what.find(path_); at != std::string::npos; at = what.find(path_)) what.replace(at, path_.size(), "F");
      return what;
    }
    return "accepted";
  }

 private:
  std::string path_;
};

std::vector<std::string> names(const Study& study) {
  std::vector<std::string> all;
  for (const auto& experiment : study.experiments) all.push_back(experiment.name);
  return all;
}

constexpr std::string_view kFirst =
    "study: first\n"
    "base: {dataset: fashion-mnist, batch: 64}\n"
    "matrix:\n"
    "  - [{model: lenet, epochs: 10}, {model: resnet18, steps: 40}]\n"
    "  - [{workers: 1}, {workers: 2, transport: shm}, {workers: 2, transport: tcp}]\n";

TEST_F(StudyFile, ExpandsEveryCombination) {
  const auto study = read(kFirst);
  EXPECT_EQ(study.name, "first");
  EXPECT_EQ(names(study), (std::vector<std::string>{"lenet, 1 worker", "lenet, 2 workers, shm", "lenet, 2 workers, tcp",
                                                    "resnet18, 1 worker", "resnet18, 2 workers, shm", "resnet18, 2 workers, tcp"}));
  EXPECT_EQ(study.experiments[4].job.steps, 40);
  EXPECT_EQ(study.experiments[4].study, "first");
  EXPECT_TRUE(study.experiments[4].provenance["transport"].get<std::string>().ends_with(":5:44"));
}

TEST_F(StudyFile, TheOneThatShipsIsRead) {
  const auto study = read_study(DDL_SOURCE_DIR "/studies/first.yaml", {});
  EXPECT_EQ(names(study), names(read(kFirst)));
}

TEST_F(StudyFile, ExcludesByMeaningAndAddsSingleOnes) {
  const auto study = read(std::string(kFirst) + "exclude:\n  - {model: resnet18, workers: 'cpu:1'}\nexperiments: [{model: lenet, batch: 32}]\n");
  EXPECT_EQ(study.experiments.size(), 6U);
  EXPECT_EQ(study.experiments.back().name, "lenet, 1 worker, batch 32");
}

TEST_F(StudyFile, NamesWhatVaries) {
  const auto study = read("matrix: [[{batch: 32}, {batch: 64}], [{shuffle: on}, {shuffle: off}]]\n");
  EXPECT_EQ(names(study), (std::vector<std::string>{"lenet, 1 worker, batch 32, shuffle", "lenet, 1 worker, batch 32, no shuffle",
                                                    "lenet, 1 worker, batch 64, shuffle", "lenet, 1 worker, batch 64, no shuffle"}));
  EXPECT_EQ(names(read("matrix: [[{transport: shm}, {transport: tcp}]]")),
            (std::vector<std::string>{"lenet, 1 worker, shm", "lenet, 1 worker, tcp"}));
}

TEST_F(StudyFile, NamesWhatIsComparedEvenWhereWorkersTellApart) {
  EXPECT_EQ(names(read("matrix: [[{strategy: single}, {strategy: data, workers: 2}, {strategy: model, workers: 4, batch: 128}]]")),
            (std::vector<std::string>{"lenet, 1 worker, single, batch 64", "lenet, 2 workers, data, batch 64", "lenet, 4 workers, model, batch 128"}));
}

TEST_F(StudyFile, OverridesWinAndChangeTheDigest) {
  Settings overrides;
  set(overrides, "batch", "32", "--batch");
  const auto study = read(kFirst, overrides);
  for (const auto& experiment : study.experiments) EXPECT_EQ(experiment.job.batch, 32);
  EXPECT_NE(study.digest, read(kFirst).digest);
  EXPECT_EQ(read(kFirst).digest, read(std::string(kFirst) + "# a comment\n").digest);
}

TEST_F(StudyFile, PointsAtTheMistake) {
  EXPECT_EQ(complaint("mattrix: []\n"), "F:1:1: unknown part of a study 'mattrix' (did you mean 'matrix'?); expected one of: "
                                        "study base matrix exclude experiments");
  EXPECT_EQ(complaint("model: lenet\n"), "F:1:1: unknown part of a study 'model'; a key of experiments stands under 'base'");
  EXPECT_EQ(complaint("study: x\n"), "F: a study without experiments; expected 'matrix' or 'experiments'");
  EXPECT_EQ(complaint("matrix: []\n"), "F: a study without experiments; expected 'matrix' or 'experiments'");
  EXPECT_EQ(complaint("matrix: [[]]\n"), "F:1:10: matrix: an empty list; expected at least one entry");
  EXPECT_EQ(complaint("matrix: [{model: lenet}]\n"), "F:1:10: a list of the matrix: wrong type; got a mapping, expected a list");
  EXPECT_EQ(complaint("matrix: [[lenet]]\n"), "F:1:11: an entry of the matrix: wrong type; got 'lenet', expected a mapping");
  EXPECT_EQ(complaint("base: {batch: x}\nmatrix: [[{seed: 1}]]\n").substr(0, 30), "F:1:15: batch: wrong type; got");
  EXPECT_EQ(complaint("matrix: [[{modle: lenet}]]\n"), "F:1:12: unknown key 'modle' (did you mean 'model'?)");
  EXPECT_EQ(complaint("matrix: [[{seed: 1}], [{seed: 2}]]\n"),
            "F:1:31: seed is set in two lists of the matrix; the other is at F:1:18");
  EXPECT_EQ(complaint("matrix: [[{seed: 1}, {seed: 2}]]\nexclude: [{seed: 3}]\n"),
            "F:2:11: exclude: matches no combination of the matrix");
  EXPECT_EQ(complaint("matrix: [[{seed: 1}]]\nexclude: [{seed: 1}]\n"),
            "F: a study without experiments; expected 'matrix' or 'experiments' with something left after 'exclude'");
  EXPECT_EQ(complaint("matrix: [[{seed: 1}]]\nexclude: [{}]\n"), "F:2:11: exclude: an empty entry would exclude everything");
  EXPECT_EQ(complaint("base: {epochs: 3}\nmatrix: [[{steps: 5}]]\n").substr(0, 46),
            "F:2:19: steps: cannot stand beside epochs; got");
  EXPECT_EQ(complaint("study: {a: b}\nmatrix: [[{seed: 1}]]\n"), "F:1:8: study: wrong type; got a mapping, expected one value");
}

TEST_F(StudyFile, RefusesTheSameExperimentTwice) {
  EXPECT_EQ(complaint("matrix: [[{seed: 1}, {trace: all}]]\n"),
            "F:1:22: the same experiment twice (lenet, 1 worker, trace all); the other is at F:1:11; repeat: N runs one several times");
  Settings overrides;
  set(overrides, "seed", "5", "--seed");
  EXPECT_NE(complaint("matrix: [[{seed: 1}, {seed: 2}]]\n", overrides), "accepted");
}

TEST_F(StudyFile, RefusesTooManyCombinations) {
  const auto list = [](const std::string& key) {
    std::string text = "[";
    for (int i = 0; i < 40; ++i) text += "{" + key + ": " + std::to_string(i + 1) + "},";
    text.back() = ']';
    return text;
  };
  const auto what = complaint("matrix: [" + list("batch") + "," + list("seed") + "," + list("steps") + "]\n");
  EXPECT_NE(what.find("too many combinations"), std::string::npos) << what;
}

TEST_F(StudyFile, MutatedFilesNeverCrash) {
  constexpr std::string_view kPieces = "[]{}:,-?&*!|>'\"%@`#\n\t \\~=<0\xff\xc3\x80\x01";
  const std::string valid = std::string(kFirst) + "exclude: [{model: resnet18, workers: 1}]\nexperiments: [{model: lenet, batch: 7}]\n";
  Random random(7);
  int accepted = 0;
  constexpr int kMutations = 2000;
  for (int i = 0; i < kMutations; ++i) {
    std::string text = valid;
    for (auto edits = 1 + random.below(5); edits > 0; --edits) {
      const auto at = random.below(text.size());
      switch (random.below(4)) {
        case 0: text[at] = kPieces[random.below(kPieces.size())]; break;
        case 1: text.insert(at, 1, kPieces[random.below(kPieces.size())]); break;
        case 2: text.erase(at, 1 + random.below(8)); break;
        default: text.insert(at, text.substr(random.below(text.size()), random.below(60)));
      }
    }
    try {
      read(text);
      ++accepted;
    } catch (const Error& error) {
      EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos) << error.what();
    }
  }
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, kMutations);
}

}  // namespace
}  // namespace ddl
