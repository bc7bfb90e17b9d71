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

execute_process(
  COMMAND ${DDL_PYTHON} -c "import torch, sys; sys.stdout.write(torch.utils.cmake_prefix_path + ';' + torch.__version__)"
  OUTPUT_VARIABLE torch_says RESULT_VARIABLE torch_missing ERROR_VARIABLE torch_error)
if(torch_missing)
  message(FATAL_ERROR "DDL_PYTHON=${DDL_PYTHON} cannot import torch; run tools/setup.sh\n${torch_error}")
endif()
list(GET torch_says 0 torch_prefix)
list(GET torch_says 1 DDL_TORCH_VERSION)
find_package(Torch REQUIRED PATHS ${torch_prefix} NO_DEFAULT_PATH)
get_filename_component(DDL_TORCH_ROOT ${torch_prefix}/../.. ABSOLUTE)

add_library(ddl_torch INTERFACE)
target_include_directories(ddl_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
target_compile_options(ddl_torch INTERFACE ${TORCH_CXX_FLAGS})
# The libraries by name, not TORCH_LIBRARIES: those add --no-as-needed wrappers that the layers must not repeat.
target_link_libraries(ddl_torch INTERFACE ${DDL_TORCH_ROOT}/lib/libtorch_cpu.so ${DDL_TORCH_ROOT}/lib/libc10.so)
if(EXISTS ${DDL_TORCH_ROOT}/lib/libtorch_cuda.so)
  # Registered by static initialisers only, so the linker must be told to keep it.
  target_link_libraries(ddl_torch INTERFACE
    "-Wl,--no-as-needed,${DDL_TORCH_ROOT}/lib/libtorch_cuda.so,${DDL_TORCH_ROOT}/lib/libc10_cuda.so,--as-needed")
endif()

# fmt as LibTorch ships it (g++ 12 has no <format>), reached through a folder that holds nothing else:
# LibTorch's include folder also carries protobuf and other headers that no other layer should see.
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/fmt-include)
file(CREATE_LINK ${DDL_TORCH_ROOT}/include/fmt ${CMAKE_BINARY_DIR}/fmt-include/fmt SYMBOLIC)
add_library(ddl_fmt INTERFACE)
target_include_directories(ddl_fmt SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/fmt-include)
target_compile_definitions(ddl_fmt INTERFACE FMT_HEADER_ONLY)
