#include "ddl/transport/inproc.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdlib>

#include "ddl/core/text.h"
#include "ddl/transport/heap_blocks.h"
#include "ddl/transport/mailbox_transport.h"

namespace ddl {
namespace {

using DeskMemory = std::shared_ptr<Desk>;

DeskMemory make_desk(int ranks) {
  const std::size_t bytes = Desk::bytes(ranks);
  void* memory = std::aligned_alloc(kApart, (bytes + kApart - 1) / kApart * kApart);
  if (memory == nullptr) throw Error(Code::io, fmt::format("[inproc] no memory for {} bytes", bytes));
  return {Desk::make(memory, ranks), [](Desk* desk) { std::free(desk); }};
}

/// Every rank's desk. Everyone copies the owners between the two meetings, so they are all still there.
std::vector<DeskMemory> meet(Rendezvous& rendezvous, Seconds timeout) {
  const DeskMemory mine = make_desk(rendezvous.size());
  const auto texts = rendezvous.exchange(fmt::format("{} {}", ::getpid(), std::bit_cast<std::uint64_t>(&mine)), timeout);
  std::vector<DeskMemory> desks;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    const auto words = split(texts[rank], ' ');
    std::uint64_t address = 0;
    if (words.size() == 2) std::from_chars(words[1].data(), words[1].data() + words[1].size(), address);
    if (address == 0 || words[0] != std::to_string(::getpid()))
      throw Error(Code::invalid_argument, fmt::format("[inproc] ranks must be threads of one process; got rank {} as '{}', "
                                                      "expected process {}", rank, texts[rank], ::getpid()));
    desks.push_back(*std::bit_cast<const DeskMemory*>(address));
  }
  rendezvous.exchange("copied", timeout);
  return desks;
}

class OneAddressSpace final : public SharedMemory {
 public:
  /// `staged`: those whose blocks are read in place; empty: everything is.
  OneAddressSpace(std::vector<DeskMemory> desks, Seconds timeout, std::vector<std::shared_ptr<HeapBlocks>> staged)
      : desks_(std::move(desks)), timeout_(timeout), staged_(std::move(staged)), blocks_(staged_.empty() ? std::make_shared<HeapBlocks>() : staged_.back()) {}

  Desk& desk(int rank) override { return *desks_[static_cast<std::size_t>(rank)]; }
  std::span<std::byte> allocate(std::size_t bytes) override { return blocks_->allocate(bytes); }
  std::optional<std::uint64_t> locate(std::span<const std::byte> data) const override {
    const auto holds = [&](const auto& blocks) { return blocks->hold(data); };
    if (!staged_.empty() && !data.empty() && std::none_of(staged_.begin(), staged_.end(), holds)) return std::nullopt;
    return std::bit_cast<std::uint64_t>(data.data());
  }
  std::byte* at(int, std::uint64_t where, std::uint64_t bytes) const override {
    static std::byte nothing{};
    return bytes == 0 ? &nothing : std::bit_cast<std::byte*>(where);
  }
  bool alive(int) const override { return true; }
  bool dies_with_owner() const override { return true; }
  std::unique_ptr<SharedMemory> among(const std::vector<int>&, Rendezvous& rendezvous) override {
    auto staged = staged_;
    if (!staged.empty()) staged.push_back(std::make_shared<HeapBlocks>());
    return std::make_unique<OneAddressSpace>(meet(rendezvous, timeout_), timeout_, std::move(staged));
  }

 private:
  std::vector<DeskMemory> desks_;
  Seconds timeout_;
  std::vector<std::shared_ptr<HeapBlocks>> staged_;
  std::shared_ptr<HeapBlocks> blocks_;
};

}  // namespace

std::unique_ptr<Transport> make_inproc(Rendezvous& rendezvous, const TransportOptions& options) {
  std::vector<std::shared_ptr<HeapBlocks>> staged;
  if (options.staged) staged.push_back(std::make_shared<HeapBlocks>());
  auto memory = std::make_unique<OneAddressSpace>(meet(rendezvous, options.connect_timeout), options.connect_timeout, std::move(staged));
  return std::make_unique<MailboxTransport>("inproc", rendezvous.rank(), rendezvous.size(), std::move(memory));
}

}  // namespace ddl
