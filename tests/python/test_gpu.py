"""kiln.gpu: contexts, buffers and kernels, on the CPU and on every accelerator there is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading

import numpy as np
import pytest
from kiln.driver import CPU, Accelerator, Buffer, CompletionFlag, SymmetricPool, Usage, accelerator_count
from kiln.dtype import DType
from kiln.gpu import Attribute, DeviceAttribute, DeviceContext, DeviceStream, FuncAttribute, LaunchAttribute

DEVICES = ["cpu", *(f"cuda:{i}" for i in range(accelerator_count()))]

SCALE = """
extern "C" __global__ void scale(float* out, const float* in, float k, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] * k;
}
"""

# Portable words: block sums through shared memory.
SUMS = """
extern "C" __global__ void sums(float* out, const float* in) {
  auto& part = shared<float, 64>();
  part[thread_idx.x] = in[global_idx.x];
  barrier();
  for (unsigned half = block_dim.x / 2; half > 0; half /= 2) {
    if (thread_idx.x < half) part[thread_idx.x] += part[thread_idx.x + half];
    barrier();
  }
  if (thread_idx.x == 0) out[block_idx.x] = part[0];
}
"""


@pytest.fixture(params=DEVICES)
def ctx(request):
    if request.param == "cpu":
        return DeviceContext(api="cpu")
    return DeviceContext(int(request.param.split(":")[1]), api="cuda")


def name_of(ctx):
    return f"{ctx.api()}:{ctx.id()}"


def test_contexts_open_devices(ctx):
    assert ctx.api() in ("cpu", "cuda")
    assert ctx.is_compatible()
    free, total = ctx.get_memory_info()
    assert 0 < free <= total == ctx.max_single_alloc_size()
    assert DeviceContext(ctx.device).stream() == DeviceStream(ctx.device.default_queue)
    assert DeviceContext(ctx.stream().queue).stream() == ctx.stream()
    with ctx as same:
        assert same is ctx
    assert DeviceContext.number_of_devices(api="cpu") == 1
    assert DeviceContext.number_of_devices(api="abacus") == 0
    with pytest.raises(ValueError, match="abacus"):
        DeviceContext(api="abacus")
    with pytest.raises(TypeError, match="device id"):
        DeviceContext("gpu")
    with pytest.raises(TypeError, match="api"):
        DeviceContext(ctx.device, api="cpu")
    assert ctx.get_attribute(DeviceAttribute.WARP_SIZE) == ctx.get_attribute(10)
    with pytest.raises(ValueError, match="999"):
        ctx.get_attribute(999)
    assert set(ctx.default_device_info()) >= {"name", "vendor", "api", "arch_name", "warp_size", "sm_count"}


@pytest.mark.parametrize(
    "dtype",
    ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"],
)
def test_copies_and_fills(ctx, dtype):
    rng = np.random.default_rng(3)
    values = (rng.random(1001) * 100).astype(dtype)
    kind = DType.from_numpy(values.dtype)
    a = ctx.enqueue_create_buffer(kind, 1001)
    b = ctx.create_buffer_sync(kind, 1001)
    h = ctx.enqueue_create_host_buffer(kind, 1001)
    assert Usage.STAGING in h.usage and Usage.UNTRACKED in h.usage
    assert a.shape == (1001,) and a.device == ctx.device and a.stream == ctx.stream().queue
    ctx.enqueue_copy(a, values)
    ctx.enqueue_copy(b, a)
    ctx.enqueue_copy(h, b)
    back = np.zeros_like(values)
    ctx.enqueue_copy(back, h)
    ctx.synchronize()
    np.testing.assert_array_equal(back, values)
    ctx.enqueue_memset(a, 1)
    np.testing.assert_array_equal(a.to_numpy(), np.ones(1001, dtype))
    short = np.zeros(5, dtype)
    ctx.enqueue_copy(short, b)
    ctx.synchronize()
    np.testing.assert_array_equal(short, values[:5])


def test_copies_refuse(ctx):
    a = ctx.enqueue_create_buffer(DType.int32, 8)
    with pytest.raises(ValueError, match="source buffer length must be >= destination buffer length"):
        ctx.enqueue_copy(a, np.zeros(7, np.int32))
    with pytest.raises(ValueError, match="int32.*float32"):
        ctx.enqueue_copy(a, np.zeros(8, np.float32))
    with pytest.raises(ValueError, match="contiguous"):
        ctx.enqueue_copy(a, np.zeros(16, np.int32)[::2])
    with pytest.raises(TypeError, match="Buffer or a NumPy array"):
        ctx.enqueue_copy(a, [1, 2, 3])
    fixed = np.zeros(8, np.int32)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        ctx.enqueue_copy(fixed, a)
    with pytest.raises(ValueError, match="negative"):
        ctx.enqueue_create_buffer(DType.int32, -1)
    with pytest.raises(ValueError, match="bitwidth"):
        ctx.enqueue_memset(ctx.enqueue_create_buffer(DType.float4_e2m1fn, 8), 1)


def test_arrays_live_until_they_are_copied(ctx):
    a = ctx.enqueue_create_buffer(DType.float64, 1 << 16)
    for round_ in range(20):
        ctx.enqueue_copy(a, np.full(1 << 16, round_, np.float64))
    np.testing.assert_array_equal(a.to_numpy(), np.full(1 << 16, 19.0))


def test_kernels_from_source(ctx):
    x = np.arange(1000, dtype=np.float32)
    a = ctx.enqueue_create_buffer(DType.float32, 1000)
    out = ctx.enqueue_create_buffer(DType.float32, 1000)
    ctx.enqueue_copy(a, x)
    f = ctx.compile_function("scale", SCALE)
    assert f.name == "scale" and "scale" in repr(f)
    for k in (3.0, np.float32(3), 3):
        ctx.enqueue_memset(out, 0)
        ctx.enqueue_function(f, out, a, k, 1000, grid_dim=4, block_dim=(256,))
        np.testing.assert_array_equal(out.to_numpy(), x * np.float32(3))
    stream = ctx.create_stream()
    ctx.synchronize()
    stream.enqueue_function(f, out, a, np.float32(0.5), np.int32(1000), grid_dim=4, block_dim=256)
    stream.synchronize()
    np.testing.assert_array_equal(out.to_numpy(), x * np.float32(0.5))
    assert f.get_attribute(Attribute.MAX_THREADS_PER_BLOCK) == 1024
    assert f.occupancy_max_active_blocks_per_multiprocessor(128, 0) >= 1


def test_portable_words(ctx):
    rng = np.random.default_rng(5)
    x = rng.integers(0, 100, 640).astype(np.float32)
    a = ctx.enqueue_create_buffer(DType.float32, 640)
    out = ctx.enqueue_create_buffer(DType.float32, 10)
    ctx.enqueue_copy(a, x)
    f = ctx.compile_function("sums", SUMS)
    ctx.enqueue_function(f, out, a, grid_dim=10, block_dim=64)
    np.testing.assert_array_equal(out.to_numpy(), x.reshape(10, 64).sum(1))


def test_wrong_arguments(ctx):
    f = ctx.compile_function("scale", SCALE)
    a = ctx.enqueue_create_buffer(DType.float32, 4)
    shape = {"grid_dim": 1, "block_dim": 4}
    here = r"test_gpu.py:\d+: "
    with pytest.raises(TypeError, match=here + "scale: wrong number of arguments to enqueue: expected 4, got 3"):
        ctx.enqueue_function(f, a, a, 1.0, **shape)
    with pytest.raises(TypeError, match="scale: argument #2 of type 'float64' does not match .* 'float'"):
        ctx.enqueue_function(f, a, a, np.float64(1), 4, **shape)
    with pytest.raises(TypeError, match="scale: argument #3 of type 'float' does not match .* 'int'"):
        ctx.enqueue_function(f, a, a, 1.0, 4.0, **shape)
    with pytest.raises(ValueError):
        ctx.enqueue_function(f, a, a, 1.0, 1 << 40, **shape)
    with pytest.raises(TypeError, match="argument #0 of type 'int32\\*'"):
        ctx.enqueue_function(f, ctx.enqueue_create_buffer(DType.int32, 4), a, 1.0, 4, **shape)
    with pytest.raises(TypeError, match="argument #1 is a Buffer, None or a number"):
        ctx.enqueue_function(f, a, "x", 1.0, 4, **shape)
    strided = Buffer(DType.float32, (8,), ctx.stream().queue)[::2]
    with pytest.raises(ValueError, match="argument #0 is not contiguous"):
        ctx.enqueue_function(f, strided, a, 1.0, 4, **shape)
    with pytest.raises(ValueError, match=here + "DeviceContext.enqueue_function: Dim value grid_dim.y must be"):
        ctx.enqueue_function(f, a, a, 1.0, 4, grid_dim=(1, 0), block_dim=4)
    with pytest.raises(TypeError, match="grid_dim"):
        ctx.enqueue_function(f, a, a, 1.0, 4, grid_dim=(1, 2, 3, 4), block_dim=4)
    with pytest.raises(TypeError, match="block_dim"):
        ctx.enqueue_function(f, a, a, 1.0, 4, grid_dim=1, block_dim="4")
    with pytest.raises(TypeError):
        ctx.enqueue_function(f, a, a, 1.0, 4, grid_dim=1)
    with pytest.raises(ValueError, match="was compiled for"):
        other = DeviceContext(api="cpu") if ctx.api() != "cpu" else None
        if other is None:
            raise ValueError("was compiled for: one kind of device here")
        other.enqueue_function(f, a, a, 1.0, 4, **shape)


def test_sources_that_do_not_compile(ctx):
    with pytest.raises(RuntimeError, match="(?s)compile_function: 'bad' failed to compile for (cpu|sm_.*).*:2:"):
        ctx.compile_function("bad", 'extern "C" __global__ void bad() {\n  x = 1;\n}')
    with pytest.raises(RuntimeError, match="kernel 'scal' not found; the source defines: scale"):
        ctx.compile_function("scal", SCALE)
    with pytest.raises(RuntimeError, match="-fno-such"):
        ctx.compile_function("scale", SCALE, compile_options="-fno-such")
    with pytest.raises(ValueError, match="the function attribute 'CACHE_MODE_CA' is not currently supported"):
        ctx.compile_function("scale", SCALE, func_attribute=FuncAttribute.CACHE_MODE_CA(True))
    doubled = SCALE.replace("* k", "* k * FACTOR")
    f = ctx.compile_function("scale", doubled, compile_options="-DFACTOR=2")
    a = ctx.enqueue_create_buffer(DType.float32, 4)
    ctx.enqueue_memset(a, 3)
    ctx.enqueue_function(f, a, a, 1.0, 4, grid_dim=1, block_dim=4)
    assert a.to_numpy().tolist() == [6, 6, 6, 6]


def test_dumps(ctx, tmp_path, capfd):
    calls = []

    def path():
        calls.append(1)
        return tmp_path / "called.txt"

    f = ctx.compile_function("scale", SCALE, dump_asm=tmp_path / "%.txt", dump_llvm=path)
    text = (tmp_path / "scale.txt").read_text()
    assert "scale" in text if ctx.api() == "cuda" else "kiln_kernel_run" in text
    assert "define" in (tmp_path / "called.txt").read_text()
    assert calls == [1]
    f.dump_rep(dump_asm=str(tmp_path / "again.txt"))
    assert (tmp_path / "again.txt").read_text() == text
    f.dump_rep(dump_llvm=True)
    assert "define" in capfd.readouterr().out


def test_memory_limits(ctx):
    f = ctx.compile_function("scale", SCALE)
    a = ctx.enqueue_create_buffer(DType.float32, 4)
    with pytest.raises(ValueError, match="shared_mem_bytes is 3000000, the limit for 'scale' on " + name_of(ctx)):
        ctx.enqueue_function(f, a, a, 1.0, 4, grid_dim=1, block_dim=4, shared_mem_bytes=3000000)
    ctx.enqueue_function(f, a, a, 1.0, 4, grid_dim=1, block_dim=4, shared_mem_bytes=100000)
    ctx.synchronize()
    small = ctx.compile_function("scale", SCALE, func_attribute=FuncAttribute.MAX_DYNAMIC_SHARED_SIZE_BYTES(1024))
    with pytest.raises(ValueError, match="is 1024"):
        ctx.enqueue_function(small, a, a, 1.0, 4, grid_dim=1, block_dim=4, shared_mem_bytes=2048)
    if ctx.api() == "cpu":
        with pytest.raises(NotImplementedError, match="COOPERATIVE"):
            ctx.enqueue_function(
                f,
                a,
                a,
                1.0,
                4,
                grid_dim=1,
                block_dim=4,
                attributes=[LaunchAttribute(LaunchAttribute.Id.COOPERATIVE, True)],
            )


def test_host_functions(ctx):
    if ctx.api() != "cpu":
        with pytest.raises(RuntimeError, match="enqueue_cpu_function is only supported on CPU DeviceContexts"):
            ctx.enqueue_cpu_function(lambda: None)
        with pytest.raises(RuntimeError, match="enqueue_cpu_range is only supported on CPU DeviceContexts"):
            ctx.enqueue_cpu_range(lambda i: None, 3)
        return
    seen, lock = [], threading.Lock()

    def note(i):
        with lock:
            seen.append(i)

    ctx.enqueue_cpu_range(note, 100)
    ctx.enqueue_cpu_function(lambda: seen.append("end"))
    ctx.synchronize()
    assert seen[-1] == "end" and sorted(seen[:-1]) == list(range(100))

    def fail(i):
        raise KeyError(f"number {i}")

    ctx.enqueue_cpu_range(fail, 1)
    ctx.enqueue_cpu_function(lambda: seen.append("never"))
    with pytest.raises(KeyError, match="number 0"):
        ctx.synchronize()
    assert seen[-1] == "end"


def test_streams_events_and_times(ctx):
    assert ctx.num_streams() == 1
    other = ctx.select_stream(2)
    assert ctx.num_streams() == 3
    assert other.stream() != ctx.stream()
    with pytest.raises(ValueError, match="64"):
        ctx.select_stream(64)
    least, greatest = ctx.stream_priority_range()
    assert least >= greatest
    a = ctx.enqueue_create_buffer(DType.float32, 1000)
    assert ctx.execution_time(lambda c: c.enqueue_memset(a, 2), 3) > 0
    assert ctx.execution_time(lambda: ctx.enqueue_memset(a, 3), 2) > 0
    assert "target" in ctx.default_device_info()
    numbers = []
    ctx.execution_time_iter(lambda c, i: numbers.append(i), 3)
    assert numbers == [0, 1, 2]
    event = ctx.create_event(disable_timing=False)
    ctx.stream().record_event(event)
    other.stream().enqueue_wait_for(event)
    other.enqueue_wait_for(ctx)
    other.synchronize()
    assert event.is_ready()
    with pytest.raises(NotImplementedError):
        ctx.create_event(interprocess=True)
    with pytest.raises(ZeroDivisionError):
        ctx.execution_time(lambda c: 1 // 0, 1)


PTX = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry bump(.param .u64 p0, .param .u32 p1) {
  .reg .b64 %rd<4>; .reg .b32 %r<4>;
  ld.param.u64 %rd1, [p0];
  ld.param.u32 %r1, [p1];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r2, %tid.x;
  mul.wide.u32 %rd2, %r2, 4;
  add.s64 %rd1, %rd1, %rd2;
  ld.global.u32 %r3, [%rd1];
  add.u32 %r3, %r3, %r1;
  st.global.u32 [%rd1], %r3;
  ret;
}
"""


