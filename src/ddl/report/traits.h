#pragma once

#include <set>
#include <string>
#include <vector>

#include "ddl/report/run_view.h"

namespace ddl {

/// What a record says of how its run was trained, in the order in which it is named. Seeds, the length of a run and rates of learning are none.
std::vector<Trait> traits_of(const Json& record, int workers);

/// Keys of traits that are not said alike of all runs; who says nothing of one is like any.
std::set<std::string> differing(const std::vector<const RunView*>& runs);

/// How the run says that trait; empty where it says nothing.
std::string said(const RunView& run, std::string_view key);

/// Names each run in `label` by what tells it apart: its case, and what of differing() the case leaves unsaid; a number where runs are alike.
/// `series` is the same without the network.
void label_runs(std::vector<RunView>& views);

}  // namespace ddl
