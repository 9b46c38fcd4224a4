# Flags of every target of the project.
add_compile_options(-Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # Keeps precompiled headers usable through ccache.
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
  add_link_options(-fuse-ld=lld)
endif()
if(KILN_SANITIZE)
  # The checks of vtables and of function types need data that LLVM's library and generated code
  # lack; a finding ends the program, so that a test cannot pass with one. -O1 keeps the frames of
  # reports and builds faster.
  add_compile_options(-fsanitize=${KILN_SANITIZE} -fno-sanitize=vptr,function
                      -fno-sanitize-recover=all -fno-omit-frame-pointer -O1 -g1)
  add_link_options(-fsanitize=${KILN_SANITIZE})
  if(KILN_SANITIZE MATCHES "address")
    # Shared, so that programs that an interpreter starts use the runtime that it was started with.
    execute_process(COMMAND ${CMAKE_CXX_COMPILER}
                            -print-file-name=libclang_rt.asan-${CMAKE_SYSTEM_PROCESSOR}.so
                    OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE KILN_ASAN_LIBRARY)
    get_filename_component(folder ${KILN_ASAN_LIBRARY} DIRECTORY)
    add_link_options(-shared-libsan -Wl,-rpath,${folder})
  endif()
endif()