def test_loaded_functions(ctx):
    if ctx.api() == "cpu":
        with pytest.raises(NotImplementedError, match="bump"):
            ctx.load_function(function_name="bump", asm=PTX)
        return
    f = ctx.load_function(function_name="bump", asm=PTX)
    a = ctx.enqueue_create_buffer(DType.int32, 32)
    ctx.enqueue_copy(a, np.arange(32, dtype=np.int32))
    ctx.enqueue_function(f, a, np.int32(5), grid_dim=1, block_dim=32)
    np.testing.assert_array_equal(a.to_numpy(), np.arange(32) + 5)
    with pytest.raises(TypeError, match="bump: argument #1 has 8 bytes but the parameter takes 4"):
        ctx.enqueue_function(f, a, np.int64(5), grid_dim=1, block_dim=32)
    with pytest.raises(TypeError, match="NumPy scalar"):
        ctx.enqueue_function(f, a, 5, grid_dim=1, block_dim=32)
    with pytest.raises(RuntimeError, match="bump"):
        ctx.load_function(function_name="jump", asm=PTX)


FAULT = """
import numpy as np
from kiln.dtype import DType
from kiln.gpu import DeviceContext
ctx = DeviceContext()
f = ctx.compile_function("wild", 'extern "C" __global__ void wild(float* p) { p[1L << 33] = 1; }')
a = ctx.enqueue_create_buffer(DType.float32, 4)
def attempt(call):
    try:
        call()
    except RuntimeError as error:
        print(str(error).replace(chr(10), " | "))
    else:
        print("no error")
attempt(lambda: ctx.enqueue_function(f, a, grid_dim=1, block_dim=1))
attempt(ctx.synchronize)
attempt(lambda: ctx.enqueue_function(f, a, grid_dim=1, block_dim=1))
"""


