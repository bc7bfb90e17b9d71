#include "ddl/data/idx.h"

#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/core/random.h"

namespace ddl {
namespace {

using Content = std::vector<std::uint8_t>;

class Idx : public testing::Test {
 protected:
  Idx() { std::filesystem::create_directories(folder_); }
  ~Idx() override { std::filesystem::remove_all(folder_); }

  std::string put(const Content& content) {
    std::filesystem::remove(path_);  // ext4 flushes a file that is truncated and written again: 3 ms each
    std::ofstream out(path_, std::ios::binary);
    out.write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
    return path_;
  }
  std::string message(const Content& content, Code code = Code::corrupt) {
    try {
      read_idx(put(content));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      std::string what = error.what();
      EXPECT_EQ(what.rfind("[idx] " + path_ + ": ", 0), 0U) << what;
      EXPECT_EQ(what.find('\n'), std::string::npos);
      return what.substr(path_.size() + 8);
    }
    ADD_FAILURE() << "was read";
    return {};
  }

  std::string folder_ = (std::filesystem::temp_directory_path() /
                         ("ddl-idx-" + std::to_string(::getpid()))).string();
  std::string path_ = folder_ + "/file";
};

// 2x3 bytes.
const Content kSmall{0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 10, 11, 12, 13, 14, 15};

Content gzip(const Content& content) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
  Content out(deflateBound(&stream, content.size()) + 64);
  stream.next_in = const_cast<Bytef*>(content.data());
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

TEST_F(Idx, ReadsRawAndGzipAlike) {
  for (const auto& content : {kSmall, gzip(kSmall)}) {
    const auto array = read_idx(put(content));
    EXPECT_EQ(array.dims, (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(array.bytes, (Content{10, 11, 12, 13, 14, 15}));
  }
}

TEST_F(Idx, ReadsMembersOfOneGzipFile) {
  auto both = gzip({kSmall.begin(), kSmall.begin() + 9});
  const auto second = gzip({kSmall.begin() + 9, kSmall.end()});
  both.insert(both.end(), second.begin(), second.end());
  EXPECT_EQ(read_idx(put(both)).bytes.size(), 6U);
}

TEST_F(Idx, SaysWhatIsWrong) {
  auto changed = [](std::size_t at, std::uint8_t value) {
    auto copy = kSmall;
    copy[at] = value;
    return copy;
  };
  EXPECT_EQ(message({}), "truncated magic; got 0 bytes, expected 4");
  EXPECT_EQ(message(changed(0, 1)), "wrong magic at byte 0; got 01000802, expected 0000 08 and a rank");
  EXPECT_EQ(message(changed(2, 7)), "unknown element type at byte 2; got 0x07, expected 0x08 (unsigned byte)");
  EXPECT_EQ(message(changed(2, 13), Code::unsupported),
            "element type at byte 2; got 0x0d (float32), expected 0x08 (unsigned byte)");
  EXPECT_EQ(message(changed(3, 0)), "no dimensions at byte 3; got rank 0, expected 1 or more");
  EXPECT_EQ(message(changed(3, 9)), "truncated header; got 18 bytes, expected 40");
  EXPECT_EQ(message(changed(7, 3)),
            "length disagrees with the dimensions; got 18 bytes, expected 21 (a header of 12 and 9)");
  EXPECT_EQ(message({0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}),
            "dimensions overflow at byte 12; got size 4294967295, expected a product below 2^64");
  EXPECT_EQ(message(gzip({0, 0, 8, 1, 255, 0, 0, 0, 1})).substr(0, 69),
            "dimensions beyond what the file can hold; got 4278190080 elements, ex");
}

TEST_F(Idx, SaysWhatIsWrongInsideGzip) {
  auto shorter = kSmall;
  shorter.pop_back();
  EXPECT_EQ(message(gzip(shorter)), "truncated; got 5 elements, expected 6");
  auto longer = kSmall;
  longer.push_back(1);
  EXPECT_EQ(message(gzip(longer)), "trailing bytes; got more than 6 elements, expected the end of the file");
  auto crc = gzip(kSmall);
  crc[crc.size() - 8] ^= 1;
  EXPECT_NE(message(crc).find("incorrect data check"), std::string::npos);
  auto cut = gzip(kSmall);
  cut.resize(cut.size() - 3);
  EXPECT_NE(message(cut).find("truncated gzip stream"), std::string::npos);
  auto trailed = gzip(kSmall);
  trailed.push_back(0);
  EXPECT_NE(message(trailed).find("trailing bytes behind the gzip stream"), std::string::npos);
}

TEST_F(Idx, TellsAbsentFromUnreadable) {
  try {
    read_idx(folder_ + "/nothing");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::not_found);
  }
  try {
    read_idx(folder_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::io);
    EXPECT_NE(std::string(error.what()).find("not a regular file"), std::string::npos);
  }
}

// Whatever is done to a file, it is read right or refused; memory stays in proportion to the file.
void read_or_refuse(const std::string& path, std::size_t most) {
  try {
    const auto array = read_idx(path);
    std::uint64_t product = 1;
    for (const auto dim : array.dims) product *= static_cast<std::uint64_t>(dim);
    EXPECT_EQ(product, array.bytes.size());
    EXPECT_LE(array.bytes.size(), most);
  } catch (const Error&) {
  }
}

TEST_F(Idx, SurvivesAnyChange) {
  Content big{0, 0, 8, 3, 0, 0, 0, 20, 0, 0, 0, 7, 0, 0, 0, 5};
  for (int i = 0; i < 700; ++i) big.push_back(static_cast<std::uint8_t>(i * 31));
  Random random(5);
  for (const auto& good : {big, gzip(big)}) {
    const auto most = good.size() * 1032;
    const std::size_t header = std::min<std::size_t>(good.size(), 24);
    for (std::size_t at = 0; at < header; ++at)
      for (int bit = 0; bit < 8; ++bit) {
        auto bad = good;
        bad[at] ^= static_cast<std::uint8_t>(1 << bit);
        read_or_refuse(put(bad), most);
      }
    for (std::size_t size = 0; size < header; ++size)
      EXPECT_THROW(read_idx(put({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)})), Error);
    for (int trial = 0; trial < 1500; ++trial) {
      auto bad = good;
      for (auto changes = 1 + random.below(3); changes > 0; --changes)
        bad[random.below(bad.size())] = static_cast<std::uint8_t>(random.bits());
      if (random.below(3) == 0) bad.resize(random.below(bad.size() + 1));
      if (random.below(8) == 0) bad.push_back(static_cast<std::uint8_t>(random.bits()));
      read_or_refuse(put(bad), most);
    }
  }
}

TEST_F(Idx, WritesWhatItReads) {
  const std::vector<std::int64_t> dims{300, 5, 1000};  // more than one block
  write_idx(path_, dims, [](std::int64_t i, std::uint8_t* item) {
    for (int k = 0; k < 5000; ++k) item[k] = static_cast<std::uint8_t>(i + k);
  });
  const auto array = read_idx(path_);
  EXPECT_EQ(array.dims, dims);
  EXPECT_EQ(array.bytes[299 * 5000 + 17], static_cast<std::uint8_t>(299 + 17));
  EXPECT_THROW(write_idx(folder_ + "/no/such", dims, nullptr), Error);
}

TEST_F(Idx, LeavesNothingWhenWritingFails) {
  const std::vector<std::int64_t> dims{3};
  EXPECT_THROW(write_idx(path_, dims, [](std::int64_t, std::uint8_t*) { throw Error(Code::io, "x"); }), Error);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

}  // namespace
}  // namespace ddl
