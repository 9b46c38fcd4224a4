// Graphs by hand and by capture.

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "api_fixture.h"

namespace kiln::emulator_test {
namespace {

class GraphTest : public ApiTest {
 protected:
  void SetUp() override {
    ApiTest::SetUp();
    store_value = kernel("store_value");
    add_value = kernel("add_value");
    copy_word = kernel("copy_word");
    words = pinned(16);
    first = stream();
    second = stream();
  }
  CUdeviceptr word(int i) const { return address_of(words + i); }
  CUgraphExec instantiate(CUgraph graph) {
    CUgraphExec exec = nullptr;
    EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    return exec;
  }
  void run(CUgraphExec exec, int times = 1) {
    for (int i = 0; i < times; ++i) ASSERT_EQ(cuGraphLaunch(exec, first), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamSynchronize(first), CUDA_SUCCESS);
  }
  void begin(CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) {
    ASSERT_EQ(cuStreamBeginCapture_v2(first, mode), CUDA_SUCCESS);
  }
  CUgraph end(CUresult expected = CUDA_SUCCESS) {
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(first, &graph), expected);
    EXPECT_EQ(graph != nullptr, expected == CUDA_SUCCESS);
    return graph;
  }
  CUgraphNode add_kernel(CUgraph graph, std::vector<CUgraphNode> after, CUfunction function,
                         CUdeviceptr to, std::uint64_t value) {
    void* parameters[] = {&to, &value};
    CUDA_KERNEL_NODE_PARAMS description{function, 1, 1,          1,       1,       1,
                                        1,        0, parameters, nullptr, nullptr, nullptr};
    CUgraphNode node = nullptr;
    EXPECT_EQ(cuGraphAddKernelNode_v2(&node, graph, after.data(), after.size(), &description),
              CUDA_SUCCESS);
    return node;
  }

