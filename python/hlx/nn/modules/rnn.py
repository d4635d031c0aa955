"""Recurrent layers and cells."""

import math
from typing import Any

from hlx import errors
from hlx._hlx import Tensor, dtype
from hlx._operations import joining
from hlx._operations._types import Device
from hlx.nn import functional as F
from hlx.nn import init
from hlx.nn.modules import _scans
from hlx.nn.modules._making import parameter
from hlx.nn.modules._packed import Rows
from hlx.nn.modules._scans import Scan, Weights
from hlx.nn.modules.module import Module
from hlx.nn.parameter import Parameter
from hlx.nn.utils.rnn import PackedSequence

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell"]


class RNNBase(Module):
    """What recurrent layers have: layers over one another, each in one direction or both.

    Parameters are drawn uniformly within `1 / sqrt(hidden_size)`.
    """

    input_size: int
    hidden_size: int
    num_layers: int
    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool
    proj_size: int

    #: The sets of weights of a unit, and the states that it has.
    gates = 1
    n_states = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Device = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        self._expect_sizes()
        width = proj_size or hidden_size
        for layer in range(num_layers):
            inputs = width * (2 if bidirectional else 1) if layer else input_size
            for suffix in self._suffixes(layer):
                rows = self.gates * hidden_size
                shapes = {"weight_ih": [rows, inputs], "weight_hh": [rows, width]}
                if bias:
                    shapes |= {"bias_ih": [rows], "bias_hh": [rows]}
                if proj_size:
                    shapes["weight_hr"] = [proj_size, hidden_size]
                for name, shape in shapes.items():
                    self.register_parameter(f"{name}_{suffix}", parameter(shape, 0.0, device, dtype))
        self.reset_parameters()

    def _expect_sizes(self) -> None:
        name = self._get_name()
        for word, value in (("hidden_size", self.hidden_size), ("num_layers", self.num_layers)):
            if value < 1:
                raise errors.ValueError(f"{name}: {word} is {value}, expected at least 1")
        if not 0 <= self.dropout <= 1:
            raise errors.ValueError(f"{name}: dropout is {self.dropout}, expected 0 to 1")
        if self.proj_size and self.n_states == 1:
            raise errors.ValueError(f"{name}: proj_size is {self.proj_size}, expected 0: only an LSTM has projections")
        if not 0 <= self.proj_size < self.hidden_size:
            raise errors.ValueError(
                f"{name}: proj_size is {self.proj_size}, expected below hidden_size, {self.hidden_size}"
            )

    def _suffixes(self, layer: int) -> list[str]:
        return [f"l{layer}", f"l{layer}_reverse"] if self.bidirectional else [f"l{layer}"]

    def reset_parameters(self) -> None:
        """Draws initial values."""
        bound = 1 / math.sqrt(self.hidden_size)
        for one in self.parameters():
            init.uniform_(one, -bound, bound)

    def flatten_parameters(self) -> None:
        """Does nothing: HLX needs no such call."""

    def _weights(self, suffix: str) -> Weights:
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        return Weights(*(self._parameters.get(f"{name}_{suffix}") for name in names))  # type: ignore[arg-type]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        suffixes = [suffix for layer in range(self.num_layers) for suffix in self._suffixes(layer)]
        return [[one for one in self._weights(suffix) if one is not None] for suffix in suffixes]  # type: ignore[misc]

    def _scan(self) -> Scan:
        raise errors.NotImplementedError("RNNBase: a class below says what a unit computes")

    def _run(self, input: Any, states: tuple[Tensor, ...] | None) -> tuple[Any, list[Tensor]]:
        """The outputs in the input's order of dimensions, and the last states [layers directions, B, width]."""
        if isinstance(input, PackedSequence):
            return self._run_packed(input, states)
        x, has_samples = self._samples_first(input)
        first = self._first_states(x.shape[0], has_samples, states)
        y, stacked = self._layers(x, first, None)
        if not has_samples:
            return y.squeeze(0), [state.squeeze(1) for state in stacked]
        return (y if self.batch_first else y.transpose(0, 1)), stacked

    def _run_packed(
        self, input: PackedSequence, states: tuple[Tensor, ...] | None
    ) -> tuple[PackedSequence, list[Tensor]]:
        """The outputs packed as the input, and the last states of each sequence."""
        if input.data.ndim != 2 or input.data.shape[1] != self.input_size or not input.data.shape[0]:
            raise errors.RuntimeError(
                f"{self._get_name()}: the packed input has shape {list(input.data.shape)}, expected "
                f"[sum of lengths, {self.input_size}]"
            )
        rows = Rows(input)
        first = rows.sort(self._first_states(rows.sizes[0], True, states))
        y, stacked = self._layers(rows.rows(), first, rows)
        return rows.pack(y), rows.unsort(stacked)

    def _layers(self, x: Tensor, first: list[Tensor], rows: Rows | None) -> tuple[Tensor, list[Tensor]]:
        """The outputs [B, T, ..] of the last layer, and the last states; `rows` have lengths of their own."""
        scan = self._scan()
        last: list[list[Tensor]] = [[] for _ in range(self.n_states)]
        place = 0
        for layer in range(self.num_layers):
            if layer and self.dropout:
                x = F.dropout(x, self.dropout, self.training)
            outputs = []
            for suffix in self._suffixes(layer):
                reverse = suffix.endswith("_reverse")
                begin = [state[place] for state in first]
                if rows is None:
                    found = scan(x, self._weights(suffix), reverse, begin)
                    ends = [state.select(1, 0 if reverse else x.shape[1] - 1) for state in found]
                else:
                    found = scan(rows.reverse(x) if reverse else x, self._weights(suffix), False, begin)
                    ends = [rows.last(state) for state in found]
                    found = [rows.reverse(found[0])] if reverse else found
                for kept, end in zip(last, ends, strict=True):
                    kept.append(end)
                outputs.append(found[0])
                place += 1
            x = outputs[0] if len(outputs) == 1 else joining.cat(outputs, 2)
        return x, [joining.stack(states) for states in last]

    def _samples_first(self, input: Any) -> tuple[Tensor, bool]:
        name = self._get_name()
        if not isinstance(input, Tensor):
            raise errors.NotImplementedError(f"{name}: the input is {type(input).__name__}, expected a Tensor")
        axes = "[B, T" if self.batch_first else "[T, B"
        time = 1 if input.ndim == 3 and self.batch_first else 0
        if input.ndim not in (2, 3) or input.shape[-1] != self.input_size or input.shape[time] == 0:
            raise errors.RuntimeError(
                f"{name}: the input has shape {list(input.shape)}, expected {axes}, {self.input_size}] or"
                f" [T, {self.input_size}] with T of at least 1"
            )
        if input.ndim == 2:
            return input.unsqueeze(0), False
        return (input if self.batch_first else input.transpose(0, 1)), True

    def _first_states(self, batch: int, has_samples: bool, states: tuple[Tensor, ...] | None) -> list[Tensor]:
        if states is None:
            return []
        rows, found = self.num_layers * (2 if self.bidirectional else 1), []
        widths = (self.proj_size or self.hidden_size, self.hidden_size)
        for word, state, width in zip(("h_0", "c_0"), states, widths, strict=False):
            expected = [rows, batch, width] if has_samples else [rows, width]
            if list(state.shape) != expected:
                raise errors.RuntimeError(
                    f"{self._get_name()}: {word} has shape {list(state.shape)}, expected {expected}"
                )
            found.append(state if has_samples else state.unsqueeze(1))
        return found

    def extra_repr(self) -> str:
        """The sizes, and what is not the default."""
        words = [f"{self.input_size}, {self.hidden_size}"]
        for name, value, usual in (
            ("proj_size", self.proj_size, 0),
            ("num_layers", self.num_layers, 1),
            ("bias", self.bias, True),
            ("batch_first", self.batch_first, False),
            ("dropout", self.dropout, 0.0),
            ("bidirectional", self.bidirectional, False),
        ):
            if value != usual:
                words.append(f"{name}={value}")
        return ", ".join(words)


