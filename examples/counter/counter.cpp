// State that lives between executions: a counter in a buffer. The graph gets memory of the caller,
// returns what it held and leaves it incremented. A key-value cache works the same way.

#include <cstdio>
#include <vector>

#include "kiln/driver/buffer.h"
#include "kiln/engine/inference_session.h"
#include "kiln/engine/model.h"
#include "kiln/graph/graph.h"
#include "kiln/graph/ops.h"

using namespace kiln;
using namespace kiln::graph;

int main() {
  Graph graph("counter", {.input_types = {BufferType(DType::float32, {4}, DeviceRef::CPU())}});
  {
    auto scope = graph.enter();
    BufferValue state = graph.inputs()[0].buffer();
    TensorValue current = ops::buffer_load(state);
    ops::buffer_store(state, current + 1);
    graph.output(current);
  }
  engine::Model model = engine::InferenceSession().load(graph);

  const auto state = driver::Buffer::zeros({4}, DType::float32);
  for (int step = 0; step < 3; ++step) {
    const std::vector<driver::Buffer> before = model.execute({state});
    std::printf("returned %g, now the buffer holds %g\n", before[0][0].item<double>(),
                state[0].item<double>());
  }
}
