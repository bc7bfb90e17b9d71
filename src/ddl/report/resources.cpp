#include "ddl/report/resources.h"

extern "C" {
#define DDL_EMBEDDED(name) extern const char ddl_embedded_##name[], ddl_embedded_##name##_end[];
DDL_EMBEDDED(page_css)
DDL_EMBEDDED(page_js)
DDL_EMBEDDED(vega_shim_js)
DDL_EMBEDDED(vega_js)
DDL_EMBEDDED(vega_wheel_licence)
DDL_EMBEDDED(vega_bundle_licence)
#undef DDL_EMBEDDED
}

namespace ddl {
namespace {

std::string_view between(const char* begin, const char* end) { return {begin, static_cast<std::size_t>(end - begin)}; }

// A browser's developer tools would ask for the source map, which is not there: an error in the console.
std::string_view without_source_map(std::string_view script) {
  return script.substr(0, script.rfind("//# sourceMappingURL="));
}

}  // namespace

Resources resources() {
  return {.page_css = between(ddl_embedded_page_css, ddl_embedded_page_css_end),
          .page_js = between(ddl_embedded_page_js, ddl_embedded_page_js_end),
          .vega_shim_js = between(ddl_embedded_vega_shim_js, ddl_embedded_vega_shim_js_end),
          .vega_js = without_source_map(between(ddl_embedded_vega_js, ddl_embedded_vega_js_end)),
          .vega_wheel_licence = between(ddl_embedded_vega_wheel_licence, ddl_embedded_vega_wheel_licence_end),
          .vega_bundle_licence = between(ddl_embedded_vega_bundle_licence, ddl_embedded_vega_bundle_licence_end)};
}

}  // namespace ddl
