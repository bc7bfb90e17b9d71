#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ddl/core/random.h"

namespace ddl {

/// What an object of a scene may be. Their numbers and order are part of the vocabulary.
enum class Figure : std::uint8_t { circle, square, triangle, diamond, cross };
inline constexpr int kFigures = 5;
inline constexpr int kColours = 8;

/// One object, in a cell of its own of a grid of three by three.
struct SceneObject {
  Figure figure;
  int colour;  ///< 0 … kColours-1
  bool large;
  int row, column;  ///< 0 … 2 from the top left
  int down, right;  ///< off the cell's centre, in 1/256 of the way it can go without leaving the cell: -256 … 256
};

/// One to three objects in reading order: top to bottom, then left to right.
struct Scene {
  std::vector<SceneObject> objects;
};

/// Draws a scene. Every number of objects, cell, figure, colour and size is equally likely.
Scene draw_scene(Random& random);

/// Renders it as 3 x size x size bytes: a smooth background of muted colours under grain, objects antialiased in their
/// pure colours (4x4 samples a pixel). Integer arithmetic throughout: the same bytes on every machine. size is 16 or
/// more.
void render_scene(const Scene& scene, Random& random, int size, std::uint8_t* image);

/// What the grammar says of a scene, as words, with its objects in the given order: a permutation of 0 … objects-1,
/// which is reading order.
///   object    a SIZE COLOUR FIGURE                                  size: small large
///   one       OBJECT at the PLACE                                   top left, top, …, centre, …, bottom right
///   two       OBJECT RELATION OBJECT
///   three     OBJECT RELATION OBJECT and RELATION OBJECT            both relations are the first object's
/// relations: above, below, to the left of, to the right of, to the upper left of, … to the lower right of: by cells.
std::vector<std::int32_t> describe_scene(const Scene& scene, std::span<const std::size_t> order);

/// In reading order, and in every order: 1, 2 or 6 ways, reading order first.
std::vector<std::int32_t> describe_scene(const Scene& scene);
std::vector<std::vector<std::int32_t>> describe_scene_in_all_ways(const Scene& scene);

/// Words by number, special ones (padding, begin, end) first: part of the data set, never reordered.
const std::vector<std::string>& scene_words();

/// Words of the longest description.
inline constexpr int kLongestDescription = 4 + 5 + 4 + 1 + 5 + 4;

}  // namespace ddl
