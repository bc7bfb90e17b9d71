#pragma once

#include <functional>
#include <memory>

#include "ddl/core/registry.h"
#include "ddl/subject/torch_ddp.h"

namespace ddl {

/// A package under comparison that trains in processes of its own, and says what happened as PeerEvents.
class ExternalSubject {
 public:
  virtual ~ExternalSubject() = default;
  /// Errors: those of PreparedPeer.
  virtual PreparedPeer prepare(const PeerJob& job, const DatasetPair& data) const = 0;
};

/// Null: ddlbench itself, whose workers the coordinator starts.
using SubjectFactory = std::function<std::unique_ptr<ExternalSubject>()>;

/// ddlbench; torch-ddp (missing where no Python that has torch is found).
Registry<SubjectFactory> builtin_subjects();

}  // namespace ddl
