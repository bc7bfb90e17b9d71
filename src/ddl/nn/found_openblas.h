#pragma once

#include <string>

namespace ddl {

// OpenBLAS, opened when it is first asked for, where the machine has it: large products of fp32 on one thread. On processors with AVX2 alone it is faster than MKL, of few rows by much. decisions/067.
// `DDLBENCH_OPENBLAS` is the file to open instead of those that are looked for, or `none`.

/// Whether it is there, and may be called by several threads at once: one that was built without threads takes no locks. The first call changes the environment for a moment: before there are threads that may read it.
/// Errors: invalid_argument, the file that DDLBENCH_OPENBLAS names is none that can be taken.
bool has_openblas();
/// Its version, how it was built, for which processor it computes, and the size of its file; empty where there is none.
std::string openblas_told();
/// Why there is none, of each file that was looked for; empty where there is one.
const std::string& openblas_missing();

}  // namespace ddl
