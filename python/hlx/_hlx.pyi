# Written by python/tools/stubs.py (`cargo xtask python --stubs`).
"""The native layer of the package: the classes whose types no annotation in Python says.

python/tools/stubs.py writes python/hlx/_hlx.pyi from this file: it adds the methods that the package attaches to tensors, and
the private functions.
"""

import builtins
import collections.abc
import os
import pathlib
import types
import typing

import numpy.typing
import typing_extensions

import hlx
from hlx._operations._types import Device as _Device
from hlx._operations._types import Dims as _Dims
from hlx._operations._types import Number as _Number
from hlx._operations._types import Operand as _Operand
from hlx._operations._types import Shape as _Shape
from hlx._size import Size

_Array: typing.TypeAlias = numpy.typing.NDArray[typing.Any]
_Index: typing.TypeAlias = (
    builtins.int
    | builtins.slice
    | None
    | types.EllipsisType
    | Tensor
    | collections.abc.Sequence[typing.Any]
    | tuple[typing.Any, ...]
)

@typing.final
class device:
    def __new__(
        cls, name: builtins.str | device, index: builtins.int | None = None, *, arithmetic: builtins.str | None = None
    ) -> typing.Self: ...
    @property
    def type(self) -> builtins.str: ...
    @property
    def index(self) -> builtins.int | None: ...
    @property
    def arithmetic(self) -> builtins.str: ...
    @property
    def hardware(self) -> builtins.str: ...
    def __enter__(self) -> typing.Self: ...
    def __exit__(self, *_exception: object) -> None: ...
    def __eq__(self, value: object, /) -> builtins.bool: ...
    def __ne__(self, value: object, /) -> builtins.bool: ...
    def __hash__(self) -> builtins.int: ...
    def __reduce__(self) -> tuple[typing.Any, ...]: ...

@typing.final
class dtype:
    def __new__(cls, name: builtins.str) -> typing.Self: ...
    @property
    def itemsize(self) -> builtins.int: ...
    @property
    def is_floating_point(self) -> builtins.bool: ...
    @property
    def is_complex(self) -> builtins.bool: ...
    @property
    def is_signed(self) -> builtins.bool: ...
    def __eq__(self, value: object, /) -> builtins.bool: ...
    def __ne__(self, value: object, /) -> builtins.bool: ...
    def __hash__(self) -> builtins.int: ...
    def __reduce__(self) -> tuple[typing.Any, ...]: ...

_device: typing.TypeAlias = device
_dtype: typing.TypeAlias = dtype

@typing.final
class Generator:
    def __new__(cls, device: _Device = None) -> typing.Self: ...
    def manual_seed(self, seed: builtins.int) -> typing.Self: ...
    def initial_seed(self) -> builtins.int: ...
    def __reduce__(self) -> tuple[typing.Any, ...]: ...
    def get_state(self) -> tuple[builtins.int, builtins.int, builtins.int]: ...
    def set_state(self, state: tuple[builtins.int, builtins.int, builtins.int]) -> None: ...
    def next_seed(self) -> builtins.int: ...

@typing.final
class HookHandle:
    def remove(self) -> None: ...
    def __enter__(self) -> typing.Self: ...
    def __exit__(self, *_exception: object) -> None: ...

_Interface: typing.TypeAlias = dict[builtins.str, typing.Any]
_Ran: typing.TypeAlias = tuple[
    builtins.str,
    builtins.list[tuple[builtins.int, builtins.str, builtins.str, builtins.list[builtins.int], builtins.str]],
    builtins.float,
]

@typing.final
class ObjectStore:
    def __new__(
        cls, path: os.PathLike[builtins.str] | builtins.str | None = None, *, user: builtins.bool = False
    ) -> typing.Self: ...
    @property
    def path(self) -> pathlib.Path | None: ...
    @property
    def nbytes(self) -> builtins.int: ...
    def put_bytes(self, data: builtins.bytes) -> builtins.str: ...
    def put_tensor(self, tensor: Tensor) -> builtins.str: ...
    def content(self, handle: builtins.str) -> tuple[builtins.str, builtins.list[builtins.int]] | None: ...
    def contains(self, handle: builtins.str) -> builtins.bool: ...
    def get_bytes(self, handle: builtins.str) -> builtins.bytes: ...
    def get_tensor(self, handle: builtins.str, device: _device) -> Tensor: ...
    def remove(self, handle: builtins.str) -> builtins.bool: ...
    def clear(self) -> None: ...
    def __len__(self) -> builtins.int: ...

@typing.final
class PreparedContract:
    def __new__(cls, device: _device, store: ObjectStore, json: builtins.str) -> typing.Self: ...
    def run(self, stored: builtins.bool) -> _Ran: ...

@typing.final
class ComputeProgram:
    def __new__(
        cls,
        device: _device,
        name: builtins.str,
        spirv: builtins.bytes,
        entry_point: builtins.str,
        constants: collections.abc.Sequence[tuple[builtins.int, builtins.int]],
    ) -> typing.Self: ...
    @property
    def interface(self) -> _Interface: ...
    def launch(
        self,
        tensors: collections.abc.Sequence[Tensor],
        push: builtins.bytes,
        workgroups: collections.abc.Sequence[builtins.int],
    ) -> None: ...

@typing.final
class RecordedGraph:
    def __new__(cls, device: _device) -> typing.Self: ...
    def start(self, others_wait: builtins.bool = False) -> None: ...
    def end(self, finish: builtins.bool) -> None: ...
    def replay(self, times: builtins.int) -> None: ...
    def __len__(self) -> builtins.int: ...

@typing.final
class KvCache:
    @property
    def lengths(self) -> builtins.list[builtins.int]: ...
    @property
    def capacity(self) -> builtins.int: ...
    def truncate(self, lengths: collections.abc.Sequence[builtins.int]) -> None: ...
    def retain(self, sequences: collections.abc.Sequence[builtins.int]) -> None: ...

@typing.final
class GeneratedStream:
    def __iter__(self) -> typing.Self: ...
    def __next__(self) -> tuple[builtins.int, typing.Any, builtins.str | None]: ...
    def close(self) -> None: ...

@typing.final
class Conversation:
    @property
    def messages(self) -> builtins.list[tuple[builtins.str, builtins.str]]: ...
    def clear(self) -> None: ...
    def say(self, text: builtins.str, options: _Settings) -> GeneratedStream: ...

@typing.final
class LanguageModel:
    @staticmethod
    def open(
        folder: os.PathLike[builtins.str] | builtins.str,
        device: _Device,
        dtype: _dtype | None,
        arithmetic: builtins.str | None,
        adapter: os.PathLike[builtins.str] | builtins.str | None,
        average: builtins.bool,
    ) -> LanguageModel: ...
    @staticmethod
    def create(config: builtins.str, device: _Device, seed: builtins.int) -> LanguageModel: ...
    @staticmethod
    def preset(name: builtins.str, changes: builtins.str) -> builtins.str: ...
    @staticmethod
    def presets() -> builtins.list[builtins.str]: ...
    @property
    def config(self) -> builtins.str: ...
    @property
    def vocabulary_size(self) -> builtins.int: ...
    @property
    def max_positions(self) -> builtins.int: ...
    @property
    def folder(self) -> pathlib.Path | None: ...
    @property
    def device(self) -> _device: ...
    @property
    def dtype(self) -> _dtype: ...
    @property
    def end_tokens(self) -> builtins.list[builtins.int]: ...
    @property
    def tokenizer(self) -> NativeTokenizer | None: ...
    @property
    def has_adapter(self) -> builtins.bool: ...
    @property
    def adapter_config(self) -> builtins.str | None: ...
    def set_tokenizer(self, tokenizer: NativeTokenizer) -> None: ...
    def parameters(self) -> builtins.list[tuple[builtins.str, Tensor, builtins.bool]]: ...
    def set_requires_grad(self, place: builtins.int, requires_grad: builtins.bool) -> Tensor: ...
    def holds_gradients(self, tensors: collections.abc.Sequence[Tensor]) -> builtins.bool: ...
    def clip_grad_norm_(self, max_norm: builtins.float) -> Tensor: ...
    def clip_grad_value_(self, clip_value: builtins.float) -> None: ...
    def copy(self, device: _Device) -> LanguageModel: ...
    def move_to(self, device: _Device) -> None: ...
    def forward(
        self,
        ids: Tensor,
        *,
        train: builtins.bool = False,
        documents: Tensor | None = None,
        positions: Tensor | None = None,
        lengths: Tensor | None = None,
        balance: builtins.bool = False,
    ) -> tuple[Tensor, Tensor | None]: ...
    def cache(self, batch: builtins.int, capacity: builtins.int) -> KvCache: ...
    def forward_cached(
        self, ids: Tensor, new: collections.abc.Sequence[builtins.int] | None, cache: KvCache
    ) -> Tensor: ...
    def encode_prompt(self, prompt: builtins.str, raw: builtins.bool) -> builtins.list[builtins.int]: ...
    def generate(
        self, prompts: collections.abc.Sequence[collections.abc.Sequence[builtins.int]], options: _Settings
    ) -> GeneratedStream: ...
    def generate_tokens(
        self,
        prompts: collections.abc.Sequence[collections.abc.Sequence[builtins.int]],
        options: _Settings,
        stop_tokens: collections.abc.Sequence[builtins.int] | None,
    ) -> GeneratedStream: ...
    def chat(
        self,
        system: builtins.str | None,
        date: builtins.str | None,
        raw: builtins.bool,
        messages: collections.abc.Sequence[tuple[builtins.str, builtins.str]],
    ) -> Conversation: ...
    def add_adapter(self, config: builtins.str, seed: builtins.int) -> None: ...
    def merge_adapter(self) -> None: ...
    def save_adapter(self, folder: os.PathLike[builtins.str] | builtins.str) -> None: ...
    def save(self, folder: os.PathLike[builtins.str] | builtins.str, hugging_face: builtins.bool) -> None: ...
    def hugging_face_tensors(self, gradients: builtins.bool) -> builtins.list[tuple[builtins.str, Tensor]]: ...

_Path: typing.TypeAlias = os.PathLike[builtins.str] | builtins.str
_Words: typing.TypeAlias = builtins.list[builtins.int]
_Trainer: typing.TypeAlias = tuple[builtins.int, builtins.int, builtins.list[builtins.str]]
_Told: typing.TypeAlias = collections.abc.Callable[[builtins.float, builtins.int, builtins.int], None] | None
_Range: typing.TypeAlias = tuple[builtins.int, builtins.int]
_Part: typing.TypeAlias = tuple[_Range, _Range]

@typing.final
class NativeTokenizer:
    @staticmethod
    def open(path: _Path) -> NativeTokenizer: ...
    @staticmethod
    def bytes() -> NativeTokenizer: ...
    @staticmethod
    def characters(text: builtins.str) -> NativeTokenizer: ...
    @staticmethod
    def from_json(json: builtins.bytes, files: dict[builtins.str, builtins.bytes]) -> NativeTokenizer: ...
    @property
    def json(self) -> builtins.bytes: ...
    @property
    def exported(self) -> builtins.str: ...
    @property
    def files(self) -> dict[builtins.str, builtins.bytes]: ...
    @property
    def digest(self) -> builtins.str: ...
    @property
    def vocab_size(self) -> builtins.int: ...
    def encode(self, text: builtins.str, specials: builtins.bool) -> _Words: ...
    def encode_batch(
        self, texts: collections.abc.Sequence[builtins.str], specials: builtins.bool
    ) -> builtins.list[_Words]: ...
    def decode(self, ids: typing.Any, skip_specials: builtins.bool) -> builtins.str: ...
    def stream(self, prompt: typing.Any) -> DecodeStream: ...
    def token_to_id(self, token: builtins.str) -> builtins.int | None: ...
    def id_to_token(self, id: builtins.int) -> builtins.str | None: ...
    def special(self, name: builtins.str) -> builtins.int | None: ...
    @property
    def specials(self) -> _Words: ...
    @property
    def stated(self) -> builtins.list[tuple[builtins.str, builtins.str]]: ...
    @property
    def surroundings(self) -> tuple[_Words, _Words]: ...
    def chat_template(self, name: builtins.str) -> builtins.str | None: ...
    def render(
        self,
        conversation: builtins.str,
        source: builtins.str | None,
        date: builtins.str | None,
        add_generation_prompt: builtins.bool,
    ) -> builtins.str: ...
    def encode_trained(
        self, conversation: builtins.str, source: builtins.str | None, date: builtins.str | None
    ) -> tuple[_Words, builtins.list[builtins.bool]]: ...

@typing.final
class DecodeStream:
    def push(self, token: builtins.int) -> builtins.str: ...
    def finish(self) -> builtins.str: ...

@typing.final
class WordCounter:
    def __new__(cls) -> typing.Self: ...
    def add(self, texts: collections.abc.Sequence[builtins.str]) -> None: ...
    def train(self, trainer: _Trainer, progress: _Told) -> NativeTokenizer: ...

