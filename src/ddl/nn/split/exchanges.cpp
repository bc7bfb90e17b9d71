// What an earlier axis of a mesh has put in. Places of that axis exchange among those who agree on all others, so along any dimension that an exchange does not
// cut, each set of them does it with what they have.
#include <utility>

#include "ddl/nn/split/rules.h"

namespace ddl {

/// Of sums and copies every part of the value takes as it is; of pieces those that lie along another dimension.
void split_exchange(Splitter& s, int layer) {
  const auto& how = *s.whole(layer).exchange;
  const int input = s.whole(layer).inputs[0];
  auto home = s.home(input);
  if (moves_pieces(how) && home.is_split(how.dimension)) home = Layout::whole();
  auto made = s.like(layer, home);
  made.inputs = {s.read(input, home)};
  made.exchange->whole = shape_of(how.whole, home, s.part());
  count_received(*made.exchange);
  s.give(layer, std::move(made), home);
}

void split_bias(Splitter& s, int layer) {
  const int input = s.whole(layer).inputs[0];
  const auto home = s.home(input);
  auto made = s.like(layer, home);
  made.inputs = {s.read(input, home)};
  cut_bias(s, made, home);
  s.give(layer, std::move(made), home);
}

}  // namespace ddl
