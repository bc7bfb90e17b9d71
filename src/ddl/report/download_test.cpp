#include "ddl/report/download.h"

#include <zlib.h>

#include <gtest/gtest.h>

#include "ddl/report/synthetic_records.h"

namespace ddl {
namespace {

std::string unpacked(const std::string& packed) {
  std::string out(8'000'000, '\0');
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
  std::string in = packed;
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  inflateEnd(&stream);
  return out;
}

TEST(Base64, AsInRfc4648) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64("\xff\xfe"), "//4=");
}

TEST(Gzip, UnpacksToTheSame) {
  for (const std::string& text : {std::string(), std::string("x"), std::string(100'000, 'y')})
    EXPECT_EQ(unpacked(gzip(text)), text);
}

TEST(Download, IsTheWholeRecordWhereItFits) {
  const auto record = synthetic_record({});
  const auto download = download_of(record, 1'000'000);
  EXPECT_TRUE(download.whole);
  EXPECT_EQ(download.url, "data:application/gzip;base64," + base64(gzip(record.dump(1))));
  EXPECT_EQ(download.file_name, "ddlbench-run-20261121-101510-3f2a9c.json.gz");
}

TEST(Download, ShrinksToItsBudgetAndSaysSo) {
  auto record = synthetic_record({.workers = 4, .steps = 4000});
  record["id"] = "../../etc";
  for (const std::size_t budget : {100'000u, 20'000u}) {
    const auto download = download_of(record, budget);
    EXPECT_FALSE(download.whole);
    EXPECT_FALSE(download.left_out.empty());
  }
  EXPECT_LT(download_of(record, 20'000).url.size(), 20'000u);
  EXPECT_EQ(download_of(record, 20'000).file_name, "ddlbench-run-.._.._etc.json.gz");
  EXPECT_NO_THROW(download_of(Json::object(), 10));
  EXPECT_NO_THROW(download_of({{"step_ms", 3}, {"ranks", {nullptr, 4}}}, 10));
}

}  // namespace
}  // namespace ddl
