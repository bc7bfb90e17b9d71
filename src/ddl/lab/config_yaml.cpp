#include "ddl/lab/config_yaml.h"

#include <sys/stat.h>

#include <map>
#include <sstream>

#include <yaml-cpp/eventhandler.h>

#include "ddl/core/json.h"
#include "ddl/lab/config_keys.h"
#include "ddl/lab/config_values.h"

namespace ddl {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;
constexpr int kMostDepth = 32;

std::string place(const std::string& path, int line, int column) {
  return line < 0 ? path : fmt::format("{}:{}:{}", path, line + 1, column + 1);
}

std::string kind(const YAML::Node& node) {
  switch (node.Type()) {
    case YAML::NodeType::Map: return "a mapping";
    case YAML::NodeType::Sequence: return "a list";
    case YAML::NodeType::Scalar: return in_quotes(node.Scalar());
    default: return "nothing";
  }
}

std::string readable(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) throw Error(Code::not_found, fmt::format("{}: no such file", path));
  if (!S_ISREG(found.st_mode) && !S_ISFIFO(found.st_mode) && !S_ISCHR(found.st_mode))
    throw Error(Code::invalid_argument, fmt::format("{}: not a file; expected a YAML file", path));
  if (static_cast<std::size_t>(found.st_size) > kMostBytes)
    throw Error(Code::invalid_argument,
                fmt::format("{}: too large; got {} bytes, expected at most {}", path, found.st_size, kMostBytes));
  return read_file(path);
}

/// What yaml-cpp would blame on something else, or meet with unbounded recursion.
void check_shape(const std::string& path, const std::string& text) {
  int line = 0, column = 0, depth = 0;
  bool leading = true;
  int dashes = 0;
  for (const char c : text) {
    if (c == '\n') {
      ++line;
      column = -1;
      leading = true;
      dashes = 0;
    } else if (leading && c == '\t') {
      throw Error(Code::invalid_argument,
                  fmt::format("{}: tab used as indentation; expected spaces", place(path, line, column)));
    } else if (c == '\0') {
      throw Error(Code::invalid_argument, fmt::format("{}: zero byte; expected text", place(path, line, column)));
    } else {
      if (c == '-' || c == '?') ++dashes;
      leading = leading && c == ' ';
      if (c == '[' || c == '{') ++depth;
      if ((c == ']' || c == '}') && depth > 0) --depth;
      if (depth > kMostDepth || dashes > 1000)
        throw Error(Code::invalid_argument,
                    fmt::format("{}: nested too deep; expected at most {} levels", place(path, line, column), kMostDepth));
    }
    ++column;
  }
}

/// Notices where documents start.
class DocumentCounter : public YAML::EventHandler {
 public:
  int count = 0;
  YAML::Mark last;

  void OnDocumentStart(const YAML::Mark& mark) override {
    ++count;
    last = mark;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

/// Not YAML::LoadAll: version 0.7 makes empty documents for ever of a text that begins with a comma.
void refuse_second_document(const std::string& path, const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  DocumentCounter counter;
  if (parser.HandleNextDocument(counter) && parser.HandleNextDocument(counter) && counter.count > 1)
    throw Error(Code::invalid_argument, fmt::format("{}: several documents; expected one",
                                                    place(path, counter.last.line, counter.last.column)));
}

}  // namespace

void guard_yaml(const std::string& path, const std::function<void()>& read) {
  try {
    read();
  } catch (const Error&) {
    throw;
  } catch (const YAML::Exception& error) {
    throw Error(Code::invalid_argument, fmt::format("{}: not YAML: {}", place(path, error.mark.line, error.mark.column), error.msg));
  } catch (const std::exception& error) {
    throw Error(Code::invalid_argument, fmt::format("{}: cannot be read as YAML: {}", path, error.what()));
  }
}

YamlFile::YamlFile(const std::string& path) : path_(path) {
  const auto text = readable(path);
  check_shape(path, text);
  guard_yaml(path, [&] {
    root_.reset(YAML::Load(text));
    if (root_.IsNull()) throw Error(Code::invalid_argument, fmt::format("{}: empty; expected a mapping of keys", path));
    refuse_second_document(path, text);
  });
}

std::string YamlFile::at(const YAML::Node& node) const {
  const auto mark = node.Mark();
  return place(path_, mark.line, mark.column);
}

Error YamlFile::error(const YAML::Node& node, const std::string& what) const {
  return Error(Code::invalid_argument, at(node) + ": " + what);
}

std::vector<YamlFile::Field> YamlFile::fields(const YAML::Node& node, const std::string& what) const {
  if (!node.IsMap()) throw error(node, fmt::format("{}: wrong type; got {}, expected a mapping", what, kind(node)));
  std::vector<Field> all;
  std::map<std::string, std::string> seen;
  for (const auto& entry : node) {
    if (!entry.first.IsScalar()) throw error(entry.first, fmt::format("{}: a key must be a word; got {}", what, kind(entry.first)));
    const auto key = entry.first.Scalar();
    const auto [earlier, added] = seen.emplace(key, at(entry.first));
    if (!added) throw error(entry.first, fmt::format("key {} given twice; first at {}", in_quotes(key), earlier->second));
    all.push_back({key, entry.first, entry.second});
  }
  return all;
}

std::vector<YAML::Node> YamlFile::elements(const YAML::Node& node, const std::string& what) const {
  if (!node.IsSequence()) throw error(node, fmt::format("{}: wrong type; got {}, expected a list", what, kind(node)));
  std::vector<YAML::Node> all;
  for (const auto& element : node) all.push_back(element);
  return all;
}

std::string YamlFile::scalar(const YAML::Node& node, const std::string& what) const {
  if (!node.IsScalar())
    throw error(node, fmt::format("{}: wrong type; got {}, expected one value{}", what, kind(node),
                                  node.IsSequence() ? " (write a value with brackets in quotes)" : ""));
  return node.Scalar();
}

Settings YamlFile::settings(const YAML::Node& node, const std::string& what) const {
  Settings all;
  for (const auto& field : fields(node, what)) {
    const auto* binding = find_binding(field.key);
    if (binding == nullptr) throw error(field.key_node, unknown_key(field.key));
    // yaml-cpp places a missing value on the line after its key.
    if (field.value.IsNull()) throw error(field.key_node, fmt::format("{}: no value; got nothing, expected one value", field.key));
    const auto value = scalar(field.value, field.key);
    set(all, field.key, value, at(field.value));
  }
  return all;
}

}  // namespace ddl
