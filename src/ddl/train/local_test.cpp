#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>

#include <c10/core/GradMode.h>

#include "ddl/core/error.h"
#include "ddl/train/trial_testing.h"

// Local SGD, post-local SGD and gossip train as so many single workers do whose parameters somebody averages by hand.
namespace ddl {
namespace {

using namespace testing;

using Tensors = std::vector<at::Tensor>;

/// One worker by itself, with the gradient of the mean over its own samples.
class Alone {
 public:
  Alone(const Trial& trial, const Dataset& data, int worker, int workers)
      : device_(make_device("cpu")),
        network_(builtin_models().at(parse_spec(trial.model).name).make(parse_spec(trial.model), data.shape()), {trial.type, device_->where(), trial.kernels, 7}),
        optimizer_(make_optimizer(parse_spec(trial.optimizer), network_.parameters(), {0.9, 0.01})),
        executor_(network_, *optimizer_, *device_, nullptr, 0, recipe(trial, data), {}),
        loader_(data, [=, sampler = Sampler(data.size(), trial.batch, workers, true, 3, [&data](std::int64_t index) { return data.weight(index); })](std::int64_t step) {
          auto share = sampler.share(step, worker);
          share.global_weight = share.weight;
          return share;
        }, 0, trial.steps, {0, 1}),
        sampler_(data.size(), trial.batch, workers, true, 3, [&data](std::int64_t index) { return data.weight(index); }),
        worker_(worker) {
    executor_.adopt(builtin_strategies().at("single").make({network_.graph(), 1, trial.batch, 8, {"single", {}}, {}, trial.accumulate}));
  }

  /// Returns how long the step was.
  double step(std::int64_t number) {
    const auto share = sampler_.share(number, worker_);
    weight += static_cast<double>(share.weight);
    global_weight += static_cast<double>(share.global_weight);
    const auto batch = loader_.next();
    if (batch->samples == 0) return 0;
    const auto before = parameters();
    executor_.step(number, [&] { return batch; }, kRate, false);
    return distance(parameters(), before);
  }

  static double distance(const Tensors& a, const Tensors& b) {
    double squares = 0;
    for (std::size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]).pow(2).sum().item<double>();
    return std::sqrt(squares);
  }

  Tensors parameters() {
    Tensors copies;
    for (const auto& parameter : network_.parameters()) copies.push_back(parameter.detach().clone());
    return copies;
  }
  void set(const Tensors& values) {
    const c10::NoGradGuard guard;
    for (std::size_t i = 0; i < values.size(); ++i) network_.parameters()[i].copy_(values[i]);
  }
  Tensors momenta() {
    Tensors copies;
    for (std::size_t i = 0; i < network_.parameters().size(); ++i) copies.push_back(optimizer_->kept(0, i).clone());
    return copies;
  }
  void set_momenta(const Tensors& values) {
    for (std::size_t i = 0; i < values.size(); ++i) at::Tensor(optimizer_->kept(0, i)).copy_(values[i]);
  }

  double weight = 0, global_weight = 0;  ///< since they were last set to 0

 private:
  static Recipe recipe(const Trial& trial, const Dataset& data) {
    Recipe made;
    made.shape = data.shape();
    made.label_smoothing = trial.label_smoothing;
    made.clip = trial.clip;
    return made;
  }