  CUfunction store_value = nullptr, add_value = nullptr, copy_word = nullptr;
  std::uint32_t* words = nullptr;
  CUstream first = nullptr, second = nullptr;
};

TEST_F(GraphTest, NodesRunInTheOrderOfTheirEdges) {
  CUgraph graph = nullptr;
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  // w0 = 5, then w1 = w0 and w0 += 1 behind it, then a fill of w2 and a copy of w0 to w3.
  const CUgraphNode a = add_kernel(graph, {}, store_value, word(0), 5);
  const CUgraphNode b = add_kernel(graph, {a}, copy_word, word(1), word(0));
  const CUgraphNode c = add_kernel(graph, {b}, add_value, word(0), 1);
  CUDA_MEMSET_NODE_PARAMS fill{word(2), 0, 0x01020304, 4, 1, 1};
  CUgraphNode d = nullptr, e = nullptr, f = nullptr, g = nullptr;
  ASSERT_EQ(cuGraphAddMemsetNode(&d, graph, nullptr, 0, &fill, contexts[0]), CUDA_SUCCESS);
  const CUgraphNode both[] = {c, d};
  ASSERT_EQ(cuGraphAddEmptyNode(&e, graph, both, 2), CUDA_SUCCESS);
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = word(0);
  copy.dstDevice = word(3);
  copy.WidthInBytes = 4;
  copy.Height = copy.Depth = 1;
  ASSERT_EQ(cuGraphAddMemcpyNode(&f, graph, &e, 1, &copy, contexts[0]), CUDA_SUCCESS);
  CUDA_HOST_NODE_PARAMS host{[](void* data) {
                               auto* all = static_cast<std::uint32_t*>(data);
                               all[4] = all[2] + all[3];
                             },
                             words};
  ASSERT_EQ(cuGraphAddHostNode(&g, graph, &f, 1, &host), CUDA_SUCCESS);
  std::size_t count = 0;
  EXPECT_EQ(cuGraphGetNodes(graph, nullptr, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 7u);
  EXPECT_EQ(cuGraphGetEdges(graph, nullptr, nullptr, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 6u);
  CUgraphNodeType type;
  EXPECT_EQ(cuGraphNodeGetType(d, &type), CUDA_SUCCESS);
  EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_MEMSET);
  CUgraphNode before[2] = {};
  count = 2;
  EXPECT_EQ(cuGraphNodeGetDependencies(e, before, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(before[0], c);
  const CUgraphExec exec = instantiate(graph);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS) << "the executable has its own copy";
  for (int i = 0; i < 3; ++i) {
    words[0] = words[3] = words[4] = 99;
    run(exec);
    EXPECT_EQ(words[0], 6u);
    EXPECT_EQ(words[1], 5u);
    EXPECT_EQ(words[2], 0x01020304u);
    EXPECT_EQ(words[3], 6u);
    EXPECT_EQ(words[4], 0x01020304u + 6u);
  }
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphLaunch(exec, first), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphNodeGetType(d, &type), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphTest, CirclesAreRefused) {
  CUgraph graph = nullptr;
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  CUgraphNode a = nullptr, b = nullptr;
  ASSERT_EQ(cuGraphAddEmptyNode(&a, graph, nullptr, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphAddEmptyNode(&b, graph, &a, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphAddDependencies(graph, &a, &b, 1), CUDA_ERROR_INVALID_VALUE) << "twice";
  EXPECT_EQ(cuGraphAddDependencies(graph, &a, &a, 1), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuGraphAddDependencies(graph, &b, &a, 1), CUDA_SUCCESS);
  CUgraphExec exec = nullptr;
  CUDA_GRAPH_INSTANTIATE_PARAMS parameters{};
  EXPECT_EQ(cuGraphInstantiateWithParams(&exec, graph, &parameters), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(parameters.result_out, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
}

TEST_F(GraphTest, LaunchesOfOneGraphComeAfterEachOther) {
  CUgraph graph = nullptr;
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  add_kernel(graph, {}, add_value, word(0), 1);
  const CUgraphExec exec = instantiate(graph);
  for (int i = 0; i < 50; ++i)
    ASSERT_EQ(cuGraphLaunch(exec, i % 2 == 0 ? first : second), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(words[0], 50u);
}

TEST_F(GraphTest, ParametersOfKernelsChange) {
  CUgraph graph = nullptr;
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  const CUgraphNode node = add_kernel(graph, {}, store_value, word(0), 3);
  CUDA_KERNEL_NODE_PARAMS found{};
  ASSERT_EQ(cuGraphKernelNodeGetParams_v2(node, &found), CUDA_SUCCESS);
  EXPECT_EQ(found.func, store_value);
  EXPECT_EQ(*static_cast<std::uint32_t*>(found.kernelParams[1]), 3u);
  const CUgraphExec exec = instantiate(graph);
  CUdeviceptr to = word(0);
  std::uint32_t value = 4;
  void* parameters[] = {&to, &value};
  found.kernelParams = parameters;
  ASSERT_EQ(cuGraphExecKernelNodeSetParams_v2(exec, node, &found), CUDA_SUCCESS);
  run(exec);
  EXPECT_EQ(words[0], 4u);
  value = 5;
  ASSERT_EQ(cuGraphKernelNodeSetParams_v2(node, &found), CUDA_SUCCESS);
  run(exec);
  EXPECT_EQ(words[0], 4u) << "the executable is a copy";
  CUgraphExecUpdateResultInfo information{};
  ASSERT_EQ(cuGraphExecUpdate_v2(exec, graph, &information), CUDA_SUCCESS);
  run(exec);
  EXPECT_EQ(words[0], 5u);
}

TEST_F(GraphTest, UpdatesKeepTheTopology) {
  CUgraph graph = nullptr, longer = nullptr, other = nullptr;
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphCreate(&other, 0), CUDA_SUCCESS);
  add_kernel(graph, {}, store_value, word(0), 3);
  ASSERT_EQ(cuGraphClone(&longer, graph), CUDA_SUCCESS);
  const CUgraphExec exec = instantiate(graph);
  add_kernel(longer, {}, store_value, word(1), 3);
  CUgraphExecUpdateResultInfo information{};
  EXPECT_EQ(cuGraphExecUpdate_v2(exec, longer, &information), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(information.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  CUgraphNode empty = nullptr;
  ASSERT_EQ(cuGraphAddEmptyNode(&empty, other, nullptr, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphExecUpdate_v2(exec, other, &information), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(information.result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
  EXPECT_EQ(information.errorNode, empty);
  run(exec);
  EXPECT_EQ(words[0], 3u);
}

TEST_F(GraphTest, ChildrenRunInTheirPlace) {
  CUgraph inner = nullptr, outer = nullptr;
  ASSERT_EQ(cuGraphCreate(&inner, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphCreate(&outer, 0), CUDA_SUCCESS);
  const CUgraphNode a = add_kernel(inner, {}, add_value, word(0), 1);
  add_kernel(inner, {a}, copy_word, word(1), word(0));
  const CUgraphNode start = add_kernel(outer, {}, store_value, word(0), 10);
  CUgraphNode child = nullptr;
  ASSERT_EQ(cuGraphAddChildGraphNode(&child, outer, &start, 1, inner), CUDA_SUCCESS);
  add_kernel(outer, {child}, copy_word, word(2), word(1));
  run(instantiate(outer));
  EXPECT_EQ(words[2], 11u);
}

TEST_F(GraphTest, CaptureRecordsWithoutDoing) {
  begin();
  CUstreamCaptureStatus status;
  std::uint64_t id = 0;
  EXPECT_EQ(cuStreamGetCaptureInfo(first, &status, &id), CUDA_SUCCESS);
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_EQ(cuStreamIsCapturing(second, &status), CUDA_SUCCESS);
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
  const CUevent fork = event(), join = event();
  ASSERT_EQ(launch(store_value, first, word(0), 7u), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(fork, first), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(second, fork, 0), CUDA_SUCCESS);
  ASSERT_EQ(launch(copy_word, second, word(1), word(0)), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD32Async(word(2), 9, 1, first), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(join, second), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(first, join, 0), CUDA_SUCCESS);
  ASSERT_EQ(launch(copy_word, first, word(3), word(1)), CUDA_SUCCESS);
  const CUgraph graph = end();
  std::size_t count = 0;
  EXPECT_EQ(cuGraphGetNodes(graph, nullptr, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 4u);
  EXPECT_EQ(cuGraphGetEdges(graph, nullptr, nullptr, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 4u);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(words[0], 0u);
  run(instantiate(graph));
  EXPECT_EQ(words[3], 7u);
  EXPECT_EQ(words[2], 9u);
}

TEST_F(GraphTest, CaptureInfoAndDependencies) {
  begin();
  ASSERT_EQ(launch(store_value, first, word(0), 7u), CUDA_SUCCESS);
  CUstreamCaptureStatus status;
  CUgraph graph = nullptr;
  const CUgraphNode* list = nullptr;
  std::size_t count = 0;
  ASSERT_EQ(cuStreamGetCaptureInfo_v2(first, &status, nullptr, &graph, &list, &count),
            CUDA_SUCCESS);
  ASSERT_EQ(count, 1u);
  CUgraphNode node = list[0], extra = nullptr;
  ASSERT_EQ(cuGraphAddEmptyNode(&extra, graph, &node, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamUpdateCaptureDependencies(first, &extra, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES),
            CUDA_SUCCESS);
  ASSERT_EQ(launch(store_value, first, word(0), 8u), CUDA_SUCCESS);
  const CUgraph ended = end();
  EXPECT_EQ(ended, graph);
  EXPECT_EQ(cuGraphGetEdges(graph, nullptr, nullptr, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 2u);
}

TEST_F(GraphTest, CaptureViolations) {
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(first, &graph), CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(cuStreamBeginCapture_v2(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  begin();
  EXPECT_EQ(cuStreamBeginCapture_v2(first, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(cuStreamSynchronize(first), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(launch(store_value, first, word(0), 1u), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(cuStreamSynchronize(first), CUDA_SUCCESS);

  // Work of another stream is never joined.
  begin();
  const CUevent fork = event();
  ASSERT_EQ(cuEventRecord(fork, first), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(second, fork, 0), CUDA_SUCCESS);
  ASSERT_EQ(launch(store_value, second, word(0), 1u), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event()), CUDA_SUCCESS);
  end(CUDA_ERROR_STREAM_CAPTURE_UNJOINED);

  // An event from outside.
  const CUevent outside = event();
  ASSERT_EQ(cuEventRecord(outside, second), CUDA_SUCCESS);
  begin();
  EXPECT_EQ(cuStreamWaitEvent(first, outside, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

  // A captured event cannot be waited for.
  begin();
  ASSERT_EQ(cuEventRecord(fork, first), CUDA_SUCCESS);
  EXPECT_EQ(cuEventSynchronize(fork), CUDA_ERROR_CAPTURED_EVENT);
  end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

  // Two captures do not merge.
  begin();
  ASSERT_EQ(cuStreamBeginCapture_v2(second, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(fork, second), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamWaitEvent(first, fork, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
  end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(cuStreamEndCapture(second, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

  // Ended in another stream, or by another thread.
  begin();
  ASSERT_EQ(cuEventRecord(fork, first), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(second, fork, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamEndCapture(second, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  begin();
  std::thread([&] {
    ASSERT_EQ(cuCtxSetCurrent(contexts[0]), CUDA_SUCCESS);
    CUgraph none = nullptr;
    EXPECT_EQ(cuStreamEndCapture(first, &none), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  }).join();
  end();
}

TEST_F(GraphTest, LegacyStreamAndUnsafeCallsEndCaptures) {
  const CUstream blocking = stream(0);
  CUgraph graph = nullptr;
  ASSERT_EQ(cuStreamBeginCapture_v2(blocking, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  CUstreamCaptureStatus status;
  EXPECT_EQ(cuStreamIsCapturing(nullptr, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(cuStreamIsCapturing(blocking, &status), CUDA_SUCCESS);
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE) << "asking changes nothing";
  EXPECT_EQ(launch(store_value, nullptr, word(0), 1u), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(cuStreamEndCapture(blocking, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

  CUdeviceptr address = 0;
  begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
  std::thread([&] {
    ASSERT_EQ(cuCtxSetCurrent(contexts[0]), CUDA_SUCCESS);
    EXPECT_EQ(cuMemAlloc_v2(&address, 4), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }).join();
  end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

  begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  std::thread([&] {
    ASSERT_EQ(cuCtxSetCurrent(contexts[0]), CUDA_SUCCESS);
    CUdeviceptr other = 0;
    EXPECT_EQ(cuMemAlloc_v2(&other, 4), CUDA_SUCCESS) << "another thread may";
  }).join();
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  ASSERT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
  EXPECT_EQ(cuMemAlloc_v2(&address, 4), CUDA_SUCCESS);
  ASSERT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAlloc_v2(&address, 4), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(GraphTest, DebugPrintNamesNodesAndEdges) {
  CUgraph graph = nullptr;
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  const CUgraphNode a = add_kernel(graph, {}, store_value, word(0), 3);
  add_kernel(graph, {a}, copy_word, word(1), word(0));
  const std::string path = ::testing::TempDir() + "graph.dot";
  ASSERT_EQ(cuGraphDebugDotPrint(graph, path.c_str(), 0), CUDA_SUCCESS);
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str().rfind("digraph", 0), 0u);
  EXPECT_NE(text.str().find("store_value"), std::string::npos);
  EXPECT_NE(text.str().find("->"), std::string::npos);
  EXPECT_EQ(cuGraphDebugDotPrint(graph, "/nowhere/at/all.dot", 0), CUDA_ERROR_OPERATING_SYSTEM);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace kiln::emulator_test
