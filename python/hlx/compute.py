"""The compute layer: shaders of one's own over tensors, graphs of launches, and their times.

A `Context` is a device. `Context.kernel` makes a kernel from SPIR-V, which is validated first; a kernel is called with
tensors, push constants and workgroups. Launches run after all that was launched before, HLX's operations included.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeAlias

from hlx import _contract_fields as _fields
from hlx import _hlx, errors
from hlx._hlx import Tensor, device, dtype
from hlx._operations._types import FLOAT32, Device

__all__ = ["Binding", "Constant", "Context", "Graph", "Kernel", "KernelTime", "LaunchTime", "Shader", "Timing"]

Spirv: TypeAlias = bytes | bytearray | memoryview | str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Binding:
    """A storage buffer that a shader declares in descriptor set 0."""

    binding: int
    name: str
    kinds: list[str]
    """What its elements may be: `f32`, `u32` or `i32`; several if the shader declares several views."""
    reads: bool
    writes: bool


@dataclass(frozen=True, slots=True)
class Constant:
    """A specialization constant that a shader declares."""

    name: str
    kind: str
    default: int
    """Its bits without a value of yours."""


class Shader:
    """A validated compute shader: its SPIR-V and its interface.

    `spirv` is bytes, or the path of a file. A module that HLX does not accept is a ValueError that names its first
    fault (docs/contracts.md has the accepted part of SPIR-V).
    """

    __slots__ = ("bindings", "constants", "entry_point", "push_constants", "spirv", "workgroup_size")

    def __init__(self, spirv: Spirv, entry_point: str = "main") -> None:
        self.spirv: bytes = _bytes(spirv)
        self.entry_point: str = entry_point
        interface = _hlx.inspect_spirv(self.spirv, entry_point)
        self.bindings: list[Binding] = [Binding(*row) for row in interface["bindings"]]
        """The bindings, in order."""
        self.push_constants: list[str | None] = interface["push_constants"]
        """The kind of each word of the push constants, None for padding."""
        self.constants: dict[int, Constant] = {id: Constant(*row) for id, row in interface["constants"].items()}
        """The specialization constants by id; 1000 and 1001 are set by HLX."""
        self.workgroup_size: list[int] | None = interface["workgroup_size"]
        """Invocations of a workgroup in x, y and z, with the constants' defaults."""

    def __repr__(self) -> str:
        names = ", ".join(binding.name for binding in self.bindings)
        return f"Shader({self.entry_point}, {len(self.spirv)} bytes, bindings {names})"


def _bytes(spirv: Spirv) -> bytes:
    if isinstance(spirv, (str, os.PathLike)):
        with open(spirv, "rb") as file:
            return file.read()
    if isinstance(spirv, (bytes, bytearray, memoryview)):
        return bytes(spirv)
    raise errors.TypeError(f"Shader: spirv is {type(spirv).__name__}, expected bytes or a path")


