#pragma once

#include <string>
#include <vector>

#include "ddl/core/units.h"
#include "ddl/train/control.h"
#include "ddl/transport/unique_fd.h"

namespace ddl {

/// Where a coordinator is met, and what proves each to the other. Whoever knows it may join the run.
struct Meeting {
  /// In the order in which to try them: "@NAME", a Unix socket without a file; "/PATH", one with; "IPV4:PORT".
  std::vector<std::string> addresses;
  std::string secret;
  /// Of the machine's start: who has another one is on another machine, with clocks of its own.
  std::string boot;

  std::string text() const;
  /// Errors: corrupt.
  static Meeting from_text(const std::string& text);
};

/// The kernel's random name of this machine's start.
std::string boot_name();

/// A coordinator's end: a socket that listens, gone with this object.
///
/// Both sides prove themselves before they trust: the coordinator says the first half of the secret, the other one answers with
/// the second. A stranger learns nothing that helps him.
class Listener {
 public:
  enum class Reach {
    machine,  ///< processes of this network namespace, by a name that leaves no file
    file,     ///< any namespace of this machine, by a file in a folder of its own
    network,  ///< other machines
  };
  /// Errors: io.
  explicit Listener(Reach reach);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  const Meeting& meeting() const { return meeting_; }
  int fd() const { return fd_.get(); }
  /// The next one who came, greeted, if any; -1 otherwise.
  int accept();
  /// Whether `body` of a `hello` answers the greeting.
  bool proves(const Json& body) const;
  /// Everyone has come: nobody else may.
  void close();

 private:
  Meeting meeting_;
  UniqueFd fd_;
  std::string folder_;
  int maker_;
};

/// Connects and proves: `mine` is told to the coordinator, with `via`, the address that led there.
/// Errors: timeout with the reason of each address.
Control dial(const Meeting& meeting, Json mine, Seconds timeout);

}  // namespace ddl
