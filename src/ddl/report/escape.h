#pragma once

#include <string>
#include <string_view>

#include "ddl/core/json.h"

namespace ddl {

/// Text for HTML content and quoted attributes: markup is escaped, what is not UTF-8 or a control character is
/// replaced.
std::string html(std::string_view text);

/// JSON that can stand inside <script type="application/json">: no `<`, `>` or `&` is left that could end it, and
/// bytes that are no UTF-8 are replaced.
std::string script_json(const Json& value);

/// JSON in one line; bytes that are no UTF-8 are replaced, where Json::dump would throw.
std::string json_text(const Json& value, int indent = -1);

}  // namespace ddl
