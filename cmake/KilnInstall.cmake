# Install rules and the CMake package, so that other projects write find_package(kiln).
# Components: runtime, compiler, emulator, development, tools; the binding adds python.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS kiln EXPORT kilnTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
set_target_properties(kiln PROPERTIES INSTALL_RPATH "$ORIGIN")
if(TARGET kiln_compiler)
  # Opened by the engine from the folder of libkiln, so nobody links it.
  install(TARGETS kiln_compiler kiln_kernel_compiler
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT compiler NAMELINK_SKIP)
endif()
if(TARGET kiln_emulator)
  # Opened in the place of the CUDA driver by `kiln emulate`, from the folder of libkiln.
  install(TARGETS kiln_emulator
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT emulator NAMELINK_SKIP)
endif()
if(TARGET kiln_command)
  set_target_properties(kiln_command PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};$ORIGIN/../lib")
  install(TARGETS kiln_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
endif()

# Headers that need fmt or JSON are for kiln's own sources; docs/design/layers.md names them.
install(DIRECTORY ${CMAKE_SOURCE_DIR}/kiln DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        COMPONENT development
        FILES_MATCHING PATTERN "*.h"
        PATTERN "*_internal.h" EXCLUDE PATTERN "internal" EXCLUDE
        PATTERN "precompiled.h" EXCLUDE PATTERN "support/format.h" EXCLUDE)

set(kiln_package ${CMAKE_INSTALL_LIBDIR}/cmake/kiln)
install(EXPORT kilnTargets NAMESPACE kiln:: DESTINATION ${kiln_package} COMPONENT development)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/kilnConfig.cmake.in
                              ${CMAKE_BINARY_DIR}/kilnConfig.cmake
                              INSTALL_DESTINATION ${kiln_package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/kilnConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/kilnConfig.cmake ${CMAKE_BINARY_DIR}/kilnConfigVersion.cmake
        DESTINATION ${kiln_package} COMPONENT development)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
