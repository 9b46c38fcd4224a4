# `pip install .` in a tree that `make build` has built: brings that build up to date and packs it,
# so nothing is compiled twice. Sets KILN_REUSED when build/release holds a binding for the Python
# that asks; else, as in a fresh source archive, the wheel builds everything itself.
set(KILN_REUSE_DIR ${CMAKE_SOURCE_DIR}/build/release CACHE PATH "A build that pip may pack")
file(GLOB kiln_extension ${KILN_REUSE_DIR}/python/kiln/_core.${SKBUILD_SOABI}.so
     ${KILN_REUSE_DIR}/python/kiln/_core.abi3.so)
if(NOT kiln_extension OR NOT EXISTS ${KILN_REUSE_DIR}/build.ninja)
  return()
endif()
message(STATUS "Packing the build in ${KILN_REUSE_DIR}")
add_custom_target(kiln_reuse ALL
  COMMAND ${CMAKE_COMMAND} --build ${KILN_REUSE_DIR} --target kiln_python kiln_kernel_compiler kiln_command
  USES_TERMINAL)
install(CODE "execute_process(COMMAND \${CMAKE_COMMAND} --install ${KILN_REUSE_DIR}
  --component python --prefix \${CMAKE_INSTALL_PREFIX} COMMAND_ERROR_IS_FATAL ANY)"
  COMPONENT python)
set(KILN_REUSED TRUE)
