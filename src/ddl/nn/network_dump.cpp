// network_dump SPEC classification|language|translation|captioning,C,H,W,CLASSES,SOURCE,TARGET BATCH fp32|fp64 fast|torch FILE
//
// One step of a network in training, for tests/numerics_test.py to repeat in PyTorch: FILE gets every tensor as a line
// `name type dimensions…` and its bytes. Loss: mean cross-entropy, with 0.3 of the auxiliary head's. `evaluated` are the logits in
// evaluation, with the statistics that the step left.
#include <cstdio>
#include <fstream>
#include <iostream>

#include <c10/core/GradMode.h>

#include "ddl/core/error.h"
#include "ddl/core/spec.h"
#include "ddl/core/text.h"
#include "ddl/nn/model.h"
#include "ddl/nn/network_testing.h"

namespace ddl {
namespace {

Objective objective_of(const std::string& word) {
  if (word == "classification") return Objective::classification;
  if (word == "language") return Objective::language;
  if (word == "translation") return Objective::translation;
  if (word == "captioning") return Objective::captioning;
  throw Error(Code::invalid_argument, fmt::format("[network_dump] unknown objective; got '{}'", word));
}

SampleShape shape_of(const std::string& text) {
  const auto parts = split(text, ',');
  if (parts.size() != 7) throw Error(Code::invalid_argument, fmt::format("[network_dump] a shape has seven parts; got '{}'", text));
  const auto number = [&](std::size_t i) { return std::stoi(parts[i]); };
  return {number(1), number(2), number(3), number(4), objective_of(parts[0]), number(5), number(6)};
}

class File {
 public:
  explicit File(const std::string& path) : out_(path, std::ios::binary) {}

  void write(const std::string& name, const at::Tensor& tensor) {
    const auto dense = tensor.detach().to(at::kCPU).contiguous();
    out_ << name << ' ' << (dense.scalar_type() == at::kLong ? "int64" : dense.scalar_type() == at::kDouble ? "fp64" : "fp32");
    for (const auto size : dense.sizes()) out_ << ' ' << size;
    out_ << '\n';
    out_.write(static_cast<const char*>(dense.const_data_ptr()), static_cast<std::streamsize>(dense.nbytes()));
  }
  void close() {
    out_.close();
    if (!out_) throw Error(Code::io, "[network_dump] the file cannot be written");
  }

 private:
  std::ofstream out_;
};

void dump(const std::vector<std::string>& arguments) {
  const auto spec = parse_spec(arguments.at(0));
  const auto shape = shape_of(arguments.at(1));
  const auto type = arguments.at(3) == "fp64" ? at::kDouble : at::kFloat;
  Network net(make_model(spec, shape), {type, at::kCPU, arguments.at(4) == "torch" ? Kernels::torch : Kernels::fast, 7});
  auto given = made_up_samples(std::stoll(arguments.at(2)), shape, type);
  if (given.input.images.defined()) given.input.images = given.input.images.contiguous(net.memory_format());

  File file(arguments.at(5));
  file.write("kept_elements", at::full({1}, net.graph().kept_elements(), at::kLong));
  for (const auto& [name, tensor] : {std::pair{"images", given.input.images}, {"source", given.input.source}, {"target", given.input.target}, {"labels", given.labels}})
    if (tensor.defined()) file.write(std::string("given.") + name, tensor);
  const auto names = net.parameter_names();
  const auto frozen = net.graph().frozen_specs();
  for (std::size_t i = 0; i < names.size(); ++i) file.write("parameter." + names[i], net.parameters()[i]);
  for (std::size_t i = 0; i < frozen.size(); ++i) file.write("parameter." + frozen[i].name, net.frozen()[i]);

  const auto output = net.forward(given.input, true);
  file.write("logits", output.logits);
  if (output.auxiliary.defined()) file.write("auxiliary", output.auxiliary);
  const auto loss = loss_of(output, given.labels, shape);
  file.write("loss", loss);
  loss.backward();
  for (std::size_t i = 0; i < names.size(); ++i) file.write("gradient." + names[i], net.parameters()[i].grad());
  std::size_t buffer = 0;
  for (const auto& layer : net.graph().layers)
    if (!layer.frozen)
      for (const auto& statistic : layer.statistics) file.write("statistic." + statistic.name, net.buffers()[buffer++]);
  const c10::NoGradGuard guard;
  file.write("evaluated", net.forward(given.input, false).logits);
  file.close();
}

}  // namespace
}  // namespace ddl

int main(int count, char** values) {
  try {
    if (count != 7) throw ddl::Error(ddl::Code::invalid_argument, "[network_dump] takes SPEC SHAPE BATCH TYPE KERNELS FILE");
    ddl::dump({values + 1, values + count});
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