@typing.final
class TokenShards:
    @staticmethod
    def open(path: _Path) -> TokenShards: ...
    @staticmethod
    def of_documents(
        vocab_size: builtins.int,
        documents: collections.abc.Sequence[tuple[_Words, builtins.list[builtins.bool] | None]],
    ) -> TokenShards: ...
    @property
    def n_tokens(self) -> builtins.int: ...
    @property
    def n_documents(self) -> builtins.int: ...
    @property
    def vocab_size(self) -> builtins.int: ...
    @property
    def has_masks(self) -> builtins.bool: ...
    @property
    def tokenizer_digest(self) -> builtins.str | None: ...
    def digest(self) -> builtins.str: ...
    def verify(self) -> None: ...
    def read(self, start: builtins.int, end: builtins.int) -> Tensor: ...
    def trained(self, start: builtins.int, end: builtins.int) -> builtins.list[builtins.bool]: ...
    def document(self, number: builtins.int) -> _Range: ...
    def document_at(self, token: builtins.int) -> builtins.int: ...
    def split(self, fraction: builtins.float) -> tuple[_Part, _Part]: ...
    def rows(
        self,
        kind: builtins.str,
        length: builtins.int,
        seed: builtins.int | None,
        part: _Part,
        multiple: builtins.int,
    ) -> TokenRows: ...

@typing.final
class TokenRows:
    @property
    def per_epoch(self) -> builtins.int: ...
    def batch(self, first: builtins.int, rows: builtins.int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]: ...
    def gather(
        self, numbers: collections.abc.Sequence[builtins.int]
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]: ...

_Settings: typing.TypeAlias = dict[builtins.str, typing.Any]
_GroupNumbers: typing.TypeAlias = collections.abc.Sequence[tuple[builtins.float, builtins.float | None]]

@typing.final
class OptimizerState:
    def __new__(
        cls,
        kind: builtins.str,
        parameters: collections.abc.Sequence[tuple[builtins.str, Tensor]],
        settings: _Settings,
        groups: collections.abc.Sequence[_Settings],
        owner: LanguageModel | None = None,
    ) -> typing.Self: ...
    def step(
        self, lr: builtins.float, settings: _Settings | None = None, groups: _GroupNumbers | None = None
    ) -> None: ...
    def prepare(
        self, lr: builtins.float, settings: _Settings | None = None, groups: _GroupNumbers | None = None
    ) -> None: ...
    def update(self) -> None: ...
    def zero_grad(self) -> None: ...
    def holds_gradients(self, tensors: collections.abc.Sequence[Tensor]) -> builtins.bool: ...
    def clip_grad_norm_(self, max_norm: builtins.float) -> Tensor: ...
    def clip_grad_value_(self, clip_value: builtins.float) -> None: ...
    @property
    def steps(self) -> builtins.int: ...
    def parameters_digest(self) -> builtins.str: ...
    def digest(self) -> builtins.str: ...
    def buffers(self) -> builtins.list[builtins.str]: ...
    def state(self) -> dict[builtins.str, Tensor]: ...
    def load_state(self, tensors: dict[builtins.str, Tensor], steps: builtins.int) -> None: ...

@typing.final
class TensorIterator:
    def __iter__(self) -> typing.Self: ...
    def __len__(self) -> builtins.int: ...
    def __next__(self) -> Tensor: ...

