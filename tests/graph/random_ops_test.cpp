// Seeds of graphs and the ops that draw from them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kiln/graph.h"
#include "kiln/support/error.h"

namespace kiln::graph {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

const DeviceRef cpu = DeviceRef::CPU();
const TensorType like(DType::float32, {2, 3}, cpu);

TEST(RandomOps, DrawFromTheSeedOfTheirGraph) {
  Graph g("g", {.input_types = {ops::random::SeedType(cpu)}});
  Graph::Scope scope(g);
  EXPECT_THAT(
      [] { ops::random::uniform(like); },
      ThrowsMessage<RuntimeError>(HasSubstr("No seed set! Set with `ops.random.set_seed`.")));
  ops::random::set_seed(5);
  const TensorValue first = ops::random::uniform(like), second = ops::random::normal(like);
  EXPECT_EQ(first.type(), like);
  ops::random::set_seed(g.inputs()[0]);
  const TensorValue third = ops::random::gaussian(like, {.mean = 1, .std = 0.5});
  g.output({first, second, third});
  EXPECT_THAT(g.to_string(),
              testing::AllOf(HasSubstr("dense<[5]>"), HasSubstr("dense<[6]>"),
                             HasSubstr("random.uniform"), HasSubstr("random.normal")));
  EXPECT_EQ(Graph::parse(g.to_string()).to_string(), g.to_string());
  Graph kept("kept");
  {
    const Graph::Scope around(kept);
    ops::random::set_seed(5);
    ops::random::uniform(like);
  }
  const Graph copied = kept.copy();
  {
    const Graph::Scope around(copied);
    copied.output({ops::random::uniform(like)});
  }
  EXPECT_THAT(copied.to_string(), HasSubstr("dense<[6]>"));
  // A subgraph draws from the seed of whoever calls it.
  Graph caller("caller");
  Graph::Scope calls(caller);
  const Graph sub = caller.add_subgraph("sub");
  {
    const Graph::Scope body(sub);
    sub.output({ops::random::uniform(like), ops::random::uniform(like)});
  }
  EXPECT_THROW(ops::call(sub, {}), RuntimeError);
  ops::random::set_seed(7);
  ops::call(sub, {});
  ops::call(sub, {});
  caller.output({ops::random::uniform(like)});
  EXPECT_THAT(caller.to_string(), testing::AllOf(HasSubstr("dense<[7]>"), HasSubstr("dense<[9]>"),
                                                 HasSubstr("dense<[11]>")));
  // A graph inside of another has a seed of its own.
  Graph inner("inner");
  Graph::Scope inside(inner);
  EXPECT_THROW(ops::random::uniform(like), RuntimeError);
}

TEST(RandomOps, RefuseBoundsAndDeviations) {
  Graph g("g", {.input_types = {like}});
  Graph::Scope scope(g);
  ops::random::set_seed();
  EXPECT_THAT([] { ops::random::uniform(like, {.lower = 2, .upper = 1}); },
              ThrowsMessage<ValueError>(HasSubstr("the lower bound 2 is above")));
  EXPECT_THAT([] { ops::random::normal(like, {.std = 0}); },
              ThrowsMessage<ValueError>(HasSubstr("std must be positive, got 0")));
  EXPECT_THAT([&] { ops::random::normal(like, {.mean = g.inputs()[0]}); },
              ThrowsMessage<ValueError>(HasSubstr("Expected a scalar value")));
  EXPECT_THAT([&] { ops::random::set_seed(g.inputs()[0]); },
              ThrowsMessage<ValueError>(HasSubstr(
                  "Seed must be a scalar or rank-1 tensor with shape [1], got shape [Dim(2), ")));
}

}  // namespace
}  // namespace kiln::graph
