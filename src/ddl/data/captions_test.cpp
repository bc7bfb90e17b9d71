#include "ddl/data/captions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/data/raw_images.h"
#include "ddl/data/scene.h"
#include "ddl/data/sentences.h"

namespace ddl {
namespace {

std::string spelled(const std::vector<std::int32_t>& words) {
  std::vector<std::string> all;
  for (const auto word : words) all.push_back(scene_words().at(static_cast<std::size_t>(word)));
  return join(all, " ");
}

const SceneObject kCircle{.figure = Figure::circle, .colour = 0, .large = true, .row = 0, .column = 1};
const SceneObject kSquare{.figure = Figure::square, .colour = 2, .large = false, .row = 1, .column = 1};
const SceneObject kCross{.figure = Figure::cross, .colour = 6, .large = true, .row = 1, .column = 2};

TEST(Scene, IsDescribedByTheGrammar) {
  EXPECT_EQ(spelled(describe_scene({{kCircle}})), "a large red circle at the top");
  EXPECT_EQ(spelled(describe_scene({{kSquare}})), "a small blue square at the centre");
  EXPECT_EQ(spelled(describe_scene({{kCross}})), "a large white cross at the right");
  const auto two = describe_scene_in_all_ways({{kSquare, kCross}});
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(spelled(two[0]), "a small blue square to the left of a large white cross");
  EXPECT_EQ(spelled(two[1]), "a large white cross to the right of a small blue square");
  const auto three = describe_scene_in_all_ways({{kCircle, kSquare, kCross}});
  ASSERT_EQ(three.size(), 6U);
  EXPECT_EQ(three[0], describe_scene({{kCircle, kSquare, kCross}}));
  EXPECT_EQ(spelled(three[0]),
            "a large red circle above a small blue square and to the upper left of a large white cross");
  EXPECT_EQ(spelled(three[5]),
            "a large white cross to the right of a small blue square and to the lower right of a large red circle");
}

TEST(Scene, SaysEveryPlaceDifferently) {
  std::set<std::string> places;
  for (int row = 0; row < 3; ++row)
    for (int column = 0; column < 3; ++column) {
      auto object = kCircle;
      object.row = row;
      object.column = column;
      places.insert(spelled(describe_scene({{object}})));
    }
  EXPECT_EQ(places.size(), 9U);
  EXPECT_TRUE(places.contains("a large red circle at the bottom left"));
}

// What an image shows is looked for again by the colours that only objects have, and compared with what the caption
// says.
TEST(Scene, ShowsWhatItSays) {
  constexpr int kSize = 96;
  const std::map<std::string, std::array<int, 3>> paint{
      {"red", {225, 30, 35}},     {"green", {30, 165, 60}},   {"blue", {35, 70, 225}},    {"yellow", {245, 220, 30}},
      {"orange", {245, 135, 20}}, {"purple", {135, 40, 170}}, {"white", {250, 250, 250}}, {"black", {10, 10, 10}}};
  const std::map<std::string, double> part{
      {"circle", 3.1416}, {"square", 3.24}, {"triangle", 2.0}, {"diamond", 2.0}, {"cross", 2.04}};
  std::vector<std::uint8_t> image(3 * kSize * kSize);
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const auto scene = draw_scene(random);
    render_scene(scene, random, kSize, image.data());
    for (const auto& object : scene.objects) {
      const auto caption = split(spelled(describe_scene({{object}})), ' ');  // a SIZE COLOUR FIGURE at the …
      const auto& wanted = paint.at(caption[2]);
      const double radius = kSize / 3.0 * (caption[1] == "large" ? 0.42 : 0.24);
      double pixels = 0, x_sum = 0, y_sum = 0;
      const int cell = kSize / 3;
      for (int y = cell * object.row; y < cell * (object.row + 1); ++y)
        for (int x = cell * object.column; x < cell * (object.column + 1); ++x) {
          bool same = true;
          for (int c = 0; c < 3; ++c)
            same = same &&
                   image[static_cast<std::size_t>((c * kSize + y) * kSize + x)] == wanted[static_cast<std::size_t>(c)];
          if (same) pixels += 1, x_sum += x, y_sum += y;
        }
      // Pixels wholly covered: the figure's area but for its edge, about half a pixel wide on each side of the outline.
      const double area = part.at(caption[3]) * radius * radius;
      EXPECT_LT(pixels, area) << seed;
      EXPECT_GT(pixels, area - 7 * radius - 6) << seed << " " << spelled(describe_scene(scene));
    }
  }
}

TEST(Scene, StaysWithinItsCells) {
  // The same background with and without objects: what differs lies in their cells.
  constexpr int kSize = 64;
  std::vector<std::uint8_t> with(3 * kSize * kSize), without(with.size());
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const auto scene = draw_scene(random);
    Random again = random;
    render_scene(scene, random, kSize, with.data());
    render_scene({}, again, kSize, without.data());
    std::set<std::pair<int, int>> cells;
    for (const auto& object : scene.objects) EXPECT_TRUE(cells.emplace(object.row, object.column).second);
    for (int y = 0; y < kSize; ++y)
      for (int x = 0; x < kSize; ++x) {
        const auto at = static_cast<std::size_t>(y * kSize + x);
        if (with[at] == without[at]) continue;
        // A cell's edge may lie within a pixel.
        bool inside = false;
        for (const auto& [row, column] : cells)
          inside = inside || (3 * y + 2 >= row * kSize && 3 * y <= (row + 1) * kSize && 3 * x + 2 >= column * kSize &&
                              3 * x <= (column + 1) * kSize);
        ASSERT_TRUE(inside) << seed << " " << x << " " << y;
      }
  }
}

