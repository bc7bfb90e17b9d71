# Every third-party thing, in one place. Nothing links a libgloo: it would hijack the one inside LibTorch.
find_package(Threads REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(GTest REQUIRED)
find_package(benchmark REQUIRED)
include(GoogleTest)

# Headers alone: they write Protocol Buffers without a compiler of schemas.
find_path(protozero_headers protozero/pbf_writer.hpp REQUIRED)
add_library(ddl_protozero INTERFACE)
target_include_directories(ddl_protozero SYSTEM INTERFACE ${protozero_headers})

find_path(hwloc_headers hwloc.h REQUIRED)
find_library(hwloc_library hwloc REQUIRED)
add_library(ddl_hwloc INTERFACE)
target_include_directories(ddl_hwloc SYSTEM INTERFACE ${hwloc_headers})
target_link_libraries(ddl_hwloc INTERFACE ${hwloc_library})

# Opened at run time where it is there (nn/openblas.h): the one with threads of its own, whose calls take locks. Debian has a folder for each.
find_library(DDL_OPENBLAS NAMES libopenblas.so.0 libopenblasp.so.0 PATH_SUFFIXES openblas-pthread NO_CACHE)

# LibTorch by its files, not by find_package(Torch): that wants a whole CUDA toolkit where the wheel has CUDA in it.
execute_process(
  COMMAND ${DDL_PYTHON} -c "
import importlib.util, pathlib, runpy, sys
root = pathlib.Path(importlib.util.find_spec('torch').submodule_search_locations[0])
sys.stdout.write(f'{root};' + runpy.run_path(str(root / 'version.py'))['__version__'])"
  OUTPUT_VARIABLE torch_says RESULT_VARIABLE torch_missing ERROR_VARIABLE torch_error)
if(torch_missing)
  message(FATAL_ERROR "DDL_PYTHON=${DDL_PYTHON} has no torch; run tools/setup.sh\n${torch_error}")
endif()
list(GET torch_says 0 DDL_TORCH_ROOT)
list(GET torch_says 1 DDL_TORCH_VERSION)
message(STATUS "LibTorch ${DDL_TORCH_VERSION} in ${DDL_TORCH_ROOT}")

add_library(ddl_torch INTERFACE)
target_include_directories(ddl_torch SYSTEM INTERFACE
  ${DDL_TORCH_ROOT}/include ${DDL_TORCH_ROOT}/include/torch/csrc/api/include)
# The OpenMP that its threads are of: a second one beside it would have threads of its own. Wheels bring one, and others use the system's.
file(GLOB torch_openmp ${DDL_TORCH_ROOT}/lib/libgomp*.so.1)
if(NOT torch_openmp)
  set(torch_openmp gomp)
endif()
target_link_libraries(ddl_torch INTERFACE ${DDL_TORCH_ROOT}/lib/libtorch_cpu.so ${DDL_TORCH_ROOT}/lib/libc10.so ${torch_openmp})
# A wheel with CUDA works as a CPU one: its CUDA half is not linked until there are CUDA devices to run on, since
# loading it costs every start seconds.

# fmt as LibTorch ships it (g++ 12 has no <format>), reached through a folder that holds nothing else:
# LibTorch's include folder also carries protobuf and other headers that no other layer should see.
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/fmt-include)
file(CREATE_LINK ${DDL_TORCH_ROOT}/include/fmt ${CMAKE_BINARY_DIR}/fmt-include/fmt SYMBOLIC)
add_library(ddl_fmt STATIC ${CMAKE_SOURCE_DIR}/cmake/fmt.cpp)
target_include_directories(ddl_fmt SYSTEM PUBLIC ${CMAKE_BINARY_DIR}/fmt-include)
set_target_properties(ddl_fmt PROPERTIES POSITION_INDEPENDENT_CODE ON)  # plug-ins have it, too
