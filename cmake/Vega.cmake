# Vega-Lite's JavaScript comes out of the Python wheel `vega` (tools/requirements-alone.txt), and goes into the binary.

# ddl_find_vega(script licence): the bundle inside the wheel, and files with the licences of what is in it.
function(ddl_find_vega script licences)
  execute_process(
    COMMAND ${DDL_PYTHON} -c "
import importlib.metadata, importlib.util, pathlib, sys
folder = pathlib.Path(importlib.util.find_spec('vega').submodule_search_locations[0]) / 'static'
wheel = importlib.metadata.distribution('vega')
licence = next(wheel.locate_file(f) for f in wheel.files if f.name.startswith('LICENSE') and 'dist-info' in str(f))
sys.stdout.write(f'{folder / \"index.js\"};{folder / \"index.js.LICENSE.txt\"};{licence}')"
    OUTPUT_VARIABLE found RESULT_VARIABLE missing ERROR_VARIABLE why)
  if(missing)
    message(FATAL_ERROR "DDL_PYTHON=${DDL_PYTHON} has no wheel `vega`, whose JavaScript the report embeds; "
                        "run tools/setup.sh\n${why}")
  endif()
  list(POP_FRONT found bundle)
  set(${script} ${bundle} PARENT_SCOPE)
  set(${licences} ${found} PARENT_SCOPE)
endfunction()

# ddl_embed(target name=file …): each file as it stands, as the bytes ddl_embedded_<name> … ddl_embedded_<name>_end.
function(ddl_embed target)
  foreach(pair ${ARGN})
    string(REGEX MATCH "^([a-z_]+)=(.+)$" parts ${pair})
    set(name ${CMAKE_MATCH_1})
    set(file ${CMAKE_MATCH_2})
    set(assembly ${CMAKE_CURRENT_BINARY_DIR}/embedded_${name}.S)
    file(CONFIGURE OUTPUT ${assembly} @ONLY CONTENT [[
  .section .rodata
  .globl ddl_embedded_@name@
  .globl ddl_embedded_@name@_end
ddl_embedded_@name@:
  .incbin "@file@"
ddl_embedded_@name@_end:
  .byte 0
  .section .note.GNU-stack,"",%progbits
]])
    set_source_files_properties(${assembly} PROPERTIES OBJECT_DEPENDS ${file})
    target_sources(${target} PRIVATE ${assembly})
  endforeach()
endfunction()
