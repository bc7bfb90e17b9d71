#include "ddl/collective/compression/compressions.h"

namespace ddl {
namespace {

template <typename T>
std::unique_ptr<Compressor<T>> no_compressor(const Spec&, const CompressedBuffer&) {
  return nullptr;
}

}  // namespace

Registry<Compression> builtin_compressions() {
  Registry<Compression> all("compression");
  all.add({"none", "the plain all-reduce, bit by bit", {no_compressor<float>, no_compressor<double>}});
  all.add({"fp16", "rounded to half precision, summed in it", {fp16_compressor<float>, fp16_compressor<double>}});
  all.add({"bf16", "rounded to bfloat16, summed in it", {bf16_compressor<float>, bf16_compressor<double>}});
  all.add({"int8", "255 levels of a scale for every chunk=4KiB of elements; rounding=stochastic|nearest",
           {int8_compressor<float>, int8_compressor<double>, {"chunk", "rounding", "seed", "feedback"}}});
  all.add({"top-k", "the largest elements of each rank; ratio=0.01 of them",
           {top_k_compressor<float>, top_k_compressor<double>, {"ratio", "feedback"}, true}});
  all.add({"random-k", "the same elements of all ranks, drawn anew each time; ratio=0.01 of them",
           {random_k_compressor<float>, random_k_compressor<double>, {"ratio", "seed", "feedback"}, true}});
  all.add({"power-sgd", "each matrix as the product of two thin ones; rank=2 columns each",
           {power_sgd_compressor<float>, power_sgd_compressor<double>, {"rank", "seed", "feedback"}, true}});
  return all;
}

ChosenCompression choose_compression(std::string_view text) {
  static const auto registry = builtin_compressions();
  ChosenCompression chosen{parse_spec(text), {}};
  chosen.compression = registry.at(chosen.spec.name).make;
  require_options(chosen.spec, chosen.compression.options);
  chosen.seed = seed_option(chosen.spec);
  chosen.compression.feedback = word_option(chosen.spec, "feedback", {"on", "off"}, chosen.compression.feedback ? 0 : 1) == "on";
  // So that a bad value is told here, not in the middle of training.
  chosen.compression.fp32(chosen.spec, {1});
  return chosen;
}

}  // namespace ddl
