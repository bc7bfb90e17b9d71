#include "ddl/train/board.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "ddl/core/error.h"
#include "ddl/measure/clock.h"

namespace ddl {

Board::Board(int processes) : processes_(processes) {
  void* const memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw Error(Code::io, fmt::format("[board] no memory to share: {}", std::strerror(errno)));
  shared_ = new (memory) Shared{};
}

Board::~Board() { ::munmap(shared_, sizeof(Shared)); }

void Board::meet(Seconds timeout) {
  constexpr int kLooks = 2'000;
  constexpr useconds_t kNap = 20;
  const int round = shared_->round.load();
  if (shared_->there.fetch_add(1) + 1 == processes_) {
    shared_->there.store(0);
    shared_->round.fetch_add(1);
    return;
  }
  const auto begin = now();
  for (int looks = 0; shared_->round.load() == round; ++looks) {
    if (looks < kLooks) {
      ::sched_yield();
      continue;
    }
    ::usleep(kNap);
    if (seconds(now() - begin) > timeout.value) throw Error(Code::timeout, fmt::format("[board] waited {}; {} of {} processes came", to_string(timeout), shared_->there.load(), processes_));
  }
}

}  // namespace ddl
