#include "bindings.h"
#include "python_function.h"

NB_MODULE(_core, m) {
  using namespace kiln::python;
  m.doc() = "The native part of kiln. Use the modules kiln.dtype, kiln.driver, kiln.graph, ….";
  m.attr("__version__") = KILN_PYTHON_VERSION;
  // Some handles live as long as the process, such as devices that other threads still use.
  nb::set_leak_warnings(false);
  bind_errors(m);
  bind_callbacks(m);
  bind_dtype(m);

  nb::module_ driver = m.def_submodule("driver", "Devices, queues and buffers.");
  bind_driver_device(driver);
  bind_driver_queue(driver);
  bind_driver_buffer(driver);
  bind_driver_host_hazard(driver);
  bind_driver_virtual_device(driver);
  bind_driver_trace(driver);
  bind_driver_symmetric_pool(driver);

  nb::module_ gpu = m.def_submodule("gpu", "Device contexts and kernels.");
  bind_gpu(gpu);

  nb::module_ graph = m.def_submodule("graph", "Types, values and graphs.");
  bind_graph_dim(graph);
  bind_graph_type(graph);
  bind_graph_value(graph);
  bind_graph_weight(graph);
  bind_graph_graph(graph);
  bind_graph_location(graph);
  nb::module_ ops = graph.def_submodule("ops", "Every op.");
  bind_ops_elementwise(ops);
  bind_ops_shape(ops);
  bind_ops_movement(ops);
  bind_ops_constant(ops);
  bind_ops_image(ops);
  bind_ops_quantized(ops);
  bind_ops_collectives(ops);
  bind_ops_random(ops);
  bind_ops_reduction(ops);
  bind_ops_linalg(ops);
  bind_ops_norm(ops);
  bind_ops_convolution(ops);
  bind_ops_complex(ops);
  bind_ops_print(ops);
  bind_ops_transfer(ops);
  bind_ops_buffer(ops);
  bind_ops_control_flow(ops);

  nb::module_ engine = m.def_submodule("engine", "Compiling and running.");
  bind_engine(engine);
  nb::module_ weights = m.def_submodule("weights", "Weight files.");
  bind_weights(weights);
  nb::module_ experimental = m.def_submodule("experimental", "Tensors and their placement.");
  bind_experimental_sharding(experimental);
  bind_experimental_tensor(experimental);
  bind_experimental_modes(experimental);
  bind_experimental_callable(experimental);
  nb::module_ functional = experimental.def_submodule("functional", "Functions over tensors.");
  bind_experimental_functional(functional, ops);
  bind_call_errors(m);
}
