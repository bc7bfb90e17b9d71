#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "ddl/core/json.h"

namespace ddl {

// Who multiplies matrices. ATen gives those of fp32 to MKL, which on some processors does not use all that they have: on one of AMD's with AVX-512 it reaches less than half of what oneDNN does, which is in LibTorch too; on those with AVX2 alone
// OpenBLAS is faster in large products on one thread, where the machine has it. On others MKL is the faster one, and small products are its everywhere: oneDNN takes about 10 us for each. Which, is measured once and kept for the machine. decisions/039, 067.

/// Of products of fp32: OpenBLAS's, else oneDNN's, else MKL's. What has 64 bits is MKL's always; what has 16 ATen gives to oneDNN itself.
struct Multipliers {
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  std::int64_t onednn_from = kNever;  ///< operations, 2 rows columns depth and of a batch's all, from which on they are oneDNN's
  std::int64_t openblas_from = kNever;  ///< operations, 2 rows columns depth of each matrix of a batch, from which on they are OpenBLAS's, on one thread

  friend bool operator==(const Multipliers&, const Multipliers&) = default;
};

/// What a square product of so many rows took with MKL and with oneDNN, s, the least of several. Or, where `in` is not 0, the three products of a linear layer, forward and both gradients, so many rows of `in` features to `out`, with OpenBLAS
/// besides, the median of several. Infinite of who does not multiply here.
struct MultipliersTiming {
  static constexpr double kNone = std::numeric_limits<double>::infinity();

  std::int64_t rows;
  double mkl, onednn, openblas = kNone;
  std::int64_t in = 0, out = 0;
};

/// Whether ATen lets oneDNN multiply fp32 here: this LibTorch has the way, and the processor what ATen asks of it (AVX-512, or AVX-NE-CONVERT).
bool multiplies_by_onednn();
/// Whether this process asked MKL for the same bits wherever memory lies (`MKL_CBWR`), which its user had not: processes of other packages that it starts are not to have it.
bool asks_for_same_bits();
/// A number for all that the choice below depends on: two ranks with the same may multiply alike.
std::int64_t multiplying_machine();

/// From sizes in rising order: oneDNN from the size on from which it is faster than MKL by a tenth, there and beyond; but for a single size between such where both are as good, which something disturbed. OpenBLAS from 500 million
/// operations on, if in all layers together it is faster than the best of the others by a twentieth: of smaller products it is not.
Multipliers faster_multipliers(const std::vector<MultipliersTiming>& timings);

/// All measured now, by turns, with as many threads as there are. Small sizes where oneDNN multiplies (else this LibTorch has no way to it, or the processor neither AVX-512 nor AVX-NE-CONVERT, which ATen asks for): 50 ms. Layers where OpenBLAS
/// is there and one thread computes: two seconds.
std::vector<MultipliersTiming> time_multipliers();

/// Those kept in `folder` for `machine` (a text in words); else, or where what is there is damaged, those that `time` finds, and then kept. Of several processes at once whoever comes first counts for all, so that they multiply alike: the others
/// wait for it, 30 s at most, and what was there first stays. Where nothing can be kept: as found.
Multipliers kept_multipliers(const std::string& folder, const std::string& machine, const std::function<std::vector<MultipliersTiming>()>& time);

/// In use in this process. Unless told otherwise, those kept in cache_folder() for this processor, how many cores the machine has, LibTorch, OpenBLAS, number of threads and what the environment tells them, from the first call on that is not within a parallel loop.
/// Whoever is to compute with several threads calls it before, once these are set.
Multipliers multipliers();
void use_multipliers(const Multipliers& chosen);

/// As records and what is kept have it: `{"onednn_from": operations or null, "openblas_from": the same, "openblas": which one, where it multiplies}`.
Json to_json(const Multipliers& chosen);

/// Whether the processor multiplies in bf16 itself. Where not, oneDNN and ATen do it in software, products at a tenth of fp32's speed on AVX2, convolutions at a tenth to an eightieth.
bool multiplies_bf16();

/// `to` = left right, or plus that. Matrices [rows, depth] [depth, columns], or as many of each [n, …]. `to` is contiguous; on the processor. Numbers: ATen's but for the order of sums, where oneDNN or OpenBLAS multiplies.
void multiply_into(at::Tensor& to, const at::Tensor& left, const at::Tensor& right, bool adds = false);

/// Bytes of `to` that multiply_into() writes from a product of bf16, which comes in 16 bits where the processor multiplies these itself: one pass more over what is made. 0 where the product is made there.
std::int64_t widened_bytes(const at::Tensor& to, const at::Tensor& left);

/// Rows [n, width] as they are multiplied fastest, twice at least: a part of wider rows (of a network whose last layer is split among workers) is copied where oneDNN multiplies, which takes none such, and left to MKL and OpenBLAS else, which do.
at::Tensor laid_out_for_products(const at::Tensor& rows);

/// rows [n, in] by a weight [out, in], plus a bias [out]: a new [n, out] of the rows' type. Where oneDNN multiplies it adds the bias as it writes; else what is there to be added to is a copy of the bias for each row. `rectifies`: and a ReLU of that, of which NaN stays NaN.
at::Tensor multiply_with_bias(const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias, bool rectifies = false);

}  // namespace ddl
