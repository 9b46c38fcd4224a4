"""Compiling and running."""

from collections.abc import Generator, Iterator, Sequence
import enum
import os
from typing import Any

import kiln._core.driver
import kiln._core.dtype
import kiln._core.graph


class TensorSpec:
    """What a model takes or gives at one position."""

    def __init__(self, *args, **kwargs) -> None: ...

    @property
    def dtype(self) -> kiln._core.dtype.DType:
        """Element type."""

    @property
    def name(self) -> str:
        """Such as 'input0'."""

    @property
    def shape(self) -> object:
        """A list of ints, None for symbolic dims; None for any rank."""

    @property
    def device(self) -> kiln._core.graph.DeviceRef:
        """Where it lies."""

    def __eq__(self, arg: object | None, /) -> object: ...

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

class ModelMetadata:
    """Names, inputs and outputs of one graph."""

    @property
    def name(self) -> str:
        """The graph's name."""

    @property
    def input_metadata(self) -> list[TensorSpec]:
        """One spec per input."""

    @property
    def output_metadata(self) -> list[TensorSpec]:
        """One spec per output."""

    def __repr__(self) -> str: ...

class Model:
    """
    A compiled graph with its weights, ready to run. Calls may run in parallel.

    >>> import numpy as np
    >>> from kiln.driver import CPU
    >>> from kiln.dtype import DType
    >>> from kiln.engine import InferenceSession
    >>> from kiln.graph import Graph, TensorType
    >>> graph = Graph("double", lambda x: x * 2, [TensorType(DType.float32, ["n"], CPU())])
    >>> model = InferenceSession().load(graph)
    >>> model.execute(np.array([1, 2], np.float32))[0].to_numpy().tolist()
    [2.0, 4.0]
    """

    def __init__(self, *args, **kwargs) -> None: ...

    def execute(self, *args: Any) -> list[kiln._core.driver.Buffer]:
        """
        Runs the graph on one buffer, array or number per input and returns the list of results.
        """

    def capture(self, graph_keys: int | Sequence[int], /, *inputs: Any) -> list[kiln._core.driver.Buffer]:
        """
        Executes, and records the execution under a key, or a key for each device. Returns the list of results, which
        later replays write.
        """

    def replay(self, graph_keys: int | Sequence[int], /, *inputs: Any) -> None:
        """
        Runs a recorded execution again on what the captured buffers hold now; other inputs than these are a
        RuntimeError.
        """

    def debug_verify_replay(self, graph_keys: int | Sequence[int], /, *inputs: Any) -> None:
        """
        Executes on these inputs and compares the launches with the recorded ones; a difference is a RuntimeError that
        names the first.
        """

    def __call__(self, *args: Any, **kwargs: Any) -> list[kiln._core.driver.Buffer]:
        """Binds inputs by position and name, then executes."""

    def release_captured_graph(self, graph_keys: int | Sequence[int]) -> None:
        """Forgets recorded executions; keys that are not known are none."""

    def reload(self, weights_registry: object | None) -> None:
        """Binds all weights anew; calls under way keep the old ones."""

    @property
    def signature(self) -> object:
        """An inspect.Signature with one parameter per input."""

    @property
    def name(self) -> str:
        """The graph's name."""

    @property
    def devices(self) -> list[kiln._core.driver.Device]:
        """The devices it uses: the host first, then accelerators."""

    @property
    def input_devices(self) -> list[kiln._core.driver.Device]:
        """The device of each input."""

    @property
    def output_devices(self) -> list[kiln._core.driver.Device]:
        """The device of each output."""

    @property
    def input_metadata(self) -> list[TensorSpec]:
        """One TensorSpec per input."""

    @property
    def output_metadata(self) -> list[TensorSpec]:
        """One TensorSpec per output."""

    @property
    def kernel_summaries(self) -> list[str]:
        """One text per compiled kernel, such as 'Epilogue(matmul, relu)'."""

    def __repr__(self) -> str: ...

class MefWeight:
    """A weight that an artifact needs by name."""

    @property
    def name(self) -> str:
        """Its name in the registry."""

    @property
    def dtype(self) -> kiln._core.dtype.DType:
        """Element type."""

    @property
    def shape(self) -> tuple:
        """Extents."""

    @property
    def device(self) -> kiln._core.graph.DeviceRef:
        """Where it lies."""

    @property
    def carried(self) -> bool:
        """Whether the file holds its data."""

    def __repr__(self) -> str: ...

