#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddl/data/dataset.h"

namespace ddl {

/// Refuses options in brackets that a data set does not have. Errors: invalid_argument with the nearest that it has.
void require_options(const std::string& dataset, const DatasetOptions& options, const std::vector<std::string>& known);

/// The option of that name, or what stands for it where it is not given. Errors: invalid_argument, naming data set and
/// option.
std::int64_t integer_option(const std::string& dataset, const DatasetOptions& options, const std::string& key,
                            std::int64_t standard, std::int64_t low, std::int64_t high);
std::string text_option(const DatasetOptions& options, const std::string& key, const std::string& standard);

/// How many samples of a made-up data set: what was asked for, else as many as `standard`.
/// Errors: invalid_argument where it is negative.
std::int64_t samples_option(std::int64_t asked, std::int64_t standard);

/// Where files may be: the folder that was asked for alone (a mistyped name must not be answered with other data), else
/// $DDLBENCH_DATA/<name> where that is set, then `system` ones.
std::vector<std::string> data_places(const std::string& name, const DatasetOptions& options,
                                     const std::vector<std::string>& system);

}  // namespace ddl
