#include "ddl/lab/signals.h"

#include <string.h>

#include <array>

namespace ddl {
namespace {

constexpr std::array kEnding{SIGINT, SIGTERM, SIGHUP};

// What a handler may reach.
volatile std::sig_atomic_t g_noted = 0;

std::array<struct sigaction, kEnding.size()> g_before;
int g_depth = 0;

void note(int number) {
  if (g_noted == 0) {
    g_noted = number;
    return;
  }
  // Blocked until this returns, then it ends the process.
  ::signal(number, SIG_DFL);
  ::raise(number);
}

}  // namespace

SignalsHeld::SignalsHeld() {
  if (g_depth++ > 0) return;
  g_noted = 0;
  for (std::size_t i = 0; i < kEnding.size(); ++i) {
    ::sigaction(kEnding[i], nullptr, &g_before[i]);
    if (g_before[i].sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = note;
    ::sigaction(kEnding[i], &action, nullptr);
  }
}

SignalsHeld::~SignalsHeld() {
  if (--g_depth > 0) return;
  for (std::size_t i = 0; i < kEnding.size(); ++i) ::sigaction(kEnding[i], &g_before[i], nullptr);
}

int SignalsHeld::noted() { return g_noted; }

int SignalsHeld::take() {
  const int number = g_noted;
  g_noted = 0;
  return number;
}

sigset_t ending_signals() {
  sigset_t mask;
  ::sigemptyset(&mask);
  for (const int number : kEnding) {
    struct sigaction now {};
    ::sigaction(number, nullptr, &now);
    if (now.sa_handler != SIG_IGN) ::sigaddset(&mask, number);
  }
  return mask;
}

const char* signal_name(int number) {
  switch (number) {
    case SIGINT: return "SIGINT";
    case SIGTERM: return "SIGTERM";
    case SIGHUP: return "SIGHUP";
    default: return ::strsignal(number);
  }
}

}  // namespace ddl
