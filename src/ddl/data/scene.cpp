#include "ddl/data/scene.h"

#include <algorithm>
#include <numeric>

namespace ddl {
namespace {

constexpr int kCells = 3;
constexpr int kSamples = 4;  // each way, per pixel

using Colour = std::array<std::uint8_t, 3>;
constexpr std::array<Colour, kColours> kPaint{{{225, 30, 35},
                                               {30, 165, 60},
                                               {35, 70, 225},
                                               {245, 220, 30},
                                               {245, 135, 20},
                                               {135, 40, 170},
                                               {250, 250, 250},
                                               {10, 10, 10}}};

/// Whether a point lies in a figure of radius `r` about the origin, y downwards.
bool inside(Figure figure, std::int64_t x, std::int64_t y, std::int64_t r) {
  const auto ax = x < 0 ? -x : x, ay = y < 0 ? -y : y;
  switch (figure) {
    case Figure::circle: return x * x + y * y <= r * r;
    case Figure::square: return 10 * std::max(ax, ay) <= 9 * r;
    case Figure::triangle: return y <= r && 2 * ax <= y + r;  // apex at the top
    case Figure::diamond: return ax + ay <= r;
    case Figure::cross: return std::max(ax, ay) <= r && 10 * std::min(ax, ay) <= 3 * r;
  }
  return false;
}

/// Values of a coarse lattice, read in between: smooth over the image, in 1/256.
class Smooth {
 public:
  explicit Smooth(Random& random) {
    for (auto& value : values_) value = static_cast<int>(80 + random.below(97));
  }
  int at(int x, int y, int size) const {
    const int along = x * (kSide - 1) * 256 / size, down = y * (kSide - 1) * 256 / size;
    const int fx = along % 256, fy = down % 256;
    const auto* corner = values_.data() + (down / 256) * kSide + along / 256;
    const int top = corner[0] * (256 - fx) + corner[1] * fx,
              bottom = corner[kSide] * (256 - fx) + corner[kSide + 1] * fx;
    return (top * (256 - fy) + bottom * fy) >> 8;
  }

