"""`hlx.save` and `hlx.load`: checkpoints, PyTorch's too."""

import collections
import hashlib
import io
import pickle
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

import hlx
from hlx import nn

TYPES = [hlx.float32, hlx.float16, hlx.bfloat16, hlx.int32, hlx.uint32, hlx.int8, hlx.uint8, hlx.bool]


def saved(value: Any) -> bytes:
    """The bytes of a checkpoint."""
    file = io.BytesIO()
    hlx.save(value, file)
    return file.getvalue()


def again(value: Any) -> Any:
    """A value, saved and loaded."""
    return hlx.load(io.BytesIO(saved(value)))


VALUES = [
    None,
    True,
    [0, 255, 256, 65536, -1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63, -(2**63), 2**300, -(2**2100)],
    [0.0, -1.5, 1e308, float("inf")],
    ["", "text", "häß\U0001f600", "\n\t\\'", "x" * 70000],
    [b"", b"\x00\xff bytes"],
    {"a": (1, (2, [3])), 4: {}, (5, "b"): [], None: set()},
    {1, 2, 3},
    collections.OrderedDict([("b", 1), ("a", 2)]),
    collections.Counter("hello"),
    [hlx.Size([2, 3]), hlx.float16, hlx.device("cpu"), hlx.device("vulkan:3")],
    {str(i): i for i in range(300)},
]


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_what_is_no_tensor_comes_back(value: Any) -> None:
    """With its types, and in its order."""
    found = again(value)
    assert found == value
    assert type(found) is type(value)
    assert repr(found) == repr(value)


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_tensors_come_back(kind: hlx.dtype, device: hlx.device) -> None:
    """Types, shapes, values and the flag of a gradient, from every device and order in memory."""
    x = hlx.tensor([[1, 0, 3], [0, 5, 100]], device=device).to(kind)
    for tensor in (x, x.t(), x[:, 1:], x[0, 0], x[:, :0], x[None]):
        found = again({"x": tensor})["x"]
        assert (found.dtype, found.shape, found.tolist()) == (kind, tensor.shape, tensor.tolist())
        assert found.device == hlx.device("cpu")
    if kind.is_floating_point:
        assert again(x.requires_grad_()).requires_grad
    assert hlx.load(io.BytesIO(saved(x)), map_location=device).device == device


def test_training_goes_on_where_it_was_saved(device: hlx.device, tmp_path: Path) -> None:
    """A run that is interrupted has the bits of one that is not."""

    def begun() -> tuple[nn.Module, hlx.optim.Optimizer, Any]:
        hlx.manual_seed(1)
        model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)).to(device)
        optimizer = hlx.optim.AdamW(model.parameters(), lr=1e-2)
        return model, optimizer, hlx.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)

    def go_on(model: nn.Module, optimizer: Any, scheduler: Any, steps: range) -> str:
        for step in steps:
            x = hlx.full((4, 3), float(step), device=device) * hlx.arange(12, device=device).reshape(4, 3)
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
            scheduler.step()
        return model.digest()

    expected = go_on(*begun(), range(6))
    model, optimizer, scheduler = begun()
    go_on(model, optimizer, scheduler, range(3))
    file = tmp_path / "checkpoint.pt"
    hlx.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}, file
    )
    model, optimizer, scheduler = begun()
    checkpoint = hlx.load(file, map_location=device)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    scheduler.load_state_dict(checkpoint["scheduler"])
    assert go_on(model, optimizer, scheduler, range(3, 6)) == expected


def test_what_is_one_object_stays_one() -> None:
    """Lists and tensors that occur twice, parameters, and tied weights."""
    shared, x = [1], hlx.ones(3)
    layer = nn.Linear(4, 4, bias=False)
    found = again({"lists": [shared, shared], "x": [x, x], "parameter": layer.weight, "state": layer.state_dict()})
    assert found["lists"][0] is found["lists"][1]
    assert found["x"][0] is found["x"][1]
    assert isinstance(found["parameter"], nn.Parameter)
    found["parameter"].detach().fill_(7.0)
    assert found["state"]["weight"].tolist() == [[7.0] * 4] * 4
    tied, untied = saved([layer.weight, layer.weight.detach()]), saved([layer.weight, layer.weight.detach().clone()])
    assert len(untied) - len(tied) > 64
    several: list[Any] = [1]
    several.append(several)
    assert again(several)[1][1][0] == 1