TEST(Captions, AreTheSameForEveryRunAndOtherForEverySeed) {
  const auto a = open_captions({.seed = 1}), b = open_captions({.seed = 2});
  EXPECT_EQ(a.train->digest(), b.train->digest());  // the data set itself is one
  EXPECT_EQ(a.train->size(), 40'000);
  const auto c = open_captions({.synthetic = true, .seed = 1}), d = open_captions({.synthetic = true, .seed = 2});
  EXPECT_NE(c.train->digest(), d.train->digest());
  EXPECT_NE(c.train->digest(), a.train->digest());
  const auto& raw = dynamic_cast<const RawImages&>(*a.train);
  std::vector<std::uint8_t> first(static_cast<std::size_t>(a.train->shape().pixels())), second(first);
  raw.read_raw(39'999, first.data());
  dynamic_cast<const RawImages&>(*b.train).read_raw(39'999, second.data());
  EXPECT_EQ(first, second);
}

TEST(Captions, HaveEveryWordAndAllReferences) {
  const auto pair = open_captions({.synthetic = true, .seed = 1, .train_samples = 2000, .test_samples = 10});
  const auto& sentences = require_sentences(*pair.train);
  std::set<std::string> seen;
  std::map<std::size_t, int> references;
  for (std::int64_t i = 0; i < pair.train->size(); ++i) {
    std::vector<std::int64_t> target(static_cast<std::size_t>(pair.train->shape().target_length));
    pair.train->read_words(i, nullptr, target.data());
    const auto all = sentences.references(i);
    for (const auto& reference : all)
      for (const auto& word : split(reference, ' ')) seen.insert(word);
    ++references[all.size()];
    EXPECT_EQ(all.front(), sentences.text(target));
    EXPECT_EQ(std::count(all.front().begin(), all.front().end(), ' ') + 2, pair.train->weight(i));
  }
  EXPECT_EQ(seen.size() + 3, scene_words().size());  // but for padding, begin and end
  EXPECT_EQ(references.size(), 3U);
  for (const auto& [ways, times] : references) {
    EXPECT_TRUE(ways == 1 || ways == 2 || ways == 6) << ways;
    EXPECT_NEAR(times, 667, 110);
  }
}

TEST(Captions, ComeInOtherSizes) {
  const auto pair =
      open_captions({.synthetic = true, .train_samples = 2, .test_samples = 1, .options = {{"size", "224"}}});
  EXPECT_EQ(pair.train->shape().pixels(), 3 * 224 * 224);
  EXPECT_THROW(open_captions({.options = {{"size", "8"}}}), Error);
  EXPECT_THROW(open_captions({.options = {{"length", "8"}}}), Error);
}

}  // namespace
}  // namespace ddl
