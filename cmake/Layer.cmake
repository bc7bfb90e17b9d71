# ddl_layer(name SOURCES … TESTS … DEPS … [TORCH]): one layer of src/ddl, as a static library ddl_<name>,
# and one test executable <name>_test per layer with every x_test.cpp of it. Sources are listed, never globbed.
# SLOW_TESTS are built into <name>_slow_test, labelled `slow`: `make check` leaves them out.
# TOGETHER, TESTS_TOGETHER: its files, and its tests' files, are compiled several at once (ddl_together()), but for those that stand ALONE.
function(ddl_layer name)
  cmake_parse_arguments(arg "TORCH;TOGETHER;TESTS_TOGETHER" "" "SOURCES;TESTS;SLOW_TESTS;ALONE;DEPS;TEST_DEPS" ${ARGN})
  add_library(ddl_${name} STATIC ${arg_SOURCES})
  target_include_directories(ddl_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(ddl_${name} PUBLIC ${arg_DEPS} ddl_fmt Threads::Threads)
  ddl_warnings(ddl_${name})
  if(arg_TORCH)
    target_link_libraries(ddl_${name} PUBLIC ddl_torch)
    ddl_precompile(ddl_${name} torch)
  else()
    ddl_precompile(ddl_${name} plain)
  endif()
  if(arg_TOGETHER)
    ddl_together(ddl_${name})
  endif()
  if(arg_ALONE)
    set_source_files_properties(${arg_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  if(arg_TESTS)
    ddl_test(${name}_test "" "${arg_TESTS}" "ddl_${name};${arg_TEST_DEPS}" ${arg_TORCH})
  endif()
  if(arg_SLOW_TESTS)
    ddl_test(${name}_slow_test slow "${arg_SLOW_TESTS}" "ddl_${name};${arg_TEST_DEPS}" ${arg_TORCH})
  endif()
  foreach(test ${name}_test ${name}_slow_test)
    if(arg_TESTS_TOGETHER AND TARGET ${test})
      ddl_together(${test})
    endif()
  endforeach()
endfunction()

# Several files are compiled as one. What headers are made into (templates of LibTorch, JSON, GoogleTest; constants of CLI11) is made
# once for all of them: a quarter to half of the time. Names of their anonymous namespaces must differ, or a file stands ALONE.
# Not for loops over elements (kernels of nn and train, collectives, transports) and the simulator: what a compiler puts in line there must not depend on neighbours.
function(ddl_together target)
  if(DDL_TOGETHER)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
  endif()
endfunction()

function(ddl_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Werror)
  # Designated and partial initialisers leave the rest at their defaults, which is what is meant.
  target_compile_options(${target} PRIVATE -Wno-missing-field-initializers)
  # g++ 12 reports these inside the standard library's and LibTorch's own inlined code.
  target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized -Wno-array-bounds -Wno-stringop-overflow
    -Wno-stringop-overread -Wno-restrict -Wno-dangling-pointer)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # It does not know some of those above.
    target_compile_options(${target} PRIVATE -Wno-unknown-warning-option)
  endif()
  if(DDL_SANITIZE)
    # What UBSan finds ends the program, as what the others find does.
    target_compile_options(${target} PRIVATE -fsanitize=${DDL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
    target_link_options(${target} PUBLIC -fsanitize=${DDL_SANITIZE})
    if(DDL_SANITIZE MATCHES thread AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # ThreadSanitizer knows no fences. Ours stand between atomics, so no race is hidden or invented by that.
      target_compile_options(${target} PRIVATE -Wno-tsan)
    endif()
  endif()
endfunction()

# Plug-ins find GraphBuilder and the like in the program that loads them: it gives out our own names, and nobody else's.
function(ddl_serves_plugins target)
  foreach(name _ZN3ddl* _ZN?3ddl* _ZT?N3ddl*)
    target_link_options(${target} PRIVATE "LINKER:--export-dynamic-symbol=${name}")
  endforeach()
endfunction()

function(ddl_test executable label sources deps torch)
  add_executable(${executable} ${sources})
  target_link_libraries(${executable} PRIVATE ${deps} GTest::gtest GTest::gtest_main)
  target_compile_definitions(${executable} PRIVATE DDL_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  ddl_warnings(${executable})
  # What tests call is built as it is used; their own files take three fifths of the time to compile.
  target_compile_options(${executable} PRIVATE $<$<CONFIG:Release>:-O1>)
  if(torch)
    ddl_precompile(${executable} torch_test)
  else()
    ddl_precompile(${executable} plain_test)
  endif()
  # What the user's own machine was measured to do is no part of a test.
  set(environment "XDG_CONFIG_HOME=${CMAKE_BINARY_DIR}/no-config")
  if(torch)
    # As many tests run at once as there are cores: LibTorch's threads would wait for each other most of the time. (A list: of one word with semicolons CTest makes one variable.)
    list(APPEND environment OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive)
  endif()
  # One ctest entry per executable: starting a process with LibTorch in it costs 0.2 s, and there are hundreds of tests.
  add_test(NAME ${executable} COMMAND ${executable})
  set_tests_properties(${executable} PROPERTIES TIMEOUT 900 ENVIRONMENT "${environment}")
  if(label)
    set_tests_properties(${executable} PROPERTIES LABELS ${label} COST 200)  # as tests/CMakeLists.txt has it
  endif()
endfunction()