def test_equal_objects_have_equal_files(device: hlx.device) -> None:
    """On every device, at any time."""
    value = {"w": hlx.arange(6.0, device=device).reshape(2, 3), "step": 3, "names": ["a", "b"]}
    digest = hashlib.sha256(saved(value)).hexdigest()
    assert digest == "d53f5dc9007d9d5b726a9a7d429b5421fc2f16615239b522bf9dd60d911bf13a"


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    """What fails leaves the file that was there, and nothing beside it."""
    file = tmp_path / "checkpoint.pt"
    hlx.save({"a": 1}, file)
    with pytest.raises(hlx.errors.TypeError):
        hlx.save({"a": object()}, file)
    assert hlx.load(str(file)) == {"a": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["checkpoint.pt"]
    with pytest.raises(FileNotFoundError):
        hlx.load(tmp_path / "none.pt")
    with pytest.raises(FileNotFoundError):
        hlx.save(1, tmp_path / "none" / "checkpoint.pt")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"model": nn.Linear(1, 1)}, r"save: obj\['model'\] is a Linear, expected tensors, numbers"),
        ([1, {"f": [len]}], r"save: obj\[1\]\['f'\]\[0\] is a builtin_function_or_method, expected"),
        (1j, r"save: obj is a complex, expected"),
    ],
)
def test_what_is_not_written_is_one_line(value: Any, text: str) -> None:
    """With its place."""
    with pytest.raises(hlx.errors.TypeError, match=f"^{text}"):
        saved(value)


def test_a_tuple_that_contains_itself_is_refused() -> None:
    """It cannot be written before it is complete."""
    inner: list[Any] = []
    value = (inner,)
    inner.append(value)
    with pytest.raises(hlx.errors.ValueError, match=r"^save: obj\[0\]\[0\] contains itself"):
        saved(value)


def archive_of(pickled: bytes, **records: bytes) -> io.BytesIO:
    """A file with these records."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in {"data.pkl": pickled, **records}.items():
            archive.writestr(f"archive/{name}", data)
    file.seek(0)
    return file


class Harmful:
    """Runs something when it is unpickled."""

    def __reduce__(self) -> Any:
        return print, ("harm",)


def test_nothing_in_a_file_is_executed(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither functions nor classes, whatever they are called."""
    for value, name in [(Harmful(), "__builtin__.print|builtins.print"), (Path("/"), "pathlib"), (1j, "complex")]:
        for protocol in (2, 4):
            with pytest.raises(hlx.errors.ValueError, match=rf"^load: the file: it holds a \S*({name})"):
                hlx.load(archive_of(pickle.dumps({"x": value}, protocol=protocol)))
    assert capsys.readouterr().out == ""
    with pytest.raises(hlx.errors.NotImplementedError, match="^load: weights_only is False"):
        hlx.load(io.BytesIO(saved(1)), weights_only=False)


def test_damaged_files_are_errors_of_one_line() -> None:
    """Every cut, and every byte of the pickle that is changed, gives an error or a value, never anything else."""
    whole = saved({"w": hlx.ones(2, 3), "n": [1, 2.5, "x"], "t": hlx.ones(4).to(hlx.float16)})
    for end in range(0, len(whole), 7):
        with pytest.raises(hlx.Error):
            hlx.load(io.BytesIO(whole[:end]))
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        records = {name.removeprefix("archive/"): archive.read(name) for name in archive.namelist()}
    pickled = records.pop("data.pkl")
    errors = set()
    for place in range(len(pickled)):
        for bit in (1, 16, 128):
            changed = bytearray(pickled)
            changed[place] ^= bit
            try:
                hlx.load(archive_of(bytes(changed), **records))
            except hlx.Error as error:
                assert "\n" not in str(error)
                errors.add(re.sub(r"\d+", "N", str(error))[:40])
    assert len(errors) > 5


