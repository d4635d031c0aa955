"""The rules of the optimizers in NumPy, with the bits that `hlx_kernels::optimizer` states.

`ReferenceState` has the interface of `hlx._hlx.OptimizerState`. Statements are those of the kernels
(crates/hlx-kernels/src/optimizer/formulas.rs): each operation is rounded once to float32, and so is `fma`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import hlx

F32 = np.float32
#: How a matrix's shape enters its rate in Muon.
RATES = {
    "original": lambda m, n: math.sqrt(max(1.0, m / n)),
    "match_rms_adamw": lambda m, n: 0.2 * math.sqrt(max(m, n)),
    "spectral_unclamped": lambda m, n: math.sqrt(m / n),
}


def fma(a: Any, b: Any, c: Any) -> np.ndarray:
    """`a b + c`, rounded once to float32."""
    product = np.asarray(a, np.float64) * np.asarray(b, np.float64)  # exact: 48 bits
    c = np.asarray(c, np.float64)
    total = product + c
    part = total - product
    error = (product - (total - part)) + (c - part)
    # Rounded to odd in float64, so that the second rounding sees what the first has cut off.
    bits = np.atleast_1d(total).view(np.int64)
    is_even = (bits & 1) == 0
    moved = np.nextafter(np.atleast_1d(total), np.where(np.atleast_1d(error) > 0, np.inf, -np.inf))
    odd = np.where((np.atleast_1d(error) != 0) & is_even, moved, np.atleast_1d(total))
    return odd.reshape(total.shape).astype(F32)


def power(base: float, exponent: int) -> float:
    """`base^exponent` by squaring."""
    square, result = base, 1.0
    while exponent:
        if exponent & 1:
            result *= square
        square *= square
        exponent >>= 1
    return result


class Numbers:
    """A row of `hlx_kernels::optimizer::Hyper`."""

    def __init__(self, step: int, lr: float, weight_decay: float, **given: Any) -> None:
        momentum, dampening = given.get("momentum", 0.0), given.get("dampening", 0.0)
        beta1, beta2 = given.get("betas", (0.9, 0.999))
        rate = lr * given.get("step_factor", 1.0)
        self.negative_rate = F32(-rate)
        self.momentum = F32(momentum)
        self.weight_decay = F32(weight_decay)
        self.keep = F32(1.0 - lr * weight_decay)
        self.one_minus_beta1 = F32(1.0 - beta1)
        self.beta2 = F32(beta2)
        self.one_minus_beta2 = F32(1.0 - beta2)
        self.negative_step = F32(-rate / (1.0 - power(beta1, step)))
        self.inverse_root = F32(1.0 / math.sqrt(1.0 - power(beta2, step)))
        self.eps = F32(given.get("eps", 0.0))
        self.fresh = F32(1.0 - dampening if step > 1 else 1.0)


def sgd(n: Numbers, settings: dict[str, Any], p: np.ndarray, g: np.ndarray, s: dict[str, np.ndarray]) -> np.ndarray:
    """Gradient descent."""
    d = fma(n.weight_decay, p, g)
    if "momentum" in s:
        s["momentum"] = m = fma(n.momentum, s["momentum"], n.fresh * d)
        d = fma(n.momentum, m, d) if settings["nesterov"] else m
    return fma(n.negative_rate, d, p)


def adam(n: Numbers, settings: dict[str, Any], p: np.ndarray, g: np.ndarray, s: dict[str, np.ndarray]) -> np.ndarray:
    """Adam, or AdamW if `settings` have `decoupled`."""
    decoupled = settings["decoupled"]
    g = g if decoupled else fma(n.weight_decay, p, g)
    kept = n.keep * p if decoupled else p
    s["mean"] = m = fma(n.one_minus_beta1, g - s["mean"], s["mean"])
    s["square"] = v = fma(n.one_minus_beta2 * g, g, n.beta2 * s["square"])
    return fma(n.negative_step, m / fma(np.sqrt(v), n.inverse_root, n.eps), kept)


def adagrad(n: Numbers, settings: dict[str, Any], p: np.ndarray, g: np.ndarray, s: dict[str, np.ndarray]) -> np.ndarray:
    """Adagrad."""
    g = fma(n.weight_decay, p, g)
    s["sum"] = fma(g, g, s["sum"])
    return fma(n.negative_rate, g / (np.sqrt(s["sum"]) + n.eps), p)


def rmsprop(n: Numbers, settings: dict[str, Any], p: np.ndarray, g: np.ndarray, s: dict[str, np.ndarray]) -> np.ndarray:
    """RMSprop, whose alpha is `beta2`."""
    g = fma(n.weight_decay, p, g)
    s["square"] = spread = fma(n.one_minus_beta2 * g, g, n.beta2 * s["square"])
    if "mean" in s:
        s["mean"] = mean = fma(n.one_minus_beta2, g - s["mean"], s["mean"])
        spread = np.maximum(fma(-mean, mean, spread), F32(0))
    d = g / (np.sqrt(spread) + n.eps)
    if "momentum" in s:
        s["momentum"] = d = fma(n.momentum, s["momentum"], d)
    return fma(n.negative_rate, d, p)


def lion(n: Numbers, settings: dict[str, Any], p: np.ndarray, g: np.ndarray, s: dict[str, np.ndarray]) -> np.ndarray:
    """Lion."""
    change = g - s["mean"]
    u = fma(n.one_minus_beta1, change, s["mean"])
    s["mean"] = fma(n.one_minus_beta2, change, s["mean"])
    return fma(n.negative_rate, np.sign(u), n.keep * p)


def muon(n: Numbers, settings: dict[str, Any], p: np.ndarray, g: np.ndarray, s: dict[str, np.ndarray]) -> np.ndarray:
    """Muon of one matrix; products and the norm are HLX's own operations."""
    s["mean"] = m = fma(n.one_minus_beta1, g - s["mean"], s["mean"])
    u = fma(n.momentum, m - g, g) if settings["nesterov"] else m
    norm = hlx.tensor(u.ravel()).norm().clamp(min=settings["eps"])
    x = (hlx.tensor(u) / norm).numpy().copy()
    a, b, c = (F32(value) for value in settings["ns_coefficients"])
    product = lambda left, right: (hlx.tensor(left.copy()) @ hlx.tensor(right.copy())).numpy().copy()  # noqa: E731
    is_wide = x.shape[0] <= x.shape[1]
    for _ in range(settings["ns_steps"]):
        gram = product(x, x.T) if is_wide else product(x.T, x)
        t = fma(c, product(gram, gram), b * gram)
        x = fma(F32(1), product(t, x) if is_wide else product(x, t), a * x)
    return fma(n.negative_rate, x, n.keep * p)