class Kernel:
    """A shader with its pipeline on a device; made by `Context.kernel`."""

    __slots__ = ("_kinds", "_program", "_written", "name", "shader", "workgroup_size")

    def __init__(self, program: _hlx.ComputeProgram, name: str, shader: Shader) -> None:
        self._program = program
        self.name: str = name
        self.shader: Shader = shader
        self.workgroup_size: list[int] = program.interface["workgroup_size"]
        """Invocations of a workgroup in x, y and z, under the kernel's constants."""
        self._kinds = shader.push_constants
        self._written = next((place for place, one in enumerate(shader.bindings) if one.writes), 0)

    def __call__(
        self,
        *tensors: Tensor,
        push: Sequence[float] | bytes = (),
        workgroups: int | Sequence[int] | None = None,
    ) -> None:
        """Launches the kernel over tensors in the order of the shader's bindings; it does not wait.

        `push` is the words of the push constants, padding left out, or the block's bytes. `workgroups` are those in
        x, y and z. Without them they cover the first tensor that the shader stores to: its last dimension in x, the
        one before in y, the others in z, each divided by the workgroup's size and rounded up.

        Tensors are of float32, int32 or uint32 and on the kernel's device. What the shader stores to changes in
        place. A tensor whose memory is not its own (`Context.zeros`, `Context.tensor`) is copied for the launch, so
        that a wrong index reaches no other tensor.
        """
        for place, tensor in enumerate(tensors):
            if not isinstance(tensor, Tensor):
                found = type(tensor).__name__
                raise errors.TypeError(f"{self.name}: binding {place} is {found}, expected a tensor")
        words = _fields.pack(f"{self.name}: push constants", push, self._kinds)
        if workgroups is None:
            shape = tensors[self._written].shape if self._written < len(tensors) else ()
            workgroups = _fields.workgroups_for(shape, self.workgroup_size)
        elif isinstance(workgroups, int):
            workgroups = [workgroups, 1, 1]
        else:
            workgroups = _fields.extents(f"{self.name}: workgroups", workgroups)
            if len(workgroups) > 3:
                raise errors.ValueError(f"{self.name}: workgroups is {workgroups}, expected at most 3 integers")
            workgroups += [1] * (3 - len(workgroups))
        self._program.launch(list(tensors), words, workgroups)

    def __repr__(self) -> str:
        return f"Kernel({self.name}, workgroups of {self.workgroup_size})"


class Graph:
    """Launches that are recorded once and replayed; made by `Context.record`.

    Within `with`, operations on the device and kernels are recorded instead of run. `replay` runs them over the same
    tensors: change an input in place in between (`x.copy_(..)`) and read the results afterwards. What waits for the
    device (`item`, printing, a copy from another device) cannot be recorded, and is an error.
    """

    __slots__ = ("_graph",)

    def __init__(self, on: device) -> None:
        self._graph = _hlx.RecordedGraph(on)

    def __enter__(self) -> Graph:
        self._graph.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._graph.end(kind is None)

    def replay(self, times: int = 1) -> None:
        """Launches all that was recorded, `times` times; it does not wait.

        >>> ctx = hlx.VulkanContext("cpu")
        >>> x = ctx.zeros([2])
        >>> with ctx.record() as graph:
        ...     y = x.add_(1)
        >>> graph.replay(3)
        >>> x.tolist()
        [3.0, 3.0]
        """
        self._graph.replay(times)

    def __len__(self) -> int:
        """The number of launches; chains of element-wise operations have become one."""
        return len(self._graph)


@dataclass(frozen=True, slots=True)
class KernelTime:
    """The launches of one name."""

    name: str
    calls: int
    total_ms: float


@dataclass(frozen=True, slots=True)
class LaunchTime:
    """One launch, by the device's clock."""

    name: str
    start_us: float
    """Its start after that of the first launch."""
    duration_us: float


