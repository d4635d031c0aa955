"""`x[..]`, reading and writing, against lists of Python."""

import itertools
import random

import pytest

import hlx


def nested(shape: tuple[int, ...]) -> list[object]:
    """Numbers from 0 in nested lists."""
    numbers = itertools.count()

    def level(extents: tuple[int, ...]) -> object:
        return [level(extents[1:]) for _ in range(extents[0])] if extents else next(numbers)

    return level(shape)  # type: ignore[return-value]


def picked(values: object, items: list[object]) -> object:
    """What `x[items]` is of nested lists, where items are integers and slices."""
    if not items:
        return values
    item, *rest = items
    if isinstance(item, int):
        return picked(values[item], rest)  # type: ignore[index]
    return [picked(part, rest) for part in values[item]]  # type: ignore[index]


def test_integers_and_slices_are_pythons() -> None:
    """300 indices of integers and slices."""
    draw = random.Random(1)
    for _ in range(300):
        shape = tuple(draw.randint(1, 5) for _ in range(draw.randint(1, 4)))
        x, values = hlx.arange(hlx.Size(shape).numel()).reshape(shape), nested(shape)
        items: list[object] = []
        for extent in shape[: draw.randint(1, len(shape))]:
            ends = [None, *range(-extent - 2, extent + 3)]
            a_slice = slice(draw.choice(ends), draw.choice(ends), draw.choice([None, 1, 2, 3]))
            items.append(draw.choice([draw.randint(-extent, extent - 1), a_slice]))
        found = x[tuple(items)]
        expected = picked(values, items)
        assert found.tolist() == expected or found.numel() == 0, (shape, items)


def test_masks_lists_and_new_dimensions(device: hlx.device) -> None:
    """The other items of an index."""
    x = hlx.arange(12, device=device).reshape(3, 4)
    assert x[..., 1].tolist() == [1, 5, 9]
    assert x[None, :, -1].shape == (1, 3)
    assert x[[2, 0]].tolist() == [[8, 9, 10, 11], [0, 1, 2, 3]]
    assert x[hlx.tensor([0, 2], device=device), hlx.tensor([1, -1], device=device)].tolist() == [1, 11]
    assert x[x > 8].tolist() == [9, 10, 11]
    assert x[hlx.tensor([True, False, True], device=device)].shape == (2, 4)
    assert x[:, [True, False, False, True]].shape == (3, 2)
    assert x[hlx.tensor([[0], [1]], dtype=hlx.uint8, device=device), 0].tolist() == [[0], [4]]
    assert x[[]].shape == (0, 4)


def test_assignment(device: hlx.device) -> None:
    """Numbers, lists and tensors are written, broadcast and converted."""
    x = hlx.zeros(3, 4, device=device)
    x[0] = 1
    x[1, 1:3] = [5, 6]
    x[:, 3] = hlx.tensor([7, 8, 9], device=device)
    x[x == 0] = -1.5
    x[[2, 2], [0, 1]] = hlx.tensor([3.0, 4.0], device=device)
    assert x.tolist() == [[1, 1, 1, 7], [-1.5, 5, 6, 8], [3, 4, -1.5, 9]]
    x[...] = 0
    assert x.sum().item() == 0


@pytest.mark.parametrize(
    ("item", "kind", "text"),
    [
        (3, IndexError, "index: place 3 is out of range for an extent of 3"),
        ((0, 0, 0), IndexError, "index: an index of 3 dimensions for a tensor of 2"),
        (
            slice(None, None, -1),
            ValueError,
            "index: a slice has step -1, expected at least 1; use flip for the reverse order",
        ),
        (
            "a",
            IndexError,
            "index: an item is a str, expected an integer, a slice, None, ..., or integers or bools in a tensor or list",
        ),
        (
            1.5,
            IndexError,
            "index: an item is a float, expected an integer, a slice, None, ..., or integers or bools in a tensor or list",
        ),
        ((0, [0, 5]), IndexError, "index: element 1 of the index is out of range"),
        (hlx.tensor([0.5]), IndexError, "index: a tensor of float32, expected integers or bool"),
    ],
)
def test_what_is_no_index_is_refused(item: object, kind: type[Exception], text: str) -> None:
    """Each refusal is one line, and nothing is left behind that a later call would report."""
    x = hlx.zeros(3, 4)
    with pytest.raises(kind) as raised:
        x[item]  # type: ignore[index]
    assert isinstance(raised.value, hlx.Error)
    assert str(raised.value) == text
    assert x.sum().item() == 0


def test_a_place_out_of_range_on_a_gpu_is_told_by_the_next_wait(vulkan: hlx.device) -> None:
    """A GPU finds it, so the error comes when something waits for it."""
    x = hlx.zeros(3, device=vulkan)
    found = x[hlx.tensor([0, 7], device=vulkan)]
    with pytest.raises(IndexError, match="^index: element 1 of the index is out of range$"):
        found.tolist()
    assert x.tolist() == [0, 0, 0]
