#pragma once

#include <string_view>

namespace ddl {

/// The files that cmake/Vega.cmake puts into the binary, as they stand.
struct Resources {
  std::string_view page_css, page_js;
  std::string_view vega_shim_js;   ///< turns the bundle, an AMD module of a Jupyter widget, into window.vegaEmbed
  std::string_view vega_js;        ///< Vega, Vega-Lite and vega-embed in one, without the reference to its source map
  std::string_view vega_wheel_licence, vega_bundle_licence;
};

Resources resources();

}  // namespace ddl