class CpuTarget:
    """A processor that code was made for."""

    @property
    def triple(self) -> str:
        """Such as 'x86_64-unknown-linux-gnu'."""

    @property
    def cpu(self) -> str:
        """Such as 'x86-64-v3'."""

    @property
    def level(self) -> str:
        """Its step of the ladder."""

    @property
    def features(self) -> list[str]:
        """What the machine must offer."""

    def __repr__(self) -> str: ...

class AcceleratorTarget:
    """An accelerator that code was made for."""

    @property
    def api(self) -> str:
        """Such as 'cuda'."""

    @property
    def arch(self) -> str:
        """Such as 'sm_90'."""

class MefInfo:
    """What a MEF is made for and whether it could be loaded here."""

    def __init__(self, *args, **kwargs) -> None: ...

    @property
    def readable(self) -> bool:
        """Magic, length and header checksum are good."""

    @property
    def compatible(self) -> bool:
        """It could be loaded here."""

    @property
    def reasons(self) -> list[str]:
        """One sentence for every failing condition."""

    @property
    def format_version(self) -> str:
        """Such as '1.0'."""

    @property
    def kiln_version(self) -> str:
        """The kiln that wrote it."""

    @property
    def runtime_interface(self) -> int:
        """Its runtime interface."""

    @property
    def targets(self) -> list[CpuTarget]:
        """Processors it holds code for."""

    @property
    def accelerators(self) -> list[AcceleratorTarget]:
        """Accelerators it holds code for."""

    @property
    def graphs(self) -> list[ModelMetadata]:
        """Its graphs."""

    @property
    def weights(self) -> list[MefWeight]:
        """The weights it needs."""

    @property
    def custom_kernels(self) -> list[str]:
        """Kernels of user libraries."""

    def __repr__(self) -> str: ...

class CompiledModel:
    """A compiled artifact: one or more graphs without weights."""

    def __init__(self, *args, **kwargs) -> None: ...

    def export_mef(self, path: object | None, *, weights_registry: object | None = None) -> None:
        """Writes the artifact, with a registry also the weights it names."""

    def explain(self, path: str | os.PathLike[str] | None = None) -> str:
        """
        An HTML page that shows the ops, the kernels that they became, with bytes and flops, and the memory plan over time; on request it is written, too.
        """

    @property
    def names(self) -> list[str]:
        """Names of the graphs."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator: ...

    @property
    def info(self) -> MefInfo:
        """What it is made for."""

    def wait(self) -> None:
        """Blocks until the compile is over and raises what it failed with."""

    def done(self) -> bool:
        """Whether the compile is over, well or not."""

    def __await__(self) -> Generator[Any, Any, CompiledModel]:
        """Itself, once the compile is over; raises what it failed with."""

    def __repr__(self) -> str: ...

def read(source: object | None) -> CompiledModel:
    """
    Reads a MEF from a path or a binary stream; RuntimeError for unreadable content.
    """

def query_mef(source: object | None, devices: object | None = None) -> MefInfo:
    """
    What a MEF, at a path or in a binary stream, is made for, from its header alone.
    """

class LogLevel(enum.Enum):
    """How much a line that a kernel logs matters."""

    NOTSET = 0

    TRACE = 1

    DEBUG = 2

    INFO = 3

    WARNING = 4

    ERROR = 5

    CRITICAL = 6

class AssertLevel(enum.Enum):
    """Run-time checks in kernels of user libraries."""

    NONE = 0

    WARN = 1

    SAFE = 2

    ALL = 3

class SplitKReductionPrecision(enum.Enum):
    """How accelerators keep partial sums."""

    ACCUM = 0

    OUTPUT = 1

class InferenceSession:
    """
    Compiles graphs and makes models of them.

    >>> from kiln.engine import InferenceSession
    >>> InferenceSession(num_threads=4)
    <kiln engine InferenceSession(num_threads=4)>
    """

    def __init__(self, devices: Sequence[kiln._core.driver.Device] = (), num_threads: int | None = None, *, custom_extensions: object | None = None, precompiled_mefs: object | None = None, export_mefs: object | None = None) -> None: ...

    @property
    def devices(self) -> list[kiln._core.driver.Device]:
        """The devices, the host included."""

    def __repr__(self) -> str: ...

    def compile(self, model: object | None, *, custom_extensions: object | None = None, tile_based_fusion: bool = False) -> CompiledModel:
        """
        Compiles a graph or a module, or reads the MEF at a path; blocks. A CompiledModel is returned as it is.
        """

    def compile_async(self, model: object | None, *, custom_extensions: object | None = None, tile_based_fusion: bool = False) -> CompiledModel:
        """As `compile`, but returns at once; a failure appears at first use."""

    def compile_reusing_mefs(self, graph: object | None) -> CompiledModel:
        """
        Compiles through the session's folder of MEFs: reads the graph's file from `precompiled_mefs`, or writes it to `export_mefs`.
        """

    def init(self, compiled: CompiledModel, *, weights_registry: object | None = None) -> Model:
        """Binds weights and makes the one graph of the artifact ready to run."""

    def init(self, compiled: CompiledModel, *, weights_registry: object | None = None) -> Model:
        """A model per graph of the artifact, by name."""

    def load(self, model: object | None, *, custom_extensions: object | None = None, weights_registry: object | None = None, tile_based_fusion: bool = False) -> Model:
        """`compile` and `init`."""

    def load(self, model: object | None, *, custom_extensions: object | None = None, weights_registry: object | None = None, tile_based_fusion: bool = False) -> Model:
        """`compile` and `init_all`."""

    def set_debug_print_options(self, style: object | None = 'COMPACT', precision: object | None = 6, output_directory: object | None = None) -> None:
        """How `print` ops of the models made here show tensors."""

    def set_kernel_log_level(self, level: object | None) -> None:
        """Which lines kernels of user libraries log; kiln's own ops log none."""

    def set_kernel_assert_level(self, level: object | None) -> None:
        """
        Which checks are compiled into kernels of user libraries; those of kiln's own ops are in at every level.
        """

    def set_split_k_reduction_precision(self, precision: object | None) -> None:
        """How accelerators keep partial sums; kernels of the CPU do not split K."""

    def gpu_profiling(self, mode: object | None) -> None:
        """Markers for an accelerator's profiler: 'off', 'on' or 'detailed'."""

    debug: DebugConfig = ...

