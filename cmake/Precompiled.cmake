# ATen's parallel_for() is a header's: without this it is a loop of one thread, whatever at::get_num_threads() says.
function(ddl_openmp target name)
  if(name MATCHES "^torch")
    target_compile_options(${target} PRIVATE -fopenmp)
  endif()
endfunction()

# Headers that cost most, compiled once: LibTorch's take 10 s a file, nlohmann_json and GoogleTest 2 s each.
# ddl_precompile(target plain|torch|plain_test|torch_test): the target reads those of cmake/pch/<name>.h first.
function(ddl_precompiled name)
  add_library(ddl_pch_${name} STATIC ${CMAKE_SOURCE_DIR}/cmake/pch/holder.cpp)
  target_link_libraries(ddl_pch_${name} PUBLIC ${ARGN} ddl_fmt nlohmann_json::nlohmann_json)
  ddl_warnings(ddl_pch_${name})
  ddl_openmp(ddl_pch_${name} ${name})
  target_precompile_headers(ddl_pch_${name} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/pch/${name}.h)
endfunction()

ddl_precompiled(plain)
ddl_precompiled(plain_test GTest::gtest)
ddl_precompiled(torch ddl_torch)
ddl_precompiled(torch_test ddl_torch GTest::gtest)

function(ddl_precompile target name)
  target_precompile_headers(${target} REUSE_FROM ddl_pch_${name})
  ddl_openmp(${target} ${name})
endfunction()
