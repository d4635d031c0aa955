"""Neural networks: `functional` has the operations."""

from hlx.nn import functional

__all__ = ["functional"]
