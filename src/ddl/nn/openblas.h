#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

namespace ddl {

// OpenBLAS, opened when it is first asked for, where the machine has it: large products of fp32 on one thread. On processors with AVX2 alone it is faster than MKL, of few rows by much. decisions/067.
// `DDLBENCH_OPENBLAS` is the file to open instead of those that are looked for, or `none`.

/// Whether it is there, and may be called by several threads at once: one that was built without threads takes no locks. The first call changes the environment for a moment: before there are threads that may read it.
/// Errors: invalid_argument, the file that DDLBENCH_OPENBLAS names is none that can be taken.
bool has_openblas();
/// Its version, how it was built, for which processor it computes, and the size of its file; empty where there is none.
std::string openblas_told();

/// Whether it takes a factor, or several [n, …], as they lie: what is in a row, or what is in a column, one beside the other. What is made has to lie by rows.
bool lies_for_openblas(const at::Tensor& matrix);
bool lies_by_rows(const at::Tensor& matrix);
/// `to` = left right, or plus that; [rows, depth] [depth, columns], or as many of each [n, …], of fp32. On the calling thread alone. The same bits wherever memory lies.
void by_openblas(at::Tensor& to, const at::Tensor& left, const at::Tensor& right, bool adds);

}  // namespace ddl