class PrintStyle(enum.IntEnum):
    """How print ops show tensors."""

    COMPACT = 0

    FULL = 1

    BINARY = 2

    NONE = 3

    BINARY_MAX_CHECKPOINT = 4

class DebugConfig:
    """Debug settings of the process."""

    @property
    def nan_check(self) -> bool:
        """
        Check every op's floats for NaN and infinities; takes effect at compile.
        """

    @nan_check.setter
    def nan_check(self, arg: bool, /) -> None: ...

    @property
    def uninitialized_read_check(self) -> bool:
        """Report reads of fresh device memory; not on the CPU."""

    @uninitialized_read_check.setter
    def uninitialized_read_check(self, arg: bool, /) -> None: ...

    @property
    def device_sync_mode(self) -> bool:
        """Every call that enqueues work waits for it."""

    @device_sync_mode.setter
    def device_sync_mode(self, arg: bool, /) -> None: ...

    @property
    def queue_order(self) -> bool:
        """
        Unordered uses of one buffer on two queues are errors of the call that makes the second one.
        """

    @queue_order.setter
    def queue_order(self, arg: bool, /) -> None: ...

    @property
    def stack_trace_on_error(self) -> bool:
        """Native stack trace with every error."""

    @stack_trace_on_error.setter
    def stack_trace_on_error(self, arg: bool, /) -> None: ...

    @property
    def stack_trace_on_crash(self) -> bool:
        """Native stack trace on a crash."""

    @stack_trace_on_crash.setter
    def stack_trace_on_crash(self, arg: bool, /) -> None: ...

    @property
    def source_tracebacks(self) -> bool:
        """Record the whole call stack with every op that is built."""

    @source_tracebacks.setter
    def source_tracebacks(self, arg: bool, /) -> None: ...

    @property
    def sensible_mode(self) -> bool:
        """The checks that most hunts for an error want."""

    @sensible_mode.setter
    def sensible_mode(self, arg: bool, /) -> None: ...

    @property
    def op_log_level(self) -> str:
        """'' or a level's name."""

    @op_log_level.setter
    def op_log_level(self, arg: str, /) -> None: ...

    @property
    def assert_level(self) -> str:
        """'' or one of none, warn, safe, all."""

    @assert_level.setter
    def assert_level(self, arg: str, /) -> None: ...

    @property
    def ir_output_dir(self) -> str:
        """Receives the IR after each stage of a compile."""

    @ir_output_dir.setter
    def ir_output_dir(self, arg: str, /) -> None: ...

    @property
    def profiling_output_path(self) -> str:
        """The file of profiles; nothing writes any yet."""

    @profiling_output_path.setter
    def profiling_output_path(self, arg: str, /) -> None: ...

    @property
    def print_style(self) -> PrintStyle:
        """What sessions print with that were not told."""

    @print_style.setter
    def print_style(self, arg: object | None, /) -> None: ...

    def reset(self) -> None:
        """Back to the defaults."""

_debug: DebugConfig = ...
