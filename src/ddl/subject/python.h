#pragma once

#include <string>

namespace ddl {

/// A Python that can import torch, or why there is none.
struct PythonFound {
  std::string executable;
  std::string missing;  ///< empty where one was found
};

/// $DDLBENCH_PYTHON and nothing else where it is set; else the Python this build was made with, else python3.
/// Does not import torch: looks for the package's file in a virtual environment, else asks the interpreter where it
/// would find it (about 20 ms).
PythonFound find_python();

/// The place of an installed data file: <binary's folder>/../share/ddlbench/<name>, else the source tree's.
/// Empty where it is in neither.
std::string find_script(const std::string& name);

}  // namespace ddl
