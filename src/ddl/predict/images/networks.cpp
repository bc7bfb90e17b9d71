#include "ddl/predict/images/networks.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/nn/builtin.h"

namespace ddl {
namespace {

using Key = std::tuple<std::string, std::vector<std::int64_t>>;

/// The two numbers of NAME(a;b).
std::optional<std::pair<int, int>> sizes_of(std::string_view model, std::string_view name) {
  if (!model.starts_with(name) || !model.ends_with(')') || model.size() <= name.size() + 1 || model[name.size()] != '(') return {};
  const auto inside = model.substr(name.size() + 1, model.size() - name.size() - 2);
  const auto at = inside.find(';');
  if (at == std::string_view::npos) return {};
  const auto number = [](std::string_view text) {
    int value = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    return failed == std::errc{} && end == text.data() + text.size() && value > 0 && value <= 10'000 ? value : 0;
  };
  const int a = number(inside.substr(0, at)), b = number(inside.substr(at + 1));
  if (a == 0 || b == 0) return {};
  return std::pair{a, b};
}

constexpr const char* kUnet = "U-Net";
constexpr const char* kAmoebaNet = "AmoebaNet-D";

const std::map<std::string, std::vector<int>>& bottlenecks_known() {
  static const std::map<std::string, std::vector<int>> known{{"resnet50", {3, 4, 6, 3}}, {"resnet101", {3, 4, 23, 3}}, {"resnet152", {3, 8, 36, 3}}};
  return known;
}

double side_of(const std::string& model, const std::vector<std::int64_t>& image, std::int64_t natural, int halvings) {
  const auto side = image.empty() ? natural : image[1];
  if (!image.empty() && (image[1] != image[2] || image[0] != 3 || halvings > 30 || side % (std::int64_t{1} << halvings) != 0))
    throw Error(Code::unsupported, fmt::format("[predict] unsupported: {} in its sequential form; got image {}, expected three channels of square images whose side halves {} times", model, to_string(image), halvings));
  return static_cast<double>(side);
}

SequentialNetwork make_sequential(const std::string& model, const std::vector<std::int64_t>& image) {
  if (const auto known = bottlenecks_known().find(model); known != bottlenecks_known().end()) return sequential_resnet(known->second, side_of(model, image, 224, 5));
  if (const auto sizes = sizes_of(model, kUnet)) return sequential_unet(sizes->first, sizes->second, side_of(model, image, 192, 5));
  if (const auto sizes = sizes_of(model, kAmoebaNet)) return sequential_amoebanet(sizes->first, sizes->second, side_of(model, image, 224, 5));
  throw Error(Code::not_found, fmt::format("[predict] no sequential form of '{}'; expected one of: resnet50 resnet101 resnet152 {}(convolutions;channels) {}(layers;filters)", model, kUnet, kAmoebaNet));
}

std::vector<std::string> names_known() {
  auto names = builtin_models().names();
  for (const auto* more : {"resnet152v2", "vgg19", "U-Net(convolutions;channels)", "AmoebaNet-D(layers;filters)"}) names.emplace_back(more);
  return names;
}

ImageOperators make_operators(const std::string& model, const std::vector<std::int64_t>& image) {
  if (is_sequential(model) && !bottlenecks_known().contains(model)) return operators_of(sequential_network(model, image));
  auto shape = natural_shape(model);
  if (!image.empty()) {
    shape.channels = static_cast<int>(image[0]);
    shape.height = static_cast<int>(image[1]);
    shape.width = static_cast<int>(image[2]);
  }
  const Spec spec{model, {}};
  if (model == "resnet152v2") return image_operators(resnet_v2(152, spec, shape));
  if (model == "vgg19") return image_operators(vgg(19, spec, shape));
  const auto all = builtin_models();
  const auto names = all.names();
  if (std::find(names.begin(), names.end(), model) == names.end())
    throw Error(Code::not_found, fmt::format("[predict] no network '{}'{}; expected one of: {}", model, did_you_mean(model, names_known()), join(names_known(), " ")));
  return image_operators(all.at(model).make(spec, shape));
}

/// What `make` gives, made once.
template <typename T>
const T& made(std::map<Key, T>& all, std::mutex& lock, const std::string& model, const std::vector<std::int64_t>& image, T (*make)(const std::string&, const std::vector<std::int64_t>&)) {
  const Key key{model, image};
  {
    const std::scoped_lock held(lock);
    if (const auto known = all.find(key); known != all.end()) return known->second;
  }
  auto value = make(model, image);
  const std::scoped_lock held(lock);
  return all.try_emplace(key, std::move(value)).first->second;
}

}  // namespace

bool is_sequential(const std::string& model) { return bottlenecks_known().contains(model) || sizes_of(model, kUnet) || sizes_of(model, kAmoebaNet); }

const ImageOperators& image_network(const std::string& model, const std::vector<std::int64_t>& image) {
  static std::map<Key, ImageOperators> all;
  static std::mutex lock;
  return made(all, lock, model, image, make_operators);
}

const SequentialNetwork& sequential_network(const std::string& model, const std::vector<std::int64_t>& image) {
  static std::map<Key, SequentialNetwork> all;
  static std::mutex lock;
  return made(all, lock, model, image, make_sequential);
}

}  // namespace ddl
