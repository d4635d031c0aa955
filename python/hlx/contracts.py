"""Kernels by contract: GPU work as values with content-addressed handles (docs/contracts.md).

`collapse` turns a value into its handle and puts it into a store, `resolve` gets it back, and a `VulkanContext`
executes contracts: `execute_kernel` (901) and `execute_pipeline` (902).
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from hlx import _contract_forms as _forms
from hlx import _hlx, compute, errors
from hlx._hlx import Tensor, device, dtype
from hlx._operations._types import FLOAT32, Device

__all__ = ["Execution", "Handle", "Prepared", "Store", "VulkanContext", "collapse", "product", "resolve", "sum"]


class Handle(str):
    """The name of an object: the SHA-256 of its content, as `sha256:` and 64 hexadecimal digits.

    Equal content has an equal handle in every process and on every machine. It is a string, and can be used wherever
    one can.

    >>> import hlx
    >>> hlx.collapse([1.0, 2.0]) == hlx.collapse(hlx.tensor([1.0, 2.0]))
    True
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Handle:
        """Checks the text of a handle."""
        if type(text) is cls:
            return text
        if not isinstance(text, str):
            raise errors.TypeError(f"Handle: {type(text).__name__}, expected sha256: and 64 hexadecimal digits")
        return super().__new__(cls, _hlx.check_handle(text))

    def __repr__(self) -> str:
        return f"Handle('{self}')"

    def __reduce__(self) -> tuple[type[Handle], tuple[str]]:
        return Handle, (str(self),)


class Store:
    """Where objects are: in this process's memory, or in a folder.

    `Store()` is in memory: it goes with the process, writes no file, and holds what was put until `clear` or `remove`.
    `Store("FOLDER")` and `Store.user()` are on disk, shared with other processes and with `hlx store` (docs/store.md).
    """

    __slots__ = ("_objects",)

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._objects = _hlx.ObjectStore(path)

    @classmethod
    def user(cls) -> Store:
        """Opens the user's store: the folder that HLX_STORE names, else `hlx/store` in the user's data folder.

        >>> store = hlx.contracts.Store.user()  # doctest: +SKIP
        """
        store = cls.__new__(cls)
        store._objects = _hlx.ObjectStore(user=True)
        return store

    @property
    def path(self) -> Path | None:
        """The folder, or None in memory."""
        return self._objects.path

    @property
    def nbytes(self) -> int:
        """The bytes of the objects, of a store in memory."""
        return self._objects.nbytes

    def remove(self, handle: str) -> bool:
        """Removes an object from memory; False if it was not there.

        >>> store = hlx.contracts.Store()
        >>> store.remove(hlx.collapse([1.0], store=store)), len(store)
        (True, 0)
        """
        return self._objects.remove(handle)

    def clear(self) -> None:
        """Removes all objects from memory.

        >>> store = hlx.contracts.Store()
        >>> handle = hlx.collapse([1.0], store=store)
        >>> store.clear()
        >>> handle in store
        False
        """
        self._objects.clear()

    def __contains__(self, handle: str) -> bool:
        return self._objects.contains(handle)

    def __len__(self) -> int:
        """The number of objects, of a store in memory."""
        return len(self._objects)

    def __repr__(self) -> str:
        return "Store()" if self.path is None else f"Store({str(self.path)!r})"


StoreLike: TypeAlias = Store | str | os.PathLike[str] | None

_process = Store()


def _store(store: StoreLike) -> Store:
    """A store from an argument: None is the process's memory, "user" the user's, other text a folder."""
    if isinstance(store, Store):
        return store
    if store is None:
        return _process
    return Store.user() if store == "user" else Store(store)


def collapse(value: Any, *, dtype: dtype | None = None, store: StoreLike = None) -> Handle:
    """Puts a value into a store and returns its handle.

    Nested lists and numbers become tensors of float32, or of `dtype`; tensors, NumPy arrays and other buffers keep
    their type; bytes stay bytes; a dict is a contract: `{"900": {..}}` a shader, `{"901": {..}}` a kernel,
    `{"902": {..}}` a pipeline. `store` is a `Store`, a folder, or `"user"`; without it, objects are in this process's
    memory. A shader is validated, and a field that a contract does not have is a ValueError.

    >>> import hlx
    >>> hlx.collapse([[1.0, 2.0], [3.0, 4.0]])
    Handle('sha256:beab953f5f00b898c214e9d0f2983da945b13bb34ad59fcbe320780b576484c6')
    """
    return _collapse(value, dtype, _store(store))