RULES = {"SGD": sgd, "Adam": adam, "AdamW": adam, "Adagrad": adagrad, "RMSprop": rmsprop, "Lion": lion, "Muon": muon}


def buffers(kind: str, settings: dict[str, Any]) -> dict[str, float]:
    """The names of a rule's buffers and what they begin with."""
    if kind == "SGD":
        return {"momentum": 0.0} if settings["momentum"] else {}
    if kind == "RMSprop":
        optional = {"momentum": settings["momentum"], "mean": settings["centered"]}
        return dict.fromkeys(["square", *(name for name, chosen in optional.items() if chosen)], 0.0)
    if kind == "Adagrad":
        return {"sum": settings["initial_accumulator_value"]}
    return {"mean": 0.0} if kind == "Lion" else {"mean": 0.0, "square": 0.0}


class ReferenceState:
    """`hlx._hlx.OptimizerState` in NumPy."""

    def __init__(self, kind: str, parameters: list[Any], settings: dict[str, Any], groups: list[Any]) -> None:
        self.kind, self.parameters, self.settings = kind, parameters, settings
        self.group_of = {index: number for number, group in enumerate(groups) for index in group["parameters"]}
        self.steps = 0
        begins = buffers(kind, settings)
        self.tensors = [
            {name: np.full(tuple(p.shape), value, F32) for name, value in begins.items()} for _, p in parameters
        ]

    def step(self, lr: float, settings: dict[str, Any], groups: list[tuple[float, float]]) -> None:
        """Updates all parameters."""
        for name, p in self.parameters:
            if p.grad is None:
                raise hlx.errors.RuntimeError(f"optimizer step: parameter {name} has no gradient")
        self.steps += 1
        for index, (name, p) in enumerate(self.parameters):
            factor, decay = groups[self.group_of[index]]
            rule, given, rate = self._rule(name, p, settings, lr)
            numbers = Numbers(self.steps, rate * factor, decay, **given)
            values = p.detach().cpu().numpy().copy(), p.grad.cpu().numpy().copy()
            updated = rule(numbers, given, *values, self.tensors[index])
            with hlx.no_grad():
                p.copy_(hlx.tensor(updated, device=p.device))

    def _rule(self, name: str, p: hlx.Tensor, settings: dict[str, Any], lr: float) -> Any:
        """The rule of a parameter, its settings and its rate."""
        kind, given = self.kind, {**settings, "decoupled": self.kind != "Adam"}
        del given["weight_decay"]  # a number of the group
        if kind == "Adagrad":
            lr /= 1.0 + (self.steps - 1) * settings["lr_decay"]
        if kind == "RMSprop":
            given["betas"] = (0.9, settings["alpha"])
        if kind == "Muon":
            if p.ndim != 2 or name in settings["adamw_parameters"]:
                own = {"betas": settings["adamw_betas"], "eps": settings["adamw_eps"], "decoupled": True}
                return adam, own, lr * settings["adamw_lr_factor"]
            given["step_factor"] = RATES[settings["adjust_lr_fn"]](*p.shape)
            given["betas"] = (settings["momentum"], 0.999)
        return RULES[kind], given, lr

    def zero_grad(self) -> None:
        """Removes all gradients."""
        for _, p in self.parameters:
            p.grad = None

    def state(self) -> dict[str, hlx.Tensor]:
        """Copies of the state."""
        named = zip(self.parameters, self.tensors, strict=True)
        found = {f"{buffer}/{name}": hlx.tensor(value) for (name, _), own in named for buffer, value in own.items()}
        return dict(sorted(found.items()))

    def load_state(self, tensors: dict[str, hlx.Tensor], step: int) -> None:
        """Restores a whole state."""
        for (name, _), own in zip(self.parameters, self.tensors, strict=True):
            for buffer in own:
                own[buffer] = tensors[f"{buffer}/{name}"].cpu().numpy().copy()
        self.steps = step

    def clip_grad_norm_(self, max_norm: float) -> hlx.Tensor:
        """Scales all gradients."""
        joined = hlx.cat([p.grad.detach().reshape(-1) for _, p in self.parameters])
        norm = joined.norm()
        factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
        for _, p in self.parameters:
            p.grad = p.grad * factor
        return norm