class RNN(RNNBase):
    """Recurrent layers of `h = tanh(W x + b + U h + c)`, or of relu, over [T, B, I], [B, T, I] or [T, I].

    Returns the hidden states of the last layer at all positions, and the last ones of all layers. A
    `PackedSequence` gives one.

    >>> y, h = hlx.nn.RNN(3, 4, num_layers=2)(hlx.ones(5, 2, 3))
    >>> y.shape, h.shape
    (hlx.Size([5, 2, 4]), hlx.Size([2, 2, 4]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Device = None,
        dtype: dtype | None = None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise errors.ValueError(f"RNN: nonlinearity is {nonlinearity!r}, expected 'tanh' or 'relu'")
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype
        )
        self.nonlinearity = nonlinearity

    def _scan(self) -> Scan:
        return _scans.plain(F.tanh if self.nonlinearity == "tanh" else F.relu)

    def forward(self, input: Tensor | PackedSequence, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        """Computes the outputs and the last states, from first states [layers directions, B, H] or zeros."""
        y, last = self._run(input, None if hx is None else (hx,))
        return y, last[0]


class GRU(RNNBase):
    """Layers of gated recurrent units over [T, B, I], [B, T, I] or [T, I]; gates are r, z, n.

    Returns the hidden states of the last layer at all positions, and the last ones of all layers. A
    `PackedSequence` gives one.

    >>> y, h = hlx.nn.GRU(3, 4, bidirectional=True)(hlx.ones(5, 2, 3))
    >>> y.shape, h.shape
    (hlx.Size([5, 2, 8]), hlx.Size([2, 2, 4]))
    """

    gates = 3

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Device = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype
        )

    def _scan(self) -> Scan:
        return _scans.gru

    def forward(self, input: Tensor | PackedSequence, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        """Computes the outputs and the last states, from first states [layers directions, B, H] or zeros."""
        y, last = self._run(input, None if hx is None else (hx,))
        return y, last[0]


class LSTM(RNNBase):
    """Layers of a long short-term memory over [T, B, I], [B, T, I] or [T, I]; gates are i, f, g, o.

    Returns the hidden states of the last layer at all positions, and the last hidden states and cells of all layers.
    With `proj_size` hidden states are projected to that width. A `PackedSequence` gives one.

    >>> y, (h, c) = hlx.nn.LSTM(3, 4, batch_first=True)(hlx.ones(2, 5, 3))
    >>> y.shape, h.shape, c.shape
    (hlx.Size([2, 5, 4]), hlx.Size([1, 2, 4]), hlx.Size([1, 2, 4]))
    """

    gates = 4
    n_states = 2

    def _scan(self) -> Scan:
        return _scans.lstm

    def forward(
        self, input: Tensor | PackedSequence, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Any, tuple[Tensor, Tensor]]:
        """Computes the outputs and the last states, from first hidden states and cells or zeros."""
        y, last = self._run(input, None if hx is None else tuple(hx))
        return y, (last[0], last[1])


class _Cell(Module):
    input_size: int
    hidden_size: int
    bias: bool

    gates = 1
    weight_ih: Parameter
    weight_hh: Parameter
    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Device = None, dtype: dtype | None = None
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = self.gates * hidden_size
        self.weight_ih = parameter([rows, input_size], 0.0, device, dtype)
        self.weight_hh = parameter([rows, hidden_size], 0.0, device, dtype)
        self.register_parameter("bias_ih", parameter([rows], 0.0, device, dtype) if bias else None)
        self.register_parameter("bias_hh", parameter([rows], 0.0, device, dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws initial values."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0.0
        for one in self.parameters():
            init.uniform_(one, -bound, bound)

    def _step(self, scan: Scan, input: Tensor, states: tuple[Tensor, ...] | None) -> list[Tensor]:
        """One position of a scan, of rows [B, I] or one row [I]."""
        for word, x, width in (("input", input, self.input_size), *(("hx", s, self.hidden_size) for s in states or ())):
            if x.ndim not in (1, 2) or x.shape[-1] != width or x.shape[:-1] != input.shape[:-1]:
                raise errors.RuntimeError(
                    f"{self._get_name()}: {word} has shape {list(x.shape)}, expected [B, {width}] or [{width}]"
                )
        is_one = input.ndim == 1
        begin = [state.unsqueeze(0) if is_one else state for state in states or ()]
        x = input.unsqueeze(0) if is_one else input
        weights = Weights(self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh, None)
        found = [state.squeeze(1) for state in scan(x.unsqueeze(1), weights, False, begin)]
        return [state.squeeze(0) for state in found] if is_one else found

    def extra_repr(self) -> str:
        """The sizes."""
        return f"{self.input_size}, {self.hidden_size}{'' if self.bias else ', bias=False'}"


class RNNCell(_Cell):
    """One step of an `RNN`: `h = tanh(W x + b + U h + c)`, or of relu.

    >>> hlx.nn.RNNCell(3, 4)(hlx.ones(2, 3)).shape
    hlx.Size([2, 4])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Device = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Computes the next hidden state [B, H]."""
        scan = _scans.plain_by_name(self.nonlinearity)
        if scan is None:
            raise errors.RuntimeError(f"RNNCell: nonlinearity is {self.nonlinearity!r}, expected 'tanh' or 'relu'")
        return self._step(scan, input, None if hx is None else (hx,))[0]

    def extra_repr(self) -> str:
        """The sizes."""
        extra = "" if self.nonlinearity == "tanh" else f", nonlinearity={self.nonlinearity}"
        return super().extra_repr() + extra


class GRUCell(_Cell):
    """One step of a `GRU`.

    >>> hlx.nn.GRUCell(3, 4)(hlx.ones(2, 3)).shape
    hlx.Size([2, 4])
    """

    gates = 3

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Computes the next hidden state [B, H]."""
        return self._step(_scans.gru, input, None if hx is None else (hx,))[0]


class LSTMCell(_Cell):
    """One step of an `LSTM`.

    >>> h, c = hlx.nn.LSTMCell(3, 4)(hlx.ones(2, 3))
    >>> h.shape, c.shape
    (hlx.Size([2, 4]), hlx.Size([2, 4]))
    """

    gates = 4

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Computes the next hidden state and cells [B, H]."""
        h, c = self._step(_scans.lstm, input, None if hx is None else tuple(hx))
        return h, c
