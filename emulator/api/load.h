#pragma once

#include <memory>
#include <string>

#include "emulator/api/call.h"
#include "emulator/api/jit_options.h"

namespace kiln::emulator {

/// The program of an image that a caller passed: a text of PTX that ends with a zero byte. What
/// is wrong with it goes into the options' log, or to stderr where the caller asked for none.
CUresult load_image(Driver& driver, const void* image, const JitOptions& options,
                    std::shared_ptr<const Program>& program);
/// The same for bytes of a known length.
CUresult load_text(Driver& driver, std::string_view text, const JitOptions& options,
                   std::shared_ptr<const Program>& program);

/// A module of the program in a context, its variables with their initial values. Null: the
/// device's memory does not suffice.
std::shared_ptr<Module> make_module(Driver& driver, const std::shared_ptr<Context>& context,
                                    std::shared_ptr<const Program> program);

/// The function of a kernel of a module; null when there is none.
CUfunction function_of(const std::shared_ptr<Module>& module, std::uint32_t kernel);
/// The index of a kernel by name; -1 when there is none.
int find_kernel(const Program& program, const char* name);

/// The function behind a handle of a function, or of a kernel of a library, in `context`.
std::shared_ptr<Function> find_function(Driver& driver, const std::shared_ptr<Context>& context,
                                        CUfunction handle);
/// The module that a library has in a context, made when it has none; null: out of memory.
std::shared_ptr<Module> module_of(Driver& driver, const std::shared_ptr<Context>& context,
                                  Library& library);
/// The function of a library's kernel in a module of the library, with what was set for the kernel.
CUfunction library_function(LibraryKernel& kernel, const std::shared_ptr<Module>& module);

/// Sets or reads an attribute of a function.
CUresult set_function_attribute(Function& function, int attribute, int value);
CUresult get_function_attribute(const Driver& driver, const Kernel& kernel,
                                const Function* function, int attribute, int& value);

}  // namespace kiln::emulator
