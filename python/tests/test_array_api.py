"""The namespace of the array API standard: what it adds to the operations, on every device."""

import itertools

import numpy as np
import pytest

import hlx
import hlx.array_api as xp


def numbers(device: hlx.device) -> hlx.Tensor:
    """A matrix with equal elements."""
    return xp.asarray([[3, 1, 3], [2, 1, 7]], device=device)


def test_a_tensor_knows_its_namespace(device: hlx.device) -> None:
    """A library finds the functions by the tensor, in a version that is there."""
    x = numbers(device)
    assert x.__array_namespace__() is xp
    assert x.__array_namespace__(api_version="2024.12") is xp
    with pytest.raises(hlx.errors.ValueError, match="no version '2020"):
        x.__array_namespace__(api_version="2020.01")
    assert x.to_device("cpu").device == hlx.device("cpu")
    assert complex(xp.asarray(2.5, device=device)) == 2.5 + 0j


def test_what_is_missing_has_no_name() -> None:
    """A library can probe for types and functions by their names."""
    for name in ("int64", "float64", "complex64", "imag", "nextafter", "linalg", "fft"):
        assert not hasattr(xp, name), name
    assert all(hasattr(xp, name) for name in xp.__all__)


def test_the_information_names_types_and_devices(device: hlx.device) -> None:
    """The inspection functions tell what is there."""
    info = xp.__array_namespace_info__()
    assert device in info.devices()
    assert info.default_device() in info.devices()
    assert set(info.dtypes()) == {"bool", "int8", "int32", "uint8", "uint32", "float32"}
    assert set(info.dtypes(kind=("bool", "unsigned integer"))) == {"bool", "uint8", "uint32"}
    assert info.dtypes(kind="complex floating") == {}
    assert info.default_dtypes() == {"real floating": xp.float32, "integral": xp.int32, "indexing": xp.int32}
    with pytest.raises(hlx.errors.ValueError, match="no kind 'float'"):
        info.dtypes(kind="float")


def test_an_array_without_dimensions_promotes_in_full(device: hlx.device) -> None:
    """Unlike in PyTorch, a type counts whatever the shape."""
    small, wide = xp.ones(3, dtype=xp.int8, device=device), xp.asarray(1, dtype=xp.int32, device=device)
    assert xp.add(small, wide).dtype == xp.int32
    assert xp.result_type(small, wide) == xp.int32
    assert xp.add(small, 1).dtype == xp.int8
    assert xp.result_type(small, 1.5) == xp.float32
    assert xp.result_type(xp.uint8, xp.uint32) == xp.uint32
    assert xp.result_type(hlx.float16, xp.float32) == xp.float32
    with pytest.raises(hlx.errors.TypeError, match="both operands are numbers"):
        xp.add(1, 2)


def test_casts_and_kinds() -> None:
    """Types are cast within their kind, if all values fit."""
    assert xp.can_cast(xp.uint8, xp.int32) and xp.can_cast(xp.int8, xp.int32)
    assert not xp.can_cast(xp.uint32, xp.int32) and not xp.can_cast(xp.int32, xp.int8)
    assert not xp.can_cast(xp.uint8, xp.int8) and not xp.can_cast(xp.float32, xp.int32)
    assert xp.isdtype(xp.uint8, "integral") and xp.isdtype(xp.bool, ("numeric", "bool"))
    assert not xp.isdtype(xp.bool, "numeric")
    assert xp.iinfo(xp.uint32).max == 2**32 - 1 and xp.finfo(xp.float32).eps == 2.0**-23


def test_sums_have_the_standards_types(device: hlx.device) -> None:
    """Sums of unsigned integers are unsigned, and an empty tuple names no axis."""
    x = xp.full((300,), 255, dtype=xp.uint8, device=device)
    assert (xp.sum(x).dtype, int(xp.sum(x))) == (xp.uint32, 300 * 255)
    assert xp.sum(xp.astype(x, xp.int8)).dtype == xp.int32
    # No axes at all leave every element as it is.
    assert xp.sum(numbers(device), axis=()).tolist() == [[3, 1, 3], [2, 1, 7]]
    assert xp.cumulative_sum(xp.asarray([1, 2], device=device), include_initial=True).tolist() == [0, 1, 3]
    assert xp.prod(numbers(device), axis=(0, 1)).tolist() == 126


def test_unique_values_places_and_counts(device: hlx.device) -> None:
    """The four results are NumPy's; every NaN is a value of its own."""
    x = numbers(device)
    found = xp.unique_all(x)
    expected = np.unique(np.asarray(x.tolist()), return_index=True, return_inverse=True, return_counts=True)
    for ours, numpys in zip(found, expected, strict=True):
        assert ours.tolist() == numpys.reshape(tuple(ours.shape)).tolist()
    nan = xp.asarray([float("nan"), 0.0, float("nan"), -0.0], device=device)
    assert xp.unique_counts(nan).counts.tolist() == [2, 1, 1]
    assert xp.unique_values(xp.asarray([], dtype=xp.int32, device=device)).tolist() == []


@pytest.mark.parametrize(("side", "n"), list(itertools.product(("left", "right"), (0, 1, 2, 7, 8, 9))))
def test_searchsorted_is_numpys(device: hlx.device, side: str, n: int) -> None:
    """Every length around a power of two takes another path through the bisection."""
    line = np.sort(np.arange(n) % 4).astype(np.float32)
    wanted = np.array([[-1, 0, 0.5], [1, 3, np.inf]], dtype=np.float32)
    found = xp.searchsorted(xp.asarray(line, device=device), xp.asarray(wanted, device=device), side=side)
    assert found.tolist() == np.searchsorted(line, wanted, side).tolist()


