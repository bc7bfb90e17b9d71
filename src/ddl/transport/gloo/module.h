#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "ddl/transport/native.h"

namespace ddl {

/// What a loadable module does with the Gloo inside LibTorch, so that whoever wants no Gloo loads no LibTorch. Nothing throws:
/// two libraries that meet at run time share no exceptions.
class GlooWire {
 public:
  struct Outcome {
    enum class Kind : std::uint8_t { done, timeout, lost, interrupted, unsupported } kind = Kind::done;
    int peer = -1;         ///< of a message; -1 where Gloo does not say
    std::string why = {};  ///< Gloo's words
  };
  struct Piece {
    int peer = 0;
    std::byte* data = nullptr;
    std::size_t bytes = 0;
  };

  virtual ~GlooWire() = default;
  /// Begins to send, which lasts until finish().
  virtual Outcome start(std::span<const Piece> outgoing) noexcept = 0;
  /// Waits until all of it has come.
  virtual Outcome receive(std::span<const Piece> incoming, Seconds timeout) noexcept = 0;
  /// Waits until what start() began to send is gone.
  virtual Outcome finish(Seconds timeout) noexcept = 0;
  virtual Outcome run(const NativeCall& call, Seconds timeout) noexcept = 0;
  /// After a failure: what was started has no hold on its memory any more. Called by the thread that started it.
  virtual void forget() noexcept = 0;
  /// From any thread: what receive() and finish() wait for ends as interrupted.
  virtual void interrupt() noexcept = 0;
};

/// Whether it is of something that took too long: Gloo has one exception for all that goes wrong.
inline bool says_late(const std::string& why) { return why.find("imed out") != std::string::npos || why.find("imeout") != std::string::npos; }

/// Exported under this name. `meet` gives rank 0's text to all. Where the result is null `why` says what went wrong, and `missing` whose
/// fault it seems to be, -1 where that cannot be told.
using OpenGlooWire = GlooWire* (*)(int rank, int size, const std::string& host, const std::function<std::string(const std::string& mine)>& meet,
                                   Seconds timeout, std::string& why, int& missing);
inline constexpr char kOpenGlooWire[] = "ddl_open_gloo_wire";

}  // namespace ddl
