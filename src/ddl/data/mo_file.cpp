#include "ddl/data/mo_file.h"

#include <iconv.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/core/utf8.h"
#include "ddl/data/byte_source.h"

namespace ddl {
namespace {

constexpr std::uint32_t kMagic = 0x950412de;
constexpr std::size_t kHeader = 28;
constexpr char kContextEnd = '\4';

/// The file as numbers and texts, each checked against its end.
class Bytes32 {
 public:
  Bytes32(std::string_view bytes, const std::string& place) : bytes_(bytes), place_(place) {
    if (bytes.size() < kHeader)
      throw fail(0, "truncated header", fmt::format("{} bytes", bytes.size()), fmt::format("{} or more", kHeader));
    if (number(0) == kMagic) return;
    swapped_ = true;
    if (number(0) != kMagic)
      throw fail(0, "wrong magic", fmt::format("{:08x}", number(0)),
                 fmt::format("{:08x} in either byte order", kMagic));
  }

  std::uint32_t number(std::size_t at) const {
    const auto byte = [&](std::size_t i) {
      return std::uint32_t{static_cast<std::uint8_t>(bytes_[at + (swapped_ ? 3 - i : i)])};
    };
    return byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24;
  }

  /// Where `count` pairs of numbers begin; all of them are there.
  std::size_t table(std::size_t at, std::uint64_t count) const {
    const std::uint64_t begin = number(at);
    if (begin + 8 * count > bytes_.size())
      throw fail(at, "a table beyond the file", fmt::format("{} entries at byte {}", count, begin),
                 fmt::format("an end up to byte {}", bytes_.size()));
    return begin;
  }

  /// The text whose length and offset stand at `at`.
  std::string_view text(std::size_t at) {
    const std::uint64_t length = number(at), begin = number(at + 4);
    if (begin + length >= bytes_.size())
      throw fail(at, "a text beyond the file", fmt::format("{} bytes at byte {}", length, begin),
                 fmt::format("an end before byte {}", bytes_.size()));
    if (bytes_[begin + length] != '\0')
      throw fail(begin + length, "a text without its end",
                 fmt::format("{:#04x}", static_cast<std::uint8_t>(bytes_[begin + length])), "0");
    // Texts that share bytes could make a small file grow without bound.
    taken_ += length + 1;
    if (taken_ > bytes_.size())
      throw fail(at, "texts longer than the file", fmt::format("{} bytes so far", taken_),
                 fmt::format("{} at most", bytes_.size()));
    return bytes_.substr(begin, length);
  }

  Error fail(std::uint64_t at, std::string_view what, std::string_view got, std::string_view expected,
             Code code = Code::corrupt) const {
    return Error(code, fmt::format("[mo] {}: {} at byte {}; got {}, expected {}", place_, what, at, got, expected));
  }

 private:
  std::string_view bytes_;
  const std::string& place_;
  bool swapped_ = false;
  std::uint64_t taken_ = 0;
};

/// From the charset of a catalogue to UTF-8.
class Converter {
 public:
  explicit Converter(std::string charset) {
    for (auto& c : charset)
      if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    plain_ = charset.empty() || charset == "UTF-8" || charset == "UTF8" || charset == "US-ASCII" ||
             charset == "ASCII" || charset == "CHARSET";
    // A name goes to iconv as it is: nothing in it may be an instruction to iconv, as //TRANSLIT is.
    const bool name = std::all_of(charset.begin(), charset.end(), [](char c) {
      return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' || c == ':';
    });
    if (!plain_ && name && charset.size() < 64) iconv_ = ::iconv_open("UTF-8", charset.c_str());
  }
  ~Converter() {
    if (iconv_ != kNone) ::iconv_close(iconv_);
  }
  Converter(const Converter&) = delete;
  Converter& operator=(const Converter&) = delete;

  std::optional<std::string> operator()(std::string_view text) const {
    if (plain_) return is_utf8(text) ? std::optional(std::string(text)) : std::nullopt;
    if (iconv_ == kNone) return std::nullopt;
    ::iconv(iconv_, nullptr, nullptr, nullptr, nullptr);
    std::string converted;
    std::array<char, 512> buffer{};
    auto* from = const_cast<char*>(text.data());
    std::size_t left = text.size();
    while (left > 0) {
      char* to = buffer.data();
      std::size_t room = buffer.size();
      const auto result = ::iconv(iconv_, &from, &left, &to, &room);
      converted.append(buffer.data(), buffer.size() - room);
      if (result == static_cast<std::size_t>(-1) && errno != E2BIG) return std::nullopt;
    }
    return is_utf8(converted) ? std::optional(std::move(converted)) : std::nullopt;
  }

 private:
  static inline const iconv_t kNone = reinterpret_cast<iconv_t>(-1);

  bool plain_ = false;
  iconv_t iconv_ = kNone;
};

/// `Content-Type: text/plain; charset=UTF-8` -> UTF-8.
std::string charset_of(std::string_view header) {
  for (const auto& line : split(header, '\n')) {
    if (!line.starts_with("Content-Type:")) continue;
    const auto at = line.find("charset=");
    if (at == std::string::npos) continue;
    const std::string_view rest = std::string_view(line).substr(at + 8);
    return std::string(trim(rest.substr(0, rest.find_first_of("; \t\r"))));
  }
  return {};
}

}  // namespace

Catalogue parse_mo(std::string_view bytes, const std::string& place) {
  Bytes32 file(bytes, place);
  const auto revision = file.number(4);
  if (revision >> 16 > 1)
    throw file.fail(4, "a later revision", fmt::format("{}", revision >> 16), "0 or 1", Code::unsupported);
  const std::uint64_t count = file.number(8);
  const auto ids = file.table(12, count), texts = file.table(16, count);
  std::vector<std::pair<std::string_view, std::string_view>> raw;
  raw.reserve(count);
  for (std::size_t i = 0; i < count; ++i) raw.emplace_back(file.text(ids + 8 * i), file.text(texts + 8 * i));

  Catalogue catalogue;
  for (const auto& [id, text] : raw)
    if (id.empty()) {
      catalogue.charset = charset_of(text);
      catalogue.header = to_utf8(text);
      break;
    }
  const Converter convert(catalogue.charset);
  catalogue.messages.reserve(raw.size());
  for (const auto& [raw_id, raw_text] : raw) {
    if (raw_id.empty()) continue;
    const auto id = convert(raw_id), text = convert(raw_text);
    if (!id || !text) {
      ++catalogue.skipped;
      continue;
    }
    CatalogueEntry message;
    std::string_view rest = *id;
    if (const auto end = rest.find(kContextEnd); end != std::string_view::npos) {
      message.context = rest.substr(0, end);
      rest.remove_prefix(end + 1);
    }
    const auto zero = rest.find('\0');
    message.id = rest.substr(0, zero);
    if (zero != std::string_view::npos) message.plural = rest.substr(zero + 1);
    message.texts = zero == std::string_view::npos ? std::vector{*text} : split(*text, '\0');
    catalogue.messages.push_back(std::move(message));
  }
  return catalogue;
}

Catalogue read_mo(const std::string& path) {
  const auto source = open_bytes(path, "mo");
  std::string bytes;
  std::array<std::uint8_t, 1 << 16> block{};
  for (std::size_t got = block.size(); got == block.size();) {
    got = source->read(block.data(), block.size());
    bytes.append(reinterpret_cast<const char*>(block.data()), got);
  }
  return parse_mo(bytes, path);
}

}  // namespace ddl
