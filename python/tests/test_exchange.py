"""Values from and to other libraries."""

import array
import ctypes
from pathlib import Path

import numpy
import pytest

import hlx

TYPES = [
    (hlx.float32, "float32"),
    (hlx.float16, "float16"),
    (hlx.int32, "int32"),
    (hlx.uint32, "uint32"),
    (hlx.int8, "int8"),
    (hlx.uint8, "uint8"),
    (hlx.bool, "bool"),
]


@pytest.mark.parametrize(("kind", "name"), TYPES)
def test_numpy_has_the_values_of_every_type(device: hlx.device, kind: hlx.dtype, name: str) -> None:
    """There and back, of strided tensors too."""
    x = hlx.tensor([[0, 1, 2], [3, 4, 5]], dtype=kind, device=device).T
    there = numpy.asarray(x)
    assert (there.dtype, there.tolist()) == (numpy.dtype(name), x.tolist())
    back = hlx.tensor(there, device=device)
    assert (back.dtype, back.digest()) == (kind, x.contiguous().digest())


def test_numpy_shares_the_memory_of_the_cpu() -> None:
    """What is written on one side is read on the other, through views too."""
    x = hlx.zeros(2, 3)
    shared = x.T.numpy()
    shared[2, 1] = 5
    x[0, 0] = 7
    assert (x[1, 2].item(), shared[0, 0]) == (5.0, 7.0)
    assert numpy.shares_memory(shared, numpy.asarray(x))
    del x
    assert shared.sum() == 12.0


def test_arrays_of_other_widths() -> None:
    """16 and 64 bits are narrowed with a check, float64 needs a type to be named."""
    for name in ("int16", "uint16", "int64", "uint64"):
        assert hlx.tensor(numpy.array([1, 2], dtype=name)).dtype == hlx.int32
    with pytest.raises(ValueError, match="^tensor: 4294967296 does not fit into int32$"):
        hlx.tensor(numpy.array([2**32]))
    with pytest.raises(TypeError, match="^tensor: HLX has no float64; use dtype=hlx.float32$"):
        hlx.tensor(numpy.array([0.5]))
    assert hlx.tensor(numpy.array([0.1]), dtype=hlx.float32).item() == numpy.float32(0.1)
    assert hlx.tensor(numpy.array([2**40]), dtype=hlx.float32).item() == 2.0**40
    with pytest.raises(TypeError, match=r'^tensor: elements of format "Zd" and 16 bytes have no type in HLX$'):
        hlx.tensor(numpy.array([1j]))
    assert hlx.tensor(numpy.arange(6, dtype="int32").reshape(2, 3)[::-1, ::2]).tolist() == [[3, 5], [0, 2]]
    assert hlx.tensor(numpy.float32(2.5)).shape == ()
    assert hlx.tensor([numpy.float32(0.5), numpy.int64(2)]).tolist() == [0.5, 2.0]
    assert (hlx.ones(1) * numpy.float32(3)).tolist() == [3.0]


def test_buffers_of_python() -> None:
    """Anything with the buffer protocol is data, and a tensor has it."""
    assert hlx.tensor(array.array("i", [1, 2, 3])).tolist() == [1, 2, 3]
    assert hlx.tensor((ctypes.c_float * 2)(0.5, 1.5)).tolist() == [0.5, 1.5]
    view = memoryview(hlx.arange(6).reshape(2, 3))
    assert (view.format, view.shape, view.strides, view.tolist()) == ("i", (2, 3), (12, 4), [[0, 1, 2], [3, 4, 5]])
    strided = memoryview(hlx.arange(6).reshape(2, 3).T)
    assert strided.strides == (4, 12)
    assert bytes(hlx.tensor([1, 2], dtype=hlx.uint8)) == b"\1\2"
    assert bytearray(hlx.zeros(0)) == b""


def test_what_cannot_be_shared_is_refused(device: hlx.device) -> None:
    """Each refusal is one line that says what helps."""
    x = hlx.ones(2, requires_grad=True)
    with pytest.raises(BufferError, match="^buffer: the tensor requires a gradient; use x.detach()"):
        memoryview(x)
    with pytest.raises(BufferError, match="^buffer: there is no code for bfloat16; use x.float()"):
        memoryview(hlx.ones(2, dtype=hlx.bfloat16))
    with pytest.raises(hlx.Error, match="^numpy: the tensor requires a gradient"):
        x.numpy()
    with pytest.raises(TypeError, match="^numpy: NumPy has no bfloat16"):
        hlx.ones(1, dtype=hlx.bfloat16).numpy()
    if device.type != "cpu":
        y = hlx.ones(2, device=device)
        with pytest.raises(BufferError, match="^buffer: the tensor is on a GPU; use x.cpu()"):
            memoryview(y)
        with pytest.raises(TypeError, match="^numpy: the tensor is on a GPU"):
            y.numpy()
        assert y.numpy(force=True).tolist() == [1.0, 1.0]
        assert numpy.asarray(y).tolist() == [1.0, 1.0]


