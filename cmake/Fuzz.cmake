# ddl_fuzz(name SOURCES … DEPS …): a libFuzzer program. Only with -DDDL_FUZZ=ON, and clang; `make fuzz` sets both.
# The layers under test must be built with DDL_SANITIZE=fuzzer-no-link,address,undefined, or the fuzzer sees nothing of them.
option(DDL_FUZZ "Build the fuzzers (wants clang)" OFF)
if(DDL_FUZZ AND NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "DDL_FUZZ wants clang, for libFuzzer; got ${CMAKE_CXX_COMPILER_ID}")
endif()

function(ddl_fuzz name)
  if(NOT DDL_FUZZ)
    return()
  endif()
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_DEPS})
  ddl_warnings(${name})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
endfunction()
