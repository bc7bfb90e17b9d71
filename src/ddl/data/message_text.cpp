#include "ddl/data/message_text.h"

#include <algorithm>

#include "ddl/core/utf8.h"

namespace ddl {
namespace {

bool ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool digit(char c) { return c >= '0' && c <= '9'; }
bool letter(char c) { return ascii_letter(c) || static_cast<std::uint8_t>(c) >= 0x80; }

std::vector<std::string> paragraphs(std::string_view text) {
  std::vector<std::string> all(1);
  while (!text.empty()) {
    const auto end = text.find('\n');
    const auto line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.find_first_not_of(" \t\r\v\f") == std::string_view::npos)
      all.emplace_back();
    else
      (all.back() += line) += '\n';
  }
  std::erase_if(all, [](const std::string& paragraph) { return paragraph.empty(); });
  return all;
}

/// Where the one access key of a text is marked; npos where there is none, more than one, or the mark is something
/// else.
std::size_t access_key(std::string_view text, char mark) {
  const auto at = text.find(mark);
  if (at == std::string_view::npos || text.find(mark, at + 1) != std::string_view::npos) return std::string_view::npos;
  if (at + 1 == text.size() || !(letter(text[at + 1]) || digit(text[at + 1]))) return std::string_view::npos;
  if (mark == '&') {  // &lt; is none
    const auto end = std::find_if_not(text.begin() + static_cast<std::ptrdiff_t>(at) + 1, text.end(), ascii_letter);
    if (end != text.end() && *end == ';') return std::string_view::npos;
  }
  return at;
}

std::string_view word_at(std::string_view text, std::size_t at) {
  const auto begin = text.find_last_of(' ', at) + 1;  // npos + 1 is 0
  return text.substr(begin, text.find(' ', at) - begin);
}

void remove_key(std::string& text, std::size_t at) {
  const bool alone = at > 0 && text[at - 1] == '(' && at + 2 < text.size() && text[at + 2] == ')';
  text.erase(alone ? at - 1 : at, alone ? 4 : 1);
}

void remove_access_keys(std::string& source, std::string& target) {
  for (const char mark : {'_', '&'}) {
    const auto a = access_key(source, mark), b = access_key(target, mark);
    if (a == std::string::npos || b == std::string::npos || word_at(source, a) == word_at(target, b)) continue;
    remove_key(source, a);
    remove_key(target, b);
  }
}

/// Bytes of the directive that `text` begins with, or 0: %, [n$], flags, width, precision, length and a letter; or
/// %(name) and a letter.
std::size_t directive(std::string_view text) {
  std::size_t at = 1;
  const auto skip = [&](std::string_view some) {
    while (at < text.size() && some.find(text[at]) != std::string_view::npos) ++at;
  };
  if (at < text.size() && text[at] == '(') {
    at = text.find(')');
    if (at == std::string_view::npos) return 0;
    ++at;
  }
  skip("0123456789$");
  skip("-+#0'q");
  skip("0123456789*");
  if (at < text.size() && text[at] == '.') {
    ++at;
    skip("0123456789*");
  }
  skip("hlLjzt");
  // %l alone is no directive, but a length may also be the letter itself.
  if (at < text.size() && ascii_letter(text[at])) return at + 1;
  return text[at - 1] != '%' && ascii_letter(text[at - 1]) ? at : 0;
}

/// Also counts them.
std::string with_plain_directives(std::string_view text, int& count) {
  std::string plain;
  while (!text.empty()) {
    if (text.front() != '%' || text.size() == 1) {
      plain += text.front();
      text.remove_prefix(1);
      continue;
    }
    const bool quote = text[1] == '<' || text[1] == '>' || text[1] == '\'';
    const auto length = text[1] == '%' || quote ? 2 : directive(text);
    plain += text[1] == '%' ? "%" : quote ? "'" : length > 0 ? "%s" : "%";
    if (length > 2 || (length == 2 && !quote && text[1] != '%')) ++count;
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return plain;
}

bool usable(const std::string& source, const std::string& target) {
  if (source.empty() || target.empty() || source == target) return false;
  if (source == "translator-credits" || source == "translator_credits") return false;
  if (std::none_of(source.begin(), source.end(), letter) || std::none_of(target.begin(), target.end(), letter))
    return false;
  const auto [shorter, longer] =
      std::minmax({source.size(), target.size()});  // by value: of two temporaries it would keep references
  if (longer > kLongestSentence || longer > 3 * shorter + 20) return false;
  const auto control = [](char c) { return static_cast<std::uint8_t>(c) < 0x20 || c == 0x7f; };
  if (std::any_of(source.begin(), source.end(), control) || std::any_of(target.begin(), target.end(), control))
    return false;
  return std::count(source.begin(), source.end(), '|') == std::count(target.begin(), target.end(), '|');
}

void add_pair(std::string_view from, std::string_view to, std::vector<SentencePair>& pairs) {
  auto source = normalised_text(from), target = normalised_text(to);
  if (source == target) return;
  remove_access_keys(source, target);
  int directives = 0, translated = 0;
  source = normalised_text(with_plain_directives(source, directives));
  target = normalised_text(with_plain_directives(target, translated));
  if (directives == translated && usable(source, target)) pairs.push_back({std::move(source), std::move(target)});
}

}  // namespace

std::vector<SentencePair> sentence_pairs(std::string_view source, std::string_view target) {
  std::vector<SentencePair> pairs;
  const auto from = paragraphs(source), to = paragraphs(target);
  if (from.size() == to.size())
    for (std::size_t i = 0; i < from.size(); ++i) add_pair(from[i], to[i], pairs);
  else
    add_pair(source, target, pairs);
  return pairs;
}

}  // namespace ddl
