# Run at each build: writes OUTPUT from INPUT, and touches it only where something changed.
set(COMMIT "")
set(DIRTY "false")
set(CHANGES "")
find_program(GIT git)
if(GIT AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse --verify -q HEAD
                  OUTPUT_VARIABLE COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE no_commit)
  if(no_commit)
    set(COMMIT "")
    set(DIRTY "true")
  else()
    # The sources only: a results file or a report beside them does not change the binary.
    execute_process(COMMAND ${GIT} -C ${SOURCE} diff HEAD -- src cmake CMakeLists.txt tools/requirements.txt
                    OUTPUT_VARIABLE changes ERROR_QUIET)
    if(NOT changes STREQUAL "")
      set(DIRTY "true")
      string(SHA256 CHANGES "${changes}")
      string(SUBSTRING ${CHANGES} 0 16 CHANGES)
    endif()
  endif()
endif()
configure_file(${INPUT} ${OUTPUT} @ONLY)