@pytest.mark.parametrize("sync", [False, True])
def test_faults_of_kernels(sync):
    if accelerator_count() == 0:
        return  # faults are those of accelerators
    environment = {**os.environ, "KILN_DEBUG": "device-sync-mode" if sync else ""}
    result = subprocess.run([sys.executable, "-c", FAULT], env=environment, capture_output=True, text=True, timeout=120)
    lines = [line for line in result.stdout.splitlines() if line]
    assert len(lines) == 3, result.stdout + result.stderr
    fault = "CUDA_ERROR_ILLEGAL_ADDRESS"
    hint = "To get more accurate error information, set KILN_DEBUG=device-sync-mode"
    if sync:
        assert re.match(r"<string>:\d+: ", lines[0]) and fault in lines[0] and hint not in lines[0]
    else:
        assert lines[0] == "no error"
        assert re.match(r"<string>:\d+: ", lines[1]) and fault in lines[1] and hint in lines[1]
    # The device stays faulted, and says so in the same words.
    text = re.search(r"Work on .*?\.", lines[0] if sync else lines[1])[0]
    assert text in lines[2]


def test_host_callbacks_of_the_driver(ctx, capfd):
    if ctx.api() == "cpu":
        return  # tests/python/test_driver_traces.py
    device = ctx.device
    seen = []
    getattr(device, "__unsafe_enqueue_py_host_func")(lambda: seen.append("a"))
    getattr(device, "__unsafe_enqueue_py_host_func")(lambda: 1 // 0)
    device.synchronize()
    assert seen == ["a"]
    assert "ZeroDivisionError" in capfd.readouterr().err
    flag = CompletionFlag(device)
    start = getattr(device.default_queue, "__unsafe_enqueue_async_py_host_func")
    start(lambda: seen.append("b"), flag, 7, CPU())
    device.default_queue.wait_for_host_value(flag, 7)
    device.synchronize()
    assert seen == ["a", "b"] and flag.load() == 7
    getattr(device, "__unsafe_enqueue_async_py_host_func")(lambda: 1 // 0, flag, 8, CPU())
    device.default_queue.wait_for_host_value(flag, 8)
    device.synchronize()
    with pytest.raises(TypeError, match="CompletionFlag"):
        start(print, 3, 1, CPU())
    with pytest.raises(TypeError, match="CPU"):
        start(print, flag, 1, device)


def test_symmetric_pools():
    with pytest.raises(TypeError):
        SymmetricPool()
    assert not SymmetricPool.is_supported([CPU()])
    assert SymmetricPool.lookup([]) is None
    with pytest.raises(RuntimeError, match="at least two devices are needed, got 1"):
        SymmetricPool.allocate([CPU()], 64)
    devices = [Accelerator(i) for i in range(accelerator_count())]
    if not SymmetricPool.is_supported(devices):
        return
    pool = SymmetricPool.lookup(devices) or SymmetricPool.allocate(devices, 4096)
    assert pool.byte_size == 4096
    found = SymmetricPool.lookup(devices[::-1])
    for i, device in enumerate(devices):
        view = pool.unicast_view(device)
        assert view.shape == (4096,) and view.dtype == DType.uint8 and view.device == device
        part = view[:1024].view(DType.float32, [256])
        part.inplace_copy_from(Buffer.from_numpy(np.full(256, i, np.float32)).to(device))
        np.testing.assert_array_equal(found.unicast_view(device)[:1024].view(DType.float32).to_numpy(), np.full(256, i))
    with pytest.raises(RuntimeError, match="is not one the pool spans"):
        pool.unicast_view(CPU())
