#include "ddl/train/learning_rate.h"

#include <charconv>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "ddl/core/error.h"
#include "ddl/core/options.h"
#include "ddl/core/text.h"

namespace ddl {
namespace {

/// `500` or `500steps`, `5epochs`; in steps.
double span_option(const Spec& spec, const std::string& name, std::int64_t steps_per_epoch, double least) {
  const auto& text = spec.options.at(name);
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  const double steps = unit == "epochs" || unit == "epoch" ? value * static_cast<double>(steps_per_epoch) : value;
  const bool known = unit.empty() || unit == "steps" || unit == "step" || unit == "epochs" || unit == "epoch";
  if (error != std::errc{} || !known || !std::isfinite(steps) || steps < least || steps > 1e15)
    throw Error(Code::invalid_argument, fmt::format("[{}] {}; got '{}', expected steps or epochs, as in 500 or 5epochs", spec.name, name, text));
  return std::round(steps);
}

}  // namespace

LearningRate::LearningRate(const Spec& schedule, double peak, std::int64_t steps, std::int64_t steps_per_epoch)
    : peak_(peak), steps_(static_cast<double>(steps)) {
  std::vector<std::string> options{"warmup"};
  if (schedule.name == "constant") {
    shape_ = Shape::constant;
  } else if (schedule.name == "step") {
    shape_ = Shape::step;
    options.insert(options.end(), {"every", "factor"});
  } else if (schedule.name == "cosine") {
    shape_ = Shape::cosine;
  } else if (schedule.name == "inverse-sqrt") {
    shape_ = Shape::inverse_sqrt;
  } else {
    const std::vector<std::string> known{"constant", "step", "cosine", "inverse-sqrt"};
    throw Error(Code::invalid_argument, fmt::format("unknown choice; got '{}'{}, expected one of: {}", schedule.name,
                                                    did_you_mean(schedule.name, known), join(known, " ")));
  }
  require_options(schedule, options);
  if (schedule.options.contains("warmup")) warmup_ = span_option(schedule, "warmup", steps_per_epoch, 0);
  if (shape_ == Shape::inverse_sqrt && warmup_ < 1)
    throw Error(Code::invalid_argument, "[inverse-sqrt] falls from the end of its warm-up; got none, expected inverse-sqrt[warmup=STEPS]");
  if (shape_ != Shape::step) return;
  if (!schedule.options.contains("every"))
    throw Error(Code::invalid_argument, "[step] falls every so often; got no 'every', expected as in step[every=30epochs]");
  every_ = span_option(schedule, "every", steps_per_epoch, 1);
  factor_ = number_option(schedule, "factor", factor_, 0, 1);
}

double LearningRate::at(std::int64_t step) const {
  const auto s = static_cast<double>(step);
  if (s < warmup_) return peak_ * (s + 1) / warmup_;
  switch (shape_) {
    case Shape::constant: return peak_;
    case Shape::step: return peak_ * std::pow(factor_, std::floor(s / every_));
    case Shape::cosine: return 0.5 * peak_ * (1 + std::cos(std::numbers::pi * (s - warmup_) / (steps_ - warmup_)));
    case Shape::inverse_sqrt: return peak_ * std::sqrt(warmup_ / (s + 1));
  }
  return peak_;
}

}  // namespace ddl