class Tensor:
    __array_priority__: builtins.int
    def __new__(cls, *data: typing.Any, device: _Device = None) -> typing.Self: ...
    @property
    def shape(self) -> Size: ...
    @property
    def dtype(self) -> _dtype: ...
    @property
    def device(self) -> _device: ...
    @property
    def ndim(self) -> builtins.int: ...
    @property
    def requires_grad(self) -> builtins.bool: ...
    @requires_grad.setter
    def requires_grad(self, value: builtins.bool) -> None: ...
    @property
    def is_leaf(self) -> builtins.bool: ...
    @property
    def grad_fn(self) -> builtins.str | None: ...
    @property
    def grad(self) -> Tensor | None: ...
    @grad.setter
    def grad(self, value: Tensor | None) -> None: ...
    @property
    def data(self) -> Tensor: ...
    @data.setter
    def data(self, value: Tensor) -> None: ...
    def numel(self) -> builtins.int: ...
    @typing.overload
    def stride(self, dim: None = None) -> tuple[builtins.int, ...]: ...
    @typing.overload
    def stride(self, dim: builtins.int) -> builtins.int: ...
    def storage_offset(self) -> builtins.int: ...
    def data_ptr(self) -> builtins.int: ...
    def is_contiguous(self) -> builtins.bool: ...
    def requires_grad_(self, requires_grad: builtins.bool = True) -> typing.Self: ...
    def retain_grad(self) -> None: ...
    def register_hook(self, hook: collections.abc.Callable[[Tensor], Tensor | None]) -> HookHandle: ...
    def item(self) -> typing.Any: ...
    def tolist(self) -> typing.Any: ...
    def digest(self) -> builtins.str: ...
    def __len__(self) -> builtins.int: ...
    def __iter__(self) -> TensorIterator: ...
    def __getitem__(self, index: _Index, /) -> Tensor: ...
    def __setitem__(self, index: _Index, value: _Operand | collections.abc.Sequence[typing.Any], /) -> None: ...
    def __delitem__(self, key: typing.Never, /) -> None: ...
    def __contains__(self, key: _Operand, /) -> builtins.bool: ...
    def __bool__(self) -> builtins.bool: ...
    def __int__(self) -> builtins.int: ...
    def __float__(self) -> builtins.float: ...
    def __index__(self) -> builtins.int: ...
    def __hash__(self) -> builtins.int: ...
    def __format__(self, specification: builtins.str, /) -> builtins.str: ...
    def __eq__(self, value: object, /) -> Tensor: ...  # type: ignore[override] # pyright: ignore
    def __ne__(self, value: object, /) -> Tensor: ...  # type: ignore[override] # pyright: ignore
    def __lt__(self, value: _Operand, /) -> Tensor: ...
    def __le__(self, value: _Operand, /) -> Tensor: ...
    def __gt__(self, value: _Operand, /) -> Tensor: ...
    def __ge__(self, value: _Operand, /) -> Tensor: ...
    def __add__(self, value: _Operand, /) -> Tensor: ...
    def __radd__(self, value: _Operand, /) -> Tensor: ...
    def __iadd__(self, value: _Operand, /) -> typing.Self: ...
    def __sub__(self, value: _Operand, /) -> Tensor: ...
    def __rsub__(self, value: _Operand, /) -> Tensor: ...
    def __isub__(self, value: _Operand, /) -> typing.Self: ...
    def __mul__(self, value: _Operand, /) -> Tensor: ...
    def __rmul__(self, value: _Operand, /) -> Tensor: ...
    def __imul__(self, value: _Operand, /) -> typing.Self: ...
    def __truediv__(self, value: _Operand, /) -> Tensor: ...
    def __rtruediv__(self, value: _Operand, /) -> Tensor: ...
    def __itruediv__(self, value: _Operand, /) -> typing.Self: ...
    def __floordiv__(self, value: _Operand, /) -> Tensor: ...
    def __rfloordiv__(self, value: _Operand, /) -> Tensor: ...
    def __ifloordiv__(self, value: _Operand, /) -> typing.Self: ...
    def __mod__(self, value: _Operand, /) -> Tensor: ...
    def __rmod__(self, value: _Operand, /) -> Tensor: ...
    def __imod__(self, value: _Operand, /) -> typing.Self: ...
    def __pow__(self, value: _Operand, mod: None = None, /) -> Tensor: ...
    def __rpow__(self, value: _Operand, mod: None = None, /) -> Tensor: ...
    def __ipow__(self, value: _Operand, /) -> typing.Self: ...  # type: ignore[misc]
    def __and__(self, value: _Operand, /) -> Tensor: ...
    def __rand__(self, value: _Operand, /) -> Tensor: ...
    def __iand__(self, value: _Operand, /) -> typing.Self: ...
    def __or__(self, value: _Operand, /) -> Tensor: ...
    def __ror__(self, value: _Operand, /) -> Tensor: ...
    def __ior__(self, value: _Operand, /) -> typing.Self: ...
    def __xor__(self, value: _Operand, /) -> Tensor: ...
    def __rxor__(self, value: _Operand, /) -> Tensor: ...
    def __ixor__(self, value: _Operand, /) -> typing.Self: ...
    def __lshift__(self, value: _Operand, /) -> Tensor: ...
    def __rlshift__(self, value: _Operand, /) -> Tensor: ...
    def __ilshift__(self, value: _Operand, /) -> typing.Self: ...
    def __rshift__(self, value: _Operand, /) -> Tensor: ...
    def __rrshift__(self, value: _Operand, /) -> Tensor: ...
    def __irshift__(self, value: _Operand, /) -> typing.Self: ...
    def __matmul__(self, value: Tensor, /) -> Tensor: ...
    def __rmatmul__(self, value: Tensor, /) -> Tensor: ...
    def __imatmul__(self, value: Tensor, /) -> typing.Self: ...
    def __neg__(self) -> Tensor: ...
    def __pos__(self) -> typing.Self: ...
    def __abs__(self) -> Tensor: ...
    def __invert__(self) -> Tensor: ...
    def __dlpack__(
        self,
        *,
        stream: builtins.int | None = None,
        max_version: tuple[builtins.int, builtins.int] | None = None,
        dl_device: tuple[builtins.int, builtins.int] | None = None,
        copy: builtins.bool | None = None,
    ) -> typing_extensions.CapsuleType: ...
    def __dlpack_device__(self) -> tuple[builtins.int, builtins.int]: ...
    def __buffer__(self, flags: builtins.int, /) -> memoryview: ...
    def add(input, other: _Operand, *, alpha: _Number = 1) -> Tensor:
        """Computes `input + alpha other`; f16 and bf16 are rounded once."""
    def sub(input, other: _Operand, *, alpha: _Number = 1) -> Tensor:
        """Computes `input - alpha other`."""
    def subtract(input, other: _Operand, *, alpha: _Number = 1) -> Tensor:
        """Computes `input - alpha other`."""
    def mul(input, other: _Operand) -> Tensor:
        """Computes `input other`, element by element."""
    def multiply(input, other: _Operand) -> Tensor:
        """Computes `input other`, element by element."""
    def div(input, other: _Operand, *, rounding_mode: builtins.str | None = None) -> Tensor:
        """Computes `input / other`: of integers the quotient is a float, unless it is rounded."""
    def divide(input, other: _Operand, *, rounding_mode: builtins.str | None = None) -> Tensor:
        """Computes `input / other`: of integers the quotient is a float, unless it is rounded."""
    def true_divide(input, other: _Operand) -> Tensor:
        """Computes `input / other`, as a float."""
    def floor_divide(input, other: _Operand) -> Tensor:
        """Computes `floor(input / other)`; of integers divided by 0 it is 0."""
    def remainder(input, other: _Operand) -> Tensor:
        """Computes `input - other floor(input / other)`, which has the divisor's sign."""
    def fmod(input, other: _Operand) -> Tensor:
        """Computes `input - other trunc(input / other)`, which has the sign of the input."""
    def pow(input, exponent: _Operand) -> Tensor:
        """Computes `input ** exponent`; the gradient by an exponent of 0 is 0."""
    def atan2(input, other: _Operand) -> Tensor:
        """Computes the angle of the point (other, input), in radians."""
    def arctan2(input, other: _Operand) -> Tensor:
        """Computes the angle of the point (other, input), in radians."""
    def maximum(input, other: Tensor) -> Tensor:
        """Takes the larger of two elements, NaN if either is; equal elements share the gradient."""
    def minimum(input, other: Tensor) -> Tensor:
        """Takes the smaller of two elements, NaN if either is; equal elements share the gradient."""
    def fmax(input, other: Tensor) -> Tensor:
        """Takes the larger of two elements, the other one where one is NaN; equal elements share the gradient."""
    def fmin(input, other: Tensor) -> Tensor:
        """Takes the smaller of two elements, the other one where one is NaN; equal elements share the gradient."""
    def addcmul(input, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1) -> Tensor:
        """Computes `input + value tensor1 tensor2`."""
    def addcdiv(input, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1) -> Tensor:
        """Computes `input + value tensor1 / tensor2`."""
    def lerp(input, end: Tensor, weight: _Operand) -> Tensor:
        """Computes `input + weight (end - input)`, from the nearer end: exact at weights of 0 and 1."""
    def clamp(input, min: _Operand | None = None, max: _Operand | None = None) -> Tensor:
        """Brings every element within [min, max]; NaN stays."""
    def clip(input, min: _Operand | None = None, max: _Operand | None = None) -> Tensor:
        """Brings every element within [min, max]; NaN stays."""
    def clamp_min(input, min: _Operand) -> Tensor:
        """Takes the larger of an element and a bound; NaN stays."""
    def clamp_max(input, max: _Operand) -> Tensor:
        """Takes the smaller of an element and a bound; NaN stays."""
    def eq(input, other: _Operand) -> Tensor:
        """Tells whether two elements are equal; NaN is equal to nothing."""
    def ne(input, other: _Operand) -> Tensor:
        """Tells whether two elements differ."""
    def not_equal(input, other: _Operand) -> Tensor:
        """Tells whether two elements differ."""
    def lt(input, other: _Operand) -> Tensor:
        """Tells whether `input < other`."""
    def less(input, other: _Operand) -> Tensor:
        """Tells whether `input < other`."""
    def le(input, other: _Operand) -> Tensor:
        """Tells whether `input <= other`."""
    def less_equal(input, other: _Operand) -> Tensor:
        """Tells whether `input <= other`."""
    def gt(input, other: _Operand) -> Tensor:
        """Tells whether `input > other`."""
    def greater(input, other: _Operand) -> Tensor:
        """Tells whether `input > other`."""
    def ge(input, other: _Operand) -> Tensor:
        """Tells whether `input >= other`."""
    def greater_equal(input, other: _Operand) -> Tensor:
        """Tells whether `input >= other`."""
    def logical_and(input, other: _Operand) -> Tensor:
        """Tells whether both elements are other than 0."""
    def logical_or(input, other: _Operand) -> Tensor:
        """Tells whether one of two elements is other than 0."""
    def logical_xor(input, other: _Operand) -> Tensor:
        """Tells whether exactly one of two elements is other than 0."""
    def bitwise_and(input, other: _Operand) -> Tensor:
        """Computes the bits that both integers have; of bool, whether both are true."""
    def bitwise_or(input, other: _Operand) -> Tensor:
        """Computes the bits that one of two integers has; of bool, whether one is true."""
    def bitwise_xor(input, other: _Operand) -> Tensor:
        """Computes the bits that exactly one of two integers has; of bool, whether exactly one is true."""
    def bitwise_left_shift(input, other: _Operand) -> Tensor:
        """Computes `input 2^other` of integers, and 0 for shifts by 32 and more."""
    def bitwise_right_shift(input, other: _Operand) -> Tensor:
        """Computes `floor(input / 2^other)` of integers."""
    def where(input, condition: Tensor, other: _Operand) -> Tensor:
        """Takes this tensor's element where the condition holds, else the other's."""
    def isinf(input) -> Tensor:
        """Tells whether an element is infinite, of either sign."""
    def isposinf(input) -> Tensor:
        """Tells whether an element is positive infinity."""
    def isneginf(input) -> Tensor:
        """Tells whether an element is negative infinity."""
    def isreal(input) -> Tensor:
        """Tells whether an element is real: every one is."""
    def isclose(
        input,
        other: Tensor,
        rtol: builtins.float = 1e-05,
        atol: builtins.float = 1e-08,
        equal_nan: builtins.bool = False,
    ) -> Tensor:
        """Tells whether `|input - other| <= atol + rtol |other|`, or both are equal."""
    def allclose(
        input,
        other: Tensor,
        rtol: builtins.float = 1e-05,
        atol: builtins.float = 1e-08,
        equal_nan: builtins.bool = False,
    ) -> builtins.bool:
        """Tells whether all elements are close, as `isclose` does; waits for the device."""
    def equal(input, other: Tensor) -> builtins.bool:
        """Tells whether two tensors have one shape and equal elements; waits for the device."""
    def round(input, *, decimals: builtins.int = 0) -> Tensor:
        """Computes the nearest whole number, ties to even; with `decimals` of a float the nearest so many decimals."""
    def positive(input) -> Tensor:
        """Returns the tensor itself; bool is refused, as in PyTorch."""
    def sgn(input) -> Tensor:
        """Computes -1, 0 or 1 by the sign, as `sign`."""
    def frac(input) -> Tensor:
        """Computes the fraction `input - trunc(input)`."""
    def erfc(input) -> Tensor:
        """Computes `1 - erf(input)`, whose digits stay in the tail."""
    def asinh(input) -> Tensor:
        """Computes the inverse hyperbolic sine, `sign(x) log1p(|x| + x^2 / (1 + sqrt(1 + x^2)))`."""
    def arcsinh(input) -> Tensor:
        """Computes the inverse hyperbolic sine, `sign(x) log1p(|x| + x^2 / (1 + sqrt(1 + x^2)))`."""
    def acosh(input) -> Tensor:
        """Computes the inverse hyperbolic cosine, with t = x - 1: `log1p(t + sqrt(t) sqrt(x + 1))`."""
    def arccosh(input) -> Tensor:
        """Computes the inverse hyperbolic cosine, with t = x - 1: `log1p(t + sqrt(t) sqrt(x + 1))`."""
    def atanh(input) -> Tensor:
        """Computes the inverse hyperbolic tangent, `(log1p(x) - log1p(-x)) / 2`."""
    def arctanh(input) -> Tensor:
        """Computes the inverse hyperbolic tangent, `(log1p(x) - log1p(-x)) / 2`."""
    def deg2rad(input) -> Tensor:
        """Converts degrees to radians."""
    def rad2deg(input) -> Tensor:
        """Converts radians to degrees."""
    def logit(input, eps: builtins.float | None = None) -> Tensor:
        """Computes `log(x / (1 - x))`, of x within [eps, 1 - eps] if eps is given."""
    def sinc(input) -> Tensor:
        """Computes `sin(pi x) / (pi x)`, 1 at 0."""
    def nan_to_num(
        input,
        nan: builtins.float | None = None,
        posinf: builtins.float | None = None,
        neginf: builtins.float | None = None,
    ) -> Tensor:
        """Replaces NaN by a number (0), positive and negative infinity by others (the type's ends)."""
    def softmax(
        input, dim: builtins.int | None = None, *, dtype: _dtype | None = None, axis: builtins.int | None = None
    ) -> Tensor:
        """Computes `exp(x) / sum(exp(x))` along a dimension, in a type if one is named."""
    def log_softmax(
        input, dim: builtins.int | None = None, *, dtype: _dtype | None = None, axis: builtins.int | None = None
    ) -> Tensor:
        """Computes `log(softmax(x))` along a dimension, in a type if one is named."""
    def angle(input) -> Tensor:
        """Computes the angle of a real number: pi below 0, else 0; NaN stays."""
    def real(input) -> Tensor:
        """Returns the tensor itself: every element is real."""
    def conj(input) -> Tensor:
        """Returns the tensor itself: every element is real."""
    def conj_physical(input) -> Tensor:
        """Returns the tensor itself: every element is real."""
    def resolve_conj(input) -> Tensor:
        """Returns the tensor itself: every element is real."""
    def resolve_neg(input) -> Tensor:
        """Returns the tensor itself: every element is real."""
    def to(input, *arguments: typing.Any, **keywords: typing.Any) -> Tensor:
        """Converts to a type, a device, both, or those of another tensor; the tensor itself if nothing changes."""
    def type_as(input, other: Tensor) -> Tensor:
        """Converts to the type of another tensor."""
    @typing.overload
    def type(input, dtype: None = None) -> builtins.str:
        """Converts to a type; without one, the name of the type."""
    @typing.overload
    def type(input, dtype: _dtype) -> Tensor:
        """Converts to a type; without one, the name of the type."""
    def float(input) -> Tensor:
        """Converts to float32."""
    def half(input) -> Tensor:
        """Converts to float16."""
    def bfloat16(input) -> Tensor:
        """Converts to bfloat16."""
    def int(input) -> Tensor:
        """Converts to int32, to which int64 and int16 are narrowed."""
    def long(input) -> Tensor:
        """Converts to int32, to which int64 and int16 are narrowed."""
    def short(input) -> Tensor:
        """Converts to int32, to which int64 and int16 are narrowed."""
    def char(input) -> Tensor:
        """Converts to int8."""
    def byte(input) -> Tensor:
        """Converts to uint8."""
    def bool(input) -> Tensor:
        """Tells of each element whether it is other than 0."""
    def double(input) -> Tensor:
        """Raises an error: HLX has no float64."""
    def cpu(input) -> Tensor:
        """Copies to the CPU device, or returns the tensor if it is there."""
    def vulkan(input, index: builtins.int | None = None) -> Tensor:
        """Copies to a Vulkan device, or returns the tensor if it is there."""
    def clone(input, *, memory_format: typing.Any = None) -> Tensor:
        """Copies the elements; the gradient goes to the input."""
    def contiguous(input, memory_format: typing.Any = None) -> Tensor:
        """Returns the tensor if its elements are in row-major order, else a copy in which they are."""
    def detach(input) -> Tensor:
        """The same memory off the tape: no gradient passes."""
    def tril(input, diagonal: builtins.int = 0) -> Tensor:
        """Leaves the elements on and below a diagonal of matrices, and zeros above."""
    def triu(input, diagonal: builtins.int = 0) -> Tensor:
        """Leaves the elements on and above a diagonal of matrices, and zeros below."""
    def diag_embed(input, offset: builtins.int = 0, dim1: builtins.int = -2, dim2: builtins.int = -1) -> Tensor:
        """Puts the last dimension on a diagonal of two dimensions of zeros."""
    def diag(input, diagonal: builtins.int = 0) -> Tensor:
        """Makes a matrix with a vector on a diagonal, or takes the diagonal of a matrix."""
    def diagflat(input, offset: builtins.int = 0) -> Tensor:
        """Makes a matrix with the flattened elements on a diagonal."""
    def bincount(input, weights: Tensor | None = None, minlength: builtins.int = 0) -> Tensor:
        """Counts each whole number, or adds its weights; waits for the largest one."""
    @typing.overload
    def unique(
        input,
        sorted: builtins.bool = True,
        return_inverse: typing.Literal[False] = False,
        return_counts: typing.Literal[False] = False,
        dim: builtins.int | None = None,
    ) -> Tensor:
        """Takes the different elements in order, on demand with the place of each element among them, and counts."""
    @typing.overload
    def unique(
        input,
        sorted: builtins.bool = True,
        return_inverse: builtins.bool = False,
        return_counts: builtins.bool = False,
        dim: builtins.int | None = None,
    ) -> Tensor | builtins.tuple[Tensor, ...]:
        """Takes the different elements in order, on demand with the place of each element among them, and counts."""
    @typing.overload
    def unique_consecutive(
        input,
        return_inverse: typing.Literal[False] = False,
        return_counts: typing.Literal[False] = False,
        dim: builtins.int | None = None,
    ) -> Tensor:
        """Takes the first of each row of equal elements, on demand with the place of each element, and counts."""
    @typing.overload
    def unique_consecutive(
        input,
        return_inverse: builtins.bool = False,
        return_counts: builtins.bool = False,
        dim: builtins.int | None = None,
    ) -> Tensor | builtins.tuple[Tensor, ...]:
        """Takes the first of each row of equal elements, on demand with the place of each element, and counts."""
    def amax(
        input, dim: _Dims = (), keepdim: builtins.bool = False, *, axis: _Dims = None, keepdims: builtins.bool = False
    ) -> Tensor:
        """Takes the largest element along dimensions, NaN if one is; equal ones share the gradient."""
    def amin(
        input, dim: _Dims = (), keepdim: builtins.bool = False, *, axis: _Dims = None, keepdims: builtins.bool = False
    ) -> Tensor:
        """Takes the smallest element along dimensions, NaN if one is; equal ones share the gradient."""
    def aminmax(input, *, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> hlx.return_types.aminmax:
        """Takes the smallest and the largest element, along a dimension or of all."""
    @typing.overload
    def max(
        input,
        dim: None = None,
        keepdim: builtins.bool = False,
        *,
        other: None = None,
        axis: None = None,
        keepdims: builtins.bool = False,
    ) -> Tensor:
        """Takes the largest element of all; along a dimension its `values` and `indices`; of two tensors the larger ones."""
    @typing.overload
    def max(
        input, dim: builtins.int, keepdim: builtins.bool = False, *, keepdims: builtins.bool = False
    ) -> hlx.return_types.max:
        """Takes the largest element of all; along a dimension its `values` and `indices`; of two tensors the larger ones."""
    @typing.overload
    def max(input, *, axis: builtins.int, keepdims: builtins.bool = False) -> hlx.return_types.max:
        """Takes the largest element of all; along a dimension its `values` and `indices`; of two tensors the larger ones."""
    @typing.overload
    def max(input, dim: Tensor) -> Tensor:
        """Takes the largest element of all; along a dimension its `values` and `indices`; of two tensors the larger ones."""
    @typing.overload
    def max(input, *, other: Tensor) -> Tensor:
        """Takes the largest element of all; along a dimension its `values` and `indices`; of two tensors the larger ones."""
    @typing.overload
    def min(
        input,
        dim: None = None,
        keepdim: builtins.bool = False,
        *,
        other: None = None,
        axis: None = None,
        keepdims: builtins.bool = False,
    ) -> Tensor:
        """Takes the smallest element of all; along a dimension its `values` and `indices`; of two tensors the smaller ones."""
    @typing.overload
    def min(
        input, dim: builtins.int, keepdim: builtins.bool = False, *, keepdims: builtins.bool = False
    ) -> hlx.return_types.min:
        """Takes the smallest element of all; along a dimension its `values` and `indices`; of two tensors the smaller ones."""
    @typing.overload
    def min(input, *, axis: builtins.int, keepdims: builtins.bool = False) -> hlx.return_types.min:
        """Takes the smallest element of all; along a dimension its `values` and `indices`; of two tensors the smaller ones."""
    @typing.overload
    def min(input, dim: Tensor) -> Tensor:
        """Takes the smallest element of all; along a dimension its `values` and `indices`; of two tensors the smaller ones."""
    @typing.overload
    def min(input, *, other: Tensor) -> Tensor:
        """Takes the smallest element of all; along a dimension its `values` and `indices`; of two tensors the smaller ones."""
    def argmax(
        input,
        dim: builtins.int | None = None,
        keepdim: builtins.bool = False,
        *,
        axis: builtins.int | None = None,
        keepdims: builtins.bool = False,
    ) -> Tensor:
        """Finds the place of the largest element along a dimension, or in the flattened tensor."""
    def argmin(
        input,
        dim: builtins.int | None = None,
        keepdim: builtins.bool = False,
        *,
        axis: builtins.int | None = None,
        keepdims: builtins.bool = False,
    ) -> Tensor:
        """Finds the place of the smallest element along a dimension, or in the flattened tensor."""
    def sort(
        input, dim: builtins.int = -1, descending: builtins.bool = False, stable: builtins.bool = False
    ) -> hlx.return_types.sort:
        """Sorts along a dimension, and gives the places that the elements had; always stable."""
    def argsort(
        input, dim: builtins.int = -1, descending: builtins.bool = False, stable: builtins.bool = False
    ) -> Tensor:
        """Finds the places of the sorted elements along a dimension; always stable."""
    def msort(input) -> Tensor:
        """Sorts along the first dimension."""
    def topk(
        input, k: builtins.int, dim: builtins.int = -1, largest: builtins.bool = True, sorted: builtins.bool = True
    ) -> hlx.return_types.topk:
        """Takes the k largest or smallest elements along a dimension, in order, with their places."""
    def kthvalue(
        input, k: builtins.int, dim: builtins.int = -1, keepdim: builtins.bool = False
    ) -> hlx.return_types.kthvalue:
        """Takes the k-th smallest element along a dimension, counted from 1, with its place."""
    @typing.overload
    def median(input, dim: None = None, keepdim: builtins.bool = False) -> Tensor:
        """Takes the lower of the middle elements, of all or along a dimension with its place; NaN if one is."""
    @typing.overload
    def median(input, dim: builtins.int, keepdim: builtins.bool = False) -> hlx.return_types.median:
        """Takes the lower of the middle elements, of all or along a dimension with its place; NaN if one is."""
    @typing.overload
    def size(input, dim: None = None) -> hlx.Size:
        """The shape, or one extent."""
    @typing.overload
    def size(input, dim: builtins.int) -> builtins.int:
        """The shape, or one extent."""
    def dim(input) -> builtins.int:
        """The number of dimensions."""
    def ndimension(input) -> builtins.int:
        """The number of dimensions."""
    def nelement(input) -> builtins.int:
        """The number of elements."""
    def element_size(input) -> builtins.int:
        """The bytes of an element."""
    def pin_memory(input) -> Tensor:
        """The tensor itself: copies between devices go through pinned memory of HLX's own."""
    def is_pinned(input) -> builtins.bool:
        """False: HLX pins what it copies through, not the tensor."""
    def cuda(input, device: typing.Any = None, non_blocking: builtins.bool = False) -> Tensor:
        """Raises RuntimeError, as there is no CUDA device: `x.to("vulkan")` copies to a GPU."""
    def is_nonzero(input) -> builtins.bool:
        """Whether the only element is other than 0; waits for the device."""
    def is_floating_point(input) -> builtins.bool:
        """Whether the elements are floats."""
    def is_complex(input) -> builtins.bool:
        """Whether the elements are complex: never."""
    def is_signed(input) -> builtins.bool:
        """Whether the type of the elements has negative numbers."""
    def is_same_size(input, other: Tensor) -> builtins.bool:
        """Whether two tensors have one shape."""
    def neg(input) -> Tensor:
        """Computes `-input`."""
    def negative(input) -> Tensor:
        """Computes `-input`."""
    def abs(input) -> Tensor:
        """Computes the magnitude; its gradient at 0 is 0."""
    def absolute(input) -> Tensor:
        """Computes the magnitude; its gradient at 0 is 0."""
    def square(input) -> Tensor:
        """Computes `input input`."""
    def sign(input) -> Tensor:
        """Computes -1, 0 or 1 by the sign; 0 of NaN."""
    def floor(input) -> Tensor:
        """Computes the largest whole number up to x."""
    def ceil(input) -> Tensor:
        """Computes the least whole number from x on."""
    def trunc(input) -> Tensor:
        """Computes x without its fraction."""
    def fix(input) -> Tensor:
        """Computes x without its fraction."""
    def reciprocal(input) -> Tensor:
        """Computes `1 / input`."""
    def sqrt(input) -> Tensor:
        """Computes the square root."""
    def rsqrt(input) -> Tensor:
        """Computes `1 / sqrt(input)`."""
    def exp(input) -> Tensor:
        """Computes `e^input`."""
    def exp2(input) -> Tensor:
        """Computes `2^input`."""
    def expm1(input) -> Tensor:
        """Computes `e^input - 1`, exact near 0."""
    def log(input) -> Tensor:
        """Computes the natural logarithm."""
    def log2(input) -> Tensor:
        """Computes the logarithm to base 2."""
    def log10(input) -> Tensor:
        """Computes the logarithm to base 10."""
    def log1p(input) -> Tensor:
        """Computes `log(1 + input)`, exact near 0."""
    def sin(input) -> Tensor:
        """Computes the sine of radians."""
    def cos(input) -> Tensor:
        """Computes the cosine of radians."""
    def tan(input) -> Tensor:
        """Computes the tangent of radians."""
    def asin(input) -> Tensor:
        """Computes the inverse sine, in radians."""
    def arcsin(input) -> Tensor:
        """Computes the inverse sine, in radians."""
    def acos(input) -> Tensor:
        """Computes the inverse cosine, in radians."""
    def arccos(input) -> Tensor:
        """Computes the inverse cosine, in radians."""
    def atan(input) -> Tensor:
        """Computes the inverse tangent, in radians."""
    def arctan(input) -> Tensor:
        """Computes the inverse tangent, in radians."""
    def sinh(input) -> Tensor:
        """Computes the hyperbolic sine."""
    def cosh(input) -> Tensor:
        """Computes the hyperbolic cosine."""
    def tanh(input) -> Tensor:
        """Computes the hyperbolic tangent."""
    def sigmoid(input) -> Tensor:
        """Computes `1 / (1 + exp(-input))`."""
    def erf(input) -> Tensor:
        """Computes the error function."""
    def relu(input) -> Tensor:
        """Computes `max(input, 0)`; its gradient at 0 is 0."""
    def isnan(input) -> Tensor:
        """Tells whether an element is NaN."""
    def isfinite(input) -> Tensor:
        """Tells whether an element is neither infinite nor NaN."""
    def logical_not(input) -> Tensor:
        """Tells whether an element is 0."""
    def bitwise_not(input) -> Tensor:
        """Computes an integer with every bit changed; of bool, its negation."""
    def scatter_reduce(
        input,
        dim: builtins.int,
        index: Tensor,
        src: Tensor,
        reduce: builtins.str,
        *,
        include_self: builtins.bool = True,
    ) -> Tensor:
        """Reduces elements at places along a dimension: `reduce` is "sum", "mean", "prod", "amax" or "amin"."""
    def zero_(input) -> Tensor:
        """Writes zeros into the tensor."""
    def fill_(input, value: _Operand) -> Tensor:
        """Writes one value, which may be a tensor without dimensions, to every element."""
    def copy_(input, src: Tensor, non_blocking: builtins.bool = False) -> Tensor:
        """Writes the elements of another tensor, broadcast and converted; the gradient goes to it."""
    def fill_diagonal_(input, fill_value: _Number, wrap: builtins.bool = False) -> Tensor:
        """Writes a value to the diagonal of a matrix."""
    def reshape(input, shape: builtins.int | _Shape, *more: builtins.int) -> Tensor:
        """Gives the elements another shape; one extent may be -1. Copies if no strides describe the new shape."""
    def view(input, shape: builtins.int | _Shape, *more: builtins.int) -> Tensor:
        """Gives the elements another shape without a copy; an error if no strides describe it."""
    def reshape_as(input, other: Tensor) -> Tensor:
        """Gives the elements the shape of another tensor."""
    def view_as(input, other: Tensor) -> Tensor:
        """Gives the elements the shape of another tensor, without a copy."""
    def ravel(input) -> Tensor:
        """Flattens to one dimension; copies if the elements are not in this order."""
    def flatten(input, start_dim: builtins.int = 0, end_dim: builtins.int = -1) -> Tensor:
        """Joins the dimensions from one to another."""
    def unflatten(input, dim: builtins.int, sizes: _Shape) -> Tensor:
        """Cuts a dimension into several; one extent may be -1."""
    def permute(input, dims: builtins.int | _Shape = (), *more: builtins.int) -> Tensor:
        """Puts the dimensions in another order."""
    def transpose(input, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """Exchanges two dimensions."""
    def swapaxes(input, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """Exchanges two dimensions."""
    def swapdims(input, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """Exchanges two dimensions."""
    def t(input) -> Tensor:
        """Transposes a matrix; a tensor of fewer dimensions stays."""
    def adjoint(input) -> Tensor:
        """Exchanges the last two dimensions."""
    def movedim(input, source: builtins.int | _Shape, destination: builtins.int | _Shape) -> Tensor:
        """Moves dimensions to other places; the others keep their order."""
    def moveaxis(input, source: builtins.int | _Shape, destination: builtins.int | _Shape) -> Tensor:
        """Moves dimensions to other places; the others keep their order."""
    def unsqueeze(input, dim: builtins.int) -> Tensor:
        """Inserts a dimension of extent 1."""
    def squeeze(input, dim: _Dims = None) -> Tensor:
        """Drops dimensions of extent 1: all of them, one, or several."""
    def expand(input, size: builtins.int | _Shape = (), *more: builtins.int) -> Tensor:
        """Repeats dimensions of extent 1, and new ones before the first; -1 leaves an extent."""
    def expand_as(input, other: Tensor) -> Tensor:
        """Broadcasts to the shape of another tensor."""
    def broadcast_to(input, size: builtins.int | _Shape, *more: builtins.int) -> Tensor:
        """Broadcasts to a shape."""
    def narrow(input, dim: builtins.int, start: builtins.int | Tensor, length: builtins.int) -> Tensor:
        """Takes `length` elements of a dimension from `start` on, which may be counted from the end."""
    def select(input, dim: builtins.int, index: builtins.int) -> Tensor:
        """Takes one place of a dimension, which may be counted from the end; the dimension is dropped."""
    def diagonal(input, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:
        """Takes a diagonal of two dimensions, as the last dimension."""
    def flip(input, dims: builtins.int | _Shape, *more: builtins.int) -> Tensor:
        """Reverses dimensions."""
    def fliplr(input) -> Tensor:
        """Reverses the second dimension."""
    def flipud(input) -> Tensor:
        """Reverses the first dimension."""
    def rot90(
        input,
        k: builtins.int = 1,
        dims: _Shape = (
            0,
            1,
        ),
    ) -> Tensor:
        """Rotates the plane of two dimensions by k quarters, from the first toward the second."""
    def unfold(input, dimension: builtins.int, size: builtins.int, step: builtins.int) -> Tensor:
        """Takes windows of `size` elements, `step` apart, of a dimension; a window's elements are the last dimension."""
    def unbind(input, dim: builtins.int = 0) -> builtins.tuple[Tensor, ...]:
        """Takes a dimension apart."""
    def gather(input, dim: builtins.int, index: Tensor, *, sparse_grad: builtins.bool = False) -> Tensor:
        """Takes the elements at places along a dimension: `out[i][j] = input[index[i][j]][j]` for `dim` 0."""
    def scatter(
        input,
        dim: builtins.int,
        index: Tensor,
        src: _Operand | None = None,
        *,
        value: _Number | None = None,
        reduce: builtins.str | None = None,
    ) -> Tensor:
        """Writes elements, or one value, to places along a dimension: the inverse of `gather`."""
    def scatter_add(input, dim: builtins.int, index: Tensor, src: Tensor) -> Tensor:
        """Adds elements at places along a dimension, in the order of the index."""
    def index_select(input, dim: builtins.int, index: Tensor) -> Tensor:
        """Takes places of a dimension."""
    def index_add(input, dim: builtins.int, index: Tensor, source: Tensor, *, alpha: _Number = 1) -> Tensor:
        """Adds `alpha source` at places of a dimension, in the order of the index."""
    def index_copy(input, dim: builtins.int, index: Tensor, source: Tensor) -> Tensor:
        """Writes slices to places of a dimension; of several writes to one place the last one wins."""
    def index_fill(input, dim: builtins.int, index: Tensor, value: _Operand) -> Tensor:
        """Writes a value to places of a dimension."""
    def index_put(
        input, indices: collections.abc.Sequence[Tensor | None], values: Tensor, accumulate: builtins.bool = False
    ) -> Tensor:
        """Writes values, broadcast, at `input[indices]`, or adds them to what is there if `accumulate` is set."""
    def take_along_dim(input, indices: Tensor, dim: builtins.int | None = None) -> Tensor:
        """Takes the elements at places along a dimension, negative ones counted from the end; the others broadcast."""
    def take(input, index: Tensor) -> Tensor:
        """Takes elements of the flattened tensor, negative places counted from the end."""
    def masked_fill(input, mask: Tensor, value: _Operand) -> Tensor:
        """Takes a value where the mask holds, else the input's element. The value may be a tensor without dimensions."""
    def masked_select(input, mask: Tensor) -> Tensor:
        """Takes the elements where the mask holds, as a vector; waits for the mask."""
    def masked_scatter(input, mask: Tensor, source: Tensor) -> Tensor:
        """Writes the first elements of a source, in order, where the mask holds."""
    @typing.overload
    def nonzero(input, *, as_tuple: typing.Literal[False] = False) -> Tensor:
        """Finds the elements other than 0: a row of places for each, or a vector for each dimension; waits for them."""
    @typing.overload
    def nonzero(input, *, as_tuple: typing.Literal[True]) -> builtins.tuple[Tensor, ...]:
        """Finds the elements other than 0: a row of places for each, or a vector for each dimension; waits for them."""
    def argwhere(input) -> Tensor:
        """Finds the elements other than 0: a row of places for each; waits for them."""
    def split(
        tensor, split_size_or_sections: builtins.int | _Shape, dim: builtins.int = 0
    ) -> builtins.tuple[Tensor, ...]:
        """Cuts a dimension into pieces of one size, the last may be smaller, or of the sizes of a list."""
    def unsafe_split(
        tensor, split_size_or_sections: builtins.int | _Shape, dim: builtins.int = 0
    ) -> builtins.tuple[Tensor, ...]:
        """Cuts a dimension into pieces of one size, the last may be smaller, or of the sizes of a list."""
    def split_with_sizes(input, split_sizes: _Shape, dim: builtins.int = 0) -> builtins.tuple[Tensor, ...]:
        """Cuts a dimension into pieces of the sizes of a list, which add up to its extent."""
    def chunk(input, chunks: builtins.int, dim: builtins.int = 0) -> builtins.tuple[Tensor, ...]:
        """Cuts a dimension into at most so many pieces of one size; the last may be smaller."""
    def unsafe_chunk(input, chunks: builtins.int, dim: builtins.int = 0) -> builtins.tuple[Tensor, ...]:
        """Cuts a dimension into at most so many pieces of one size; the last may be smaller."""
    def tensor_split(
        input,
        indices_or_sections: _Dims | Tensor = None,
        dim: builtins.int = 0,
        *,
        indices: _Shape | None = None,
        sections: builtins.int | None = None,
    ) -> builtins.tuple[Tensor, ...]:
        """Cuts a dimension into so many pieces, the first ones larger by one, or before the places of a list."""
    def hsplit(input, indices_or_sections: builtins.int | _Shape) -> builtins.tuple[Tensor, ...]:
        """Cuts the second dimension, or the only one, into equal pieces or before places."""
    def vsplit(input, indices_or_sections: builtins.int | _Shape) -> builtins.tuple[Tensor, ...]:
        """Cuts the first of at least two dimensions into equal pieces or before places."""
    def dsplit(input, indices_or_sections: builtins.int | _Shape) -> builtins.tuple[Tensor, ...]:
        """Cuts the third of at least three dimensions into equal pieces or before places."""
    def roll(input, shifts: builtins.int | _Shape, dims: _Dims = None) -> Tensor:
        """Shifts elements along dimensions, the last ones to the front; without dimensions those of the flattened tensor."""
    def repeat(input, repeats: builtins.int | _Shape = (), *more: builtins.int) -> Tensor:
        """Repeats the tensor along each dimension; counts before the first make new ones."""
    def tile(input, dims: builtins.int | _Shape = (), *more: builtins.int) -> Tensor:
        """Repeats the tensor along its last dimensions."""
    def repeat_interleave(
        input,
        repeats: builtins.int | Tensor,
        dim: builtins.int | None = None,
        *,
        output_size: builtins.int | None = None,
    ) -> Tensor:
        """Repeats each element along a dimension; a tensor of counts is waited for."""
    def hardshrink(input, lambd: builtins.float = 0.5) -> Tensor:
        """Takes 0 for the elements within [-lambd, lambd]."""
    def prelu(input, weight: Tensor) -> Tensor:
        """Computes x above 0, else `weight x`; one weight, or one for each channel [N, C, ..]."""
    def new_zeros(
        input,
        size: builtins.int | _Shape = (),
        *more: builtins.int,
        dtype: _dtype | None = None,
        device: _Device = None,
        requires_grad: builtins.bool = False,
    ) -> Tensor:
        """Makes zeros of a shape, with the type and device of this tensor."""
    def new_ones(
        input,
        size: builtins.int | _Shape = (),
        *more: builtins.int,
        dtype: _dtype | None = None,
        device: _Device = None,
        requires_grad: builtins.bool = False,
    ) -> Tensor:
        """Makes ones of a shape, with the type and device of this tensor."""
    def new_empty(
        input,
        size: builtins.int | _Shape = (),
        *more: builtins.int,
        dtype: _dtype | None = None,
        device: _Device = None,
        requires_grad: builtins.bool = False,
    ) -> Tensor:
        """Makes a tensor of a shape with this type and device, whose elements will be overwritten; they are zeros."""
    def new_full(
        input,
        size: _Shape,
        fill_value: _Number,
        *,
        dtype: _dtype | None = None,
        device: _Device = None,
        requires_grad: builtins.bool = False,
    ) -> Tensor:
        """Makes a tensor of one value and a shape, with the type and device of this tensor."""
    def new_tensor(
        input,
        data: typing.Any,
        *,
        dtype: _dtype | None = None,
        device: _Device = None,
        requires_grad: builtins.bool = False,
    ) -> Tensor:
        """Makes a tensor of data, with the type and device of this tensor."""
    def hypot(input, other: Tensor) -> Tensor:
        """Computes `sqrt(input^2 + other^2)` from the ratio of both, without overflow."""
    def logaddexp(input, other: Tensor) -> Tensor:
        """Computes `log(exp(input) + exp(other))` from the larger one."""
    def logaddexp2(input, other: Tensor) -> Tensor:
        """Computes `log2(2^input + 2^other)` from the larger one."""
    def xlogy(input, other: _Operand) -> Tensor:
        """Computes `input log(other)`, 0 where the input is 0 and NaN where the other is NaN."""
    def copysign(input, other: _Operand) -> Tensor:
        """Computes the magnitude of the input with the sign of the other, that of a zero too."""
    def signbit(input) -> Tensor:
        """Tells whether an element is negative, or a zero with a minus sign."""
    def heaviside(input, values: Tensor) -> Tensor:
        """Computes 0 below 0 and of NaN, 1 above, and at 0 the element of `values`."""
    def ldexp(input, other: Tensor) -> Tensor:
        """Computes `input 2^other`."""
    def dist(input, other: Tensor, p: builtins.float = 2) -> Tensor:
        """Computes the p-norm of `input - other`."""
    def matmul(input, other: Tensor) -> Tensor:
        """Multiplies matrices [.., M, K] and [.., K, N], whose other dimensions broadcast; a vector is a row or a column."""
    def mm(input, mat2: Tensor) -> Tensor:
        """Multiplies a matrix [M, K] by one [K, N]."""
    def bmm(input, mat2: Tensor) -> Tensor:
        """Multiplies matrices [B, M, K] by as many [B, K, N]."""
    def mv(input, vec: Tensor) -> Tensor:
        """Multiplies a matrix [M, K] by a vector [K]."""
    def dot(input, tensor: Tensor) -> Tensor:
        """Multiplies two vectors."""
    def vdot(input, tensor: Tensor) -> Tensor:
        """Multiplies two vectors."""
    def inner(input, other: Tensor) -> Tensor:
        """Sums the products over both last dimensions."""
    def outer(input, vec2: Tensor) -> Tensor:
        """Multiplies every element of a vector by every one of another."""
    def ger(input, vec2: Tensor) -> Tensor:
        """Multiplies every element of a vector by every one of another."""
    def addmm(input, mat1: Tensor, mat2: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
        """Computes `beta input + alpha mat1 mat2`; f16 and bf16 are rounded once."""
    def addmv(input, mat: Tensor, vec: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
        """Computes `beta input + alpha mat vec`; f16 and bf16 are rounded once."""
    def addr(input, vec1: Tensor, vec2: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
        """Computes `beta input + alpha outer(vec1, vec2)`; f16 and bf16 are rounded once."""
    def baddbmm(input, batch1: Tensor, batch2: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
        """Computes `beta input + alpha batch1 batch2` of batches of matrices; f16 and bf16 are rounded once."""
    def addbmm(input, batch1: Tensor, batch2: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
        """Computes `beta input + alpha` times the sum of the products of a batch; f16 and bf16 are rounded once."""
    def kron(input, other: Tensor) -> Tensor:
        """Computes Kronecker's product: every element of one times all of the other, in blocks."""
    def cross(input, other: Tensor, dim: builtins.int | None = None) -> Tensor:
        """Computes the cross product of vectors of 3 elements along a dimension, by default the first of extent 3."""
    def quantile(
        input,
        q: builtins.float | Tensor,
        dim: builtins.int | None = None,
        keepdim: builtins.bool = False,
        *,
        interpolation: builtins.str = "linear",
    ) -> Tensor:
        """Computes quantiles, of all elements or along a dimension, between the neighbours in order; NaN if one is."""
    @typing.overload
    def nanmedian(input, dim: None = None, keepdim: builtins.bool = False) -> Tensor:
        """Takes the lower of the middle elements that are not NaN, of all or along a dimension with its place."""
    @typing.overload
    def nanmedian(input, dim: builtins.int, keepdim: builtins.bool = False) -> hlx.return_types.nanmedian:
        """Takes the lower of the middle elements that are not NaN, of all or along a dimension with its place."""
    def nanquantile(
        input,
        q: builtins.float | Tensor,
        dim: builtins.int | None = None,
        keepdim: builtins.bool = False,
        *,
        interpolation: builtins.str = "linear",
    ) -> Tensor:
        """Computes quantiles of the elements that are not NaN, as `quantile`; a line of NaN alone gives NaN."""
    def bernoulli(input, p: builtins.float | None = None, *, generator: Generator | None = None) -> Tensor:
        """Draws 1 with the probability of each element, else 0; or with one probability, of this shape."""
    def multinomial(
        input, num_samples: builtins.int, replacement: builtins.bool = False, *, generator: Generator | None = None
    ) -> Tensor:
        """Draws places along the last dimension with probabilities in proportion to the elements."""
    def uniform_(
        input, from_: builtins.float = 0.0, to: builtins.float = 1.0, *, generator: Generator | None = None
    ) -> Tensor:
        """Fills the tensor with values drawn uniformly from [from, to)."""
    def normal_(
        input, mean: builtins.float = 0.0, std: builtins.float = 1.0, *, generator: Generator | None = None
    ) -> Tensor:
        """Fills the tensor with draws from the normal distribution."""
    def bernoulli_(input, p: Tensor | builtins.float = 0.5, *, generator: Generator | None = None) -> Tensor:
        """Fills the tensor with 1 with a probability, which may be a tensor, else 0."""
    def random_(
        input, from_: builtins.int = 0, to: builtins.int | None = None, *, generator: Generator | None = None
    ) -> Tensor:
        """Fills the tensor with whole numbers from `from_` to `to - 1`."""
    def sum(
        input,
        dim: _Dims = None,
        keepdim: builtins.bool = False,
        *,
        dtype: _dtype | None = None,
        axis: _Dims = None,
        keepdims: builtins.bool = False,
    ) -> Tensor:
        """Sums elements in a written order; integers and bool as i32, f16 and bf16 in f32."""
    def nansum(
        input,
        dim: _Dims = None,
        keepdim: builtins.bool = False,
        *,
        dtype: _dtype | None = None,
        axis: _Dims = None,
        keepdims: builtins.bool = False,
    ) -> Tensor:
        """Sums the elements that are not NaN."""
    def mean(
        input,
        dim: _Dims = None,
        keepdim: builtins.bool = False,
        *,
        dtype: _dtype | None = None,
        axis: _Dims = None,
        keepdims: builtins.bool = False,
    ) -> Tensor:
        """Computes the mean, the sum times 1 / n; of floats."""
    def nanmean(
        input,
        dim: _Dims = None,
        keepdim: builtins.bool = False,
        *,
        dtype: _dtype | None = None,
        axis: _Dims = None,
        keepdims: builtins.bool = False,
    ) -> Tensor:
        """Computes the mean of the elements that are not NaN."""
    def prod(
        input,
        dim: _Dims = None,
        keepdim: builtins.bool = False,
        *,
        dtype: _dtype | None = None,
        axis: _Dims = None,
        keepdims: builtins.bool = False,
    ) -> Tensor:
        """Multiplies elements; integers and bool as i32. A factor of 0 leaves the others their gradients."""
    def any(
        input, dim: _Dims = None, keepdim: builtins.bool = False, *, axis: _Dims = None, keepdims: builtins.bool = False
    ) -> Tensor:
        """Tells whether an element is other than 0; of uint8 as uint8."""
    def all(
        input, dim: _Dims = None, keepdim: builtins.bool = False, *, axis: _Dims = None, keepdims: builtins.bool = False
    ) -> Tensor:
        """Tells whether all elements are other than 0; of uint8 as uint8."""
    def count_nonzero(input, dim: _Dims = None) -> Tensor:
        """Counts the elements other than 0."""
    def var(
        input,
        dim: _Dims | builtins.bool = None,
        unbiased: builtins.bool | None = None,
        keepdim: builtins.bool = False,
        *,
        correction: _Number | None = None,
        axis: _Dims = None,
        keepdims: builtins.bool = False,
    ) -> Tensor:
        """Computes the variance: squared distances from the mean over n - `correction`, which is 1 by default."""
    def std(
        input,
        dim: _Dims | builtins.bool = None,
        unbiased: builtins.bool | None = None,
        keepdim: builtins.bool = False,
        *,
        correction: _Number | None = None,
        axis: _Dims = None,
        keepdims: builtins.bool = False,
    ) -> Tensor:
        """Computes the standard deviation, the root of `var`; its gradient at 0 is 0."""
    def norm(
        input,
        p: _Number | builtins.str | None = "fro",
        dim: _Dims = None,
        keepdim: builtins.bool = False,
        *,
        dtype: _dtype | None = None,
    ) -> Tensor:
        """Computes the p-norm of the elements: "fro" is 2, infinity the largest magnitude, 0 counts those other than 0."""
    def logsumexp(
        input, dim: _Dims = None, keepdim: builtins.bool = False, *, axis: _Dims = None, keepdims: builtins.bool = False
    ) -> Tensor:
        """Computes `log(sum(exp(x)))` from the distances to the largest element."""
    def cumsum(
        input, dim: builtins.int | None = None, *, dtype: _dtype | None = None, axis: builtins.int | None = None
    ) -> Tensor:
        """Computes the sums so far along a dimension."""
    def cumprod(
        input, dim: builtins.int | None = None, *, dtype: _dtype | None = None, axis: builtins.int | None = None
    ) -> Tensor:
        """Computes the products so far along a dimension."""
    def diff(
        input, n: builtins.int = 1, dim: builtins.int = -1, prepend: Tensor | None = None, append: Tensor | None = None
    ) -> Tensor:
        """Computes the differences of neighbours along a dimension, n times."""
    def trace(input) -> Tensor:
        """Sums the diagonal of a matrix."""
    def renorm(input, p: _Number, dim: builtins.int, maxnorm: _Number) -> Tensor:
        """Scales the slices along a dimension whose p-norm is above `maxnorm` down to it."""
    def sum_to_size(input, *size: builtins.int) -> Tensor:
        """Sums to a shape that broadcasts to the input's."""
    def squeeze_(input, dim: builtins.int | builtins.tuple[builtins.int, ...] | None = None) -> Tensor:
        """Removes dimensions of extent 1 from the tensor itself, as `squeeze`; raises RuntimeError for a parameter."""
    def unsqueeze_(input, dim: builtins.int) -> Tensor:
        """Gives the tensor itself a dimension of extent 1, as `unsqueeze`; raises RuntimeError for a parameter."""
    def transpose_(input, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """Swaps two dimensions of the tensor itself, as `transpose`; raises RuntimeError for a parameter."""
    def swapaxes_(input, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """Swaps two dimensions of the tensor itself, as `transpose`; raises RuntimeError for a parameter."""
    def swapdims_(input, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """Swaps two dimensions of the tensor itself, as `transpose`; raises RuntimeError for a parameter."""
    def t_(input) -> Tensor:
        """Swaps both dimensions of the tensor itself, as `t`; raises RuntimeError for a parameter."""
    def cummax(input, dim: builtins.int | None = None, *, axis: builtins.int | None = None) -> hlx.return_types.cummax:
        """Takes the largest elements so far along a dimension, with their places, the last of equal ones."""
    def cummin(input, dim: builtins.int | None = None, *, axis: builtins.int | None = None) -> hlx.return_types.cummin:
        """Takes the smallest elements so far along a dimension, with their places, the last of equal ones."""
    def logcumsumexp(input, dim: builtins.int | None = None, *, axis: builtins.int | None = None) -> Tensor:
        """Computes `log(cumsum(exp(x)))` along a dimension, from the larger of each pair of sums."""
    def cov(
        input, *, correction: builtins.int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
    ) -> Tensor:
        """Computes the covariances of variables, the rows, over observations, the columns."""
    def corrcoef(input) -> Tensor:
        """Computes the correlations of variables, the rows, over observations, the columns."""
    def histc(input, bins: builtins.int = 100, min: _Number = 0, max: _Number = 0) -> Tensor:
        """Counts elements in equal bins from min to max, or over their range; waits for it."""
    def select_scatter(input, src: Tensor, dim: builtins.int, index: builtins.int) -> Tensor:
        """Writes a tensor to one place of a dimension."""
    def slice_scatter(
        input,
        src: Tensor,
        dim: builtins.int = 0,
        start: builtins.int | None = None,
        end: builtins.int | None = None,
        step: builtins.int = 1,
    ) -> Tensor:
        """Writes a tensor to a slice of a dimension."""
    def diagonal_scatter(
        input, src: Tensor, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1
    ) -> Tensor:
        """Writes a tensor to a diagonal of two dimensions."""
    def put(input, index: Tensor, source: Tensor, accumulate: builtins.bool = False) -> Tensor:
        """Writes elements to places of the flattened tensor, negative ones counted from the end, or adds them."""
    def abs_(input) -> Tensor:
        """As `abs`, into the tensor's own memory; returns the tensor."""
    def absolute_(input) -> Tensor:
        """As `absolute`, into the tensor's own memory; returns the tensor."""
    def acos_(input) -> Tensor:
        """As `acos`, into the tensor's own memory; returns the tensor."""
    def arccos_(input) -> Tensor:
        """As `arccos`, into the tensor's own memory; returns the tensor."""
    def acosh_(input) -> Tensor:
        """As `acosh`, into the tensor's own memory; returns the tensor."""
    def arccosh_(input) -> Tensor:
        """As `arccosh`, into the tensor's own memory; returns the tensor."""
    def add_(input, other: _Operand, *, alpha: _Number = 1) -> Tensor:
        """As `add`, into the tensor's own memory; returns the tensor."""
    def addbmm_(input, batch1: Tensor, batch2: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
        """As `addbmm`, into the tensor's own memory; returns the tensor."""
    def addcdiv_(input, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1) -> Tensor:
        """As `addcdiv`, into the tensor's own memory; returns the tensor."""
    def addcmul_(input, tensor1: Tensor, tensor2: Tensor, *, value: _Number = 1) -> Tensor:
        """As `addcmul`, into the tensor's own memory; returns the tensor."""
    def addmm_(input, mat1: Tensor, mat2: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
        """As `addmm`, into the tensor's own memory; returns the tensor."""
    def addmv_(input, mat: Tensor, vec: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
        """As `addmv`, into the tensor's own memory; returns the tensor."""
    def addr_(input, vec1: Tensor, vec2: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
        """As `addr`, into the tensor's own memory; returns the tensor."""
    def asin_(input) -> Tensor:
        """As `asin`, into the tensor's own memory; returns the tensor."""
    def arcsin_(input) -> Tensor:
        """As `arcsin`, into the tensor's own memory; returns the tensor."""
    def asinh_(input) -> Tensor:
        """As `asinh`, into the tensor's own memory; returns the tensor."""
    def arcsinh_(input) -> Tensor:
        """As `arcsinh`, into the tensor's own memory; returns the tensor."""
    def atan_(input) -> Tensor:
        """As `atan`, into the tensor's own memory; returns the tensor."""
    def arctan_(input) -> Tensor:
        """As `arctan`, into the tensor's own memory; returns the tensor."""
    def atan2_(input, other: _Operand) -> Tensor:
        """As `atan2`, into the tensor's own memory; returns the tensor."""
    def arctan2_(input, other: _Operand) -> Tensor:
        """As `arctan2`, into the tensor's own memory; returns the tensor."""
    def atanh_(input) -> Tensor:
        """As `atanh`, into the tensor's own memory; returns the tensor."""
    def arctanh_(input) -> Tensor:
        """As `arctanh`, into the tensor's own memory; returns the tensor."""
    def baddbmm_(input, batch1: Tensor, batch2: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
        """As `baddbmm`, into the tensor's own memory; returns the tensor."""
    def bitwise_and_(input, other: _Operand) -> Tensor:
        """As `bitwise_and`, into the tensor's own memory; returns the tensor."""
    def bitwise_left_shift_(input, other: _Operand) -> Tensor:
        """As `bitwise_left_shift`, into the tensor's own memory; returns the tensor."""
    def bitwise_not_(input) -> Tensor:
        """As `bitwise_not`, into the tensor's own memory; returns the tensor."""
    def bitwise_or_(input, other: _Operand) -> Tensor:
        """As `bitwise_or`, into the tensor's own memory; returns the tensor."""
    def bitwise_right_shift_(input, other: _Operand) -> Tensor:
        """As `bitwise_right_shift`, into the tensor's own memory; returns the tensor."""
    def bitwise_xor_(input, other: _Operand) -> Tensor:
        """As `bitwise_xor`, into the tensor's own memory; returns the tensor."""
    def ceil_(input) -> Tensor:
        """As `ceil`, into the tensor's own memory; returns the tensor."""
    def clamp_(input, min: _Operand | None = None, max: _Operand | None = None) -> Tensor:
        """As `clamp`, into the tensor's own memory; returns the tensor."""
    def clamp_max_(input, max: _Operand) -> Tensor:
        """As `clamp_max`, into the tensor's own memory; returns the tensor."""
    def clamp_min_(input, min: _Operand) -> Tensor:
        """As `clamp_min`, into the tensor's own memory; returns the tensor."""
    def clip_(input, min: _Operand | None = None, max: _Operand | None = None) -> Tensor:
        """As `clip`, into the tensor's own memory; returns the tensor."""
    def copysign_(input, other: _Operand) -> Tensor:
        """As `copysign`, into the tensor's own memory; returns the tensor."""
    def cos_(input) -> Tensor:
        """As `cos`, into the tensor's own memory; returns the tensor."""
    def cosh_(input) -> Tensor:
        """As `cosh`, into the tensor's own memory; returns the tensor."""
    def cumprod_(
        input, dim: builtins.int | None = None, *, dtype: _dtype | None = None, axis: builtins.int | None = None
    ) -> Tensor:
        """As `cumprod`, into the tensor's own memory; returns the tensor."""
    def cumsum_(
        input, dim: builtins.int | None = None, *, dtype: _dtype | None = None, axis: builtins.int | None = None
    ) -> Tensor:
        """As `cumsum`, into the tensor's own memory; returns the tensor."""
    def deg2rad_(input) -> Tensor:
        """As `deg2rad`, into the tensor's own memory; returns the tensor."""
    def div_(input, other: _Operand, *, rounding_mode: builtins.str | None = None) -> Tensor:
        """As `div`, into the tensor's own memory; returns the tensor."""
    def divide_(input, other: _Operand, *, rounding_mode: builtins.str | None = None) -> Tensor:
        """As `divide`, into the tensor's own memory; returns the tensor."""
    def eq_(input, other: _Operand) -> Tensor:
        """As `eq`, into the tensor's own memory; returns the tensor."""
    def erf_(input) -> Tensor:
        """As `erf`, into the tensor's own memory; returns the tensor."""
    def erfc_(input) -> Tensor:
        """As `erfc`, into the tensor's own memory; returns the tensor."""
    def exp_(input) -> Tensor:
        """As `exp`, into the tensor's own memory; returns the tensor."""
    def exp2_(input) -> Tensor:
        """As `exp2`, into the tensor's own memory; returns the tensor."""
    def expm1_(input) -> Tensor:
        """As `expm1`, into the tensor's own memory; returns the tensor."""
    def fix_(input) -> Tensor:
        """As `fix`, into the tensor's own memory; returns the tensor."""
    def floor_(input) -> Tensor:
        """As `floor`, into the tensor's own memory; returns the tensor."""
    def floor_divide_(input, other: _Operand) -> Tensor:
        """As `floor_divide`, into the tensor's own memory; returns the tensor."""
    def fmod_(input, other: _Operand) -> Tensor:
        """As `fmod`, into the tensor's own memory; returns the tensor."""
    def frac_(input) -> Tensor:
        """As `frac`, into the tensor's own memory; returns the tensor."""
    def ge_(input, other: _Operand) -> Tensor:
        """As `ge`, into the tensor's own memory; returns the tensor."""
    def greater_(input, other: _Operand) -> Tensor:
        """As `greater`, into the tensor's own memory; returns the tensor."""
    def greater_equal_(input, other: _Operand) -> Tensor:
        """As `greater_equal`, into the tensor's own memory; returns the tensor."""
    def gt_(input, other: _Operand) -> Tensor:
        """As `gt`, into the tensor's own memory; returns the tensor."""
    def heaviside_(input, values: Tensor) -> Tensor:
        """As `heaviside`, into the tensor's own memory; returns the tensor."""
    def hypot_(input, other: Tensor) -> Tensor:
        """As `hypot`, into the tensor's own memory; returns the tensor."""
    def index_add_(input, dim: builtins.int, index: Tensor, source: Tensor, *, alpha: _Number = 1) -> Tensor:
        """As `index_add`, into the tensor's own memory; returns the tensor."""
    def index_copy_(input, dim: builtins.int, index: Tensor, source: Tensor) -> Tensor:
        """As `index_copy`, into the tensor's own memory; returns the tensor."""
    def index_fill_(input, dim: builtins.int, index: Tensor, value: _Operand) -> Tensor:
        """As `index_fill`, into the tensor's own memory; returns the tensor."""
    def index_put_(
        input, indices: collections.abc.Sequence[Tensor | None], values: Tensor, accumulate: builtins.bool = False
    ) -> Tensor:
        """As `index_put`, into the tensor's own memory; returns the tensor."""
    def ldexp_(input, other: Tensor) -> Tensor:
        """As `ldexp`, into the tensor's own memory; returns the tensor."""
    def le_(input, other: _Operand) -> Tensor:
        """As `le`, into the tensor's own memory; returns the tensor."""
    def lerp_(input, end: Tensor, weight: _Operand) -> Tensor:
        """As `lerp`, into the tensor's own memory; returns the tensor."""
    def less_(input, other: _Operand) -> Tensor:
        """As `less`, into the tensor's own memory; returns the tensor."""
    def less_equal_(input, other: _Operand) -> Tensor:
        """As `less_equal`, into the tensor's own memory; returns the tensor."""
    def log_(input) -> Tensor:
        """As `log`, into the tensor's own memory; returns the tensor."""
    def log10_(input) -> Tensor:
        """As `log10`, into the tensor's own memory; returns the tensor."""
    def log1p_(input) -> Tensor:
        """As `log1p`, into the tensor's own memory; returns the tensor."""
    def log2_(input) -> Tensor:
        """As `log2`, into the tensor's own memory; returns the tensor."""
    def logical_and_(input, other: _Operand) -> Tensor:
        """As `logical_and`, into the tensor's own memory; returns the tensor."""
    def logical_not_(input) -> Tensor:
        """As `logical_not`, into the tensor's own memory; returns the tensor."""
    def logical_or_(input, other: _Operand) -> Tensor:
        """As `logical_or`, into the tensor's own memory; returns the tensor."""
    def logical_xor_(input, other: _Operand) -> Tensor:
        """As `logical_xor`, into the tensor's own memory; returns the tensor."""
    def logit_(input, eps: builtins.float | None = None) -> Tensor:
        """As `logit`, into the tensor's own memory; returns the tensor."""
    def lt_(input, other: _Operand) -> Tensor:
        """As `lt`, into the tensor's own memory; returns the tensor."""
    def masked_fill_(input, mask: Tensor, value: _Operand) -> Tensor:
        """As `masked_fill`, into the tensor's own memory; returns the tensor."""
    def masked_scatter_(input, mask: Tensor, source: Tensor) -> Tensor:
        """As `masked_scatter`, into the tensor's own memory; returns the tensor."""
    def mul_(input, other: _Operand) -> Tensor:
        """As `mul`, into the tensor's own memory; returns the tensor."""
    def multiply_(input, other: _Operand) -> Tensor:
        """As `multiply`, into the tensor's own memory; returns the tensor."""
    def nan_to_num_(
        input,
        nan: builtins.float | None = None,
        posinf: builtins.float | None = None,
        neginf: builtins.float | None = None,
    ) -> Tensor:
        """As `nan_to_num`, into the tensor's own memory; returns the tensor."""
    def ne_(input, other: _Operand) -> Tensor:
        """As `ne`, into the tensor's own memory; returns the tensor."""
    def neg_(input) -> Tensor:
        """As `neg`, into the tensor's own memory; returns the tensor."""
    def negative_(input) -> Tensor:
        """As `negative`, into the tensor's own memory; returns the tensor."""
    def not_equal_(input, other: _Operand) -> Tensor:
        """As `not_equal`, into the tensor's own memory; returns the tensor."""
    def pow_(input, exponent: _Operand) -> Tensor:
        """As `pow`, into the tensor's own memory; returns the tensor."""
    def put_(input, index: Tensor, source: Tensor, accumulate: builtins.bool = False) -> Tensor:
        """As `put`, into the tensor's own memory; returns the tensor."""
    def rad2deg_(input) -> Tensor:
        """As `rad2deg`, into the tensor's own memory; returns the tensor."""
    def reciprocal_(input) -> Tensor:
        """As `reciprocal`, into the tensor's own memory; returns the tensor."""
    def relu_(input) -> Tensor:
        """As `relu`, into the tensor's own memory; returns the tensor."""
    def remainder_(input, other: _Operand) -> Tensor:
        """As `remainder`, into the tensor's own memory; returns the tensor."""
    def renorm_(input, p: _Number, dim: builtins.int, maxnorm: _Number) -> Tensor:
        """As `renorm`, into the tensor's own memory; returns the tensor."""
    def round_(input, *, decimals: builtins.int = 0) -> Tensor:
        """As `round`, into the tensor's own memory; returns the tensor."""
    def rsqrt_(input) -> Tensor:
        """As `rsqrt`, into the tensor's own memory; returns the tensor."""
    def scatter_(
        input,
        dim: builtins.int,
        index: Tensor,
        src: _Operand | None = None,
        *,
        value: _Number | None = None,
        reduce: builtins.str | None = None,
    ) -> Tensor:
        """As `scatter`, into the tensor's own memory; returns the tensor."""
    def scatter_add_(input, dim: builtins.int, index: Tensor, src: Tensor) -> Tensor:
        """As `scatter_add`, into the tensor's own memory; returns the tensor."""
    def scatter_reduce_(
        input,
        dim: builtins.int,
        index: Tensor,
        src: Tensor,
        reduce: builtins.str,
        *,
        include_self: builtins.bool = True,
    ) -> Tensor:
        """As `scatter_reduce`, into the tensor's own memory; returns the tensor."""
    def sgn_(input) -> Tensor:
        """As `sgn`, into the tensor's own memory; returns the tensor."""
    def sigmoid_(input) -> Tensor:
        """As `sigmoid`, into the tensor's own memory; returns the tensor."""
    def sign_(input) -> Tensor:
        """As `sign`, into the tensor's own memory; returns the tensor."""
    def sin_(input) -> Tensor:
        """As `sin`, into the tensor's own memory; returns the tensor."""
    def sinc_(input) -> Tensor:
        """As `sinc`, into the tensor's own memory; returns the tensor."""
    def sinh_(input) -> Tensor:
        """As `sinh`, into the tensor's own memory; returns the tensor."""
    def sqrt_(input) -> Tensor:
        """As `sqrt`, into the tensor's own memory; returns the tensor."""
    def square_(input) -> Tensor:
        """As `square`, into the tensor's own memory; returns the tensor."""
    def sub_(input, other: _Operand, *, alpha: _Number = 1) -> Tensor:
        """As `sub`, into the tensor's own memory; returns the tensor."""
    def subtract_(input, other: _Operand, *, alpha: _Number = 1) -> Tensor:
        """As `subtract`, into the tensor's own memory; returns the tensor."""
    def tan_(input) -> Tensor:
        """As `tan`, into the tensor's own memory; returns the tensor."""
    def tanh_(input) -> Tensor:
        """As `tanh`, into the tensor's own memory; returns the tensor."""
    def tril_(input, diagonal: builtins.int = 0) -> Tensor:
        """As `tril`, into the tensor's own memory; returns the tensor."""
    def triu_(input, diagonal: builtins.int = 0) -> Tensor:
        """As `triu`, into the tensor's own memory; returns the tensor."""
    def true_divide_(input, other: _Operand) -> Tensor:
        """As `true_divide`, into the tensor's own memory; returns the tensor."""
    def trunc_(input) -> Tensor:
        """As `trunc`, into the tensor's own memory; returns the tensor."""
    def xlogy_(input, other: _Operand) -> Tensor:
        """As `xlogy`, into the tensor's own memory; returns the tensor."""
    @property
    def itemsize(input) -> builtins.int:
        """The bytes of an element."""
    @property
    def nbytes(input) -> builtins.int:
        """The bytes of all elements."""
    @property
    def is_cpu(input) -> builtins.bool:
        """Whether the tensor is on the CPU device."""
    @property
    def is_vulkan(input) -> builtins.bool:
        """Whether the tensor is on a Vulkan device."""
    @property
    def is_cuda(input) -> builtins.bool:
        """False: there are no such tensors in HLX."""
    @property
    def is_sparse(input) -> builtins.bool:
        """False: there are no such tensors in HLX."""
    @property
    def is_quantized(input) -> builtins.bool:
        """False: there are no such tensors in HLX."""
    @property
    def is_mps(input) -> builtins.bool:
        """False: there are no such tensors in HLX."""
    @property
    def T(input) -> Tensor:
        """The tensor with its dimensions in reverse order."""
    @property
    def mT(input) -> Tensor:
        """The tensor with its last two dimensions exchanged."""
    @property
    def mH(input) -> Tensor:
        """The tensor with its last two dimensions exchanged."""
    @property
    def H(input) -> Tensor:
        """The transposed matrix."""
    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: builtins.bool | None = None,
        create_graph: builtins.bool = False,
        inputs: Tensor | collections.abc.Sequence[Tensor] | None = None,
        *,
        shards: builtins.int = 1,
    ) -> None:
        """Adds the gradients of this tensor, weighted by `gradient`, to what the leaves hold."""
    def detach_(self) -> Tensor:
        """Takes the tensor off the tape, and returns it."""
    def with_samples(self, axis: builtins.int = 0) -> Tensor:
        """The same tensor with its samples along an axis, one index each, for `backward` with `shards`."""
    def numpy(self, *, force: builtins.bool = False) -> _Array:
        """The tensor as a NumPy array, which shares the memory of a tensor on the CPU."""
    def torch(self) -> typing.Any:
        """The tensor as a PyTorch tensor on the CPU, which shares the memory of a tensor on the CPU."""
    def __array__(self, dtype: typing.Any = None, copy: builtins.bool | None = None) -> _Array:
        """The tensor for NumPy's functions; a tensor of a GPU is copied to the CPU."""
    def __reduce_ex__(self, protocol: typing.Any) -> typing.Any:
        """What pickle stores: the values, the device and whether a gradient is required."""
    def __deepcopy__(self, memo: builtins.dict[builtins.int, typing.Any]) -> Tensor:
        """A copy of the values; of leaves alone, as the copy has no history."""
    def __array_namespace__(self, /, *, api_version: builtins.str | None = None) -> types.ModuleType:
        """Returns `hlx.array_api`, the namespace of the array API standard."""
    def to_device(self, device: typing.Any, /, *, stream: typing.Any = None) -> Tensor:
        """Copies the tensor to `device`, or returns it if it is there: the standard's name for `Tensor.to`."""
    def __complex__(self, /) -> builtins.complex:
        """The tensor's only element as a Python complex number without an imaginary part."""

@typing.final
class RunWorker:
    def next(self, seconds: builtins.float) -> tuple[builtins.str, builtins.str] | None: ...
    def stop(self) -> None: ...
    def leave(self) -> None: ...
    def progress(self) -> tuple[builtins.int, builtins.int]: ...
    def warnings(self) -> builtins.list[builtins.str]: ...

@typing.final
class EventWriter:
    def __new__(cls, folder: os.PathLike[builtins.str] | builtins.str, step: builtins.int) -> typing.Self: ...
    def append(self, metric: builtins.str) -> None: ...

def start_training(
    file: builtins.str | None,
    values: builtins.str | None,
    changes: collections.abc.Sequence[tuple[builtins.str, builtins.str]],
    data: builtins.str | None,
    run: builtins.str | None,
    runs: builtins.str,
    name: builtins.str,
    resume: builtins.bool,
    device: _Device,
) -> RunWorker: ...
def start_audit(
    run: os.PathLike[builtins.str] | builtins.str,
    stretches: builtins.int | None,
    seed: builtins.str | None,
    key: builtins.str | None,
    out: builtins.str | None,
    data: builtins.str | None,
    micro_batch_size: builtins.int | None,
    device: _Device,
) -> RunWorker: ...
def new_key(path: builtins.str) -> builtins.str: ...
def check_audit(
    certificate: builtins.str,
    run: os.PathLike[builtins.str] | builtins.str,
    key: builtins.str | None,
    data: builtins.str | None,
) -> builtins.str: ...
def start_verification(
    run: os.PathLike[builtins.str] | builtins.str,
    from_step: builtins.int | None,
    to_step: builtins.int | None,
    data: builtins.str | None,
    micro_batch_size: builtins.int | None,
    device: _Device,
) -> RunWorker: ...
def run_config(run: os.PathLike[builtins.str] | builtins.str) -> builtins.str: ...
def run_metrics(run: os.PathLike[builtins.str] | builtins.str) -> builtins.str: ...
def run_chain(run: os.PathLike[builtins.str] | builtins.str) -> tuple[builtins.str, builtins.bool]: ...
def run_checkpoints(run: os.PathLike[builtins.str] | builtins.str) -> builtins.str: ...
def run_facts(run: os.PathLike[builtins.str] | builtins.str) -> builtins.str: ...
def plot_runs(
    runs: collections.abc.Sequence[os.PathLike[builtins.str] | builtins.str],
    title: builtins.str | None,
    target: builtins.float | None,
) -> builtins.str: ...
def digest(tensors: dict[builtins.str, Tensor]) -> builtins.str: ...
def from_dlpack(x: typing.Any, /, *, device: _Device = None, copy: builtins.bool | None = None) -> Tensor: ...
def get_default_device() -> device: ...
def set_default_device(device: _Device) -> None: ...
def initial_seed() -> builtins.int: ...
def manual_seed(seed: builtins.int) -> None: ...
def is_grad_enabled() -> builtins.bool: ...
def train_tokenizer(
    files: collections.abc.Sequence[_Path],
    trainer: _Trainer,
    format: builtins.str | None,
    threads: builtins.int | None,
    progress: _Told,
) -> NativeTokenizer: ...
def characters_tokenizer(
    files: collections.abc.Sequence[_Path], format: builtins.str | None, threads: builtins.int | None
) -> NativeTokenizer: ...
def prepare_texts(
    inputs: collections.abc.Sequence[_Path],
    out: _Path,
    tokenizer: NativeTokenizer,
    *,
    format: builtins.str | None,
    separator: builtins.str | None,
    pair_separator: builtins.str | None,
    chat_template: builtins.str | None,
    date: builtins.str | None,
    begin: builtins.bool | None,
    end: builtins.bool,
    shard_tokens: builtins.int | None,
    threads: builtins.int | None,
    progress: _Told,
) -> TokenShards: ...

# What the package's own modules call, and nobody else.
adaptive_avg_pool2d: collections.abc.Callable[..., typing.Any]
add_scaled: collections.abc.Callable[..., typing.Any]
all: collections.abc.Callable[..., typing.Any]
amax: collections.abc.Callable[..., typing.Any]
amin: collections.abc.Callable[..., typing.Any]
any: collections.abc.Callable[..., typing.Any]
arange: collections.abc.Callable[..., typing.Any]
argmax: collections.abc.Callable[..., typing.Any]
argmin: collections.abc.Callable[..., typing.Any]
argsort: collections.abc.Callable[..., typing.Any]
attention: collections.abc.Callable[..., typing.Any]
autocast_types: collections.abc.Callable[..., typing.Any]
avg_pool2d: collections.abc.Callable[..., typing.Any]
backward: collections.abc.Callable[..., typing.Any]
batch_norm: collections.abc.Callable[..., typing.Any]
batch_norm_by: collections.abc.Callable[..., typing.Any]
become: collections.abc.Callable[..., typing.Any]
bernoulli: collections.abc.Callable[..., typing.Any]
binary: collections.abc.Callable[..., typing.Any]
binary_: collections.abc.Callable[..., typing.Any]
binary_cross_entropy_with_logits: collections.abc.Callable[..., typing.Any]
cat: collections.abc.Callable[..., typing.Any]
check_handle: collections.abc.Callable[..., typing.Any]
chunk: collections.abc.Callable[..., typing.Any]
clamp_max: collections.abc.Callable[..., typing.Any]
clamp_min: collections.abc.Callable[..., typing.Any]
clone: collections.abc.Callable[..., typing.Any]
contiguous: collections.abc.Callable[..., typing.Any]
contract_json: collections.abc.Callable[..., typing.Any]
conv1d: collections.abc.Callable[..., typing.Any]
conv2d: collections.abc.Callable[..., typing.Any]
conv_transpose1d: collections.abc.Callable[..., typing.Any]
conv_transpose2d: collections.abc.Callable[..., typing.Any]
copy_: collections.abc.Callable[..., typing.Any]
cross_entropy_loss: collections.abc.Callable[..., typing.Any]
cumprod: collections.abc.Callable[..., typing.Any]
cumsum: collections.abc.Callable[..., typing.Any]
custom: collections.abc.Callable[..., typing.Any]
default_dtype: collections.abc.Callable[..., typing.Any]
default_state: collections.abc.Callable[..., typing.Any]
detach: collections.abc.Callable[..., typing.Any]
devices: collections.abc.Callable[..., typing.Any]
diagonal: collections.abc.Callable[..., typing.Any]
div_rounded: collections.abc.Callable[..., typing.Any]
dropout: collections.abc.Callable[..., typing.Any]
einsum: collections.abc.Callable[..., typing.Any]
embedding: collections.abc.Callable[..., typing.Any]
embedding_padded: collections.abc.Callable[..., typing.Any]
empty_cache: collections.abc.Callable[..., typing.Any]
epoch_order: collections.abc.Callable[..., typing.Any]
equal: collections.abc.Callable[..., typing.Any]
expand: collections.abc.Callable[..., typing.Any]
eye_of: collections.abc.Callable[..., typing.Any]
finish: collections.abc.Callable[..., typing.Any]
flatten: collections.abc.Callable[..., typing.Any]
flip: collections.abc.Callable[..., typing.Any]
from_safetensors: collections.abc.Callable[..., typing.Any]
full: collections.abc.Callable[..., typing.Any]
gather: collections.abc.Callable[..., typing.Any]
gradients: collections.abc.Callable[..., typing.Any]
group_norm: collections.abc.Callable[..., typing.Any]
gru_scan: collections.abc.Callable[..., typing.Any]
huber_loss: collections.abc.Callable[..., typing.Any]
in_place: collections.abc.Callable[..., typing.Any]
index_add: collections.abc.Callable[..., typing.Any]
index_put: collections.abc.Callable[..., typing.Any]
index_select: collections.abc.Callable[..., typing.Any]
inspect_spirv: collections.abc.Callable[..., typing.Any]
interpolate: collections.abc.Callable[..., typing.Any]
interpolate_by: collections.abc.Callable[..., typing.Any]
isolate: collections.abc.Callable[..., typing.Any]
isolated_zeros: collections.abc.Callable[..., typing.Any]
kl_div: collections.abc.Callable[..., typing.Any]
l1_loss: collections.abc.Callable[..., typing.Any]
layer_norm: collections.abc.Callable[..., typing.Any]
linear: collections.abc.Callable[..., typing.Any]
linspace: collections.abc.Callable[..., typing.Any]
log_softmax: collections.abc.Callable[..., typing.Any]
logsumexp: collections.abc.Callable[..., typing.Any]
lstm_scan: collections.abc.Callable[..., typing.Any]
masked_fill: collections.abc.Callable[..., typing.Any]
masked_select: collections.abc.Callable[..., typing.Any]
matmul: collections.abc.Callable[..., typing.Any]
max_dim: collections.abc.Callable[..., typing.Any]
max_pool2d: collections.abc.Callable[..., typing.Any]
max_pool2d_with_indices: collections.abc.Callable[..., typing.Any]
mean_dim: collections.abc.Callable[..., typing.Any]
memory: collections.abc.Callable[..., typing.Any]
min_dim: collections.abc.Callable[..., typing.Any]
mse_loss: collections.abc.Callable[..., typing.Any]
narrow: collections.abc.Callable[..., typing.Any]
next_epoch: collections.abc.Callable[..., typing.Any]
next_seed: collections.abc.Callable[..., typing.Any]
nll_loss: collections.abc.Callable[..., typing.Any]
norm: collections.abc.Callable[..., typing.Any]
note_counters: collections.abc.Callable[..., typing.Any]
note_fork: collections.abc.Callable[..., typing.Any]
noted_counters: collections.abc.Callable[..., typing.Any]
ones: collections.abc.Callable[..., typing.Any]
open_device: collections.abc.Callable[..., typing.Any]
outer: collections.abc.Callable[..., typing.Any]
own_kernel: collections.abc.Callable[..., typing.Any]
pad: collections.abc.Callable[..., typing.Any]
permute: collections.abc.Callable[..., typing.Any]
prod: collections.abc.Callable[..., typing.Any]
put_contract: collections.abc.Callable[..., typing.Any]
rand: collections.abc.Callable[..., typing.Any]
randint: collections.abc.Callable[..., typing.Any]
randn: collections.abc.Callable[..., typing.Any]
repeat: collections.abc.Callable[..., typing.Any]
repeat_interleave: collections.abc.Callable[..., typing.Any]
repeat_interleave_by: collections.abc.Callable[..., typing.Any]
reshape: collections.abc.Callable[..., typing.Any]
rms_norm: collections.abc.Callable[..., typing.Any]
roll: collections.abc.Callable[..., typing.Any]
rope: collections.abc.Callable[..., typing.Any]
scatter: collections.abc.Callable[..., typing.Any]
scatter_add: collections.abc.Callable[..., typing.Any]
select: collections.abc.Callable[..., typing.Any]
set_autocast: collections.abc.Callable[..., typing.Any]
set_counter: collections.abc.Callable[..., typing.Any]
set_default_dtype: collections.abc.Callable[..., typing.Any]
set_default_state: collections.abc.Callable[..., typing.Any]
set_grad_enabled: collections.abc.Callable[..., typing.Any]
set_timing: collections.abc.Callable[..., typing.Any]
shader_interface: collections.abc.Callable[..., typing.Any]
slice: collections.abc.Callable[..., typing.Any]
smooth_l1_loss: collections.abc.Callable[..., typing.Any]
softmax_dim: collections.abc.Callable[..., typing.Any]
softplus_with: collections.abc.Callable[..., typing.Any]
sort: collections.abc.Callable[..., typing.Any]
split: collections.abc.Callable[..., typing.Any]
squeeze: collections.abc.Callable[..., typing.Any]
stack: collections.abc.Callable[..., typing.Any]
state_digest: collections.abc.Callable[..., typing.Any]
std: collections.abc.Callable[..., typing.Any]
sum_dim: collections.abc.Callable[..., typing.Any]
synchronize: collections.abc.Callable[..., typing.Any]
take_along_dim: collections.abc.Callable[..., typing.Any]
take_timing: collections.abc.Callable[..., typing.Any]
tensor: collections.abc.Callable[..., typing.Any]
to: collections.abc.Callable[..., typing.Any]
to_dtype: collections.abc.Callable[..., typing.Any]
to_safetensors: collections.abc.Callable[..., typing.Any]
topk: collections.abc.Callable[..., typing.Any]
transpose: collections.abc.Callable[..., typing.Any]
tril: collections.abc.Callable[..., typing.Any]
triu: collections.abc.Callable[..., typing.Any]
unary: collections.abc.Callable[..., typing.Any]
unary_: collections.abc.Callable[..., typing.Any]
unflatten: collections.abc.Callable[..., typing.Any]
unfold: collections.abc.Callable[..., typing.Any]
unsqueeze: collections.abc.Callable[..., typing.Any]
var: collections.abc.Callable[..., typing.Any]
view: collections.abc.Callable[..., typing.Any]
where_: collections.abc.Callable[..., typing.Any]
with_samples: collections.abc.Callable[..., typing.Any]
zeros: collections.abc.Callable[..., typing.Any]
__all__ = [
    "ComputeProgram",
    "Conversation",
    "DecodeStream",
    "EventWriter",
    "GeneratedStream",
    "Generator",
    "HookHandle",
    "KvCache",
    "LanguageModel",
    "NativeTokenizer",
    "ObjectStore",
    "OptimizerState",
    "PreparedContract",
    "RecordedGraph",
    "RunWorker",
    "Tensor",
    "TensorIterator",
    "TokenRows",
    "TokenShards",
    "WordCounter",
    "adaptive_avg_pool2d",
    "add_scaled",
    "all",
    "amax",
    "amin",
    "any",
    "arange",
    "argmax",
    "argmin",
    "argsort",
    "attention",
    "autocast_types",
    "avg_pool2d",
    "backward",
    "batch_norm",
    "batch_norm_by",
    "become",
    "bernoulli",
    "binary",
    "binary_",
    "binary_cross_entropy_with_logits",
    "cat",
    "characters_tokenizer",
    "check_audit",
    "check_handle",
    "chunk",
    "clamp_max",
    "clamp_min",
    "clone",
    "contiguous",
    "contract_json",
    "conv1d",
    "conv2d",
    "conv_transpose1d",
    "conv_transpose2d",
    "copy_",
    "cross_entropy_loss",
    "cumprod",
    "cumsum",
    "custom",
    "default_dtype",
    "default_state",
    "detach",
    "device",
    "devices",
    "diagonal",
    "digest",
    "div_rounded",
    "dropout",
    "dtype",
    "einsum",
    "embedding",
    "embedding_padded",
    "empty_cache",
    "epoch_order",
    "equal",
    "expand",
    "eye_of",
    "finish",
    "flatten",
    "flip",
    "from_dlpack",
    "from_safetensors",
    "full",
    "gather",
    "get_default_device",
    "gradients",
    "group_norm",
    "gru_scan",
    "huber_loss",
    "in_place",
    "index_add",
    "index_put",
    "index_select",
    "initial_seed",
    "inspect_spirv",
    "interpolate",
    "interpolate_by",
    "is_grad_enabled",
    "isolate",
    "isolated_zeros",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "linear",
    "linspace",
    "log_softmax",
    "logsumexp",
    "lstm_scan",
    "manual_seed",
    "masked_fill",
    "masked_select",
    "matmul",
    "max_dim",
    "max_pool2d",
    "max_pool2d_with_indices",
    "mean_dim",
    "memory",
    "min_dim",
    "mse_loss",
    "narrow",
    "new_key",
    "next_epoch",
    "next_seed",
    "nll_loss",
    "norm",
    "note_counters",
    "note_fork",
    "noted_counters",
    "ones",
    "open_device",
    "outer",
    "own_kernel",
    "pad",
    "permute",
    "plot_runs",
    "prepare_texts",
    "prod",
    "put_contract",
    "rand",
    "randint",
    "randn",
    "repeat",
    "repeat_interleave",
    "repeat_interleave_by",
    "reshape",
    "rms_norm",
    "roll",
    "rope",
    "run_chain",
    "run_checkpoints",
    "run_config",
    "run_facts",
    "run_metrics",
    "scatter",
    "scatter_add",
    "select",
    "set_autocast",
    "set_counter",
    "set_default_device",
    "set_default_dtype",
    "set_default_state",
    "set_grad_enabled",
    "set_timing",
    "shader_interface",
    "slice",
    "smooth_l1_loss",
    "softmax_dim",
    "softplus_with",
    "sort",
    "split",
    "squeeze",
    "stack",
    "start_audit",
    "start_training",
    "start_verification",
    "state_digest",
    "std",
    "sum_dim",
    "synchronize",
    "take_along_dim",
    "take_timing",
    "tensor",
    "to",
    "to_dtype",
    "to_safetensors",
    "topk",
    "train_tokenizer",
    "transpose",
    "tril",
    "triu",
    "unary",
    "unary_",
    "unflatten",
    "unfold",
    "unsqueeze",
    "var",
    "view",
    "where_",
    "with_samples",
    "zeros",
]
