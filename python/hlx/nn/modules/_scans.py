"""One direction of a recurrent layer over all positions; 16 bits are computed in f32 and rounded once."""

from collections.abc import Callable
from typing import NamedTuple

from hlx import _hlx
from hlx._hlx import Tensor
from hlx._operations._rounding import rounded_once
from hlx.nn import functional as F


class Weights(NamedTuple):
    """The parameters of a direction: of the input, of the hidden state, their biases, and of the projection."""

    ih: Tensor
    hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None
    hr: Tensor | None


#: Of an input [B, T, I], weights, whether the last position comes first, and first states: the hidden states [B, T, H]
#: and, of an LSTM, the cells.
Scan = Callable[[Tensor, Weights, bool, list[Tensor]], list[Tensor]]


@rounded_once
def _lstm(x: Tensor, weights: list[Tensor | None], reverse: bool, first: list[Tensor]) -> tuple[Tensor, ...]:
    ih, hh, bias_ih, bias_hh, hr = weights
    states = (first[0], first[1]) if first else None
    return tuple(_hlx.lstm_scan(_hlx.linear(x, ih, bias_ih), hh, bias_hh, hr, reverse, states))


@rounded_once
def _gru(x: Tensor, weights: list[Tensor | None], reverse: bool, first: list[Tensor]) -> tuple[Tensor, ...]:
    ih, hh, bias_ih, bias_hh, _ = weights
    return (_hlx.gru_scan(_hlx.linear(x, ih, bias_ih), hh, bias_hh, reverse, first[0] if first else None),)


def lstm(x: Tensor, weights: Weights, reverse: bool, first: list[Tensor]) -> list[Tensor]:
    """Gates i, f, g, o."""
    return list(_lstm(x, list(weights), reverse, first))


def gru(x: Tensor, weights: Weights, reverse: bool, first: list[Tensor]) -> list[Tensor]:
    """Gates r, z, n."""
    return list(_gru(x, list(weights), reverse, first))


def plain(activation: Callable[[Tensor], Tensor]) -> Scan:
    """`h = activation(W x + b + U h + c)`, position by position."""

    @rounded_once
    def steps(x: Tensor, weights: list[Tensor | None], reverse: bool, first: list[Tensor]) -> tuple[Tensor, ...]:
        ih, hh, bias_ih, bias_hh, _ = weights
        inputs = _hlx.linear(x, ih, bias_ih)
        hidden = first[0] if first else _hlx.zeros(x.device, [x.shape[0], inputs.shape[2]], inputs.dtype)
        found: list[Tensor] = []
        n = x.shape[1]
        for position in reversed(range(n)) if reverse else range(n):
            recurrent = _hlx.linear(hidden, hh, bias_hh)
            hidden = activation(_hlx.binary(_hlx.select(inputs, 1, position), recurrent, "add"))
            found.append(hidden)
        return (_hlx.stack(found[::-1] if reverse else found, 1),)

    def scan(x: Tensor, weights: Weights, reverse: bool, first: list[Tensor]) -> list[Tensor]:
        return list(steps(x, list(weights), reverse, first))

    return scan


def plain_by_name(nonlinearity: str) -> Scan | None:
    """The scan of a nonlinearity, None if it has none."""
    return {"tanh": plain(F.tanh), "relu": plain(F.relu)}.get(nonlinearity)
