"""Runs: training by a configuration, the folder that a run leaves, and its verification.

`hlx.train`, `hlx.Run` and `hlx.verify` are the names in the package itself.
"""

from hlx.runs._picture import Picture
from hlx.runs._run import Run
from hlx.runs._table import Table
from hlx.runs._train import train
from hlx.runs._verify import Verification, verify

__all__ = ["Picture", "Run", "Table", "Verification", "train", "verify"]
