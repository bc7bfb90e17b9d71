#pragma once

#include <ATen/ATen.h>

#include "ddl/nn/network.h"
#include "ddl/nn/sharing.h"

namespace ddl {

/// Whether look_up() takes such a table.
bool takes_look_up(const at::Tensor& table, const NetworkOptions& options);

/// Rows of `table` [rows, features], fp32 or fp64, by their numbers `words` […] int64 -> […, features]. Errors: a number that no row has, as at::embedding() says it.
///
/// at::embedding()'s backward zeroes a gradient of all rows, adds those that were read, and leaves it to autograd to add that to others' of the same table: passes over all of it for rows of which a batch reads few. Here rows are
/// added where the gradient belongs; those of a table that others use too go to autograd as a sparse gradient, which whoever gathers gradients adds to what is there. decisions/052.
at::Tensor look_up(const at::Tensor& words, const at::Tensor& table, Sharing sharing);

/// A sparse gradient as look_up() makes it, to a dense one, which is zeroed first unless `adds`.
void put_rows(const at::Tensor& sparse, const at::Tensor& to, bool adds);

}  // namespace ddl