def test_dlpack_by_numpy(device: hlx.device) -> None:
    """NumPy reads a tensor, and a tensor is made of what NumPy gives."""
    x = hlx.tensor([[1.5, 2.5], [3.5, 4.5]], device=device)
    if device.type == "cpu":
        there = numpy.from_dlpack(x.T)
        assert there.tolist() == x.T.tolist()
        x[0, 0] = 9
        assert there[0, 0] == 9
        copied = numpy.from_dlpack(x, copy=True)
        x[0, 0] = 1
        assert copied[0, 0] == 9
    else:
        with pytest.raises(BufferError, match=r"^__dlpack__: no library shares memory with Vulkan; ask for dl_device"):
            x.__dlpack__(max_version=(1, 0))
        there = numpy.from_dlpack(x, device="cpu")
        assert there.tolist() == x.tolist()
    source = numpy.arange(6, dtype="int64").reshape(2, 3).T
    made = hlx.from_dlpack(source, device=device)
    assert (made.tolist(), made.dtype, made.device) == (source.tolist(), hlx.int32, device)


def test_dlpack_between_tensors() -> None:
    """A tensor's own array shares its memory, and copies where it is asked to."""
    x = hlx.zeros(2)
    shared, copied = hlx.from_dlpack(x), hlx.from_dlpack(x, copy=True)
    x += 1
    assert (shared.tolist(), copied.tolist()) == ([1.0, 1.0], [0.0, 0.0])
    assert x.__dlpack_device__() == (1, 0)
    x.__dlpack__()
    with pytest.raises(BufferError, match="^from_dlpack: the array needs a copy, and copy=False is given$"):
        hlx.from_dlpack(numpy.ones(1, dtype="int64"), copy=False)
    with pytest.raises(TypeError, match="^from_dlpack: HLX has no float64"):
        hlx.from_dlpack(numpy.ones(1))


def test_numpys_memory_is_shared_where_it_can_be() -> None:
    """Both sides see what the other writes, for as long as either lives; what cannot be shared is copied."""
    for kind, name in TYPES:
        source = numpy.zeros(8, dtype=name)
        shared = hlx.from_numpy(source)
        assert shared.dtype == kind
        source[0] = 1
        shared[1] = 1
        assert (shared.tolist(), source.tolist()) == ([1, 1, *[0] * 6], [1, 1, *[0] * 6])
    source = numpy.ones((2, 3), dtype="float32")
    x = hlx.from_dlpack(source, copy=False)
    del source
    x += 1
    assert x.sum().item() == 12.0
    tiny, short = numpy.array([1e-40], dtype="float32"), numpy.zeros(3, dtype="uint8")
    read_only = numpy.zeros(4, dtype="float32")
    read_only.flags.writeable = False
    for array in (tiny, short, read_only, numpy.zeros((2, 2), dtype="float32").T, numpy.zeros(2, dtype="int64")):
        copied = hlx.from_numpy(array)
        copied += 1
        assert array.max() < 1
    assert hlx.from_numpy(tiny).item() == 0.0
    y = hlx.tensor(read_only)
    with pytest.raises(BufferError):
        hlx.from_dlpack(numpy.zeros((2, 2), dtype="float32").T, copy=False)
    assert y.sum().item() == 0.0


def test_safetensors(tmp_path: Path, device: hlx.device) -> None:
    """Every type comes back from a file, and what is no such file is refused with its name."""
    tensors = {name: hlx.tensor([0, 1, 2], dtype=kind, device=device) for kind, name in TYPES}
    tensors["bfloat16"] = hlx.tensor([0.5], dtype=hlx.bfloat16, device=device)
    path = tmp_path / "all.safetensors"
    hlx.save_file(tensors, path)
    loaded = hlx.load_file(path, device=device)
    assert {name: x.digest() for name, x in loaded.items()} == {name: x.digest() for name, x in tensors.items()}
    assert [file.name for file in tmp_path.iterdir()] == ["all.safetensors"]
    (tmp_path / "broken").write_bytes(b"no file")
    with pytest.raises(ValueError, match="broken: from_safetensors: "):
        hlx.load_file(tmp_path / "broken")
    with pytest.raises(TypeError, match="^save_file: x is no tensor$"):
        hlx.save_file({"x": 1}, path)  # type: ignore[dict-item]


def test_pytorch_both_ways() -> None:
    """Values, strides and the wish for a gradient."""
    torch = pytest.importorskip("torch")
    for kind in (torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int8, torch.uint8, torch.bool):
        there = torch.tensor([[0, 1, 2], [3, 4, 5]]).to(kind).T
        here = hlx.from_torch(there)
        assert here.tolist() == there.tolist()
        assert torch.equal(here.torch(), there)
    assert hlx.from_torch(torch.ones(1, requires_grad=True)).requires_grad
    x = hlx.zeros(2)
    torch.from_dlpack(x).add_(1)
    assert x.tolist() == [1.0, 1.0]
    assert hlx.tensor(torch.arange(3)).tolist() == [0, 1, 2]