def test_nonzero_and_isin(device: hlx.device) -> None:
    """Places of elements, and membership."""
    x = numbers(device)
    places = xp.nonzero(xp.greater(x, 2))
    assert [p.tolist() for p in places] == [[0, 0, 1], [0, 2, 2]]
    with pytest.raises(hlx.errors.ValueError, match="no axes"):
        xp.nonzero(xp.asarray(1, device=device))
    members = xp.asarray([7, 1], device=device)
    assert xp.isin(x, members).tolist() == [[False, True, False], [False, True, True]]
    assert xp.isin(x, members, invert=True).tolist() == [[True, False, True], [True, False, False]]


def test_negative_places_count_from_the_end(device: hlx.device) -> None:
    """Indices of both signs name elements."""
    x = numbers(device)
    assert xp.take(x, xp.asarray([-1, 0], device=device), axis=1).tolist() == [[3, 3], [7, 2]]
    at = xp.asarray([[-1], [0]], device=device)
    assert xp.take_along_axis(x, at, axis=1).tolist() == [[3], [2]]


def test_quotients_at_infinity_and_remainders_of_zero(device: hlx.device) -> None:
    """The standard's special cases that PyTorch has otherwise."""
    inf = float("inf")
    a = xp.asarray([inf, 1.0, -1.0, 7.0], device=device)
    b = xp.asarray([-2.0, -inf, inf, 2.0], device=device)
    quotient = xp.floor_divide(a, b)
    assert quotient.tolist() == [-inf, -0.0, -0.0, 3.0]
    assert xp.signbit(quotient).tolist() == [True, True, True, False]
    rest = xp.remainder(xp.asarray([-0.0, 0.0, 7.5], device=device), xp.asarray([1.0, -1.0, -2.0], device=device))
    assert rest.tolist() == [0.0, -0.0, -0.5]
    assert xp.signbit(rest).tolist() == [False, True, True]


def test_nan_goes_through_sign_and_clip(device: hlx.device) -> None:
    """NaN in, NaN out."""
    x = xp.asarray([float("nan"), -3.0, 0.0], device=device)
    assert xp.isnan(xp.sign(x)).tolist() == [True, False, False]
    assert xp.isnan(xp.clip(x, -1, 1)).tolist() == [True, False, False]
    assert xp.all(xp.isnan(xp.clip(x, float("nan")))).item()


def test_squeeze_and_broadcast_refuse_what_does_not_fit(device: hlx.device) -> None:
    """Shapes that PyTorch lets pass are errors."""
    x = numbers(device)
    with pytest.raises(hlx.errors.ValueError, match="axis 0 has extent 2, expected 1"):
        xp.squeeze(x, axis=0)
    with pytest.raises(hlx.errors.ValueError, match="do not broadcast"):
        xp.broadcast_to(x, (3, 2))
    assert xp.broadcast_shapes((3, 1), (1, 4), ()) == (3, 4)
    assert xp.expand_dims(x, (0, -1)).shape == (1, 2, 3, 1)


def test_creation_in_the_standards_forms(device: hlx.device) -> None:
    """The forms that PyTorch's functions do not have."""
    assert xp.eye(2, 3, k=1, device=device).tolist() == [[0, 1, 0], [0, 0, 1]]
    assert xp.arange(3, 0, device=device).shape == (0,)
    assert xp.linspace(0, 1, 4, endpoint=False, device=device).tolist() == [0.0, 0.25, 0.5, 0.75]
    # A number that f32 does not hold.
    assert xp.full((2,), 2**31 - 1, device=device).tolist() == [2**31 - 1] * 2
    grid = xp.meshgrid(xp.asarray([1, 2], device=device), xp.asarray([3, 4, 5], device=device))
    assert [g.tolist() for g in grid] == [[[1, 2]] * 3, [[3, 3], [4, 4], [5, 5]]]
    x = numbers(device)
    assert xp.asarray(x, copy=False) is x and xp.asarray(x, copy=True) is not x
    with pytest.raises(hlx.errors.ValueError, match="copy is False"):
        xp.asarray(x, dtype=xp.float32, copy=False)


def test_products_over_axes(device: hlx.device) -> None:
    """NumPy's results, and one axis that must not broadcast."""
    a, b = np.arange(24, dtype=np.float32).reshape(2, 3, 4), np.arange(12, dtype=np.float32).reshape(4, 3)
    left, right = xp.asarray(a, device=device), xp.asarray(b, device=device)
    found = xp.tensordot(left, right, axes=([2, 1], [0, 1]))
    assert found.tolist() == np.tensordot(a, b, ([2, 1], [0, 1])).tolist()
    assert xp.vecdot(left, left, axis=-2).tolist() == (a * a).sum(1).tolist()
    with pytest.raises(hlx.errors.ValueError, match="extents"):
        xp.vecdot(left, right, axis=-1)


def test_hypot_and_logaddexp_do_not_overflow(device: hlx.device) -> None:
    """Large operands give large results."""
    big = xp.asarray([3e38, 1e-30], device=device)
    np.testing.assert_allclose(xp.hypot(big, 0.0).tolist(), big.tolist(), rtol=1e-6)
    assert xp.logaddexp(xp.asarray([1000.0], device=device), -1000.0).tolist() == [1000.0]
