// A stand-in for libcuda.so.1, for tests of who loads it and what is made of its answers. FAKE_GPUS says what it answers: a number
// of GPUs, `broken` (cuInit fails), `hangs`, `crashes`.
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {
const char* told() {
  const char* text = std::getenv("FAKE_GPUS");
  return text != nullptr ? text : "0";
}
}  // namespace

extern "C" {
int cuInit(unsigned) {
  if (std::strcmp(told(), "hangs") == 0)
    for (;;) ::pause();
  if (std::strcmp(told(), "crashes") == 0) std::abort();
  return std::strcmp(told(), "broken") == 0 ? 999 : 0;
}
int cuGetErrorString(int, const char** text) {
  *text = "unknown error";
  return 0;
}
int cuDriverGetVersion(int* version) {
  *version = 12040;
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = std::atoi(told());
  return 0;
}
int cuDeviceGet(int* device, int number) {
  *device = number;
  return 0;
}
int cuDeviceGetName(char* name, int size, int device) {
  std::snprintf(name, static_cast<std::size_t>(size), "Fake GPU %d", device);
  return 0;
}
int cuDeviceTotalMem_v2(std::size_t* bytes, int device) {
  *bytes = static_cast<std::size_t>(device + 1) << 30;
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  *value = attribute == 75 ? 7 + device : 5;
  return 0;
}
}
