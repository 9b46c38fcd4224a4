#include "bindings.h"
#include "graph_values.h"
#include "kiln/graph/ops/transfer.h"

namespace kiln::python {

namespace ops = graph::ops;

void bind_ops_transfer(nb::module_& m) {
  m.def(
      "transfer_to",
      [](ValueLike x, DeviceLike device) {
        return nb::typed<nb::object, graph::TensorValue>(
            same_or_new(x.object, ops::transfer_to(x.get(), device.get())));
      },
      nb::arg("x"), nb::arg("device"), "A copy on `device`; there already: the same value.");
}

}  // namespace kiln::python
