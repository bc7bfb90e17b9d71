#pragma once

#include <string>
#include <vector>

#include "ddl/transport/mpi/module.h"

namespace ddl {

/// One MPI that a run can choose.
struct MpiImplementation {
  std::string name;   ///< as users write it: openmpi, mpich, intel
  std::string title;
  std::string module;  ///< the file that speaks to it
  std::vector<std::string> libraries;  ///< where it may lie, the likeliest first
  std::string wants;                   ///< what brings the library
  std::string missing;                 ///< why this build has no module for it; empty where it has
  std::vector<std::string> homes = {}; ///< folders with a bin and a lib of its own, the likeliest first; empty: where systems have them
};

/// All that there are, present or not. Looks for files, loads nothing.
std::vector<MpiImplementation> mpi_implementations();

/// One line about them, and what each missing one lacks.
std::string describe(const std::vector<MpiImplementation>& implementations);
/// Why there is none at all; empty where there is one.
std::string why_none(const std::vector<MpiImplementation>& implementations);

/// Whose launcher started this process, by what it left in the environment; empty where none did.
std::string mpi_of_launcher();

/// The one of that name; without a name the launcher's, or else the first that is here.
/// Errors: not_found with the nearest name; unsupported with the reason it is missing.
MpiImplementation choose_mpi(const std::string& name);

/// Why load_mpi() would fail; empty where it would not. Tries it in a forked child, so that nothing of it stays here.
std::string why_not_loaded(const MpiImplementation& implementation);

/// Loads library and module for the rest of the process. Errors: unsupported with what the loader says.
const mpi::Module& load_mpi(const MpiImplementation& implementation);

}  // namespace ddl
