"""What the callbacks of trackers have in common: names of curves, and libraries that may be missing."""

from __future__ import annotations

import importlib
import math
from typing import Any

from hlx.callbacks._base import Callback

__all__ = ["Forward", "curves", "finite", "flat", "library"]

#: Keys of a metric that are no curve.
_NO_CURVES = {"kind", "step", "split", "n_bytes", "n_tokens", "n_images"}
#: Curves of the time, apart from those of the training.
_OF_TIME = {"ms_per_step", "tokens_per_second", "images_per_second", "share_of_peak", "memory_bytes"}


def library(callback: str, name: str, package: str) -> Any:
    """Imports a tracker's library.

    Raises ModuleNotFoundError with what to install.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        text = f"hlx.callbacks.{callback}: the library {name} is missing: pip install {package}"
        raise ModuleNotFoundError(text, name=name) from error


def curves(metrics: dict[str, Any]) -> dict[str, float]:
    """A metric's numbers by the names of their curves: `train/loss`, `eval/loss`, `time/ms_per_step`.

    Those of the training samples are below `eval_train`. Numbers that are not finite stay.
    """
    group = "train"
    if "split" in metrics:
        group = "eval" if metrics["split"] == "held_out" else "eval_train"
    found = {}
    for name, value in metrics.items():
        if name in _NO_CURVES or isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        is_of_time = name in _OF_TIME or name.startswith("exchange_")
        found[f"time/{name}" if is_of_time else f"{group}/{name}"] = float(value)
    return found


def flat(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """A configuration with dotted keys: `train.learning_rate`."""
    found = {}
    for name, value in config.items():
        if isinstance(value, dict):
            found.update(flat(value, f"{prefix}{name}."))
        else:
            found[prefix + name] = value
    return found


class Forward(Callback):
    """Sends curves to a tracker: `send` gets each metric's numbers."""

    def send(self, numbers: dict[str, float], step: int) -> None:
        """Hands numbers of a step over."""
        raise NotImplementedError

    def on_step(self, metrics: dict[str, Any]) -> None:
        """Sends the numbers of a log period."""
        self.send(curves(metrics), metrics["step"])

    def on_evaluation(self, metrics: dict[str, Any]) -> None:
        """Sends the numbers of an evaluation."""
        self.send(curves(metrics), metrics["step"])


def finite(numbers: dict[str, float]) -> dict[str, float]:
    """The numbers that are finite, for trackers that refuse others."""
    return {name: value for name, value in numbers.items() if math.isfinite(value)}
