import pytest

from kiln._core.driver import HostHazardCompletion, HostHazardError
from kiln.driver import (
    CPU,
    Accelerator,
    Buffer,
    DeviceQueue,
    DeviceSpec,
    accelerator_api,
    accelerator_count,
    calculate_virtual_device_count,
    calculate_virtual_device_count_from_cli,
    get_virtual_cpu_target,
    get_virtual_device_api,
    get_virtual_device_count,
    get_virtual_device_target_arch,
    is_virtual_device_mode,
    set_virtual_cpu_target,
    set_virtual_device_api,
    set_virtual_device_count,
    set_virtual_device_target_arch,
)
from kiln.dtype import DType
from kiln.engine import InferenceSession
from kiln.graph import Graph, TensorType

pytestmark = pytest.mark.driver


@pytest.fixture
def virtual():
    set_virtual_device_api("cuda")
    set_virtual_device_target_arch("sm_90")
    set_virtual_device_count(2)
    yield
    set_virtual_device_count(0)


def test_virtual_devices(virtual):
    assert is_virtual_device_mode() and get_virtual_device_count() == accelerator_count() == 2
    assert (get_virtual_device_api(), get_virtual_device_target_arch()) == ("cuda", "sm_90")
    gpu = Accelerator(1)
    assert isinstance(gpu, Accelerator) and Accelerator(1) is gpu and gpu.id == 1
    assert (gpu.label, gpu.api, gpu.architecture_name, gpu.is_host) == ("gpu", "cuda", "sm_90", False)
    assert str(gpu) == "Device(type=gpu,id=1)"
    with pytest.raises(ValueError, match="^failed to create device:"):
        Accelerator(2)
    for use in (lambda: Buffer(DType.int8, (1,), gpu), lambda: DeviceQueue(gpu)):
        with pytest.raises(RuntimeError, match="virtual device gpu:1 cannot hold memory or run work"):
            use()


def test_a_setter_changes_no_device_that_is_there(virtual):
    gpu = Accelerator(0)
    try:
        set_virtual_device_target_arch("sm_80")
        set_virtual_device_api("hip")
        assert Accelerator(0) is gpu and (gpu.api, gpu.architecture_name) == ("cuda", "sm_90")
        assert accelerator_api() == "cuda"
        assert (get_virtual_device_api(), get_virtual_device_target_arch()) == ("hip", "sm_80")
        set_virtual_device_count(1)  # from here on
        assert (Accelerator(0).api, Accelerator(0).architecture_name) == ("hip", "sm_80")
        assert Accelerator(0) is not gpu
    finally:
        set_virtual_device_target_arch("")
        set_virtual_device_api("")


def test_settings():
    assert not is_virtual_device_mode()
    with pytest.raises(ValueError):
        set_virtual_device_count(-1)
    with pytest.raises(ValueError):
        set_virtual_device_api("abacus")
    with pytest.raises(ValueError):
        set_virtual_cpu_target("native")
    assert get_virtual_cpu_target() == ""


def test_facts_about_memory_that_is_not_there(virtual):
    gpu = Accelerator(0)
    assert gpu.stats == {"free_memory": 0, "total_memory": 0, "graph_mem_reserved": 0, "graph_mem_used": 0}
    assert gpu.max_single_alloc_size > 0
    assert gpu.trim() == 0 and gpu.can_access(gpu) is False


def test_counts():
    assert calculate_virtual_device_count() == 1
    assert calculate_virtual_device_count([DeviceSpec.cpu()], [DeviceSpec.accelerator(3)]) == 4
    assert calculate_virtual_device_count_from_cli("gpu:0,3", [1, 5]) == 6
    assert calculate_virtual_device_count_from_cli("gpu", "cpu") == 1
    with pytest.raises(ValueError):
        calculate_virtual_device_count_from_cli("gpu:x")
    for bad in ("a", None, 1.5, "3"):
        with pytest.raises(ValueError, match=f"holds ints, but {bad!r} is none"):
            calculate_virtual_device_count_from_cli([0, bad])


def test_cpu_target():
    set_virtual_cpu_target("generic")
    try:
        graph = Graph("g", lambda x: x + 1, [TensorType(DType.float32, [2], CPU())])
        assert InferenceSession().compile(graph).info.compatible
    finally:
        set_virtual_cpu_target("")


def test_host_hazards():
    queue = DeviceQueue(CPU())
    token = HostHazardCompletion.record_on(queue)
    token.wait()
    assert token.is_ready() and issubclass(HostHazardError, RuntimeError)
    token.poison("the copy failed")
    for bad in (token, HostHazardCompletion.poisoned(queue, "the copy failed")):
        assert bad.is_ready()
        with pytest.raises(HostHazardError, match="the copy failed"):
            bad.wait()


@pytest.mark.parametrize("variant, arguments", [("", 1), ("async_", 4)])
def test_host_functions_of_a_virtual_device(virtual, variant, arguments):
    enqueue = getattr(Accelerator(0), f"__unsafe_enqueue_{variant}py_host_func")
    with pytest.raises(RuntimeError, match="^virtual device gpu:0 cannot hold memory or run work$"):
        enqueue(*[print] * arguments)
