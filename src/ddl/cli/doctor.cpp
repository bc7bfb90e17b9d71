#include "ddl/cli/command.h"
#include "ddl/cli/doctor_checks.h"
#include "ddl/core/error.h"

#include <unistd.h>

namespace ddl {
namespace {

struct DoctorOptions {
  Output output;
  std::string store = "ddlbench.db";
};

struct Style {
  const char* word;
  Colour colour;
};

Style style(Finding::Verdict verdict) {
  switch (verdict) {
    case Finding::Verdict::ok: return {"ok", Colour::green};
    case Finding::Verdict::warn: return {"warn", Colour::yellow};
    case Finding::Verdict::fail: return {"fail", Colour::red};
  }
  return {"?", Colour::plain};
}

Exit act(const DoctorOptions& options) {
  const auto findings = examine(options.store);
  bool usable = true;
  Json checks = Json::array();
  std::string text;
  for (const auto& finding : findings) {
    const auto [word, colour] = style(finding.verdict);
    usable = usable && finding.verdict != Finding::Verdict::fail;
    checks.push_back({{"check", finding.check}, {"verdict", word}, {"says", finding.says}});
    text += fmt::format("{} {:<20} {}\n", paint(fmt::format("{:<4}", word), colour, STDOUT_FILENO), finding.check, finding.says);
  }
  if (options.output.json)
    options.output.document({{"schema", "ddlbench.doctor/1"}, {"usable", usable}, {"checks", checks}});
  else
    options.output.data(text);
  return usable ? Exit::ok : Exit::refused;
}

}  // namespace

Command add_doctor(CLI::App& root) {
  auto options = std::make_shared<DoctorOptions>();
  auto* app = add_command(root, "doctor", "What this installation can and cannot do; exit code 6 where it cannot train.",
                          options->output, {"ddlbench doctor", "ddlbench doctor --json"});
  app->add_option("--store", options->store, "Where results would go.")->type_name("FILE")->capture_default_str();
  return {app, [options] { return act(*options); }};
}

}  // namespace ddl
