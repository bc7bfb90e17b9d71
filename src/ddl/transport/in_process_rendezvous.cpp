#include <condition_variable>
#include <mutex>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/transport/deadline.h"
#include "ddl/transport/rendezvous.h"

namespace ddl {
namespace {

struct Table {
  explicit Table(int ranks) : given(static_cast<std::size_t>(ranks)), came(given.size(), false), left(given.size(), false) {}

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> given;
  std::vector<bool> came;
  std::vector<bool> left;
  std::size_t generation = 0;
  std::vector<std::string> result;  // of the generation before; stays until all have come to the next one
};

class InProcessRendezvous final : public Rendezvous {
 public:
  InProcessRendezvous(std::shared_ptr<Table> table, int rank) : table_(std::move(table)), rank_(rank) {}

  ~InProcessRendezvous() override {
    const std::lock_guard lock(table_->mutex);
    table_->left[static_cast<std::size_t>(rank_)] = true;
    table_->changed.notify_all();
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(table_->given.size()); }

  std::vector<std::string> exchange(const std::string& mine, Seconds timeout) override {
    auto& table = *table_;
    const auto me = static_cast<std::size_t>(rank_);
    const Nanoseconds deadline = deadline_after(timeout);
    std::unique_lock lock(table.mutex);
    table.given[me] = mine;
    table.came[me] = true;
    if (absent().empty()) {
      table.result.swap(table.given);
      table.given.assign(table.came.size(), {});
      table.came.assign(table.came.size(), false);
      ++table.generation;
      table.changed.notify_all();
      return table.result;
    }
    const std::size_t generation = table.generation;
    while (table.generation == generation) {
      for (std::size_t rank = 0; rank < table.came.size(); ++rank)
        if (table.left[rank] && !table.came[rank]) {
          table.came[me] = false;
          throw Error(Code::peer_lost, fmt::format("[rendezvous] rank {} left before it met rank {}", rank, rank_));
        }
      const Seconds left = left_until(deadline);
      if (left.value == 0) {
        const auto late = join(absent(), ", ");
        table.came[me] = false;
        throw Error(Code::timeout, fmt::format("[rendezvous] rank {} waited {}; rank {} did not come", rank_,
                                               to_string(timeout), late));
      }
      table.changed.wait_for(lock, std::chrono::duration<double>(std::min(left.value, 3600.0)));
    }
    return table.result;
  }

 private:
  std::vector<std::string> absent() const {
    std::vector<std::string> ranks;
    for (std::size_t rank = 0; rank < table_->came.size(); ++rank)
      if (!table_->came[rank]) ranks.push_back(std::to_string(rank));
    return ranks;
  }

  std::shared_ptr<Table> table_;
  int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Rendezvous>> in_process_rendezvous(int ranks) {
  auto table = std::make_shared<Table>(ranks);
  std::vector<std::unique_ptr<Rendezvous>> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(std::make_unique<InProcessRendezvous>(table, rank));
  return all;
}

}  // namespace ddl
