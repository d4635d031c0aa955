"""Runs: training by a configuration, the folder that a run leaves, and its verification."""

from hlx._runs._run import Run
from hlx._runs._train import train
from hlx._runs._verify import Verification, verify

__all__ = ["Run", "Verification", "train", "verify"]