def _collapse(value: Any, dtype: dtype | None, store: Store) -> Handle:
    objects = store._objects
    if isinstance(value, Handle):
        return value
    if isinstance(value, (bytes, bytearray)):
        return Handle(objects.put_bytes(bytes(value)))
    if isinstance(value, Mapping):
        return Handle(_hlx.put_contract(objects, _text(_contract(value, store))))
    if isinstance(value, str):
        raise errors.TypeError("collapse: a str is neither a tensor nor bytes; encode it, or use hlx.Handle")
    if isinstance(value, compute.Shader):
        return _collapse({900: {"spirv": value.spirv, "entry_point": value.entry_point}}, None, store)
    if isinstance(value, Tensor) and dtype is None:
        return Handle(objects.put_tensor(value))
    is_plain = isinstance(value, (int, float, list, tuple))
    made = _hlx.tensor(value, FLOAT32 if is_plain and dtype is None else dtype, device("cpu"))
    return Handle(objects.put_tensor(made))


def resolve(handle: str, *, device: Device = "cpu", store: StoreLike = None, raw: bool = False) -> Any:
    """Returns what a handle names: a tensor on `device`, a contract as a dict, a dict of several outputs, or bytes.

    A contract's dict has the names of docs/contracts.md, and `collapse` gives its handle again. The outputs of an
    execution with several are a dict by their names; a name that two kernels of a pipeline share is `"0.c"`, with the
    kernel's place. With `raw`, the bytes of such objects themselves. A handle that is not in the store is a ValueError.

    >>> import hlx
    >>> hlx.resolve(hlx.collapse([1.0, 2.0]))
    tensor([1., 2.])
    """
    objects = _store(store)._objects
    named = _hlx.get_default_device() if device is None else _hlx.device(device)
    if objects.content(handle) is not None:
        return objects.get_tensor(handle, named)
    found = objects.get_bytes(handle)
    if raw:
        return found
    if text := _hlx.contract_json(found):
        fields: dict[str, Any] = json.loads(text)
        if fields["contract"] == 900:
            fields["spirv"] = base64.b64decode(fields["spirv"])
        return fields
    outputs = _listed(found)
    if not outputs:
        return found
    return {name: objects.get_tensor(output, named) for name, output in outputs.items()}


_LISTED = re.compile(rb"(\d+) (\S+) (sha256:[0-9a-f]{64})\n")


def _listed(found: bytes) -> dict[str, str]:
    """The outputs of a list, as executions of several outputs store it; none of other bytes."""
    lines = found.splitlines(keepends=True)
    matches = [match for line in lines if (match := _LISTED.fullmatch(line))]
    if len(matches) < max(len(lines), 2):
        return {}
    return _by_name([(int(match[1]), match[2].decode(), match[3].decode()) for match in matches])


def _by_name(outputs: Sequence[tuple[int, str, str]]) -> dict[str, str]:
    names = [name for _, name, _ in outputs]
    return {name if names.count(name) == 1 else f"{kernel}.{name}": handle for kernel, name, handle in outputs}


def _contract(value: Mapping[Any, Any], store: Store) -> dict[str, Any]:
    def stored(kernel: str) -> Any:
        return resolve(kernel, store=store)

    return _forms.contract(value, _forms.Given(store._objects, lambda one: _handle(one, store), stored))


def _text(contract: dict[str, Any]) -> str:
    try:
        return json.dumps(contract)
    except TypeError as error:  # A value of no type that contracts have.
        raise errors.TypeError(f"contract {contract['contract']}: {error}") from None


def product(name: str, a: Any, b: Any, bias: Any = None, *, store: StoreLike = None) -> dict[str, Any]:
    """Returns the contract of HLX's own matrix product, a b + bias: a [M, K], b [K, N], bias [N], all of float32.

    The inputs are handles, or what `collapse` takes. Without a bias it is zeros. Every device runs it, the CPU too,
    to the same result. Raises ValueError for other shapes.

    >>> contract = hlx.contracts.product("c", [[1.0, 2.0]], [[3.0], [4.0]], [0.5])
    >>> hlx.resolve(hlx.VulkanContext("cpu").execute_kernel(contract))
    tensor([[11.5000]])
    """
    held = _store(store)
    handles = [_handle(a, held), _handle(b, held)]
    (m, k), (rows, n) = (_matrix(name, place, handle, held) for place, handle in zip("ab", handles, strict=True))
    if rows != k:
        raise errors.ValueError(f"{name}: a is [{m}, {k}] and b [{rows}, {n}], expected b [{k}, ..]")
    handles.append(_handle(_hlx.zeros(device("cpu"), [n], FLOAT32) if bias is None else bias, held))
    found: dict[str, Any] = json.loads(_hlx.own_kernel("product", name, [m, n, k], handles))
    return found


