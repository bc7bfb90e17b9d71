#include "ddl/strategy/pipeline_tasks/layout.h"

#include <algorithm>

#include "ddl/core/at.h"
#include "ddl/core/numbers.h"
#include "ddl/nn/split/split.h"
#include "ddl/strategy/common.h"
#include "ddl/strategy/stages.h"
#include "ddl/strategy/value_widths.h"

namespace ddl {
namespace {

/// The first layers of all segments.
std::vector<int> cuts_of_segments(const ModelGraph& graph, std::vector<int> cuts) {
  for (int layer = 1; layer < static_cast<int>(graph.layers.size()); ++layer)
    if (communicates(graph.layers[at(layer)])) cuts.push_back(layer);
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

/// What of a crossing learns.
Crossing learning_part(const Crossing& crossing) {
  Crossing part{crossing.from, crossing.to};
  for (std::size_t value = 0; value < crossing.layers.size(); ++value)
    if (crossing.learns[value]) part.layers.push_back(crossing.layers[value]);
  return part;
}

}  // namespace

PipelineLayout::PipelineLayout(const StrategyInput& of, const Pipeline& form)
    : input(of),
      pipeline(form),
      memory(of),
      samples((local_batch(of, form.replicas * form.shards) + form.micro_batches - 1) / form.micro_batches),
      parameter_bytes(ddl::parameter_bytes(of)),
      value_bytes(ValueWidths(of).bytes),
      segments(make_stages(of.graph, cuts_of_segments(of.graph, form.cuts))),
      segments_of_stage(form.cuts.size()),
      stages_of_place(at(form.order.workers())),
      into(segments.size()),
      out_of(segments.size()) {
  for (int segment = 0, stage = 0; segment < static_cast<int>(segments.size()); ++segment) {
    if (at(stage) + 1 < form.cuts.size() && segments[at(segment)].first == form.cuts[at(stage) + 1]) ++stage;
    stage_of_segment.push_back(stage);
    segments_of_stage[at(stage)].push_back(segment);
  }
  for (int stage = 0; stage < form.order.stages(); ++stage)
    for (const int place : places_of(stage)) stages_of_place[at(place)].push_back(stage);
  for (const auto& crossing : ddl::crossings(of.graph, segments)) {
    const auto learning = learning_part(crossing);
    const int number = static_cast<int>(crossings.size());
    into[at(crossing.to)].push_back(number);
    out_of[at(crossing.from)].push_back(number);
    crossings.push_back({crossing.from, crossing.to, place_of(crossing.from, 0) != place_of(crossing.to, 0), !learning.layers.empty(),
                         bytes_of(of.graph, crossing, samples, value_bytes), bytes_of(of.graph, learning, samples, value_bytes)});
  }
}

int PipelineLayout::place_of(int segment, int micro_batch) const { return pipeline.order.worker_of(stage_of_segment[at(segment)], micro_batch); }

std::vector<int> PipelineLayout::places_of(int stage) const {
  auto all = first_numbers(pipeline.order.replicas_of(stage));
  for (int& place : all) place += pipeline.order.worker_of_stage[at(stage)];
  return all;
}

std::vector<int> PipelineLayout::segments_at(int place) const {
  std::vector<int> all;
  for (const int stage : stages_at(place)) all.insert(all.end(), segments_of_stage[at(stage)].begin(), segments_of_stage[at(stage)].end());
  return all;
}

std::vector<int> PipelineLayout::parameters_at(int place) const {
  std::vector<int> all;
  for (const int segment : segments_at(place)) all.insert(all.end(), segments[at(segment)].parameters.begin(), segments[at(segment)].parameters.end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

bool PipelineLayout::gives_back(int segment) const {
  return std::any_of(into[at(segment)].begin(), into[at(segment)].end(), [&](int crossing) { return crossings[at(crossing)].returns; });
}

std::vector<Action> PipelineLayout::by_segment(const Action& action) const {
  std::vector<Action> passes;
  for (const int segment : segments_of_stage[at(action.stage)]) {
    passes.push_back(action);
    passes.back().stage = segment;
  }
  if (!is_forward(action.pass)) std::reverse(passes.begin(), passes.end());
  return passes;
}

}  // namespace ddl