  std::unique_ptr<Device> device_;
  Network network_;
  std::unique_ptr<Optimizer> optimizer_;
  Executor executor_;
  Loader loader_;
  Sampler sampler_;
  int worker_;
};

Tensors mix(const std::vector<Tensors>& all, const std::vector<double>& weights) {
  Tensors mixed;
  for (std::size_t i = 0; i < all[0].size(); ++i) {
    auto sum = at::zeros_like(all[0][i]);
    for (std::size_t w = 0; w < all.size(); ++w) sum += all[w][i] * weights[w];
    mixed.push_back(sum);
  }
  return mixed;
}

/// Row i of the mixing matrix of the `exchange`-th exchange: how much of each worker's parameters worker i takes.
using Mixing = std::function<std::vector<double>(int exchange, int i, int workers)>;

std::vector<double> ring(int, int i, int workers) {
  std::vector<double> row(static_cast<std::size_t>(workers));
  if (workers == 2) return {0.5, 0.5};
  for (const int step : {-1, 0, 1}) row[static_cast<std::size_t>((i + step + workers) % workers)] += 1.0 / 3;
  return row;
}

std::vector<double> exponential(int exchange, int i, int workers) {
  std::vector<double> row(static_cast<std::size_t>(workers));
  const int turns = std::bit_width(static_cast<unsigned>(workers - 1));
  const int other = i ^ (1 << exchange % turns);
  row[static_cast<std::size_t>(i)] = other < workers ? 0.5 : 1;
  if (other < workers) row[static_cast<std::size_t>(other)] = 0.5;
  return row;
}

/// How far workers are from their mean, all of them together: the root of the sum of squared distances. And how far they went since the exchange before, so added up over steps.
struct Exchange {
  double before = 0, after = 0;
  double went = 0;
};

struct Simulated {
  std::vector<Tensors> parameters;  ///< by worker
  double largest_drift = 0;         ///< over all workers, before averagings over all
  double bound = 0;                 ///< on it, from the longest step
  double size = 0;                  ///< of the last mean
  double longest = 0;               ///< step of any worker
  std::vector<Exchange> exchanges;  ///< of gossip; the last is none: what was gone since, and where that led
};

double spread(const std::vector<Tensors>& all) {
  const auto mean = mix(all, std::vector<double>(all.size(), 1.0 / static_cast<double>(all.size())));
  double squares = 0;
  for (const auto& each : all) squares += std::pow(Alone::distance(each, mean), 2);
  return std::sqrt(squares);
}

/// So many single workers; after every `every` steps their parameters are averaged: over all by samples, or as `mixing` says.
Simulated simulate(const Trial& trial, int workers, int every, const Mixing& mixing = {}, bool momenta = false) {
  const auto data = data_for(trial.model, -1, 0);
  std::vector<std::unique_ptr<Alone>> all;
  for (int w = 0; w < workers; ++w) all.push_back(std::make_unique<Alone>(trial, *data, w, workers));
  Simulated result;
  double longest = 0, went = 0;
  int exchange = 0;
  const auto average = [&](const std::vector<double>& weights) {
    std::vector<Tensors> before;
    for (const auto& each : all) before.push_back(each->parameters());
    const auto mean = mix(before, weights);
    result.size = Alone::distance(mean, mix(before, std::vector<double>(before.size())));
    for (const auto& each : before) result.largest_drift = std::max(result.largest_drift, Alone::distance(each, mean) / result.size);
    if (!mixing) result.bound = std::max(result.bound, 2 * every * longest / result.size);
    if (mixing) result.exchanges.push_back({spread(before), 0, went});
    longest = 0;
    return mean;
  };
  for (std::int64_t step = 0; step < trial.steps; ++step) {
    double squares = 0;
    for (const auto& each : all) {
      const double length = each->step(step);
      squares += length * length;
      longest = std::max(longest, length);
      result.longest = std::max(result.longest, length);
    }
    went += std::sqrt(squares);
    const bool last = step + 1 == trial.steps;
    if ((step + 1) % every == 0 && mixing) {
      std::vector<Tensors> before, after;
      for (const auto& each : all) before.push_back(each->parameters());
      for (int w = 0; w < workers; ++w) after.push_back(mix(before, mixing(exchange, w, workers)));
      for (int w = 0; w < workers; ++w) all[static_cast<std::size_t>(w)]->set(after[static_cast<std::size_t>(w)]);
      result.exchanges.push_back({spread(before), spread(after), std::exchange(went, 0)});
      ++exchange;
    }
    if (!last && (mixing || (step + 1) % every != 0)) continue;
    std::vector<double> weights;
    for (const auto& each : all) weights.push_back(mixing ? 1.0 / workers : each->weight / each->global_weight);
    const auto mean = average(weights);
    std::vector<Tensors> kept;
    for (const auto& each : all)
      if (momenta) kept.push_back(each->momenta());
    for (const auto& each : all) {
      each->set(mean);
      if (momenta) each->set_momenta(mix(kept, weights));
      each->weight = each->global_weight = 0;
    }
  }
  for (const auto& each : all) result.parameters.push_back(each->parameters());
  return result;
}

void expect_alike(const std::vector<Outcome>& outcomes, const Simulated& simulated, const std::string& what) {
  for (std::size_t w = 0; w < outcomes.size(); ++w) {
    EXPECT_TRUE(same_bits(outcomes[w].parameters, outcomes[0].parameters)) << what << ": worker " << w << " differs from the first at the end";
    EXPECT_LT(relative_error(outcomes[w].parameters, simulated.parameters[w]), 1e-12) << what << ", worker " << w;
  }
}

// The last of two batches has 5 samples of 6 or, where batches are of 9, 2: some workers then have none.
TEST(Local, AveragingEachStepWithoutMomentumIsDataParallelism) {
  for (const auto* model : {"lenet", "transformer[hidden=16,heads=2,layers=1,dropout=0.1]"})
    for (const int ranks : {1, 2, 3, 4, 5})
      for (const std::int64_t batch : {6, 9}) {
        if (batch == 6 && ranks == 5) continue;
        Trial trial{model, "data", batch};
        trial.optimizer = "sgd[momentum=0]";
        const auto reference = train_rank(trial, 0, 1, nullptr);
        trial.strategy = "local[every=1,bucket=40kB]";
        expect_equal(train(trial, ranks), reference, fmt::format("{} {} {}", model, batch, ranks));
      }
}

TEST(Local, EqualsSingleWorkersAveragedByHand) {
  struct Case {
    const char* model;
    std::int64_t batch;
    int ranks, every;
  };
  const char* const words = "transformer[hidden=16,heads=2,layers=1]";
  for (const auto& [model, batch, ranks, every] : {Case{"mlp", 6, 2, 1}, Case{"lenet", 6, 3, 2}, Case{"lenet", 9, 4, 3}, Case{"mlp", 9, 5, 2}, Case{words, 6, 2, 3}, Case{words, 9, 5, 2}}) {
          Trial trial{model, fmt::format("local[every={}]", every), batch, 7};
          trial.accumulate = every;  // 1 to 3 micro-batches
          trial.clip = every == 3 ? 0.5 : 0;
          const auto simulated = simulate(trial, ranks, every);
          const auto outcomes = train(trial, ranks);
          const auto what = fmt::format("{} {} {} every {}", model, batch, ranks, every);
          expect_alike(outcomes, simulated, what);
          // Disagreement, as each worker tells of it: as simulated, and within its bound.
          double largest = 0;
          for (const auto& outcome : outcomes) {
            largest = std::max(largest, outcome.averaging.largest_drift);
            EXPECT_EQ(outcome.averaging.averagings, (trial.steps + every - 1) / every) << what;
          }
          EXPECT_NEAR(largest, simulated.largest_drift, 1e-9) << what;
          EXPECT_GT(largest, 0) << what;
          EXPECT_LE(largest, simulated.bound) << what;
        }
}

TEST(Local, AveragesWhatTheOptimizerKeepsWhereAsked) {
  Trial trial{"lenet", "local[every=2,momentum=average]", 6, 7};
  for (const int ranks : {2, 3, 5}) expect_alike(train(trial, ranks), simulate(trial, ranks, 2, {}, true), fmt::format("{}", ranks));
  const auto apart = simulate(trial, 3, 2), together = simulate(trial, 3, 2, {}, true);
  EXPECT_GT(relative_error(apart.parameters[0], together.parameters[0]), 1e-6) << "momenta do not matter here: the test shows nothing";
}

/// What is left of workers' distances from their mean when a doubly stochastic matrix has mixed them, at most: its largest singular value but for that of the mean.
double contraction(const at::Tensor& mixed) { return at::linalg_svdvals(mixed - 1.0 / static_cast<double>(mixed.size(0))).max().item<double>(); }

at::Tensor matrix(const Mixing& mixing, int exchange, int workers) {
  auto made = at::zeros({workers, workers}, at::kDouble);
  for (int i = 0; i < workers; ++i) {
    const auto row = mixing(exchange, i, workers);
    for (int j = 0; j < workers; ++j) made[i][j] = row[static_cast<std::size_t>(j)];
  }
  return made;
}

/// The most that is left after a round of turns, whichever of them it begins with.
double contraction_of_a_round(const Mixing& mixing, int turns, int workers) {
  double most = 0;
  for (int first = 0; first < turns; ++first) {
    auto round = at::eye(workers, at::kDouble);
    for (int turn = 0; turn < turns; ++turn) round = matrix(mixing, first + turn, workers).mm(round);
    most = std::max(most, contraction(round));
  }
  return most;
}

// Workers are a matrix X of a row each, D = (1 - J) X their distances from the mean, J the matrix of 1/P. Steps U add (1 - J) U, no longer than U; an exchange makes W D of D, as W J = J W = J. So before
// exchange k |D| <= sum over j of |W_(k-1) ... W_j - J| |U_j|, and, where a round of T turns leaves a part c < 1 at most and no step is longer than s, |D| <= sqrt(P) s H T / (1 - c).
TEST(Local, GossipEqualsItsMixingMatricesAndKeepsWorkersWithinTheirBound) {
  constexpr double kRounding = 1 + 1e-9;
  for (const auto& [topology, mixing] : {std::pair<std::string, Mixing>{"ring", ring}, {"exponential", exponential}})
    for (const int ranks : {2, 3, 4, 5})
      for (const int every : {1, 2}) {
        Trial trial{"lenet", fmt::format("local[every={},average=gossip,topology={},bucket=40kB]", every, topology), 6, 7};
        const auto what = fmt::format("{} {} every {}", topology, ranks, every);
        const auto simulated = simulate(trial, ranks, every, mixing);
        const auto outcomes = train(trial, ranks);
        expect_alike(outcomes, simulated, what);

        const int turns = topology == "ring" ? 1 : std::bit_width(static_cast<unsigned>(ranks - 1));
        const double left = contraction_of_a_round(mixing, turns, ranks);
        ASSERT_LT(left, 1) << what;
        const double closed = std::sqrt(ranks) * simulated.longest * every * turns / (1 - left);
        std::vector<std::pair<at::Tensor, double>> gone;  // what has mixed the steps of each time, and how long they were
        double bound = 0;
        for (std::size_t k = 0; k < simulated.exchanges.size(); ++k) {
          const auto& [before, after, went] = simulated.exchanges[k];
          gone.emplace_back(at::eye(ranks, at::kDouble), went);
          bound = 0;
          for (const auto& [mixed, length] : gone) bound += contraction(mixed) * length;
          EXPECT_LE(before, bound * kRounding + 1e-12) << what << ", exchange " << k;
          EXPECT_LE(bound, closed * kRounding) << what << ", exchange " << k;
          if (k + 1 == simulated.exchanges.size()) break;  // the mean of all
          EXPECT_GT(before, 0) << what;
          const auto mixes = matrix(mixing, static_cast<int>(k), ranks);
          EXPECT_LE(after, contraction(mixes) * before + 1e-12) << what << ", exchange " << k;
          for (auto& each : gone) each.first = mixes.mm(each.first);
        }
        // As each worker tells of it, before the mean of all.
        double largest = 0;
        for (const auto& outcome : outcomes) largest = std::max(largest, outcome.averaging.largest_drift);
        EXPECT_NEAR(largest, simulated.largest_drift, 1e-9) << what;
        EXPECT_LE(largest * simulated.size, bound * kRounding + 1e-12) << what;
      }
}

// Of a ring (1 + 2 cos(2 pi / P)) / 3 for P of 4 and more, and nothing for fewer; of powers of two a round of turns leaves nothing.
TEST(Local, GossipForgetsAsItsTopologyDoes) {
  for (const int workers : {4, 5, 8, 16, 33}) EXPECT_NEAR(contraction_of_a_round(ring, 1, workers), (1 + 2 * std::cos(2 * M_PI / workers)) / 3, 1e-12) << workers;
  for (const int workers : {2, 3}) EXPECT_NEAR(contraction_of_a_round(ring, 1, workers), 0, 1e-12) << workers;
  for (int turns = 1; turns <= 5; ++turns) {
    const int power = 1 << turns;
    EXPECT_NEAR(contraction_of_a_round(exponential, turns, power), 0, 1e-12) << power;
    // Others leave something, but never all.
    for (int workers = power / 2 + 1; workers < power; ++workers) EXPECT_LT(contraction_of_a_round(exponential, turns, workers), 1) << workers;
  }
}

// Rows and columns of what the strategy mixes with add up to 1, and of as many workers as a power of two a round of turns gives the mean.
TEST(Local, ExponentialGossipIsTheMeanAfterARoundOfTurns) {
  constexpr int kWorkers = 8;
  std::vector<std::vector<double>> product(kWorkers, std::vector<double>(kWorkers));
  for (int i = 0; i < kWorkers; ++i) product[static_cast<std::size_t>(i)][static_cast<std::size_t>(i)] = 1;
  for (int turn = 0; turn < 3; ++turn) {
    auto next = product;
    for (int i = 0; i < kWorkers; ++i) {
      const auto row = exponential(turn, i, kWorkers);
      for (int j = 0; j < kWorkers; ++j) {
        double sum = 0;
        for (int k = 0; k < kWorkers; ++k) sum += row[static_cast<std::size_t>(k)] * product[static_cast<std::size_t>(k)][static_cast<std::size_t>(j)];
        next[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] = sum;
      }
    }
    product = next;
  }
  for (const auto& row : product)
    for (const double entry : row) EXPECT_EQ(entry, 1.0 / kWorkers);
}

TEST(Local, PostLocalIsDataParallelismBeforeItsStep) {
  for (const auto* optimizer : {"sgd", "adam"}) {
    Trial trial{"lenet", "data", 6, 4};
    trial.optimizer = optimizer;
    trial.clip = 0.5;
    const auto data = train(trial, 3);
    trial.strategy = "local[post=4,every=2]";
    const auto same = train(trial, 3);
    EXPECT_TRUE(same_bits(same[0].parameters, data[0].parameters)) << optimizer;
    EXPECT_EQ(same[0].averaging.averagings, 0);
    trial.steps = 7;
    const auto local = train(trial, 3);
    EXPECT_EQ(local[0].averaging.averagings, 2);  // after steps 5 and 6
    EXPECT_TRUE(same_bits(local[0].parameters, local[2].parameters));
    trial.strategy = "data";
    EXPECT_GT(relative_error(local[0].parameters, train(trial, 3)[0].parameters), 1e-6) << "nothing was local";
  }
}

TEST(Local, RepeatsBitByBit) {
  for (const auto* form : {"local[every=3]", "local[every=2,average=gossip]", "local[average=gossip,topology=exponential,every=1,post=2]"}) {
    Trial trial{"lenet", form, 6, 5, at::kFloat};
    EXPECT_TRUE(same_bits(train(trial, 4)[0].parameters, train(trial, 4)[0].parameters)) << form;
  }
}

TEST(Local, TrainsAlikeOnEveryDevice) {
  for (const auto* form : {"local[every=2,momentum=average]", "local[every=2,average=gossip,post=1]"}) {
    Trial trial{"lenet", form, 6, 5};
    const auto reference = train(trial, 3);
    for (const auto& device : test_devices()) {
      trial.device = device;
      const auto outcomes = train(trial, 3);
      for (const auto& outcome : outcomes) {
        EXPECT_LT(relative_error(outcome.parameters, reference[0].parameters), 1e-12) << form << " on " << device;
        EXPECT_EQ(outcome.faults, 0) << form << " on " << device << ": memory was written over while it was copied from";
      }
    }
  }
}

// The vote travels with what is averaged: all stop after the same step, with one model.
TEST(Local, OneVoteStopsAllAfterAnAveraging) {
  struct Case {
    const char* form;
    int ranks;
    std::int64_t asked, stops;
  };
  // Averagings are after steps 3, 7, 11. Gossip of 5 on a ring: heard by all after two exchanges, and the third stops; exponential: 3 turns, after 7 exchanges.
  for (const auto& [form, ranks, asked, stops] : {Case{"local[every=4]", 3, 5, 8}, Case{"local[every=4,post=20]", 3, 5, 6}, Case{"local[every=1,average=gossip]", 5, 5, 8},
                                                  Case{"local[every=2,average=gossip]", 2, 4, 8}, Case{"local[every=1,average=gossip,topology=exponential]", 5, 5, 12}})
    for (const int rank : {0, ranks - 1}) {
      Trial trial{"lenet", form, 6, 20};
      trial.ask_at = asked;
      trial.ask_rank = rank;
      const auto outcomes = train(trial, ranks);
      for (const auto& outcome : outcomes) {
        EXPECT_EQ(outcome.steps, stops) << form << ", asked on " << rank;
        EXPECT_TRUE(same_bits(outcome.parameters, outcomes[0].parameters)) << form << ", asked on " << rank;
      }
    }
}

TEST(Local, ALossThatIsNotFiniteEndsAllWorkers) {
  for (const auto* form : {"local[every=1]", "local[every=3]", "local[every=1,average=gossip]", "local[every=3,average=gossip,topology=exponential]"})
    for (const int rank : {0, 2}) {
      Trial trial{"lenet", form, 4, 9};
      trial.bright = Sampler(kSamples, trial.batch, 4, true, 3).share(1, rank).indices.at(0);
      expect_all_end_of_a_loss_that_is_not_finite(trial, 4);
    }
}

}  // namespace
}  // namespace ddl
