"""Checkpoints: `save` writes tensors in containers to a file, `load` reads them; the files are PyTorch's."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
import zlib
from collections.abc import Mapping
from typing import IO, Any

from hlx import _hlx, errors
from hlx._checkpoint_reader import Reader
from hlx._checkpoint_writer import Writer
from hlx._hlx import device

__all__ = ["load", "save"]

File = str | os.PathLike[str] | IO[bytes]


def save(obj: Any, f: File) -> None:
    """Writes a checkpoint that `hlx.load` and `torch.load` read: tensors, numbers, texts, and containers of these.

    Containers are lists, tuples, sets and dicts; what occurs twice is one object again after loading, and tensors
    that share all their memory on the CPU (tied parameters) share it again. `f` is a path, whose file appears when it
    is complete, or a binary file. Equal objects give equal files. Raises TypeError for anything else, with its place:
    of a module or an optimizer save the `state_dict()`.

    >>> hlx.save({"w": hlx.ones(2), "step": 3, "lr": [0.1]}, "checkpoint.pt")
    >>> hlx.load("checkpoint.pt")
    {'w': tensor([1., 1.]), 'step': 3, 'lr': [0.1]}
    """
    writer = Writer()
    data = writer.finished(obj)
    records = {"data.pkl": data, "byteorder": b"little"}
    records |= {f"data/{i}": storage for i, storage in enumerate(writer.storages)}
    records |= {"version": b"3\n"}
    if not isinstance(f, str | os.PathLike):
        _write(records, f)
        return
    path = os.fspath(f)
    partial = f"{path}.{os.getpid()}.part"
    try:
        with open(partial, "wb") as file:
            _write(records, file)
        os.replace(partial, path)
    except OSError as error:
        if os.path.exists(partial):
            os.unlink(partial)
        raise type(error)(error.errno, error.strerror, path) from None


def _write(records: dict[str, bytes], file: IO[bytes]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, data in records.items():
            # Without the time and the system, so that equal objects have equal files.
            info = zipfile.ZipInfo(f"archive/{name}")
            info.create_system = 3
            archive.writestr(info, data)


def load(
    f: File, map_location: device | str | Mapping[str, device | str] | None = None, *, weights_only: bool = True
) -> Any:
    """Reads a checkpoint that `hlx.save` or `torch.save` has written.

    It makes tensors, numbers, texts and containers, and executes nothing, so that a file from elsewhere can be read.
    All tensors come to `map_location`, or to the default device if that is left out; a dict names the device by the
    place where PyTorch had the tensor (`{"cuda:0": "vulkan"}`). int64 becomes int32 with a check, float64 is rounded
    to float32. Raises ValueError for a file that is none, or that holds anything else, such as a whole module.

    >>> model = hlx.nn.Linear(2, 1)
    >>> hlx.save({"model": model.state_dict(), "epoch": 5}, "checkpoint.pt")
    >>> checkpoint = hlx.load("checkpoint.pt", map_location="cpu")
    >>> model.load_state_dict(checkpoint["model"])
    <All keys matched successfully>
    >>> checkpoint["epoch"]
    5
    """
    if not weights_only:
        raise errors.NotImplementedError("load: weights_only is False, expected True: nothing in a file is executed")
    if callable(map_location):
        raise errors.TypeError("load: map_location is a function, expected a device or a dict of devices")
    if not isinstance(f, str | os.PathLike):
        return _read(f, "the file", map_location)
    with open(f, "rb") as file:
        return _read(file, os.fspath(f), map_location)


def _read(file: IO[bytes], name: str, map_location: Any) -> Any:
    try:
        with zipfile.ZipFile(file) as archive:
            return _object(archive, map_location)
    except zipfile.BadZipFile:
        raise errors.ValueError(
            f"load: {name} is no checkpoint, or one from before PyTorch 1.6; expected a zip file of `save`"
        ) from None
    except errors.ValueError as error:
        raise errors.ValueError(f"load: {name}: {error}") from None
    except (pickle.UnpicklingError, EOFError, LookupError, TypeError, ValueError, AttributeError, zlib.error) as error:
        if isinstance(error, errors.Error):
            raise
        raise errors.ValueError(f"load: {name}: its pickle is damaged ({type(error).__name__}: {error})") from None


def _object(archive: zipfile.ZipFile, map_location: Any) -> Any:
    names = archive.namelist()
    found = next((name for name in names if name == "data.pkl" or name.endswith("/data.pkl")), None)
    if found is None:
        raise errors.ValueError("no data.pkl in it, expected a checkpoint")
    folder = found.removesuffix("data.pkl")
    if f"{folder}constants.pkl" in names:
        raise errors.ValueError("it is a TorchScript archive, expected a checkpoint of `save`")
    if f"{folder}byteorder" in names and archive.read(f"{folder}byteorder") != b"little":
        raise errors.ValueError("it was written on a big-endian machine, expected little-endian")

    def storage(key: str) -> bytes:
        record = f"{folder}data/{key}"
        if record not in names:
            raise errors.ValueError(f"storage {key} is missing")
        return archive.read(record)

    def place(location: str) -> Any:
        chosen = map_location.get(location) if isinstance(map_location, Mapping) else map_location
        return _hlx.get_default_device() if chosen is None else chosen

    return Reader(io.BytesIO(archive.read(found)), storage, place).load()
