#pragma once

#include <algorithm>

#include "ddl/collective/victim_testing.h"

// Where a rank is killed or stopped: one table for ranks that a test forks and for those that a launcher started.

namespace ddl::testing {

/// What a rank has in a phase.
struct Stage {
  Rendezvous& meeting;
  const Death& death;
  Seconds timeout;
  Scene& scene;
  Testimony& testimony;

  bool is_victim() const { return meeting.rank() == death.victim; }
  /// The victim stays; the others go on when it is dead, or at once where it is to be stopped.
  void strike_here() const {
    if (is_victim()) scene.die_here();
    while (death.fate == Fate::killed && scene.struck == 0) ::usleep(500);
  }
  std::unique_ptr<Transport> connect(Rendezvous& through) const { return builtin_transports().at(death.transport).make(through, {timeout, "secret"}); }
};

struct Phase {
  std::string name;
  /// What every rank does; the victim stays in it for ever, or goes on until it is struck.
  std::function<void(Stage&)> play;
  /// With which operation, or where, the others' words begin.
  std::function<std::string(const Death&, const Testimony&)> words;
  /// Ranks that still connect may lose each other, too, as those fail that found out first.
  bool connecting = false;
  /// The victim's number in their words.
  std::function<int(int victim)> called = [](int victim) { return victim; };
  /// Over mpi they are inside the library then, which cannot be left: they end the job with these words.
  std::string inside_mpi = {};
};

inline std::vector<float> ones(std::size_t elements) { return std::vector<float>(elements, 1); }

inline void reduce(Communicator& group, std::vector<float>& values, std::string_view algorithm) {
  group.run({Goal::all_reduce, ReduceOp::sum, algorithm}, buffer_of(std::span(values)));
}

/// All are connected, and end with what they use.
inline auto connected(const std::function<void(Communicator&, Stage&)>& body) {
  return [body](Stage& stage) {
    // On two hosts, so that hierarchical has something to do.
    Communicator group(stage.connect(stage.meeting), CommunicatorOptions{stage.timeout, {0, 1, 1}});
    body(group, stage);
  };
}

/// Always the same words.
inline auto always(const std::string& words) {
  return [words](const Death&, const Testimony&) { return words; };
}

/// Struck at any moment of a series of large ones: nearly all of the time is inside one.
inline Phase amid(const std::string& name, const std::string& algorithm, bool own_memory = false) {
  static constexpr std::size_t kElements = 3'000'001;
  return {name,
          connected([=](Communicator& group, Stage& stage) {
            auto outside = ones(kElements);
            Buffer buffer = buffer_of(std::span(outside));
            if (own_memory) buffer.data = group.transport().allocate(kElements * sizeof(float)).data();
            for (;;) {
              group.run({Goal::all_reduce, ReduceOp::max, algorithm}, buffer);
              if (++stage.testimony.completed == 2 && stage.is_victim()) stage.scene.ready = true;
            }
          }),
          [=](const Death&, const Testimony& testimony) {
            const auto shown = algorithm.substr(0, algorithm.find('['));
            return fmt::format("[#{} all-reduce ({}, max) of {} fp32] ", testimony.completed + 1, shown, kElements);
          }};
}

/// The same in a series of another collective, whose roots take turns, so that everyone soon waits for everyone.
inline Phase amid_another(Goal goal, const std::string& algorithm) {
  static constexpr std::size_t kElements = 3'000'000;
  auto phase_name = fmt::format("InALarge_{}_{}", name(goal), algorithm);
  std::replace(phase_name.begin(), phase_name.end(), '-', '_');
  return {phase_name,
          connected([=](Communicator& group, Stage& stage) {
            auto values = ones(goal == Goal::barrier ? 0 : kElements);
            for (int round = 0;; ++round) {
              Collective what{goal, ReduceOp::max, algorithm};
              if (has_root(goal)) what.root = round % Scene::kRanks;
              if (goal == Goal::point_to_point) what.peer = (round + 1) % Scene::kRanks;
              group.run(what, buffer_of(std::span(values)));
              if (++stage.testimony.completed == 2 && stage.is_victim()) stage.scene.ready = true;
            }
          }),
          [=](const Death&, const Testimony& testimony) {
            // Of messages each pair has a count of its own.
            const bool message = goal == Goal::point_to_point;
            return fmt::format("[#{} {} ({}", (message ? testimony.completed / Scene::kRanks : testimony.completed) + 1, name(goal), message ? "from " : algorithm);
          }};
}

/// Every collective but all-reduce that is registered.
inline std::vector<Phase> phases_of_other_collectives() {
  std::vector<Phase> all;
  const auto registry = builtin_collectives();
  const auto names = names_of(registry);
  for (std::size_t i = 0; i < names.size(); ++i)
    if (const Goal goal = registry.entries()[i].make.goal; goal != Goal::all_reduce) all.push_back(amid_another(goal, names[i]));
  return all;
}

inline void reduce_many_at_once(Communicator& group, Stage& stage, std::size_t elements) {
  std::vector<std::vector<float>> values(6, ones(elements));
  for (int round = 0;; ++round) {
    if (stage.is_victim() && round == 2) stage.scene.ready = true;
    std::vector<Handle> handles;
    for (auto& each : values) handles.push_back(group.all_reduce(buffer_of(std::span(each)), ReduceOp::max, "ring"));
    std::optional<Error> first;
    for (const auto& handle : handles) try {
        handle.wait();
        if (first) throw Error(Code::corrupt, "one after it succeeded");
        ++stage.testimony.completed;
      } catch (const Error& error) {
        if (first && error.code() != first->code()) throw;
        if (!first) first = error;
      }
    if (first) throw Error(*first);
  }
}

/// Before all are connected.
inline std::vector<Phase> phases_of_connecting() {
  return {
      {"BeforeItJoins",
       [](Stage& stage) {
         if (stage.is_victim()) stage.scene.die_here();
         stage.connect(stage.meeting);
       },
       always("rendezvous"), true},
      {"AfterItGaveItsAddress",
       [](Stage& stage) {
         Watched watched(stage.meeting, [&](const std::vector<std::string>& all) {
           for (std::size_t rank = 0; rank < all.size(); ++rank) std::snprintf(stage.scene.places[rank], sizeof stage.scene.places[rank], "%s", all[rank].c_str());
           stage.strike_here();
         });
         stage.connect(watched);
       },
       [](const Death& death, const Testimony&) { return fmt::format("[{}", death.transport == "shm" ? "" : death.transport + "] rank "); }, true,
       [](int victim) { return victim; }, "made a communicator of ranks 0, 1, 2"},
  };
}

/// In groups of the ranks, and while they are made.
inline std::vector<Phase> phases_of_groups() {
  static const std::vector<int> members{2, 0, 1};
  return {
      {"InAGroupOfTheRanks",
       connected([](Communicator& all, Stage& stage) {
         const auto group = all.group(members);
         auto values = ones(4096);
         reduce(*group, values, "ring");
         if (stage.is_victim()) stage.scene.die_here();
         reduce(*group, values, "ring");
       }),
       always("[#2 all-reduce (ring, sum) of 4096 fp32 in the group of ranks 2, 0, 1] "), false,
       [](int victim) { return static_cast<int>(std::find(members.begin(), members.end(), victim) - members.begin()); }},
      {"WhileAGroupIsMade",
       connected([](Communicator& all, Stage& stage) {
         all.barrier().wait();
         if (stage.is_victim()) stage.scene.die_here();
         all.group(members);
       }),
       always("[making the group of ranks 2, 0, 1] ")},
      {"WhileAGroupConnects",
       [](Stage& stage) {
         const auto wire = stage.connect(stage.meeting);
         Watched watched(stage.meeting, [&](const std::vector<std::string>&) { stage.strike_here(); });
         Communicator group(wire->subgroup({0, 1, 2}, watched), stage.timeout);
         group.barrier().wait();
       },
       [](const Death& death, const Testimony&) {
         // Where memory is shared there is nothing to connect, and its first collective notices.
         return std::string(death.transport == "shm" ? "[#1 barrier (dissemination) of 0 fp32] [shm] rank " : "[" + death.transport + "] rank ");
       },
       true, [](int victim) { return victim; }, "made a communicator of ranks 0, 1, 2"},
  };
}

/// Every place that the ranks of every transport come to, all-reduces for all collectives.
inline std::vector<Phase> phases() {
  static constexpr std::size_t kQueued = 500'000;
  auto all = phases_of_connecting();
  all.push_back({"BetweenCollectives",
                 connected([](Communicator& group, Stage& stage) {
                   auto values = ones(1024);
                   reduce(group, values, "ring");
                   reduce(group, values, "auto");
                   if (stage.is_victim()) stage.scene.die_here();
                   reduce(group, values, "ring");
                 }),
                 always("[#3 all-reduce (ring, sum) of 1024 fp32] ")});
  // Every algorithm of all-reduce that is registered.
  const auto registry = builtin_collectives();
  const auto names = names_of(registry);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (registry.entries()[i].make.goal != Goal::all_reduce) continue;
    std::string name = names[i];
    std::replace(name.begin(), name.end(), '-', '_');
    all.push_back(amid("InALarge_" + name, names[i], names[i] == "halving-doubling"));
  }
  all.push_back(amid("InALarge_direct_InPlace", "direct", true));
  all.push_back({"WithOthersQueued", connected([](Communicator& group, Stage& stage) { reduce_many_at_once(group, stage, kQueued); }),
                 [](const Death&, const Testimony& testimony) {
                   return fmt::format("[#{} all-reduce (ring, max) of {} fp32] ", testimony.completed + 1, kQueued);
                 }});
  for (auto& phase : phases_of_groups()) all.push_back(std::move(phase));
  all.push_back({"InTheLastBarrier",
                 connected([](Communicator& group, Stage& stage) {
                   auto values = ones(1000);
                   reduce(group, values, "auto");
                   if (stage.is_victim()) stage.scene.die_here();
                   group.barrier().wait();
                 }),
                 always("[#2 barrier (dissemination) of 0 fp32] ")});
  return all;
}

