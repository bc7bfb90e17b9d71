// {fmt}, compiled once. As headers alone (FMT_HEADER_ONLY, LibTorch's own way) its definitions are compiled again in every file that formats a word: 4 s of each.
#include <fmt/format-inl.h>

template char fmt::detail::decimal_point_impl<char>(fmt::locale_ref);
template fmt::detail::thousands_sep_result<char> fmt::detail::thousands_sep_impl<char>(fmt::locale_ref);
