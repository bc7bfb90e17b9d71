#include "ddl/transport/gloo/gloo.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <cstring>
#include <optional>

#include "ddl/core/error.h"
#include "ddl/core/modules.h"
#include "ddl/transport/check.h"
#include "ddl/transport/gloo/module.h"
#include "ddl/transport/heap_blocks.h"

namespace ddl {
namespace {

OpenGlooWire load() {
  void* const module = ::dlopen(module_file("libddl_gloo.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) throw Error(Code::unsupported, fmt::format("[gloo] unsupported: cannot load its module: {}", ::dlerror()));
  return reinterpret_cast<OpenGlooWire>(::dlsym(module, kOpenGlooWire));
}

/// Goes before every message: Gloo's have neither a length nor words.
struct Head {
  std::uint64_t bytes = 0;
  double factor = 1;
  Signature signature = {};
};

class GlooTransport final : public Transport, public NativeCollectives {
 public:
  GlooTransport(Rendezvous& rendezvous, const TransportOptions& options) : rank_(rendezvous.rank()), size_(rendezvous.size()), options_(options) {
    static const OpenGlooWire open = load();
    std::string why;
    int missing = -1;
    const auto meet = [&](const std::string& mine) { return rendezvous.exchange(mine, options.connect_timeout)[0]; };
    wire_.reset(open(rank_, size_, options.host, meet, options.connect_timeout, why, missing));
    if (!wire_) throw_unconnected(why, missing);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  bool shares_memory() const override { return false; }
  Traffic traffic() const override { return {sent_.load(), received_.load()}; }
  NativeCollectives* native() override { return this; }
  std::span<std::byte> allocate(std::size_t bytes) override { return blocks_.allocate(bytes); }
  std::unique_ptr<Transport> subgroup(const std::vector<int>&, Rendezvous& rendezvous) override { return make_gloo(rendezvous, options_); }

  void interrupt() noexcept override {
    interrupted_.store(true);
    wire_->interrupt();
  }

  /// Gloo has no message for it: the others find the connection closed.
  void abandon(const Error& why) noexcept override {
    if (!failure_) failure_ = why;
    wire_->interrupt();
  }

  void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming, Seconds timeout, const Signature& signature) override {
    check_messages("gloo", rank_, size_, outgoing, incoming);
    guarded([&] {
      heads_.assign(outgoing.size() + incoming.size(), {});
      std::vector<GlooWire::Piece> pieces;
      for (std::size_t i = 0; i < outgoing.size(); ++i) {
        const auto& message = outgoing[i];
        heads_[i] = {message.data.size(), message.factor, signature};
        pieces.push_back({message.peer, reinterpret_cast<std::byte*>(&heads_[i]), sizeof(Head)});
        // Gloo takes no constant; it only reads.
        if (!message.data.empty()) pieces.push_back({message.peer, const_cast<std::byte*>(message.data.data()), message.data.size()});
        sent_ += static_cast<std::int64_t>(message.data.size());
      }
      check(wire_->start(pieces), timeout);
      // One message after the other: two of one peer are told apart by their order alone.
      for (std::size_t i = 0; i < incoming.size(); ++i) receive(incoming[i], heads_[outgoing.size() + i], timeout, signature);
      check(wire_->finish(timeout), timeout);
    });
  }

  void run(const NativeCall& call, Reducer, bool meets, Seconds timeout, const Signature& signature) override {
    if (meets) meet(*this, timeout, signature);
    guarded([&] { check(wire_->run(call, timeout), timeout); });
  }

 private:
  /// Whose key the store of rank 0 did not have, where Gloo says that; else who is `missing`.
  [[noreturn]] void throw_unconnected(const std::string& why, int missing) const {
    const auto key = why.find("keys: /");
    const auto slash = key == std::string::npos ? key : why.find('/', key + 7);
    if (slash != std::string::npos) std::from_chars(why.data() + slash + 1, why.data() + why.size(), missing);
    if (missing < 0) throw Error(Code::io, fmt::format("[gloo] rank {} cannot connect: {}", rank_, why));
    if (says_late(why))
      throw Error(Code::timeout, fmt::format("[gloo] rank {} waited {}; rank {} did not come: {}", rank_, to_string(options_.connect_timeout), missing, why));
    throw Error(Code::peer_lost, fmt::format("[gloo] rank {} lost rank {}: {}", rank_, missing, why));
  }

  void receive(const Incoming& message, Head& head, Seconds timeout, const Signature& signature) {
    const GlooWire::Piece first{message.peer, reinterpret_cast<std::byte*>(&head), sizeof head};
    check(wire_->receive({&first, 1}, timeout), timeout);
    if (head.signature != signature) throw_disagreement("gloo", message.peer, describe(head.signature), rank_, describe(signature));
    if (head.bytes != message.bytes) throw_wrong_length("gloo", message.peer, rank_, head.bytes, message.bytes);
    received_ += static_cast<std::int64_t>(message.bytes);
    if (message.bytes == 0) return;
    if (message.into == nullptr) staging_.resize(std::max(staging_.size(), message.bytes));
    auto* const place = message.into != nullptr ? message.into : staging_.data();
    const GlooWire::Piece rest{message.peer, place, message.bytes};
    check(wire_->receive({&rest, 1}, timeout), timeout);
    if (message.into == nullptr) message.sink.take(message.sink.context, 0, {place, message.bytes}, head.factor);
  }

  template <typename Body>
  void guarded(const Body& body) {
    if (interrupted_) throw_interrupted("gloo", rank_);
    if (failure_) throw Error(*failure_);
    try {
      body();
    } catch (const Error& error) {
      abandon(error);
      wire_->forget();
      throw;
    }
  }

  void check(const GlooWire::Outcome& outcome, Seconds timeout) const {
    using Kind = GlooWire::Outcome::Kind;
    const auto who = outcome.peer >= 0 ? fmt::format("rank {}", outcome.peer) : fmt::format("a rank of {}", size_);
    switch (outcome.kind) {
      case Kind::done: return;
      case Kind::timeout: throw Error(Code::timeout, fmt::format("[gloo] rank {} waited {}; {} did not come", rank_, to_string(timeout), who));
      case Kind::lost: throw Error(Code::peer_lost, fmt::format("[gloo] rank {} lost {}: {}", rank_, who, outcome.why));
      case Kind::interrupted: throw_interrupted("gloo", rank_);
      case Kind::unsupported: throw Error(Code::unsupported, fmt::format("[gloo] unsupported: {}", outcome.why));
    }
  }

  int rank_;
  int size_;
  TransportOptions options_;
  HeapBlocks blocks_;
  std::vector<std::byte> staging_;
  std::vector<Head> heads_;  // Gloo reads and writes them until an exchange has ended or was forgotten
  std::atomic<bool> interrupted_{false};
  std::atomic<std::int64_t> sent_{0}, received_{0};
  std::optional<Error> failure_;
  std::unique_ptr<GlooWire> wire_;
};

}  // namespace

std::unique_ptr<Transport> make_gloo(Rendezvous& rendezvous, const TransportOptions& options) {
  return std::make_unique<GlooTransport>(rendezvous, options);
}

void load_gloo() { load(); }

std::string gloo_missing() {
  const auto path = module_path();
  return ::access(path.c_str(), R_OK) == 0 ? std::string() : fmt::format("{} is not there", path);
}

}  // namespace ddl
