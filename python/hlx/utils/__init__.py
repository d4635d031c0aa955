"""Helpers beside tensors and layers: `data` has data sets and loaders."""

from hlx.utils import data

__all__ = ["data"]
