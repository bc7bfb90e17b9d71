#include "ddl/report/escape.h"

namespace ddl {

std::string html(std::string_view text) {
  // nlohmann's serializer replaces broken UTF-8; its quotes and escapes are undone by parsing again.
  const std::string sound = Json::parse(json_text(std::string(text))).get<std::string>();
  std::string out;
  out.reserve(sound.size());
  for (const char c : sound) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t')
          out += "\xEF\xBF\xBD";
        else
          out += c;
    }
  }
  return out;
}

std::string script_json(const Json& value) {
  std::string out;
  // These three stand only inside JSON strings, where \u escapes mean the same.
  for (const char c : json_text(value)) {
    switch (c) {
      case '<': out += "\\u003c"; break;
      case '>': out += "\\u003e"; break;
      case '&': out += "\\u0026"; break;
      default: out += c;
    }
  }
  return out;
}

std::string json_text(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ddl
