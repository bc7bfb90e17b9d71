#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ddl/core/json.h"

namespace ddl {

/// What ships of machines, as files: profiles from datasheets (`ddlbench.machine/1`); in `stacks/` what training packages cost (`ddlbench.stack/1`), kernels reach
/// (`ddlbench.kernels/1`) and wires carry (`ddlbench.wires/1`); in `libraries/` what collectives take (`ddlbench.library/1`); each with its source.

/// Folders where they are looked for, the first that has a file of a name counts: ./machines, where the product was installed, where it was built from.
std::vector<std::string> machine_folders();
/// Names of the profiles there.
std::vector<std::string> shipped_machines();
/// By name, or by path where there is a file; capitals do not matter, and a beginning that one name alone has (`h100`) stands for it, of several the one with the most memory. Errors: not_found, with the nearest name; those of read_machine().
Json find_machine(const std::string& name);
/// The file that find_machine() reads. Errors: not_found, as there.
std::string machine_file(const std::string& name);
/// A file of stacks/. Errors: not_found with the names that there are; corrupt; unsupported for another schema than those above.
Json find_stack(const std::string& name);
std::vector<std::string> shipped_stacks();
/// The one of that name, where there is one that says anything of `part` ("gpt", "images"). Errors: as of find_stack(), but for not_found.
std::optional<Json> stack_with(const std::string& name, const char* part);
/// A file of libraries/. Errors: as of find_stack().
Json find_library(const std::string& name);
std::vector<std::string> shipped_libraries();
/// Tables of measured runs, in tables/.
std::vector<std::string> shipped_tables();
/// The path of a table by its name, or the path itself where there is a file. Errors: not_found with the names that there are.
std::string find_table(const std::string& name_or_path);

/// A number of such a document by its path, `device.peak_flops.fp16`. Errors: not_found, naming document and term, and what measures it.
double term(const Json& document, const std::string& path);
double term_or(const Json& document, const std::string& path, double otherwise);

}  // namespace ddl
