#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "ddl/core/error.h"
#include "ddl/lab/config.h"

namespace ddl {

/// A parsed YAML file that knows where everything stands. Every member throws ddl::Error only, as
/// `file:line:column: what; got …, expected …`.
class YamlFile {
 public:
  /// Errors: not_found, io; invalid_argument for what is not one YAML document (empty, several, tabs as indentation,
  /// nesting or size beyond reason, syntax).
  explicit YamlFile(const std::string& path);

  const YAML::Node& root() const { return root_; }

  /// `file:line:column` of a node, counted from 1.
  std::string at(const YAML::Node& node) const;
  [[nodiscard]] Error error(const YAML::Node& node, const std::string& what) const;

  /// Entries of a mapping with scalar keys; a key given twice is refused. `what` names it in messages.
  struct Field {
    std::string key;
    YAML::Node key_node, value;
  };
  std::vector<Field> fields(const YAML::Node& node, const std::string& what) const;
  /// Elements of a list.
  std::vector<YAML::Node> elements(const YAML::Node& node, const std::string& what) const;
  /// Text of a scalar.
  std::string scalar(const YAML::Node& node, const std::string& what) const;

  /// A mapping of experiment keys: unknown keys and values that do not fit are refused.
  Settings settings(const YAML::Node& node, const std::string& what) const;

 private:
  std::string path_;
  YAML::Node root_;
};

/// Runs `read`, so that nothing but ddl::Error leaves it, whatever yaml-cpp throws.
void guard_yaml(const std::string& path, const std::function<void()>& read);

}  // namespace ddl