def sum(name: str, a: Any, b: Any, *, store: StoreLike = None) -> dict[str, Any]:
    """Returns the contract of HLX's own sum of two tensors of one shape, element by element, of float32.

    As `product`.

    >>> contract = hlx.contracts.sum("c", [1.0, 2.0], [10.0, 20.0])
    >>> hlx.resolve(hlx.VulkanContext("cpu").execute_kernel(contract))
    tensor([11., 22.])
    """
    held = _store(store)
    handles = [_handle(a, held), _handle(b, held)]
    found: dict[str, Any] = json.loads(_hlx.own_kernel("sum", name, _shape(name, "a", handles[0], held), handles))
    return found


def _handle(value: Any, store: Store) -> Handle:
    return Handle(value) if isinstance(value, str) else _collapse(value, None, store)


def _shape(name: str, place: str, handle: Handle, store: Store) -> list[int]:
    content = store._objects.content(handle)
    if content is None:
        raise errors.ValueError(f"{name}: {place}: {handle} holds bytes, expected a tensor")
    return content[1]


def _matrix(name: str, place: str, handle: Handle, store: Store) -> list[int]:
    shape = _shape(name, place, handle, store)
    if len(shape) != 2:
        raise errors.ValueError(f"{name}: {place} has shape {shape}, expected two dimensions")
    return shape


@dataclass(frozen=True, slots=True)
class Execution:
    """The result of an execution."""

    handle: Handle
    """The one output's handle; with several, that of their list, which `resolve` gives as a dict."""
    outputs: dict[str, Handle]
    """The outputs' handles by their names, as `resolve` names them."""
    run_ms: float
    """From the submission until the device was done, in milliseconds."""


class Prepared:
    """A contract whose inputs are on the device and whose pipelines are made; made by `VulkanContext.prepare`."""

    __slots__ = ("_prepared",)

    def __init__(self, prepared: _hlx.PreparedContract) -> None:
        self._prepared = prepared

    def run(self, *, stored: bool = True) -> Execution:
        """Runs the contract, waits, and puts its outputs into the store, unless `stored` is False.

        >>> execution = ctx.prepare(contract).run()  # doctest: +SKIP
        """
        handle, outputs, run_ms = self._prepared.run(stored)
        named = _by_name([(kernel, name, handle) for kernel, name, _, _, handle in outputs])
        return Execution(Handle(handle), {name: Handle(one) for name, one in named.items()}, run_ms)


class VulkanContext(compute.Context):
    """A device that executes contracts, and runs shaders of one's own on tensors (`hlx.compute.Context`).

    `device` is a `hlx.device` or its name, `"cpu"` too; without one it is the first Vulkan device. The CPU device runs
    contracts of HLX's own shaders, and refuses others. `store` is where contracts find their inputs and put their
    results: a `Store`, a folder, `"user"`, or this process's memory.
    """

    def __init__(self, device: Device = None, *, store: StoreLike = None) -> None:
        super().__init__(device)
        self.store: Store = _store(store)

    def execute_kernel(self, contract: Mapping[Any, Any] | str) -> Handle:
        """Executes a kernel (901), a dict or the handle of one, and returns the handle of its result.

        >>> result = ctx.execute_kernel({"901": {..}})  # doctest: +SKIP
        """
        return self._execute(contract, 901)

    def execute_pipeline(self, contract: Mapping[Any, Any] | str) -> Handle:
        """Executes a pipeline (902), a dict or the handle of one, and returns the handle of its result.

        >>> result = ctx.execute_pipeline({"902": {..}})  # doctest: +SKIP
        """
        return self._execute(contract, 902)

    def execute(self, contract: Mapping[Any, Any] | str) -> Execution:
        """Executes a kernel or a pipeline and returns its handles and its time.

        >>> execution = ctx.execute({"901": {..}})  # doctest: +SKIP
        >>> execution.handle, execution.run_ms  # doctest: +SKIP
        """
        return self.prepare(contract).run()

    def prepare(self, contract: Mapping[Any, Any] | str) -> Prepared:
        """Checks a kernel or a pipeline, and makes it ready to run many times.

        >>> prepared = ctx.prepare({"901": {..}})  # doctest: +SKIP
        """
        return self._prepare(self._resolved(contract))

    def _resolved(self, contract: Mapping[Any, Any] | str) -> dict[str, Any]:
        value = resolve(contract, store=self.store) if isinstance(contract, str) else contract
        if not isinstance(value, Mapping) or all(isinstance(one, Tensor) for one in value.values()):
            found = type(value).__name__
            raise errors.TypeError(f"contract: {contract!r} is {found}, expected a kernel (901) or a pipeline (902)")
        return _contract(value, self.store)

    def _execute(self, contract: Mapping[Any, Any] | str, expected: int) -> Handle:
        found = self._resolved(contract)
        if found["contract"] != expected:
            raise errors.ValueError(f"contract {found['contract']}, expected {expected}")
        return self._prepare(found).run().handle

    def _prepare(self, contract: dict[str, Any]) -> Prepared:
        return Prepared(_hlx.PreparedContract(self.device, self.store._objects, _text(contract)))