 private:
  static constexpr int kSide = 5;
  std::array<int, kSide * kSide> values_{};
};

void paint(const SceneObject& object, int size, std::uint8_t* image) {
  // In 1/16 pixel: a cell, the figure's radius, and how far its centre may move within.
  const int cell = 16 * size / kCells;
  const int radius = cell * (object.large ? 42 : 24) / 100;
  const int room = cell / 2 - radius;
  const int cx = cell * object.column + cell / 2 + room * object.right / 256,
            cy = cell * object.row + cell / 2 + room * object.down / 256;
  const auto& colour = kPaint[static_cast<std::size_t>(object.colour)];
  const auto first = [&](int centre) { return std::max(0, (centre - radius) / 16); };
  const auto last = [&](int centre) { return std::min(size - 1, (centre + radius) / 16); };
  constexpr int kAll = kSamples * kSamples;
  for (int y = first(cy); y <= last(cy); ++y)
    for (int x = first(cx); x <= last(cx); ++x) {
      int covered = 0;
      for (int sy = 0; sy < kSamples; ++sy)
        for (int sx = 0; sx < kSamples; ++sx)
          covered += inside(object.figure, 16 * x + 4 * sx + 2 - cx, 16 * y + 4 * sy + 2 - cy, radius) ? 1 : 0;
      for (int channel = 0; channel < 3 && covered > 0; ++channel) {
        auto& pixel = image[(channel * size + y) * size + x];
        pixel = static_cast<std::uint8_t>(
            (pixel * (kAll - covered) + colour[static_cast<std::size_t>(channel)] * covered + kAll / 2) / kAll);
      }
    }
}

// Order is part of the data set.
enum Word : std::int32_t {
  kA = 3,
  kSmall,
  kLarge,
  kFirstColour,
  kFirstFigure = kFirstColour + kColours,
  kAt = kFirstFigure + kFigures,
  kThe,
  kTop,
  kBottom,
  kLeft,
  kRight,
  kCentre,
  kTo,
  kOf,
  kAbove,
  kBelow,
  kUpper,
  kLower,
  kAnd
};

using Words = std::vector<std::int32_t>;

void say_object(const SceneObject& object, Words& words) {
  words.insert(words.end(), {kA, object.large ? kLarge : kSmall, kFirstColour + object.colour,
                             kFirstFigure + static_cast<std::int32_t>(object.figure)});
}

void say_place(const SceneObject& object, Words& words) {
  words.insert(words.end(), {kAt, kThe});
  if (object.row != 1) words.push_back(object.row == 0 ? kTop : kBottom);
  if (object.column != 1) words.push_back(object.column == 0 ? kLeft : kRight);
  if (object.row == 1 && object.column == 1) words.push_back(kCentre);
}

/// Where `a` is as seen from `b`.
void say_relation(const SceneObject& a, const SceneObject& b, Words& words) {
  if (a.column == b.column) return words.push_back(a.row < b.row ? kAbove : kBelow);
  words.insert(words.end(), {kTo, kThe});
  if (a.row != b.row) words.push_back(a.row < b.row ? kUpper : kLower);
  words.insert(words.end(), {a.column < b.column ? kLeft : kRight, kOf});
}

}  // namespace

Scene draw_scene(Random& random) {
  const auto number = static_cast<std::size_t>(1 + random.below(3));
  std::array<int, kCells * kCells> cells{};
  std::iota(cells.begin(), cells.end(), 0);
  for (std::size_t i = 0; i < number; ++i) std::swap(cells[i], cells[i + random.below(cells.size() - i)]);
  std::sort(cells.begin(), cells.begin() + static_cast<std::ptrdiff_t>(number));
  Scene scene;
  for (std::size_t i = 0; i < number; ++i) {
    SceneObject object{};
    object.figure = static_cast<Figure>(random.below(kFigures));
    object.colour = static_cast<int>(random.below(kColours));
    object.large = random.below(2) == 1;
    object.row = cells[i] / kCells;
    object.column = cells[i] % kCells;
    object.down = static_cast<int>(random.below(513)) - 256;
    object.right = static_cast<int>(random.below(513)) - 256;
    scene.objects.push_back(object);
  }
  return scene;
}

void render_scene(const Scene& scene, Random& random, int size, std::uint8_t* image) {
  const int plane = size * size;
  for (int channel = 0; channel < 3; ++channel) {
    const Smooth smooth(random);
    auto* pixel = image + channel * plane;
    for (int y = 0; y < size; ++y)
      for (int x = 0; x < size; x += 8) {
        auto bits = random.bits();  // eight bytes of grain
        for (int i = x; i < std::min(x + 8, size); ++i, bits >>= 8)
          *pixel++ = static_cast<std::uint8_t>(
              std::clamp((smooth.at(i, y, size) >> 8) + static_cast<int>(bits & 31) - 16, 0, 255));
      }
  }
  for (const auto& object : scene.objects) paint(object, size, image);
}

Words describe_scene(const Scene& scene, std::span<const std::size_t> order) {
  const auto& objects = scene.objects;
  const auto& first = objects[order[0]];
  Words words;
  say_object(first, words);
  if (objects.size() == 1) say_place(first, words);
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (i > 1) words.push_back(kAnd);
    say_relation(first, objects[order[i]], words);
    say_object(objects[order[i]], words);
  }
  return words;
}

Words describe_scene(const Scene& scene) {
  static constexpr std::array<std::size_t, 3> kReading{0, 1, 2};
  return describe_scene(scene, std::span(kReading).first(scene.objects.size()));
}

std::vector<Words> describe_scene_in_all_ways(const Scene& scene) {
  std::vector<std::size_t> order(scene.objects.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<Words> all;
  do all.push_back(describe_scene(scene, order));
  while (std::next_permutation(order.begin(), order.end()));
  return all;
}

const std::vector<std::string>& scene_words() {
  static const std::vector<std::string> words{
      "<padding>", "<begin>", "<end>", "a",      "small",  "large",    "red",     "green", "blue",  "yellow", "orange",
      "purple",    "white",   "black", "circle", "square", "triangle", "diamond", "cross", "at",    "the",    "top",
      "bottom",    "left",    "right", "centre", "to",     "of",       "above",   "below", "upper", "lower",  "and"};
  return words;
}

}  // namespace ddl
