#include "ddl/subject/python.h"
#include "ddl/subject/subject.h"

namespace ddl {
namespace {

class TorchDdp final : public ExternalSubject {
 public:
  TorchDdp(std::string python, std::string script) : python_(std::move(python)), script_(std::move(script)) {}
  PreparedPeer prepare(const PeerJob& job, const DatasetPair& data) const override {
    return {job, data, python_, script_};
  }

 private:
  std::string python_;
  std::string script_;
};

}  // namespace

Registry<SubjectFactory> builtin_subjects() {
  Registry<SubjectFactory> registry("subject");
  registry.add({"ddlbench", "this program", [] { return std::unique_ptr<ExternalSubject>(); }});
  const auto python = find_python();
  const auto script = find_script("torch_ddp.py");
  const auto missing = !python.missing.empty() ? python.missing
                       : script.empty()        ? "torch_ddp.py is neither installed nor in the source tree"
                                               : "";
  registry.add({"torch-ddp", "PyTorch DistributedDataParallel over Gloo, eager",
                [=] { return std::make_unique<TorchDdp>(python.executable, script); }, missing});
  return registry;
}

}  // namespace ddl
