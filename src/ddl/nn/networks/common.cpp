#include "ddl/nn/networks/common.h"

#include <charconv>
#include <vector>

#include "ddl/core/error.h"
#include "ddl/core/text.h"

namespace ddl {
namespace {

const char* name_of(Objective objective) {
  switch (objective) {
    case Objective::classification: return "images with labels";
    case Objective::language: return "text";
    case Objective::translation: return "sentences with their translations";
    case Objective::captioning: return "images with captions";
  }
  return "";
}

}  // namespace

void require_objective(const std::string& network, const SampleShape& shape, Objective objective) {
  if (shape.objective != objective)
    throw Error(Code::invalid_argument, fmt::format("[{}] learns from {}; got a data set of {}", network, name_of(objective), name_of(shape.objective)));
  const bool image = objective == Objective::classification || objective == Objective::captioning;
  const bool source = objective == Objective::translation, target = objective != Objective::classification;
  if (shape.classes < 1 || (image && shape.pixels() < 1) || (source && shape.source_length < 1) || (target && shape.target_length < 2))
    throw Error(Code::invalid_argument,
                fmt::format("[{}] samples are empty; got images of {}x{}x{}, {} and {} words, {} classes", network, shape.channels, shape.height,
                            shape.width, shape.source_length, shape.target_length, shape.classes));
}

GraphBuilder for_images(const std::string& network, const SampleShape& shape, int at_least) {
  require_objective(network, shape, Objective::classification);
  if (shape.height < at_least || shape.width < at_least)
    throw Error(Code::invalid_argument, fmt::format("[{}] takes images of at least {}x{}; got {}x{}", network, at_least, at_least, shape.height, shape.width));
  return GraphBuilder(network, {shape.channels, shape.height, shape.width});
}

std::int64_t whole_option(const Spec& spec, const std::string& key, std::int64_t standard, std::int64_t low, std::int64_t high) {
  const auto found = spec.options.find(key);
  if (found == spec.options.end()) return standard;
  const auto& text = found->second;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < low || value > high)
    throw Error(Code::invalid_argument, fmt::format("[{}] {} is a whole number; got '{}', expected {} to {}", spec.name, key, text, low, high));
  return value;
}

double part_option(const Spec& spec, const std::string& key, double standard) {
  const auto found = spec.options.find(key);
  if (found == spec.options.end()) return standard;
  const auto& text = found->second;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value >= 0 && value < 1))
    throw Error(Code::invalid_argument, fmt::format("[{}] {} is a part; got '{}', expected 0 to less than 1", spec.name, key, text));
  return value;
}

std::string word_option(const Spec& spec, const std::string& key, std::initializer_list<std::string> words) {
  const std::vector<std::string> known(words);
  const auto found = spec.options.find(key);
  if (found == spec.options.end()) return known.front();
  for (const auto& word : known)
    if (word == found->second) return word;
  throw Error(Code::invalid_argument, fmt::format("[{}] {} is one of: {}; got '{}'{}", spec.name, key, join(known, " "), found->second,
                                                  did_you_mean(found->second, known)));
}

}  // namespace ddl
