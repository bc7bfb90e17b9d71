#pragma once

// Kernels are compiled with -O3 -ffp-contract=off (CMakeLists.txt of their layer), once for each vector width, picked
// at run time. The same bits on every x86-64: nothing is contracted into fused multiply-adds, and sums have a fixed
// number of partial sums whatever the width. x86-64-v4 is AVX-512 with the instructions on 16 bits that bf16 needs.
#if defined(__x86_64__)
#define DDL_CLONES __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define DDL_CLONES
#endif

#define DDL_INLINE [[gnu::always_inline]] inline
