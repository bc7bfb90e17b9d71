#include "ddl/lab/comparable.h"

#include <map>
#include <set>
#include <tuple>

#include <fmt/ranges.h>

#include "ddl/core/error.h"

namespace ddl {
namespace {

struct Way {
  std::set<std::int64_t> batches;
  const Experiment* first = nullptr;
};

}  // namespace

void require_equal_batches(const std::vector<Experiment>& experiments) {
  using Work = std::tuple<std::string, std::string, std::size_t>;
  std::map<Work, std::map<std::string, Way>> ways;
  for (const auto& experiment : experiments) {
    const auto& job = experiment.job;
    const auto strategy = to_string(job.strategy);
    auto& way = ways[{to_string(job.model), job.dataset, job.workers.size()}][experiment.subject == "ddlbench" ? strategy : experiment.subject];
    way.batches.insert(job.batch);
    if (way.first == nullptr) way.first = &experiment;
  }
  for (const auto& [work, all] : ways) {
    const auto& [name, first] = *all.begin();
    for (const auto& [other_name, other] : all)
      if (other.batches != first.batches)
        throw Error(Code::invalid_argument,
                    fmt::format("{}: what is compared has the same global batch; got {} for {} and {} for {}, of {} with {} workers; expected one batch, or "
                                "--unequal-batch to compare them all the same",
                                origin_of(*other.first, "batch"), fmt::join(first.batches, ", "), name, fmt::join(other.batches, ", "), other_name,
                                std::get<0>(work), std::get<2>(work)));
  }
}

}  // namespace ddl
