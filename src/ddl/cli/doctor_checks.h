#pragma once

#include <string>
#include <vector>

namespace ddl {

/// What a look at one part of the installation found.
struct Finding {
  enum class Verdict { ok, warn, fail };
  std::string check;
  Verdict verdict = Verdict::ok;
  std::string says;
};

/// Looks at everything that training needs here, and at what it can use besides; never throws. `store`: where results would go.
std::vector<Finding> examine(const std::string& store);

}  // namespace ddl
