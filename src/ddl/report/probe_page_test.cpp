#include <gtest/gtest.h>

#include "ddl/report/report.h"

namespace ddl {
namespace {

Json row(const std::string& algorithm, std::int64_t bytes, double us) {
  return {{"transport", "tcp"}, {"ranks", 2}, {"collective", "all-reduce"}, {"algorithm", algorithm}, {"bytes", bytes},
          {"time_us", {{"median", us}, {"low", us * 0.9}, {"high", us * 1.1}, {"samples", {us}}}}, {"algorithm_gbps", 8e-3 * static_cast<double>(bytes) / us},
          {"bus_gbps", 8e-3 * static_cast<double>(bytes) / us}, {"fit_us", us}, {"simulated_us", us}, {"limit_us", us / 2}};
}

Json document() {
  return {{"schema", "ddlbench.probe/1"}, {"started", "2026-11-21T10:00:00Z"}, {"environment", {{"cpu", {{"model", "Fast <3000>"}}}}},
          {"results", {row("ring", 1024, 10), row("ring", 4096, 12), row("tree", 1024, 9), row("tree", 4096, 15)}},
          {"fit", {{{"transport", "tcp"}, {"ranks", 2}, {"path", "rounds"}, {"from_bytes", 0}, {"to_bytes", ~std::uint64_t{0}}, {"alpha_us", 4.0}, {"overhead_us", 1.0},
                    {"beta_ns_per_byte", 0.2}, {"copy_ns_per_byte", 0.0}, {"gamma_ns_per_byte", 0.1}, {"local_ns_per_byte", 0.0}, {"mean_error_pct", 3.21}}}},
          {"failed", Json::array()}};
}

TEST(ProbePage, ShowsTableCostsAndAPlotForEachCollective) {
  const auto page = render_probe(document());
  for (const auto* part : {"all-reduce over tcp, 2 ranks: time against size", "id=\"results-table\"", "id=\"fit-table\"", "3.2 %", "4 KiB", "by ring at 4 KiB",
                           "Fast &lt;3000&gt;"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  EXPECT_EQ(page.find("Fast <3000>"), std::string::npos);
}

TEST(ProbePage, StandsWithoutResults) {
  auto nothing = document();
  nothing["results"] = nothing["fit"] = Json::array();
  nothing["failed"] = {{{"transport", "tcp"}, {"ranks", 2}, {"reason", "tcp with 2 ranks: rank 1: signal 9 (Killed)"}}};
  const auto page = render_probe(nothing);
  EXPECT_NE(page.find("What collectives cost here"), std::string::npos);
  EXPECT_NE(page.find("rank 1: signal 9"), std::string::npos);
}

}  // namespace
}  // namespace ddl
