#include "ddl/data/image_set.h"

#include <cstring>

#include "ddl/core/hash.h"

namespace ddl {

Normalisation normalisation_of(const ImageBytes& content) {
  NormalisationSum sum(content.shape);
  for (std::int64_t i = 0; i < content.samples(); ++i) sum.add(content.images.data() + i * content.shape.pixels());
  return sum.result();
}

ImageSet::ImageSet(ImageBytes content, Normalisation normalisation)
    : content_(std::move(content)),
      normalisation_(std::move(normalisation)),
      normaliser_(content_.shape, normalisation_) {
  const auto& shape = content_.shape;
  invariant(content_.images.size() == content_.labels.size() * static_cast<std::size_t>(shape.pixels()),
            "an image set has one label per image");
  Hasher hasher;
  hasher.add(fmt::format("{}x{}x{}/{}", shape.channels, shape.height, shape.width, shape.classes));
  hasher.add(std::as_bytes(std::span(content_.images))).add(std::as_bytes(std::span(content_.labels)));
  digest_ = hasher.digest();
}

const std::uint8_t* ImageSet::image(std::int64_t index) const {
  require_sample(index, size());
  return content_.images.data() + index * content_.shape.pixels();
}

std::int64_t ImageSet::read(std::int64_t index, float* to) const {
  normaliser_.apply(image(index), to);
  return content_.labels[static_cast<std::size_t>(index)];
}

std::int64_t ImageSet::read_raw(std::int64_t index, std::uint8_t* to) const {
  std::memcpy(to, image(index), static_cast<std::size_t>(content_.shape.pixels()));
  return content_.labels[static_cast<std::size_t>(index)];
}

}  // namespace ddl
