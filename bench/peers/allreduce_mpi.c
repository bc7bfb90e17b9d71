/* MPI_Allreduce as collective_bench measures ours: fp32, sum, in place, one after the other in blocks; microseconds of one,
   the median over blocks, on rank 0. usage: allreduce_mpi BYTES…; prints bytes,median_us */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return x < y ? -1 : x > y;
}

int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int arg = 1; arg < argc; ++arg) {
    const long bytes = atol(argv[arg]), n = bytes / 4;
    const int block = bytes <= 64 << 10 ? 100 : bytes <= 4 << 20 ? 10 : 1;
    const int blocks = block == 100 ? 101 : block == 10 ? 51 : 21;
    float* data = aligned_alloc(2 << 20, (bytes + (2 << 20) - 1) / (2 << 20) * (2 << 20));
    double* times = malloc(blocks * sizeof(double));
    for (int check = 0; check < 3; ++check) {
      for (long i = 0; i < n; ++i) data[i] = rank + 1;
      MPI_Allreduce(MPI_IN_PLACE, data, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      for (long i = 0; i < n; ++i)
        if (data[i] != ranks * (ranks + 1) / 2.0f) MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (long i = 0; i < n; ++i) data[i] = 0;
    for (int i = -2; i < blocks; ++i) {
      MPI_Barrier(MPI_COMM_WORLD);
      const double begin = MPI_Wtime();
      for (int k = 0; k < block; ++k) MPI_Allreduce(MPI_IN_PLACE, data, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      if (i >= 0) times[i] = (MPI_Wtime() - begin) / block;
    }
    qsort(times, blocks, sizeof(double), compare);
    if (rank == 0) printf("%ld,%.3f\n", bytes, times[blocks / 2] * 1e6);
    fflush(stdout);
    free(times);
    free(data);
  }
  MPI_Finalize();
  return 0;
}
