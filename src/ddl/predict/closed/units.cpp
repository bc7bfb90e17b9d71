#include <algorithm>
#include <cstddef>

#include "ddl/predict/closed/terms.h"

namespace ddl {
namespace {

/// One after the other on the wire, in the order in which they are asked for; and what is computed meanwhile.
class Units {
 public:
  explicit Units(const UnitTerms& terms) : terms_(terms), there_(terms.units.size()), scattered_(terms.units.size()) {}

  PricedStep price() {
    const auto n = terms_.units.size();
    computed_ = terms_.load;
    if (terms_.tied_gather > 0) tied_ = wire_ = terms_.tied_gather;
    write_stays();
    gather(0);
    for (int micro = 0; micro < terms_.micro_batches; ++micro) {
      for (std::size_t u = 0; u < n; ++u) pass(u, true);
      for (std::size_t u = n; u-- > 0;) pass(u, false);
    }
    const double passed = computed_;
    const double tied = terms_.tied_reduce > 0 ? wire_ = std::max(wire_, passed) + terms_.tied_reduce : 0;
    // Replicas of parts have a wire of their own, and then there is what everybody must know of everybody.
    double replicas = 0;
    for (std::size_t u = n; u-- > 0;)
      if (terms_.units[u].replicas > 0) scattered_[u] = replicas = std::max(replicas, scattered_[u]) + terms_.units[u].replicas;
    wire_ = std::max(wire_, passed) + terms_.control;
    double updated = passed;
    for (std::size_t u = 0; u < n; ++u) updated = std::max(updated, scattered_[u]) + terms_.units[u].update;
    if (terms_.tied_update > 0) updated = std::max(updated, tied) + terms_.tied_update;
    return told(std::max({updated, wire_, replicas}));
  }

 private:
  /// From the first pass that reads a unit's parameters to the last: they are dropped after, unless they are kept for the whole step.
  void write_stays() {
    const auto n = terms_.units.size();
    const auto add = [&](std::size_t unit) {
      if (terms_.units[unit].gather < 0) return;
      const bool same = terms_.reshard ? !stays_.empty() && stays_.back().unit == unit : std::any_of(stays_.begin(), stays_.end(), [&](const Stay& stay) { return stay.unit == unit; });
      if (same) {
        for (auto& stay : stays_)
          if (stay.unit == unit && (!terms_.reshard || &stay == &stays_.back())) ++stay.passes;
      } else {
        stays_.push_back({unit, 1});
      }
    };
    for (int micro = 0; micro < terms_.micro_batches; ++micro) {
      for (std::size_t u = 0; u < n; ++u) add(u);
      for (std::size_t u = n; u-- > 0;) add(u);
    }
  }

  /// What there is room for, from `time` on: a unit that is still there is gathered again once it was dropped.
  void gather(double time) {
    const auto room = terms_.reshard ? dropped_ + static_cast<std::size_t>(terms_.prefetch) + 1 : stays_.size();
    for (; arrived_.size() < std::min(room, stays_.size()) && !there_[stays_[arrived_.size()].unit]; arrived_.push_back(wire_)) {
      const auto unit = stays_[arrived_.size()].unit;
      wire_ = std::max(wire_, time) + terms_.units[unit].gather;
      there_[unit] = true;
    }
  }

  void pass(std::size_t number, bool forward) {
    const auto& unit = terms_.units[number];
    const bool gathered = unit.gather >= 0;
    if (unit.reads_tied) computed_ = std::max(computed_, tied_);
    // Its stay begins with this pass, or has begun.
    if (gathered && (open_ >= stays_.size() || stays_[open_].unit != number || stays_[open_].passes == 0)) begin(number);
    const double seconds = forward ? unit.forward : unit.backward, begun = computed_;
    computed_ += seconds;
    if (gathered && --stays_[open_].passes == 0) {
      there_[number] = false;
      ++dropped_;
      gather(computed_);
    }
    if (!forward && gathered) scattered_[number] = wire_ = std::max(wire_, begun + unit.ready * seconds) + unit.reduce;
  }

  void begin(std::size_t number) {
    if (terms_.reshard) {
      open_ = begun_++;
    } else {
      open_ = 0;
      while (stays_[open_].unit != number) ++open_;
    }
    computed_ = std::max(computed_, arrived_.at(open_));
  }

  PricedStep told(double end) const {
    Ledger ledger;
    ledger[Cause::load] = terms_.load;
    for (const auto& unit : terms_.units) {
      ledger[Cause::forward] += terms_.micro_batches * unit.forward;
      ledger[Cause::backward] += terms_.micro_batches * unit.backward;
      ledger[Cause::update] += unit.update;
    }
    ledger[Cause::update] += terms_.tied_update;
    double busy = 0;
    for (const double part : ledger.seconds) busy += part;
    ledger[Cause::communication] = end - busy;
    ledger[Cause::harness] = terms_.harness;
    ledger.wall = end + terms_.harness;
    if (const double late = terms_.loader - ledger.wall; late > 0) {
      ledger[Cause::load] += late;
      ledger.wall += late;
    }
    return {ledger.wall, {ledger}};
  }

  struct Stay {
    std::size_t unit;
    int passes;
  };
  const UnitTerms& terms_;
  std::vector<Stay> stays_;
  std::vector<double> arrived_;          ///< by stay
  std::vector<bool> there_;
  std::vector<double> scattered_;        ///< by unit: when its last gradients were
  std::size_t dropped_ = 0, begun_ = 0, open_ = static_cast<std::size_t>(-1);
  double computed_ = 0, wire_ = 0, tied_ = 0;
};

}  // namespace

PricedStep price_units(const UnitTerms& terms) { return Units(terms).price(); }

}  // namespace ddl
