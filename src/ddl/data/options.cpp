#include "ddl/data/options.h"

#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "ddl/core/error.h"
#include "ddl/core/spec.h"

namespace ddl {

void require_options(const std::string& dataset, const DatasetOptions& options, const std::vector<std::string>& known) {
  require_options(Spec{dataset, options.options}, known);
}

std::int64_t integer_option(const std::string& dataset, const DatasetOptions& options, const std::string& key,
                            std::int64_t standard, std::int64_t low, std::int64_t high) {
  const auto found = options.options.find(key);
  if (found == options.options.end()) return standard;
  const auto& text = found->second;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < low || value > high)
    throw Error(Code::invalid_argument,
                fmt::format("[{}] {}; got '{}', expected {} to {}", dataset, key, text, low, high));
  return value;
}

std::string text_option(const DatasetOptions& options, const std::string& key, const std::string& standard) {
  const auto found = options.options.find(key);
  return found == options.options.end() ? standard : found->second;
}

std::int64_t samples_option(std::int64_t asked, std::int64_t standard) {
  if (asked < 0)
    throw Error(Code::invalid_argument,
                fmt::format("[synthetic] samples; got {}, expected 1 or more, or 0 for {}", asked, standard));
  return asked != 0 ? asked : standard;
}

std::vector<std::string> data_places(const std::string& name, const DatasetOptions& options,
                                     const std::vector<std::string>& system) {
  if (!options.folder.empty()) return {options.folder};
  std::vector<std::string> all;
  const char* root = std::getenv("DDLBENCH_DATA");
  if (root != nullptr && *root != '\0') all.push_back((std::filesystem::path(root) / name).string());
  all.insert(all.end(), system.begin(), system.end());
  return all;
}

}  // namespace ddl
