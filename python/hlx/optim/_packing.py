"""State dicts in PyTorch's form: parameters are numbered through all groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hlx import errors
from hlx._hlx import Tensor


def packed(state: Mapping[Tensor, dict[str, Any]], groups: list[dict[str, Any]]) -> dict[str, Any]:
    """The state by places, and the groups with places for their parameters."""
    places: dict[int, int] = {}
    packed_groups = []
    for group in groups:
        own = [places.setdefault(id(parameter), len(places)) for parameter in group["params"]]
        packed_groups.append({**group, "params": own})
    by_place = {places[id(key)] if isinstance(key, Tensor) else key: dict(value) for key, value in state.items()}
    return {"state": by_place, "param_groups": packed_groups}


def unpacked(
    name: str, saved: Mapping[str, Any], groups: list[dict[str, Any]], moves: bool = True
) -> tuple[dict[Any, dict[str, Any]], list[dict[str, Any]]]:
    """The state by parameters, on their devices if it `moves`, and the saved groups with the present parameters."""
    for part in ("state", "param_groups"):
        if part not in saved:
            raise errors.ValueError(f"{name}.load_state_dict: {part} is missing")
    found = [len(group["params"]) for group in saved["param_groups"]]
    expected = [len(group["params"]) for group in groups]
    if found != expected:
        raise errors.ValueError(
            f"{name}.load_state_dict: the groups have {found} parameters, expected those of this optimizer: {expected}"
        )
    parameters: dict[Any, Tensor] = {}
    new_groups = []
    for saved_group, group in zip(saved["param_groups"], groups, strict=True):
        parameters.update(zip(saved_group["params"], group["params"], strict=True))
        own = {key: group[key] for key in ("params", "param_names") if key in group}
        # A number that the saved optimizer did not have stays what it is.
        new_groups.append({**group, **saved_group, **own})
    state: dict[Any, dict[str, Any]] = {}
    for key, value in saved["state"].items():
        if key in parameters:
            state[parameters[key]] = _fitted(name, key, dict(value), parameters[key], moves)
        else:
            state[key] = dict(value)
    return state, new_groups


def _fitted(name: str, key: Any, value: dict[str, Any], parameter: Tensor, moves: bool) -> dict[str, Any]:
    """A parameter's state, except for counts in its dtype, and on its device if it moves."""
    shape, dtype, device = parameter.shape, parameter.dtype, parameter.device
    for part, tensor in value.items():
        if not isinstance(tensor, Tensor) or part == "step":
            continue
        if tensor.shape != shape and tensor.numel() != 1:
            found, expected = list(tensor.shape), list(shape)
            raise errors.ValueError(
                f"{name}.load_state_dict: {part} of parameter {key} has shape {found}, expected {expected}"
            )
        if moves and tensor.device != device:
            tensor = tensor.to(device)
        if tensor.dtype != dtype and tensor.dtype.is_floating_point:
            tensor = tensor.to(dtype)
        value[part] = tensor
    return value
