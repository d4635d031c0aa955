"""What a run calls while it trains: functions of your own, and the trackers TensorBoard, W&B, Trackio and MLflow.

`hlx.train(config, callbacks=[...])` takes objects of `Callback`, and plain functions of a metric:

>>> losses = []
>>> config = {"model": {"width": 16, "n_layers": 1, "n_heads": 2, "positions": 64},
...           "data": {"format": "ascii_pairs", "count": 40},
...           "train": {"max_steps": 4, "batch_size": 8, "log_every": 1}}
>>> run = hlx.train(config, callbacks=[lambda metrics: losses.append(metrics["loss"])], device="cpu")
>>> len(losses)
4
"""

from hlx.callbacks._base import STOP, Callback, StopTraining
from hlx.callbacks._mlflow import MLflow
from hlx.callbacks._tensorboard import TensorBoard
from hlx.callbacks._trackio import Trackio
from hlx.callbacks._wandb import WandB

__all__ = ["STOP", "Callback", "MLflow", "StopTraining", "TensorBoard", "Trackio", "WandB"]
