# A ddlbench that stands by itself: LibTorch's libraries go beside it, found through $ORIGIN. A CUDA build's are
# gigabytes; they stay where they are unless DDL_BUNDLE_TORCH says otherwise.
if(EXISTS ${DDL_TORCH_ROOT}/lib/libtorch_cuda.so)
  set(bundle_default OFF)
else()
  set(bundle_default ON)
endif()
option(DDL_BUNDLE_TORCH "Install LibTorch's libraries beside the binary" ${bundle_default})
if(DDL_BUNDLE_TORCH)
  install(FILES ${DDL_TORCH_ROOT}/lib/libtorch_cpu.so ${DDL_TORCH_ROOT}/lib/libc10.so ${DDL_TORCH_ROOT}/lib/libgomp.so.1
          DESTINATION lib/ddlbench)
  set_target_properties(ddlbench PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/ddlbench")
else()
  # NCCL and the CUDA runtime, where they were linked to, lie in folders of their own (cmake/DeviceWires.cmake). INSTALL_RPATH_USE_LINK_PATH would leave out those within this tree.
  set(folders ${DDL_TORCH_ROOT}/lib)
  foreach(library ${DDL_NCCL_LIBRARY} ${DDL_CUDA_LIBRARY})
    if(EXISTS ${library})
      cmake_path(GET library PARENT_PATH folder)
      list(APPEND folders ${folder})
    endif()
  endforeach()
  set_target_properties(ddlbench PROPERTIES INSTALL_RPATH "${folders}")
endif()
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/README.md DESTINATION share/doc/ddlbench)