/// Whether it says that `rank` is gone, and no other. Ranks that still connect may lose one more: who found out before us.
inline bool names(const std::string& said, int rank, bool others_too) {
  const auto says = [&](const std::string& text) { return said.find(text) != std::string::npos; };
  if (says(fmt::format(" lost rank {}:", rank)) || says(fmt::format("cannot reach rank {} ", rank)) || says(fmt::format("; rank {} did not come", rank)))
    return true;
  return others_too && (says(fmt::format(", {} did not come", rank)) || says(fmt::format("; rank {}, ", rank)) ||
                        says(fmt::format(" lost rank {}, ", rank)) || says(fmt::format(", {}: no such process", rank)));
}

/// Whether ranks hear why another one gave up, and for whom the one waits for whom they wait. If not, they name the one for whom
/// they wait, and only those who wait for the victim name it.
inline bool hear_words(const std::string& transport) { return transport != "gloo"; }

inline bool names_anyone(const std::string& said, bool others_too) {
  for (int rank = 0; rank < Scene::kRanks; ++rank)
    if (names(said, rank, others_too)) return true;
  return false;
}

/// What a survivor's testimony lacks, having ended so long after the strike; empty where nothing: it failed with the right
/// code, in time, and said who is gone, and in what.
inline std::string objection(const Phase& phase, const Death& death, const Testimony& testimony, double seconds_to_end, double most_seconds) {
  if (testimony.ended == 0) return "it did not end";
  if (!testimony.failed) return "it noticed nothing";
  const std::string said = testimony.said;
  const auto but = [&](const std::string& what) { return fmt::format("{}; got {}: {}", what, name(testimony.code), said); };
  const bool wordless = !hear_words(death.transport);
  const bool lost = testimony.code == Code::peer_lost, late = testimony.code == Code::timeout;
  if (phase.connecting || wordless ? !lost && !late : death.fate == Fate::killed ? !lost : !late)
    return but(phase.connecting || wordless ? "expected peer_lost or timeout" : death.fate == Fate::killed ? "expected peer_lost" : "expected timeout");
  if (wordless ? !names_anyone(said, phase.connecting) : !names(said, phase.called(death.victim), phase.connecting)) return but(fmt::format("expected it to name rank {}", phase.called(death.victim)));
  if (const auto words = phase.words(death, testimony); said.find(words) == std::string::npos) return but("expected it to say " + words);
  if (seconds_to_end > most_seconds) return but(fmt::format("it took {} s, expected at most {}", seconds_to_end, most_seconds));
  // LibTorch keeps some for the rest of the process, and those of a connection that was not made.
  if (death.transport == "gloo" && (phase.connecting || testimony.descriptors_left <= 2)) return {};
  if (testimony.descriptors_left != 0) return but(fmt::format("it left {} descriptors open", testimony.descriptors_left));
  return {};
}

}  // namespace ddl::testing
