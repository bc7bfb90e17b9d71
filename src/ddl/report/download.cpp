#include "ddl/report/download.h"

#include <zlib.h>

#include <cctype>
#include <cmath>

#include "ddl/core/error.h"
#include "ddl/report/escape.h"
#include "ddl/report/run_view.h"

namespace ddl {
namespace {

template <typename Change>
void change_samples(Json& record, Change change) {
  const auto change_in = [&](Json& holder) {
    if (!holder.is_object() || !holder.contains("step_ms") || !holder["step_ms"].is_object()) return;
    auto& step_ms = holder["step_ms"];
    if (step_ms.contains("samples") && step_ms["samples"].is_array()) change(step_ms["samples"]);
  };
  change_in(record);
  if (record.contains("ranks") && record["ranks"].is_array())
    for (auto& rank : record["ranks"]) change_in(rank);
}

std::string file_name_of(const Json& record) {
  std::string name = "ddlbench-run-";
  for (const char c : text_at(record, {"id"}))
    name += std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' ? c : '_';
  return name + ".json.gz";
}

}  // namespace

std::string gzip(std::string_view content) {
  constexpr int kWindowWithGzipHeader = 15 + 16;
  z_stream stream{};
  invariant(
      deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kWindowWithGzipHeader, 8, Z_DEFAULT_STRATEGY) == Z_OK,
      "zlib has memory");
  std::string packed(deflateBound(&stream, content.size()), '\0');
  // zlib's interface predates const; it does not write to its input.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  invariant(deflate(&stream, Z_FINISH) == Z_STREAM_END, "deflateBound() bytes hold the whole");
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned group = 0;
    for (std::size_t k = 0; k < 3; ++k)
      group = group << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k)
      out += i + k <= bytes.size() ? kDigits[group >> (18 - 6 * k) & 63U] : '=';
  }
  return out;
}

Download download_of(const Json& record, std::size_t budget) {
  Download download;
  download.file_name = file_name_of(record);
  std::string packed = gzip(json_text(record, 1));
  Json smaller = record;
  const auto shrink = [&](const char* left_out, auto change) {
    if (packed.size() <= budget) return;
    change();
    packed = gzip(json_text(smaller, 1));
    download.whole = false;
    download.left_out = left_out;
  };
  shrink("step times are rounded to the microsecond", [&] {
    change_samples(smaller, [](Json& samples) {
      for (auto& value : samples)
        if (value.is_number()) value = std::round(value.get<double>() * 1e3) / 1e3;
    });
  });
  shrink("step times are rounded to the microsecond, the trace is left out", [&] { smaller["trace"] = Json::array(); });
  shrink("each step's times and the trace are left out", [&] {
    change_samples(smaller, [](Json& samples) { samples = Json::array(); });
  });
  download.url = "data:application/gzip;base64," + base64(packed);
  return download;
}

}  // namespace ddl
