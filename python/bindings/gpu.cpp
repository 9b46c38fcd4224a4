// kiln.gpu: device contexts, streams and kernels from source or PTX.

#include "kiln/gpu.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <deque>
#include <filesystem>

#include "bindings.h"
#include "driver_casters.h"
#include "gpu_casters.h"
#include "kiln/dtype/element.h"
#include "python_function.h"

namespace kiln::python {
namespace {

using driver::Buffer;
using driver::DeviceEvent;
using driver::DeviceQueue;
using gpu::Attribute;
using gpu::CompileOptions;
using gpu::DeviceAttribute;
using gpu::DeviceContext;
using gpu::DeviceStream;
using gpu::Dim;
using gpu::DumpTarget;
using gpu::FuncAttribute;
using gpu::LaunchAttribute;
using gpu::LaunchConfig;
using gpu::detail::AnyArgument;

/// A compiled or loaded function of Python: parameters are looked at when it is launched.
struct Function {
  std::shared_ptr<const gpu::detail::Function> function;
};

DumpTarget to_dump_target(nb::handle object, const char* name) {
  if (PyBool_Check(object.ptr())) return object.ptr() == Py_True;
  if (PyUnicode_Check(object.ptr())) return nb::cast<std::string>(object);
  if (PyCallable_Check(object.ptr())) {
    auto function = share(object);
    return DumpTarget([function]() -> std::filesystem::path {
      nb::gil_scoped_acquire gil;
      return nb::cast<std::string>(nb::str(nb::borrow(function.get())()));
    });
  }
  if (nb::hasattr(object, "__fspath__"))
    return nb::cast<std::string>(nb::borrow(object.attr("__fspath__")()));
  throw TypeError(std::string(name) +
                  " is a bool, a path, or a function that returns a path; got " + repr_of(object) +
                  ".");
}

std::optional<FuncAttribute> to_func_attribute(nb::handle object) {
  if (object.is_none()) return std::nullopt;
  return nb::cast<FuncAttribute>(object);
}

/// Values of arguments while a launch is put together; addresses stay.
struct Storage {
  alignas(16) std::byte bytes[16] = {};
};

/// The kind of a parameter by the compiler's spelling of its type.
std::optional<DType> scalar_type(const runtime::KernelParameter& parameter) {
  const std::string& type = parameter.type;
  if (parameter.is_pointer) return std::nullopt;
  if (type == "bool") return DType::bool_;
  if (type == "float") return DType::float32;
  if (type == "double") return DType::float64;
  if (type.ends_with("bfloat16")) return DType::bfloat16;
  if (type.ends_with("float16")) return DType::float16;
  const bool is_unsigned = type.starts_with("unsigned");
  for (const char* word : {"char", "short", "int", "long"})
    if (type.ends_with(word)) {
      switch (parameter.size) {
        case 1:
          return is_unsigned ? DType::uint8 : DType::int8;
        case 2:
          return is_unsigned ? DType::uint16 : DType::int16;
        case 4:
          return is_unsigned ? DType::uint32 : DType::int32;
        default:
          return is_unsigned ? DType::uint64 : DType::int64;
      }
    }
  return std::nullopt;
}

AnyArgument::Kind kind_of(DType dtype) {
  if (dtype == DType::bool_) return AnyArgument::Kind::boolean;
  if (dtype == DType::float32 || dtype == DType::float64) return AnyArgument::Kind::floating;
  if (dtype.is_signed_integral()) return AnyArgument::Kind::integer;
  if (dtype.is_unsigned_integral()) return AnyArgument::Kind::unsigned_integer;
  return AnyArgument::Kind::other;
}

/// Stores a Python number as the parameter's type when it fits there; false: another kind.
bool store_python_number(nb::handle number, DType dtype, Storage& storage) {
  PyObject* p = number.ptr();
  const bool is_bool = PyBool_Check(p);
  if (dtype == DType::bool_) {
    if (!is_bool) return false;
  } else if (dtype.is_float()) {
    if (is_bool || !(PyFloat_Check(p) || PyLong_Check(p))) return false;
  } else if (!PyLong_Check(p)) {
    return false;
  }
  store_element(dtype, storage.bytes, 0, to_scalar(number, true));
  return true;
}

AnyArgument to_argument(nb::handle object, const runtime::KernelParameter* parameter,
                        const gpu::detail::Function& function, std::size_t index,
                        Storage& storage) {
  AnyArgument argument;
  argument.value = storage.bytes;
  if (is_buffer(object)) {
    argument.kind = AnyArgument::Kind::pointer;
    argument.size = sizeof(void*);
    argument.buffer = &buffer_of(object);
    void* address = argument.buffer->data();
    std::memcpy(storage.bytes, &address, sizeof address);
    argument.type_name = std::string(argument.buffer->dtype().name()) + "*";
    return argument;
  }
  if (object.is_none()) {
    argument.kind = AnyArgument::Kind::null;
    argument.size = sizeof(void*);
    argument.type_name = "None";
    return argument;
  }
  const bool python_number = PyBool_Check(object.ptr()) || PyLong_Check(object.ptr()) ||
                             (PyFloat_Check(object.ptr()) && !nb::hasattr(object, "dtype"));
  argument.type_name = str_of(object.type().attr("__name__"));
  if (python_number) {
    if (!function.types_known)
      throw TypeError(function.name + ": argument #" + std::to_string(index) + " is the " +
                      argument.type_name + " " + repr_of(object) +
                      ", but a loaded function knows no types; give a NumPy scalar such as "
                      "numpy.float32(…).");
    const std::optional<DType> wanted = parameter ? scalar_type(*parameter) : std::nullopt;
    if (wanted && store_python_number(object, *wanted, storage)) {
      argument.kind = kind_of(*wanted);
      argument.size = parameter->size;
      if (argument.kind == AnyArgument::Kind::other) argument.type_name = parameter->type;
    }
    return argument;
  }
  if (!nb::hasattr(object, "dtype") || !is_number(object))
    throw TypeError(function.name + ": argument #" + std::to_string(index) +
                    " is a Buffer, None or a number, got " + type_text(object) + ".");
  const DType dtype = dtype_from_numpy(object.attr("dtype"));
  store_element(dtype, storage.bytes, 0, to_scalar(object, true));
  argument.kind = kind_of(dtype);
  argument.size = static_cast<std::uint32_t>(dtype.size_in_bytes());
  argument.type_name = std::string(dtype.name());
  return argument;
}

LaunchConfig to_config(nb::handle grid_dim, nb::handle block_dim, nb::handle cluster_dim,
                       nb::handle shared_mem_bytes,
                       const std::vector<LaunchAttribute>& attributes) {
  LaunchConfig config{.grid_dim = to_dim(grid_dim, "grid_dim"),
                      .block_dim = to_dim(block_dim, "block_dim"),
                      .attributes = attributes,
                      .location = {}};
  if (!cluster_dim.is_none()) config.cluster_dim = to_dim(cluster_dim, "cluster_dim");
  if (!shared_mem_bytes.is_none())
    config.shared_mem_bytes =
        checked_integer<std::int64_t>(integer_of(shared_mem_bytes), "shared_mem_bytes");
  return config;
}

void launch(const DeviceQueue& queue, const char* call, const Function& f, const nb::args& args,
            const LaunchConfig& config) {
  std::deque<Storage> storage(args.size());
  std::vector<AnyArgument> arguments;
  arguments.reserve(args.size());
  const auto& parameters = f.function->parameters;
  for (std::size_t i = 0; i < args.size(); ++i)
    arguments.push_back(to_argument(args[i], i < parameters.size() ? &parameters[i] : nullptr,
                                    *f.function, i, storage[i]));
  ReleaseGil release;
  gpu::detail::launch_any(queue, *f.function, call, config, arguments.data(), arguments.size());
}

DeviceContext& context_of(nb::handle self) { return *nb::inst_ptr<DeviceContext>(self); }

/// One side of `enqueue_copy`: a Buffer, or an array as a buffer that keeps it alive.
Buffer side_of(nb::handle object, const char* name) {
  if (is_buffer(object)) return buffer_of(object);
  if (!is_ndarray(object))
    throw TypeError(std::string("enqueue_copy: ") + name + " is a Buffer or a NumPy array, got " +
                    type_text(object) + ".");
  const NDArray facts = read_ndarray(object);
  if (!facts.contiguous)
    throw ValueError(std::string("enqueue_copy: ") + name +
                     " is an array that is not C-contiguous; give numpy.ascontiguousarray of it.");
  if (std::strcmp(name, "dst") == 0 && !facts.writable)
    throw ValueError("enqueue_copy: dst is a read-only array.");
  return alias_ndarray(object, facts);
}

void enqueue_copy(const DeviceContext& context, nb::handle dst, nb::handle src) {
  const Buffer to = side_of(dst, "dst"), from = side_of(src, "src");
  if (to.dtype() != from.dtype())
    throw ValueError("enqueue_copy: dst has elements of " + std::string(to.dtype().name()) +
                     ", but src of " + std::string(from.dtype().name()) + ".");
  for (const Buffer* side : {&to, &from})
    if (!side->is_contiguous())
      throw ValueError("enqueue_copy: a buffer is not contiguous; copy it first.");
  if (from.num_elements() < to.num_elements())
    throw ValueError("source buffer length must be >= destination buffer length");
  ReleaseGil release;
  gpu::detail::enqueue_copy(context, {.buffer = &to}, {.buffer = &from}, to.byte_size(), true);
}

void enqueue_memset(const DeviceContext& context, nb::handle dst, const Number& value) {
  if (!is_buffer(dst))
    throw TypeError("enqueue_memset: dst is a Buffer, got " + type_text(dst) + ".");
  const Buffer& buffer = buffer_of(dst);
  if (!buffer.is_contiguous()) throw ValueError("enqueue_memset: the buffer is not contiguous.");
  if (buffer.dtype().size_in_bits() < 8)
    throw ValueError("bitwidth of memset dtype must be one of [8,16,32,64]");
  Storage storage;
  store_element(buffer.dtype(), storage.bytes, 0, value.get());
  ReleaseGil release;
  gpu::detail::enqueue_fill(context, buffer, storage.bytes,
                            static_cast<std::size_t>(buffer.dtype().size_in_bytes()));
}

void bind_stream(nb::module_& m) {
  nb::class_<DeviceStream>(m, "DeviceStream", "An in-order stream of one device, with launches.")
      .def(nb::init<DeviceQueue>(), nb::arg("queue"))
      .def_prop_ro("queue", &DeviceStream::queue, "The driver's queue.")
      .def(
          "synchronize",
          [](const DeviceStream& s) {
            ReleaseGil release;
            s.synchronize({});
          },
          "Blocks until the stream is empty; raises what its work failed with.")
      .def("record_event", &DeviceStream::record_event, nb::arg("event"),
           "Marks the present end; a new mark replaces the old one.")
      .def("enqueue_wait_for", &DeviceStream::enqueue_wait_for, nb::arg("event"),
           nb::call_guard<ReleaseGil>(), "Later work here waits for the event's present mark.")
      .def("wait_for_host_value", &DeviceStream::wait_for_host_value, nb::arg("flag"),
           nb::arg("value"), "Stalls until the flag holds `value`; CUDA only.")
      .def(
          "enqueue_function",
          [](const DeviceStream& s, const Function& f, nb::args args, Any grid_dim, Any block_dim,
             Any cluster_dim, Any shared_mem_bytes,
             const std::vector<LaunchAttribute>& attributes) {
            launch(s.queue(), "DeviceStream.enqueue_function", f, args,
                   to_config(grid_dim, block_dim, cluster_dim, shared_mem_bytes, attributes));
          },
          nb::arg("f"), nb::arg("args"), nb::kw_only(), nb::arg("grid_dim"), nb::arg("block_dim"),
          nb::arg("cluster_dim") = nb::none(), nb::arg("shared_mem_bytes") = nb::none(),
          nb::arg("attributes") = std::vector<LaunchAttribute>{},
          "Launches a function on this stream.")
      .def("__eq__",
           [](const DeviceStream& a, Any b) -> nb::object {
             if (!nb::isinstance<DeviceStream>(b)) return nb::borrow(Py_NotImplemented);
             return nb::bool_(a == *nb::inst_ptr<DeviceStream>(b));
           })
      .def("__hash__", [](const DeviceStream& s) {
        return static_cast<Py_ssize_t>(std::hash<DeviceQueue>()(s.queue()) >> 4);
      });
}

void bind_function(nb::module_& m) {
  nb::class_<Function>(m, "DeviceFunction", "A compiled or loaded kernel of one device.")
      .def("__init__", refuse_call<Function>(
                           "DeviceContext.compile_function and load_function make functions."))
      .def_prop_ro(
          "name", [](const Function& f) { return f.function->name; }, "The kernel's name.")
      .def(
          "get_attribute",
          [](const Function& f, Attribute a) { return gpu::detail::attribute_of(*f.function, a); },
          nb::arg("attribute"), "One attribute; ValueError when the backend does not know it.")
      .def(
          "occupancy_max_active_blocks_per_multiprocessor",
          [](const Function& f, int block_size, std::int64_t dynamic_shared_mem_size) {
            return gpu::detail::occupancy_of(*f.function, block_size, dynamic_shared_mem_size);
          },
          nb::arg("block_size"), nb::arg("dynamic_shared_mem_size"),
          "Resident blocks of a multiprocessor.")
      .def(
          "dump_rep",
          [](const Function& f, Any dump_asm, Any dump_llvm, Any dump_sass) {
            gpu::detail::dump(*f.function, {.dump_asm = to_dump_target(dump_asm, "dump_asm"),
                                            .dump_llvm = to_dump_target(dump_llvm, "dump_llvm"),
                                            .dump_sass = to_dump_target(dump_sass, "dump_sass")});
          },
          nb::kw_only(), nb::arg("dump_asm") = false, nb::arg("dump_llvm") = false,
          nb::arg("dump_sass") = false, "Writes the text of the kernel.")
      .def("__repr__", [](const Function& f) {
        return "DeviceFunction(" + f.function->name + ", " + f.function->device.to_string() + ")";
      });
}

/// Whether a Python function is called without arguments; unknown ones are not.
bool takes_nothing(nb::handle function) {
  try {
    const nb::object signature = nb::module_::import_("inspect").attr("signature")(function);
    return PyObject_Length(nb::object(signature.attr("parameters")).ptr()) == 0;
  } catch (nb::python_error&) {
    return false;  // built-in functions may have no signature
  }
}

/// A function that is called with the GIL held, and with `context` and `i` when it is timed.
std::function<void(std::int64_t)> range_callback(nb::callable function) {
  auto shared = share(function);
  return [shared](std::int64_t i) {
    // A Python function of one argument, by way of one without.
    nb::gil_scoped_acquire gil;
    const auto call = callback_of(nb::borrow<nb::callable>(
        nb::module_::import_("functools").attr("partial")(nb::borrow(shared.get()), i)));
    call();
  };
}

void bind_context(nb::module_& m) {
  nb::class_<DeviceContext> context(m, "DeviceContext", R"(
One ordered stream of work on one device: buffers, copies, kernels, waits.

>>> import numpy as np
>>> from kiln.dtype import DType
>>> from kiln.gpu import DeviceContext
>>> with DeviceContext(api="cpu") as ctx:
...     x = ctx.enqueue_create_buffer(DType.float32, 4)
...     ctx.enqueue_memset(x, 1.5)
...     ctx.synchronize()
>>> x.to_numpy()
array([1.5, 1.5, 1.5, 1.5], dtype=float32))");
  context
      .def(
          "__init__",
          [](DeviceContext* self, Any device, const std::optional<std::string>& api) {
            if (is_device(device) || nb::isinstance<DeviceQueue>(device)) {
              if (api) throw TypeError("DeviceContext: `api` goes with a device id alone.");
              if (is_device(device))
                new (self) DeviceContext(nb::cast<driver::Device>(device));
              else
                new (self) DeviceContext(*nb::inst_ptr<DeviceQueue>(device));
              return;
            }
            const nb::object id = integer_of(device);
            if (!id.is_valid())
              throw TypeError(
                  "DeviceContext: expected a device id, a Device or a DeviceQueue, got " +
                  type_text(device) + ".");
            new (self)
                DeviceContext(checked_integer<std::int64_t>(id, "DeviceContext: the device id"),
                              gpu::ContextOptions{.api = api});
          },
          nb::arg("device_id") = 0, nb::kw_only(), nb::arg("api") = nb::none())
      .def("__enter__", [](nb::object self) { return self; })
      .def("__exit__", [](const DeviceContext&, nb::args) { return false; })
      .def_static(
          "default_device_info",
          [] {
            const gpu::DeviceInfo& info = DeviceContext::default_device_info();
            nb::dict facts;
            facts["name"] = info.name;
            facts["vendor"] = info.vendor;
            facts["api"] = info.api;
            facts["arch_name"] = info.arch_name;
            facts["compute"] = info.compute;
            facts["warp_size"] = info.warp_size;
            facts["sm_count"] = info.sm_count;
            facts["target"] = info.target();
            return facts;
          },
          "What is known about the default device.")
      .def("name", &DeviceContext::name, "The vendor's device name.")
      .def("api", &DeviceContext::api, "'cpu', 'cuda', 'hip' or 'metal'.")
      .def("id", &DeviceContext::id, "Device number of this api.")
      .def("get_api_version", &DeviceContext::get_api_version,
           "The installed driver's version as the vendor numbers it; 0 on the CPU.")
      .def(
          "get_attribute",
          [](const DeviceContext& c, const Integer& attribute) {
            return c.get_attribute(
                static_cast<DeviceAttribute>(attribute.get<int>("get_attribute: the attribute")));
          },
          nb::arg("attribute"), "One attribute, by its member of DeviceAttribute or its number.")
      .def("is_compatible", &DeviceContext::is_compatible,
           "Whether kiln can compile for and run on the device.")
      .def("run_healthcheck", &DeviceContext::run_healthcheck, nb::call_guard<ReleaseGil>(),
           "RuntimeError that says what is wrong when the device is unhealthy.")
      .def(
          "get_memory_info",
          [](const DeviceContext& c) {
            const gpu::MemoryInfo info = c.get_memory_info();
            return std::pair(info.free, info.total);
          },
          "Free and total bytes.")
      .def("max_single_alloc_size", &DeviceContext::max_single_alloc_size,
           "Bytes of the largest block.")
      .def("supports_multicast", &DeviceContext::supports_multicast, "As SymmetricPool asks.")
      .def_static(
          "number_of_devices",
          [](const std::optional<std::string>& api) {
            return DeviceContext::number_of_devices({.api = api});
          },
          nb::kw_only(), nb::arg("api") = nb::none(), "Devices of that api; never raises.")
      .def(
          "enqueue_create_buffer",
          [](const DeviceContext& c, DType dtype, const Integer& size) {
            return make_buffer(gpu::detail::create_buffer(
                c, dtype, size.get<std::int64_t>("enqueue_create_buffer: the size"), false));
          },
          nb::arg("dtype"), nb::arg("size"),
          nb::sig("def enqueue_create_buffer(self, dtype: kiln._core.DType, size: int) -> "
                  "kiln._core.driver.Buffer"),
          "`size` elements of device memory, uninitialised.")
      .def(
          "create_buffer_sync",
          [](const DeviceContext& c, DType dtype, const Integer& size) {
            Buffer made = gpu::detail::create_buffer(
                c, dtype, size.get<std::int64_t>("create_buffer_sync: the size"), false);
            {
              ReleaseGil release;
              c.synchronize({});
            }
            return make_buffer(std::move(made));
          },
          nb::arg("dtype"), nb::arg("size"),
          nb::sig("def create_buffer_sync(self, dtype: kiln._core.DType, size: int) -> "
                  "kiln._core.driver.Buffer"),
          "The same, then synchronizes.")
      .def(
          "enqueue_create_host_buffer",
          [](const DeviceContext& c, DType dtype, const Integer& size) {
            return make_buffer(gpu::detail::create_buffer(
                c, dtype, size.get<std::int64_t>("enqueue_create_host_buffer: the size"), true));
          },
          nb::arg("dtype"), nb::arg("size"),
          nb::sig("def enqueue_create_host_buffer(self, dtype: kiln._core.DType, size: int) -> "
                  "kiln._core.driver.Buffer"),
          "Page-locked host memory.")
      .def(
          "enqueue_copy",
          [](const DeviceContext& c, Any dst, Any src) { enqueue_copy(c, dst, src); },
          nb::arg("dst"), nb::arg("src"),
          "Copies as many elements as `dst` has, in stream order; each a Buffer or an array.")
      .def(
          "enqueue_memset",
          [](const DeviceContext& c, Any dst, const Number& value) {
            enqueue_memset(c, dst, value);
          },
          nb::arg("dst"), nb::arg("value"), "Every element becomes `value`.")
      .def(
          "compile_function",
          [](const DeviceContext& c, const std::string& name, const std::string& source,
             const std::string& compile_options, const std::string& link_options, Any dump_asm,
             Any dump_llvm, Any dump_sass, bool ptxas_info_verbose, Any func_attribute) {
            const CompileOptions options{.compile_options = compile_options,
                                         .link_options = link_options,
                                         .dump_asm = to_dump_target(dump_asm, "dump_asm"),
                                         .dump_llvm = to_dump_target(dump_llvm, "dump_llvm"),
                                         .dump_sass = to_dump_target(dump_sass, "dump_sass"),
                                         .ptxas_info_verbose = ptxas_info_verbose,
                                         .func_attribute = to_func_attribute(func_attribute)};
            ReleaseGil release;
            return Function{c.compile_function(name, source, options).shared_function()};
          },
          nb::arg("name"), nb::arg("source"), nb::kw_only(), nb::arg("compile_options") = "",
          nb::arg("link_options") = "", nb::arg("dump_asm") = false, nb::arg("dump_llvm") = false,
          nb::arg("dump_sass") = false, nb::arg("ptxas_info_verbose") = false,
          nb::arg("func_attribute") = nb::none(), "Compiles a kernel of CUDA-dialect C++.")
      .def(
          "load_function",
          [](const DeviceContext& c, const std::string& function_name, Any code,
             Any func_attribute) {
            std::string text;
            if (PyBytes_Check(code.ptr()))
              text.assign(PyBytes_AsString(code.ptr()),
                          static_cast<std::size_t>(PyBytes_Size(code.ptr())));
            else
              text = nb::cast<std::string>(code);
            const gpu::LoadOptions options{.function_name = function_name,
                                           .asm_code = std::move(text),
                                           .func_attribute = to_func_attribute(func_attribute)};
            ReleaseGil release;
            return Function{c.load_function(options).shared_function()};
          },
          nb::kw_only(), nb::arg("function_name"), nb::arg("asm"),
          nb::arg("func_attribute") = nb::none(),
          "Takes a kernel out of PTX text or a binary image.")
      .def(
          "enqueue_function",
          [](const DeviceContext& c, const Function& f, nb::args args, Any grid_dim, Any block_dim,
             Any cluster_dim, Any shared_mem_bytes,
             const std::vector<LaunchAttribute>& attributes) {
            launch(c.queue(), "DeviceContext.enqueue_function", f, args,
                   to_config(grid_dim, block_dim, cluster_dim, shared_mem_bytes, attributes));
          },
          nb::arg("f"), nb::arg("args"), nb::kw_only(), nb::arg("grid_dim"), nb::arg("block_dim"),
          nb::arg("cluster_dim") = nb::none(), nb::arg("shared_mem_bytes") = nb::none(),
          nb::arg("attributes") = std::vector<LaunchAttribute>{},
          "Launches a function with Buffers and numbers as arguments.")
      .def(
          "enqueue_cpu_function",
          [](const DeviceContext& c, nb::callable func) {
            if (!c.device().is_host()) c.enqueue_cpu_function(std::function<void()>());
            auto callback = callback_of(func);
            ReleaseGil release;  // a full stream waits for room
            c.queue().enqueue_foreign_function(std::move(callback), "enqueue_cpu_function");
          },
          nb::arg("func"), "Runs `func()` on a worker of the host; CPU contexts only.")
      .def(
          "enqueue_cpu_range",
          [](const DeviceContext& c, nb::callable func, const Integer& count) {
            auto callback = range_callback(func);
            const auto number = count.get<std::int64_t>("enqueue_cpu_range: the count");
            ReleaseGil release;
            c.enqueue_cpu_range(std::move(callback), number);
          },
          nb::arg("func"), nb::arg("count"),
          "Runs `func(i)` for each i in [0, count); CPU contexts only.")
      .def(
          "execution_time",
          [](nb::object self, nb::callable func, const Integer& num_iters) {
            const int iterations = num_iters.get<int>("execution_time: num_iters");
            const bool alone = takes_nothing(func);
            return context_of(self).execution_time_iter(
                [&](const DeviceContext&, int) { alone ? func() : func(self); }, iterations);
          },
          nb::arg("func"), nb::arg("num_iters"),
          "Nanoseconds that the work of `num_iters` calls of `func(ctx)` takes in all.")
      .def(
          "execution_time_iter",
          [](nb::object self, nb::callable func, const Integer& num_iters) {
            const int iterations = num_iters.get<int>("execution_time_iter: num_iters");
            return context_of(self).execution_time_iter(
                [&](const DeviceContext&, int i) { func(self, i); }, iterations);
          },
          nb::arg("func"), nb::arg("num_iters"), "The same with `func(ctx, i)`.")
      .def("stream", &DeviceContext::stream, "The stream that this context submits to.")
      .def(
          "create_stream",
          [](const DeviceContext& c, int priority) {
            return c.create_stream({.priority = priority});
          },
          nb::kw_only(), nb::arg("priority") = 0, "A new stream; a lower number is more urgent.")
      .def(
          "stream_priority_range",
          [](const DeviceContext& c) {
            const gpu::StreamPriorityRange range = c.stream_priority_range();
            return std::pair(range.least, range.greatest);
          },
          "The least and the greatest priority.")
      .def(
          "create_external_stream",
          [](const DeviceContext& c, const Integer& stream) {
            return c.create_external_stream(reinterpret_cast<void*>(
                stream.get<std::uintptr_t>("create_external_stream: the stream")));
          },
          nb::arg("stream"), "Wraps a stream of the vendor by its address, without owning it.")
      .def("set_as_current", &DeviceContext::set_as_current,
           "Makes the device's vendor context the present one of this thread.")
      .def(
          "create_event",
          [](const DeviceContext& c, bool blocking_sync, bool disable_timing, bool interprocess) {
            return c.create_event({.blocking_sync = blocking_sync,
                                   .disable_timing = disable_timing,
                                   .interprocess = interprocess});
          },
          nb::kw_only(), nb::arg("blocking_sync") = false, nb::arg("disable_timing") = true,
          nb::arg("interprocess") = false, "An event of this device.")
      .def(
          "synchronize",
          [](const DeviceContext& c) {
            ReleaseGil release;
            c.synchronize({});
          },
          "Blocks until the stream is empty; raises what its work failed with.")
      .def("enqueue_wait_for", &DeviceContext::enqueue_wait_for, nb::arg("other"),
           nb::call_guard<ReleaseGil>(),
           "Later work here starts after the present work of `other`.")
      .def("num_streams", &DeviceContext::num_streams, "Streams that select_stream reaches.")
      .def(
          "select_stream",
          [](const DeviceContext& c, const Integer& stream_id) {
            return c.select_stream(stream_id.get<std::int64_t>("select_stream: the stream id"));
          },
          nb::arg("stream_id"), "This context on stream `stream_id` of 0 to 63.")
      .def("can_access", &DeviceContext::can_access, nb::arg("peer"),
           "The hardware's answer for peer reads and writes.")
      .def("enable_peer_access", &DeviceContext::enable_peer_access, nb::arg("peer"),
           "Lets this device use `peer`'s memory.")
      .def_static("enable_all_peer_access", &DeviceContext::enable_all_peer_access,
                  "Every pair in both directions.")
      .def_static("all_peer_access_enabled", &DeviceContext::all_peer_access_enabled,
                  "Whether every pair is on and there are at least two accelerators.")
      .def_prop_ro("device", &DeviceContext::device, "The driver's device.")
      .def("__eq__",
           [](const DeviceContext& a, Any b) -> nb::object {
             if (!nb::isinstance<DeviceContext>(b)) return nb::borrow(Py_NotImplemented);
             return nb::bool_(a == *nb::inst_ptr<DeviceContext>(b));
           })
      .def("__hash__", [](const DeviceContext& c) {
        return static_cast<Py_ssize_t>(std::hash<driver::Device>()(c.device()) >> 4);
      });
}

}  // namespace

void bind_gpu(nb::module_& m) {
  bind_gpu_attributes(m);
  bind_stream(m);
  bind_function(m);
  bind_context(m);
}

}  // namespace kiln::python