def test_files_that_are_none() -> None:
    """Each says what it is."""
    for file, text in [
        (io.BytesIO(pickle.dumps({"a": 1})), "the file is no checkpoint, or one from before PyTorch 1.6"),
        (archive_of(saved(1)[:0], version=b"3"), "the file: its pickle is damaged"),
        (archive_of(b"", **{"constants.pkl": b""}), "the file: it is a TorchScript archive"),
        (archive_of(b"", byteorder=b"big"), "the file: it was written on a big-endian machine"),
    ]:
        with pytest.raises(hlx.errors.ValueError, match=f"^load: {text}"):
            hlx.load(file)
    with pytest.raises(hlx.errors.TypeError, match="^load: map_location is a function"):
        hlx.load(io.BytesIO(saved(1)), map_location=lambda storage, place: storage)


def test_pytorch_reads_and_writes_the_same_files() -> None:
    """Every type, views of all kinds, parameters and optimizers, both ways."""
    torch = pytest.importorskip("torch")
    kinds = [str(kind).removeprefix("hlx.") for kind in TYPES]
    value = {kind: hlx.tensor([[1, 0, 3]]).to(getattr(hlx, kind)) for kind in kinds}
    value |= {"parameter": nn.Parameter(hlx.ones(2)), "size": hlx.Size([1, 2]), "type": hlx.bfloat16, "bytes": b"\xff"}
    value |= {"device": hlx.device("cpu"), "empty": hlx.zeros(0, 3), "one": hlx.tensor(2.5), "set": {1}}
    value |= {"ordered": collections.OrderedDict(a=1), "counter": collections.Counter("ab")}
    found = torch.load(io.BytesIO(saved(value)), weights_only=True)
    for kind in kinds:
        assert found[kind].dtype == getattr(torch, kind)
        assert found[kind].tolist() == value[kind].tolist()
    assert isinstance(found["parameter"], torch.nn.Parameter)
    assert (found["size"], found["type"], found["bytes"]) == (torch.Size([1, 2]), torch.bfloat16, b"\xff")
    assert (found["empty"].shape, found["one"].item(), found["counter"]) == ((0, 3), 2.5, {"a": 1, "b": 1})

    base = torch.arange(24.0)
    theirs = {
        "permuted": base.reshape(2, 3, 4).permute(2, 0, 1),
        "part": base[3:9],
        "steps": base.reshape(4, 6)[::2, 1::2],
        "expanded": base[:1].expand(3),
        "long": torch.tensor([1, -2]),
        "double": torch.tensor([1.5], dtype=torch.float64),
        "unsigned": torch.tensor([65535], dtype=torch.uint16),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "types": [torch.float64, torch.float32],
        "place": torch.device("cuda:0"),
    }
    file = io.BytesIO()
    torch.save(theirs, file)
    ours = hlx.load(file)
    for name in ("permuted", "part", "steps", "expanded", "long", "double", "unsigned", "parameter"):
        assert ours[name].tolist() == theirs[name].tolist(), name
    assert ours["long"].dtype == hlx.int32
    assert (ours["types"], ours["place"]) == ([hlx.float64, hlx.float32], "cuda:0")
    ours["part"].fill_(0.0)
    assert ours["permuted"].sum().item() == float(base.sum() - base[3:9].sum())

    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    checkpoint = hlx.load(file)
    other = nn.Linear(2, 2)
    other.load_state_dict(checkpoint["model"])
    assert other.weight.tolist() == model.weight.tolist()
    hlx.optim.AdamW(other.parameters()).load_state_dict(checkpoint["optimizer"])
    too_large = io.BytesIO()
    torch.save(torch.tensor([2**40]), too_large)
    with pytest.raises(hlx.errors.ValueError, match="^load: the file: "):
        hlx.load(too_large)
