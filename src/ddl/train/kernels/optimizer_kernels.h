#pragma once

#include <cstddef>

namespace ddl {

// One pass over memory each, on n contiguous elements of a parameter p, its gradient g and its state. A gradient
// counts `scale` times what it says: what undoes the scale of a loss and clips costs no pass of its own.

/// m <- momentum m + d;  p <- p - learning_rate m,  with d = g + weight_decay p;
/// with `nesterov` p <- p - learning_rate (d + momentum m). Without momentum `m` may be null.
template <typename T>
struct SgdStep {
  T learning_rate, momentum, weight_decay, scale;
  bool nesterov;
};
void sgd_step(float* p, float* m, const float* g, std::size_t n, const SgdStep<float>& step);
void sgd_step(double* p, double* m, const double* g, std::size_t n, const SgdStep<double>& step);

/// m <- beta1 m + (1 - beta1) d;  v <- beta2 v + (1 - beta2) d^2;  p <- keep p - rate m / (sqrt(v) root + epsilon),
/// with d = g + weight_decay p. Bias corrections are in `rate` and `root`, decay apart from the gradient in `keep`.
template <typename T>
struct AdamStep {
  T beta1, beta2, epsilon, weight_decay, scale;
  T rate;  ///< learning rate / (1 - beta1^t)
  T root;  ///< 1 / sqrt(1 - beta2^t)
  T keep;  ///< 1 - learning rate * decoupled decay
};
void adam_step(float* p, float* m, float* v, const float* g, std::size_t n, const AdamStep<float>& step);
void adam_step(double* p, double* m, double* v, const double* g, std::size_t n, const AdamStep<double>& step);

/// m <- momentum m + rate (g + weight_decay p);  p <- p - m.
template <typename T>
struct LarsStep {
  T rate, momentum, weight_decay, scale;
};
void lars_step(float* p, float* m, const float* g, std::size_t n, const LarsStep<float>& step);
void lars_step(double* p, double* m, const double* g, std::size_t n, const LarsStep<double>& step);

/// u = m c1 / (sqrt(v) root + epsilon) + weight_decay p, the direction that LAMB scales.
template <typename T>
struct LambStep {
  T beta1, beta2, epsilon, weight_decay, scale;
  T correction;  ///< 1 / (1 - beta1^t)
  T root;        ///< 1 / sqrt(1 - beta2^t)
};
struct LambNorms {
  double parameter, direction;  ///< sums of squares
};
/// First pass: m and v as Adam's, and the norms of p and u.
LambNorms lamb_moments(const float* p, float* m, float* v, const float* g, std::size_t n, const LambStep<float>& step);
LambNorms lamb_moments(const double* p, double* m, double* v, const double* g, std::size_t n, const LambStep<double>& step);
/// Second pass: p <- p - rate u, with u computed anew: memory is slower than arithmetic.
void lamb_apply(float* p, const float* m, const float* v, std::size_t n, float rate, const LambStep<float>& step);
void lamb_apply(double* p, const double* m, const double* v, std::size_t n, double rate, const LambStep<double>& step);

/// In fp64: finite, for fp32, exactly where every element is.
double sum_of_squares(const float* x, std::size_t n);
double sum_of_squares(const double* x, std::size_t n);

}  // namespace ddl
