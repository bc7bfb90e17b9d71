#pragma once

#include "ddl/predict/schedule_group.h"

namespace ddl {

/// What a collective costs on ranks that have a core and a wire each.
struct Price {
  double seconds = 0;  ///< until the last rank is done, all having started together
  Counts counts;       ///< along the chain of rounds that takes so long; costs.seconds(counts) is `seconds`
};

/// The longest chain of rounds through all ranks' schedules. A round begins when the rank's round before is over and all
/// that it takes is offered (its senders are in the round that sends it); what a rank sent must have been taken before its
/// next round. No two things share anything: simulate() has machines where they do.
/// For symmetrical algorithms this is the published closed form: ring 2(P-1)(alpha + o) + 2(P-1)/P n beta + (P-1)/P n gamma
/// (Patarasuk & Yuan 2009), halving-doubling 2 lg P (alpha + o) + the same (Thakur et al. 2005), recursive doubling
/// lg P (alpha + o + n beta + n gamma); for the double tree see Sanders, Speck & Träff 2009. price_test.cpp holds them
/// against it.
Price price(const ScheduleGroup& group, const UnitCosts& costs);

}  // namespace ddl
