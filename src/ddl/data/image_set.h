#pragma once

#include <string>
#include <vector>

#include "ddl/data/raw_images.h"

namespace ddl {

/// Images and labels as bytes in memory: samples x channels x height x width, and one label each.
struct ImageBytes {
  SampleShape shape;
  std::vector<std::uint8_t> images;
  std::vector<std::uint8_t> labels;

  std::int64_t samples() const { return static_cast<std::int64_t>(labels.size()); }
};

Normalisation normalisation_of(const ImageBytes& content);

/// A data set held in memory as bytes and normalised as it is read. digest() is the hash of shape, images and labels.
class ImageSet final : public Dataset, public RawImages {
 public:
  ImageSet(ImageBytes content, Normalisation normalisation);

  std::int64_t size() const override { return content_.samples(); }
  SampleShape shape() const override { return content_.shape; }
  std::int64_t read(std::int64_t index, float* image) const override;
  std::string digest() const override { return digest_; }

  std::int64_t read_raw(std::int64_t index, std::uint8_t* image) const override;
  const Normalisation& normalisation() const override { return normalisation_; }

 private:
  const std::uint8_t* image(std::int64_t index) const;

  ImageBytes content_;
  Normalisation normalisation_;
  Normaliser normaliser_;
  std::string digest_;
};

}  // namespace ddl
