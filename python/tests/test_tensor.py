"""Tensors by Python's protocols: making, reading, operators, printing, pickling."""

import copy
import math
import pickle

import pytest

import hlx


def test_data_decides_the_type() -> None:
    """Python's numbers have the types that the page on types says."""
    assert hlx.tensor(1.5).dtype == hlx.float32
    assert hlx.tensor([1, 2]).dtype == hlx.int32
    assert hlx.tensor([True, False]).dtype == hlx.bool
    assert hlx.tensor([True, 2]).tolist() == [1, 2]
    assert hlx.tensor([1, 2.5]).tolist() == [1.0, 2.5]
    assert hlx.tensor([]).dtype == hlx.float32
    assert hlx.tensor([[], []]).shape == (2, 0)
    assert hlx.tensor([hlx.tensor(1), hlx.tensor(2)]).tolist() == [1, 2]


def test_wide_integers_are_narrowed_with_a_check() -> None:
    """int64 is a name for int32 where the values fit."""
    assert hlx.tensor([2**31 - 1], dtype=hlx.int64).dtype == hlx.int32
    with pytest.raises(hlx.Error, match=r"^tensor: 2147483648 does not fit into int32$"):
        hlx.tensor([2**31], dtype=hlx.int64)
    assert hlx.tensor([2**31], dtype=hlx.uint32).item() == 2**31
    with pytest.raises(TypeError, match=r"^tensor: HLX has no float64; use dtype=hlx.float32$"):
        hlx.tensor([1.0], dtype=hlx.float64)


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        ([[1, 2], [3]], ValueError, "tensor: the nested sequences do not have equal lengths"),
        ([1, [2]], ValueError, "tensor: the nested sequences do not have equal lengths"),
        (["a"], TypeError, "tensor: the data has a str, expected numbers in nested sequences"),
        (None, TypeError, "tensor: the data has a NoneType, expected numbers in nested sequences"),
        ([1j], TypeError, "tensor: the data has a complex, expected numbers in nested sequences"),
    ],
)
def test_what_is_no_data_is_refused(data: object, kind: type[Exception], text: str) -> None:
    """Each refusal is one line."""
    with pytest.raises(kind) as raised:
        hlx.tensor(data)
    assert isinstance(raised.value, hlx.Error)
    assert str(raised.value) == text


def test_numbers_and_lists(device: hlx.device) -> None:
    """Elements come back as the numbers that they are, of every type."""
    values = [[0, 1], [2, 3]]
    for kind in (hlx.float32, hlx.float16, hlx.bfloat16, hlx.int32, hlx.uint32, hlx.int8, hlx.uint8):
        assert hlx.tensor(values, dtype=kind, device=device).tolist() == values
    x = hlx.tensor(2.5, device=device)
    assert (float(x), int(x), bool(x), x.item()) == (2.5, 2, True, 2.5)
    assert hlx.tensor(3, device=device).__index__() == 3
    assert [10, 20, 30][hlx.tensor(1, device=device)] == 20
    assert math.isnan(hlx.tensor(math.nan, device=device).item())
    assert f"{x:.3f}" == "2.500"
    assert 2.5 in x.reshape(1)
    assert 3.0 not in x.reshape(1)


@pytest.mark.parametrize("read", [bool, float, int, lambda x: x.item()])
def test_several_elements_are_no_number(read: object) -> None:
    """A tensor of several elements has no truth value and is no number."""
    with pytest.raises(ValueError, match=r"the tensor has shape \[2\], expected one element"):
        read(hlx.ones(2))  # type: ignore[operator]


