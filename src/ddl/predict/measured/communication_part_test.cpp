#include "ddl/predict/measured/communication_part.h"

#include <gtest/gtest.h>

#include <set>

#include "ddl/core/error.h"
#include "ddl/predict/merge_machines.h"

namespace ddl {
namespace {

/// s of a made-up wire: 10 us a call, 1 ns a byte, and 2 ns of what is reduced.
double seconds_of(Goal goal, std::size_t bytes) {
  const bool reduces = goal == Goal::all_reduce || goal == Goal::reduce_scatter;
  return 1e-5 + static_cast<double>(bytes) * (reduces ? 3e-9 : 1e-9);
}

Json measured(const std::vector<std::pair<Goal, std::string>>& cases, const std::vector<std::size_t>& sizes, const std::string& when, double times = 1) {
  std::vector<TimedCollective> timed;
  for (const auto& [goal, algorithm] : cases)
    for (const auto bytes : sizes) timed.push_back({goal, algorithm, bytes, times * seconds_of(goal, bytes)});
  CommunicationPart like{"tcp", 2};
  like.measured = when;
  return to_json(fit_part(like, false, timed).part);
}

const std::vector<std::pair<Goal, std::string>> kAll{{Goal::all_reduce, "ring"}, {Goal::all_reduce, "direct"}, {Goal::reduce_scatter, "ring"}, {Goal::all_gather, "ring"}, {Goal::point_to_point, "direct"}};
const std::vector<std::size_t> kSizes{1 << 10, 1 << 16, 1 << 20};

std::set<std::string> chosen(const Json& entry) {
  std::set<std::string> found;
  for (const auto& piece : entry.at("best")) found.insert(piece.at("collective"));
  return found;
}

double time_of(const Json& entry, Goal goal, const std::string& algorithm, std::size_t bytes) {
  for (const auto& each : entry.at("timed"))
    if (each.at("collective") == name(goal) && each.at("algorithm") == algorithm)
      for (const auto& point : each.at("points"))
        if (point.at("bytes") == bytes) return point.at("time_us").get<double>() * 1e-6;
  return -1;
}

// Who measures one collective more, as predictions advise, loses nothing that was known of others.
TEST(CommunicationPart, WhatIsMeasuredAgainIsJoinedToWhatWas) {
  const auto before = measured(kAll, kSizes, "2026-11-20T10:00:00.000Z");
  const auto gathers = measured({{Goal::all_gather, "ring"}}, {1 << 16}, "2026-11-21T10:00:00.000Z", 2);
  const auto both = joined(before, gathers);
  EXPECT_EQ(chosen(both), chosen(before));
  EXPECT_EQ(both["measured"], "2026-11-21T10:00:00.000Z");
  EXPECT_EQ(both["most_bytes"], 1 << 20);
  EXPECT_NEAR(time_of(both, Goal::all_gather, "ring", 1 << 16), 2 * seconds_of(Goal::all_gather, 1 << 16), 1e-9) << "the later";
  EXPECT_NEAR(time_of(both, Goal::all_gather, "ring", 1 << 20), seconds_of(Goal::all_gather, 1 << 20), 1e-9);
  EXPECT_NEAR(time_of(both, Goal::all_reduce, "direct", 1 << 10), seconds_of(Goal::all_reduce, 1 << 10), 1e-9);
  // Reductions cost what they did: gathers alone know nothing of them.
  const auto reducing = [](const Json& entry) { return wire_cost_from_json(entry.at("rounds")).at(1 << 20).gamma; };
  EXPECT_EQ(reducing(gathers), 0);
  EXPECT_NEAR(reducing(both), reducing(before), 0.05 * reducing(before));
  EXPECT_GT(reducing(before), 0);
}

TEST(CommunicationPart, AllMeasuredAgainTakesThePlaceOfAll) {
  const auto before = measured(kAll, kSizes, "2026-11-20T10:00:00.000Z"), after = measured(kAll, kSizes, "2026-11-21T10:00:00.000Z", 3);
  EXPECT_EQ(joined(before, after), after);
  EXPECT_EQ(joined({}, after), after);
  EXPECT_EQ(joined(after, after), after);
}

TEST(CommunicationPart, NativeTimesAreJoinedToo) {
  const auto before = measured({{Goal::all_reduce, "native"}, {Goal::all_gather, "native"}, {Goal::all_reduce, "ring"}}, kSizes, "2026-11-20T10:00:00.000Z");
  const auto both = joined(before, measured({{Goal::all_reduce, "ring"}}, kSizes, "2026-11-21T10:00:00.000Z", 2));
  EXPECT_EQ(both["native"], before["native"]);
  EXPECT_EQ(both["best"].at(0)["algorithm"], "native") << "what takes twice as long now was the usual one";
}

// Profiles that kept no times: what was chosen of other collectives stays, and costs that more was fitted by.
TEST(CommunicationPart, AnOlderProfileKeepsItsChoicesAndItsCosts) {
  auto before = measured(kAll, kSizes, "2026-11-20T10:00:00.000Z");
  before.erase("timed");
  const auto gathers = measured({{Goal::all_gather, "ring"}}, {1 << 16}, "2026-11-21T10:00:00.000Z", 2);
  const auto both = joined(before, gathers);
  EXPECT_EQ(chosen(both), chosen(before));
  EXPECT_EQ(both["rounds"], before["rounds"]);
  EXPECT_EQ(joined(both, gathers), both) << "and once more";
}

// A library's own times are not all that the choice was made of.
TEST(CommunicationPart, AnOlderProfilesNativeTimesAreNoChoice) {
  auto before = measured({{Goal::all_reduce, "native"}, {Goal::all_reduce, "ring"}}, kSizes, "2026-11-20T10:00:00.000Z");
  before.erase("timed");
  before["best"] = Json::array({{{"collective", "all-reduce"}, {"from_bytes", 0}, {"to_bytes", 8192}, {"algorithm", "ring"}}, {{"collective", "all-reduce"}, {"from_bytes", 8192}, {"to_bytes", 1 << 30}, {"algorithm", "native"}}});
  const auto both = joined(before, measured({{Goal::all_gather, "ring"}}, {1 << 16}, "2026-11-21T10:00:00.000Z"));
  Json chosen_of_sums = Json::array();
  for (const auto& piece : both["best"])
    if (piece["collective"] == "all-reduce") chosen_of_sums.push_back(piece);
  EXPECT_EQ(chosen_of_sums, before["best"]);
}

// One algorithm at one more size has won nothing there.
TEST(CommunicationPart, WhereMostWereNotTimedNobodyWins) {
  const std::vector<std::pair<Goal, std::string>> sums{{Goal::all_reduce, "ring"}, {Goal::all_reduce, "direct"}, {Goal::all_reduce, "recursive-doubling"}};
  const auto before = measured(sums, kSizes, "2026-11-20T10:00:00.000Z");
  const auto more = joined(before, measured({{Goal::all_reduce, "star"}}, {1 << 14}, "2026-11-21T10:00:00.000Z"));
  EXPECT_EQ(more["best"], before["best"]);
  EXPECT_GT(time_of(more, Goal::all_reduce, "star", 1 << 14), 0);
}

// All algorithms at one more size: those of others stay.
TEST(CommunicationPart, ASizeWhereMoreWereTimedTakesNoOtherAway) {
  const std::vector<std::pair<Goal, std::string>> few{{Goal::all_reduce, "ring"}, {Goal::all_reduce, "direct"}, {Goal::all_reduce, "recursive-doubling"}};
  auto all = few;
  for (const auto* more : {"star", "tree", "double-tree", "halving-doubling"}) all.emplace_back(Goal::all_reduce, more);
  std::vector<TimedCollective> timed;
  for (const auto& [goal, algorithm] : few)
    for (const auto bytes : kSizes) timed.push_back({goal, algorithm, bytes, bytes < 1 << 12 && algorithm == "recursive-doubling" ? 1e-6 : seconds_of(goal, bytes)});
  const auto before = to_json(fit_part({"tcp", 2}, false, timed).part);
  const auto both = joined(before, measured(all, {1 << 22}, "2026-11-21T10:00:00.000Z"));
  EXPECT_EQ(both["best"].at(0)["algorithm"], "recursive-doubling");
  EXPECT_LT(both["best"].at(0)["to_bytes"], 1 << 16);
}

// What a library does by itself is priced by its times: that its choice stays holds no costs of ours back.
TEST(CommunicationPart, ALibrarysChoiceKeepsNoOlderCosts) {
  const auto native = measured({{Goal::all_gather, "native"}}, kSizes, "2026-11-20T10:00:00.000Z");
  const auto sums = [](double times) { return measured({{Goal::all_reduce, "ring"}}, kSizes, "2026-11-21T10:00:00.000Z", times); };
  const auto both = joined(joined(native, sums(1)), sums(3));
  EXPECT_NEAR(both["rounds"].at(0).at("alpha_us").get<double>(), sums(3)["rounds"].at(0).at("alpha_us").get<double>(), 1e-6);
  EXPECT_EQ(chosen(both), (std::set<std::string>{"all-gather", "all-reduce"}));
}

// An algorithm of a plug-in that is not here cannot be fitted; all else is.
TEST(CommunicationPart, AlgorithmsThatAreNotHereAreLeftOut) {
  auto before = measured(kAll, kSizes, "2026-11-20T10:00:00.000Z");
  before["timed"].push_back({{"collective", "all-reduce"}, {"algorithm", "of-a-plug-in"}, {"points", Json::array({{{"bytes", 1024}, {"time_us", 1}}})}});
  const auto both = joined(before, measured({{Goal::all_gather, "ring"}}, {1 << 16}, "2026-11-21T10:00:00.000Z"));
  EXPECT_EQ(time_of(both, Goal::all_reduce, "of-a-plug-in", 1024), -1);
  EXPECT_GT(time_of(both, Goal::all_reduce, "ring", 1 << 10), 0);
  // What is damaged goes.
  const auto after = measured({{Goal::all_gather, "ring"}}, {1 << 16}, "2026-11-21T10:00:00.000Z");
  for (const auto* key : {"timed", "best", "rounds"}) {
    auto damaged = measured(kAll, kSizes, "2026-11-20T10:00:00.000Z");
    damaged[key] = 3;
    if (std::string(key) == "rounds") damaged.erase("timed");
    EXPECT_EQ(joined(damaged, after), after) << key;
  }
}

TEST(CommunicationPart, MergedProfilesHaveBoth) {
  const Json environment{{"host", "here"}, {"cpu", {{"model", "Fast 3000"}, {"usable_cores", 2}}}};
  auto ours = new_machine(environment), theirs = new_machine(environment);
  ours["communication"].push_back(measured({{Goal::all_reduce, "ring"}}, kSizes, "2026-11-20T10:00:00.000Z"));
  theirs["communication"].push_back(measured({{Goal::all_gather, "ring"}}, kSizes, "2026-11-21T10:00:00.000Z"));
  auto other_way = theirs;
  EXPECT_EQ(merge_machine(ours, theirs), 1);
  merge_machine(other_way, ours);
  EXPECT_EQ(chosen(ours.at("communication").at(0)), (std::set<std::string>{"all-gather", "all-reduce"}));
  EXPECT_EQ(other_way["communication"][0]["timed"], ours["communication"][0]["timed"]);
  const auto before = ours;
  EXPECT_EQ(merge_machine(ours, theirs), 0);
  EXPECT_EQ(ours, before);
}

}  // namespace
}  // namespace ddl
