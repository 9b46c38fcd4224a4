# Flags of every target of the project.
add_compile_options(-Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # Keeps precompiled headers usable through ccache.
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
  add_link_options(-fuse-ld=lld)
endif()
if(KILN_SANITIZE)
  # The checks of vtables and of function types need data that LLVM's library and generated code
  # lack; a finding ends the program, so that a test cannot pass with one.
  add_compile_options(-fsanitize=${KILN_SANITIZE} -fno-sanitize=vptr,function
                      -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${KILN_SANITIZE})
endif()