def test_operators_have_reflected_forms(device: hlx.device) -> None:
    """A number may stand on either side."""
    x = hlx.tensor([1.0, 2.0, 4.0], device=device)
    assert (2 - x).tolist() == [1.0, 0.0, -2.0]
    assert (8 / x).tolist() == [8.0, 4.0, 2.0]
    assert (2**x).tolist() == [2.0, 4.0, 16.0]
    assert (x**2).tolist() == [1.0, 4.0, 16.0]
    assert (7 // x).tolist() == [7.0, 3.0, 1.0]
    assert (7 % x).tolist() == [0.0, 1.0, 3.0]
    assert (-x + x).tolist() == [0.0, 0.0, 0.0]
    assert (x > 1).tolist() == [False, True, True]
    assert (1 < x).tolist() == [False, True, True]
    n = hlx.tensor([6, 3], device=device)
    assert (n & 5).tolist() == [4, 1]
    assert (n << 1).tolist() == [12, 6]
    assert (~n).tolist() == [-7, -4]
    assert (~(n > 3)).tolist() == [False, True]


def test_a_number_decides_the_kind_of_a_type_alone() -> None:
    """As in PyTorch a number beside a tensor changes its kind, not its width."""
    assert (hlx.ones(2, dtype=hlx.float16) * 2.5).dtype == hlx.float16
    assert (hlx.ones(2, dtype=hlx.uint8) + 1).dtype == hlx.uint8
    assert (hlx.ones(2, dtype=hlx.uint8) + 1.5).dtype == hlx.float32
    assert (hlx.tensor(1, dtype=hlx.uint8) + 1).dtype == hlx.uint8
    assert (hlx.tensor(1.0, dtype=hlx.bfloat16) * 1.5).dtype == hlx.bfloat16
    assert (hlx.tensor(True) + 1).dtype == hlx.int32
    assert (hlx.ones(2) + 10**12).tolist() == [999999995904.0] * 2
    with pytest.raises(ValueError, match=r"^hlx: 1000000000000 does not fit into int32$"):
        hlx.tensor([1]) + 10**12


def test_changes_in_place_keep_the_memory(device: hlx.device) -> None:
    """`+=` and its like change what views of the memory see."""
    x = hlx.zeros(2, 3, device=device)
    row = x[0]
    kept = x
    x += 1
    x[1] = 5
    x[:, 0] *= 3
    assert x is kept
    assert row.tolist() == [3.0, 1.0, 1.0]
    assert x.tolist() == [[3.0, 1.0, 1.0], [15.0, 5.0, 5.0]]


def test_what_is_no_operand_is_left_to_the_other() -> None:
    """Python asks the other operand's method, and compares by identity."""

    class Other:
        def __radd__(self, other: object) -> str:
            return "added"

    assert hlx.ones(2) + Other() == "added"
    assert (hlx.ones(2) == None) is False  # noqa: E711
    assert (hlx.ones(2) != "text") is True
    with pytest.raises(TypeError):
        hlx.ones(2) + "text"


def test_iteration_and_length() -> None:
    """A tensor is a sequence of its parts along the first dimension."""
    x = hlx.arange(6).reshape(3, 2)
    assert len(x) == 3
    assert [row.tolist() for row in x] == [[0, 1], [2, 3], [4, 5]]
    first, *_ = x
    first += 10
    assert x.tolist()[0] == [10, 11]
    with pytest.raises(TypeError, match="^iter: the tensor has no dimensions$"):
        iter(hlx.tensor(1))
    with pytest.raises(TypeError, match="^len: the tensor has no dimensions$"):
        len(hlx.tensor(1))


#: What PyTorch 2.15 prints, with `hlx.` for `torch.`.
PRINTED = [
    (lambda: hlx.tensor([1.0, 2.5]), "tensor([1.0000, 2.5000])"),
    (lambda: hlx.tensor([[1, 20], [3, 4]]), "tensor([[ 1, 20],\n        [ 3,  4]])"),
    (lambda: hlx.tensor([True, False]), "tensor([ True, False])"),
    (lambda: hlx.tensor(1.5, requires_grad=True), "tensor(1.5000, requires_grad=True)"),
    (lambda: hlx.tensor([1.0], requires_grad=True) * 2, "tensor([2.], grad_fn=<MulBackward0>)"),
    (lambda: hlx.ones(2, dtype=hlx.float16), "tensor([1., 1.], dtype=hlx.float16)"),
    (lambda: hlx.zeros(0, 3), "tensor([], size=(0, 3))"),
    (lambda: hlx.tensor([]), "tensor([])"),
    (lambda: hlx.tensor([math.nan, math.inf, 1.0]), "tensor([nan, inf, 1.])"),
    (
        lambda: hlx.zeros(26),
        "tensor([0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0.,\n"
        "        0., 0.])",
    ),
]


@pytest.mark.parametrize(("make", "text"), PRINTED)
def test_tensors_print_as_in_pytorch(make: object, text: str) -> None:
    """The text is PyTorch's."""
    assert repr(make()) == text  # type: ignore[operator]


def test_a_tensor_of_a_gpu_prints_its_device(vulkan: hlx.device) -> None:
    """The device is named where it is not the CPU."""
    assert repr(hlx.ones(1, device=vulkan)) == f"tensor([1.], device='{vulkan}')"


def test_pickles_and_copies(device: hlx.device) -> None:
    """Values, device and the wish for a gradient come back; what is on the tape is refused."""
    x = hlx.tensor([1.5, -0.0], device=device, requires_grad=True)
    again = pickle.loads(pickle.dumps(x))
    assert (again.digest(), again.requires_grad, again.device) == (x.digest(), True, x.device)
    copied = copy.deepcopy({"x": x, "same": x})
    assert copied["x"] is copied["same"]
    assert copied["x"].digest() == x.digest()
    with hlx.no_grad():
        copied["x"][0] = 7
    assert x.tolist() == [1.5, 0.0]
    with pytest.raises(hlx.Error, match="use x.detach"):
        pickle.dumps(x * 2)
    assert pickle.loads(pickle.dumps(hlx.float16)) == hlx.float16
    assert pickle.loads(pickle.dumps(hlx.device("vulkan:1"))) == hlx.device("vulkan:1")


def test_digests_are_equal_on_all_devices(device: hlx.device) -> None:
    """A tensor's digest depends on its shape and values alone."""
    hlx.manual_seed(3)
    x = hlx.randn(64, 48, device=device)
    y = (x @ x.T).softmax(-1).sum(0)
    assert y.digest() == "ab294861e172db947ea0d6ccb8d8e81faf110dc212b3730db371808cb4f8889d"
    assert hlx.ones(2, 3).digest() != hlx.ones(3, 2).digest()
    assert hlx.ones(2, dtype=hlx.float16).digest() != hlx.ones(2, dtype=hlx.bfloat16).digest()
    assert hlx.digest({"": y}) == y.digest()
    assert hlx.digest({"y": y}) != y.digest()


def test_draws_depend_on_the_seed_and_their_order(device: hlx.device) -> None:
    """The generator starts again from a seed, and one of one's own is apart from it."""
    hlx.manual_seed(7)
    first, second = hlx.rand(5, device=device), hlx.rand(5, device=device)
    own = hlx.Generator().manual_seed(7)
    assert hlx.rand(5, device=device, generator=own).digest() == first.digest()
    hlx.manual_seed(7)
    assert hlx.rand(5, device=device).digest() == first.digest()
    assert first.digest() != second.digest()
    state = own.get_state()
    drawn = hlx.rand(5, generator=own).digest()
    own.set_state(state)
    again = pickle.loads(pickle.dumps(own))
    assert hlx.rand(5, generator=own).digest() == drawn
    assert hlx.rand(5, generator=again).digest() == drawn


def test_names_of_devices() -> None:
    """A device is its name; an unknown one is refused with one line."""
    assert (hlx.device("vulkan:1").type, hlx.device("vulkan:1").index) == ("vulkan", 1)
    assert hlx.device("cpu") == hlx.device("cpu:0")
    assert str(hlx.device("vulkan", 2)) == "vulkan:2"
    assert repr(hlx.device("cpu", arithmetic="integer")) == "device(type='cpu', arithmetic='integer')"
    with pytest.raises(ValueError, match="^device `cuda` is unknown: expected auto, cpu, vulkan or vulkan:N$"):
        hlx.device("cuda")
    with hlx.device("cpu", arithmetic="integer"):
        assert hlx.zeros(2).device.arithmetic == "integer"
    assert hlx.zeros(2).device.arithmetic == "portable"


def test_the_default_device(vulkan: hlx.device) -> None:
    """Tensors are made on the device of the innermost `with`, or the default."""
    hlx.set_default_device(vulkan)
    try:
        assert hlx.zeros(2).device == vulkan
        with hlx.device("cpu"):
            assert hlx.zeros(2).device == hlx.device("cpu")
        assert hlx.tensor([1]).device == vulkan
    finally:
        hlx.set_default_device(None)
    assert hlx.zeros(2).device == hlx.device("cpu")


def test_the_class_makes_tensors() -> None:
    """`hlx.Tensor` as PyTorch's: zeros of a shape, floats of a sequence, the memory of a tensor; and subclasses."""
    assert hlx.Tensor(2, 3).tolist() == [[0.0] * 3] * 2
    assert hlx.Tensor([1, 2]).dtype == hlx.float32
    assert hlx.Tensor().shape == (0,)
    x = hlx.ones(2, requires_grad=True)
    shared = hlx.Tensor(x)
    shared[0] = 5
    assert (x.tolist(), shared.requires_grad) == ([5.0, 1.0], False)

    class Named(hlx.Tensor):
        name = "mine"

    named = Named(x)
    assert isinstance(named, hlx.Tensor)
    assert (named.name, (named + 1).tolist()) == ("mine", [6.0, 2.0])
    with pytest.raises(TypeError, match="^Tensor: 2 arguments, expected a shape or one sequence$"):
        hlx.Tensor([1], [2])


def test_arrays_of_numpy_are_operands(device: hlx.device) -> None:
    """On either side, and the result is a tensor of the tensor's device."""
    numpy = pytest.importorskip("numpy")
    array = numpy.array([1.0, 2.0], dtype="float32")
    x = hlx.tensor([10.0, 20.0], device=device)
    for result in (x + array, array + x):
        assert (type(result), result.device, result.tolist()) == (hlx.Tensor, device, [11.0, 22.0])
    assert (array - x).tolist() == [-9.0, -18.0]
    assert (x > array).all()