class Timing:
    """The times of launches within `with`; made by `Context.timing`.

    Launches of all threads are measured, and run one after the other, without overlap. A graph is measured if it is
    recorded within.
    """

    def __init__(self, on: device) -> None:
        self._device = on
        self.kernels: list[KernelTime] = []
        """One entry per name, the longest first; filled when `with` ends."""
        self.launches: list[LaunchTime] = []
        """One entry per launch, by their start."""

    @property
    def total_ms(self) -> float:
        """The time of all launches, in milliseconds."""
        return sum(kernel.total_ms for kernel in self.kernels)

    def __enter__(self) -> Timing:
        _hlx.set_timing(self._device, True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _hlx.set_timing(self._device, False)
        kernels, launches = _hlx.take_timing(self._device)
        self.kernels = [KernelTime(*row) for row in kernels]
        self.launches = [LaunchTime(*row) for row in launches]


class Context:
    """A device, with what runs shaders of one's own on it.

    `device` is a `hlx.device` or its name. Without one it is the first Vulkan device: a GPU, else a software driver.
    """

    def __init__(self, device: Device = None) -> None:
        self.device: _hlx.device = _opened(device)
        """The device, for `hlx.tensor(.., device=ctx.device)`."""

    @property
    def name(self) -> str:
        """The name of the hardware."""
        return self.device.hardware

    @property
    def is_cpu(self) -> bool:
        """Whether this is the CPU device, which runs no SPIR-V."""
        return self.device.type == "cpu"

    def kernel(
        self,
        shader: Shader | Spirv,
        *,
        name: str = "kernel",
        entry_point: str = "main",
        constants: Mapping[int, float] | None = None,
    ) -> Kernel:
        """Makes a kernel from a shader, SPIR-V bytes or the path of a file.

        `name` is in errors and times. `constants` are values of specialization constants by id; the others have their
        defaults. The CPU device refuses SPIR-V with a RuntimeError.

        >>> gemm = ctx.kernel("gemm.spv", name="gemm")  # doctest: +SKIP
        >>> gemm(a, b, c)  # doctest: +SKIP
        """
        if not isinstance(shader, Shader):
            shader = Shader(shader, entry_point)
        words = []
        for id, value in (constants or {}).items():
            where = f"{name}: specialization constant {id}"
            if id not in shader.constants:
                raise errors.ValueError(f"{where}: the shader has none of this id")
            word = _fields.pack(where, [value], [shader.constants[id].kind])
            words.append((id, int.from_bytes(word, "little")))
        program = _hlx.ComputeProgram(self.device, name, shader.spirv, shader.entry_point, words)
        return Kernel(program, name, shader)

    def zeros(self, shape: Sequence[int], dtype: dtype | None = None) -> Tensor:
        """Makes a tensor of zeros in memory of its own, which kernels use without a copy.

        It is an allocation of the driver's, of which some drivers allow 4,096 at a time.

        >>> hlx.VulkanContext("cpu").zeros([2]).tolist()
        [0.0, 0.0]
        """
        extents = _fields.extents("zeros: shape", shape)
        made: Tensor = _hlx.isolated_zeros(self.device, extents, dtype or FLOAT32)
        return made

    def tensor(self, data: Any, dtype: dtype | None = None) -> Tensor:
        """Copies a tensor, an array or nested lists into memory of its own, which kernels use without a copy.

        >>> hlx.VulkanContext("cpu").tensor([1, 2]).tolist()
        [1, 2]
        """
        given = data if isinstance(data, Tensor) and dtype is None else _hlx.tensor(data, dtype, "cpu")
        made: Tensor = _hlx.isolate(given, self.device)
        return made

    def synchronize(self) -> None:
        """Waits until all work launched on the device so far is done.

        >>> hlx.VulkanContext("cpu").synchronize()
        """
        _hlx.synchronize(self.device)

    def record(self) -> Graph:
        """Returns a graph to record: `with ctx.record() as graph: ..`, then `graph.replay()`.

        >>> ctx = hlx.VulkanContext("cpu")
        >>> x = ctx.tensor([1.0, 2.0])
        >>> with ctx.record() as graph:
        ...     y = x * 10
        >>> x.copy_(hlx.tensor([3.0, 4.0])) is x
        True
        >>> graph.replay()
        >>> y.tolist()
        [30.0, 40.0]
        """
        return Graph(self.device)

    def timing(self) -> Timing:
        """Returns what measures each launch by the device's clock: `with ctx.timing() as times: ..`.

        >>> ctx = hlx.VulkanContext("cpu")
        >>> with ctx.timing() as times:
        ...     y = ctx.zeros([2]).exp()
        >>> times.total_ms > 0
        True
        """
        return Timing(self.device)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name} [{self.device}])"


def _opened(on: Device) -> device:
    named = device("vulkan" if on is None else on)
    try:
        opened: device = _hlx.open_device(named)
        return opened
    except errors.RuntimeError as error:
        if on is not None:
            raise
        raise errors.RuntimeError(f'VulkanContext: {error}; VulkanContext("cpu") runs HLX\'s own kernels') from None
