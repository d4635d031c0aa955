"""Contracts of any form: what is no contract is an error of HLX, in one line, and what is one has one handle."""

import copy
import random

import pytest
from shaders import AXPY, GEMM

import hlx

BUILDING_BLOCKS = [
    *[None, True, 0, 1, -1, 3, 2**40, 0.5, float("nan"), "", "x", "0", "main", "f32", "compute", b"", b"abcd"],
    *[[], {}, [1], [2, 2], [[2, 2]], [16, 16, 1], (1, 2, 3), [{"u32": 1}], object(), hlx.float32, "sha256:00"],
    *[{"u32": 3}, {"f32": "inf"}, {"u32": 1, "f32": 2}, {"id": 1}, {"id": "x", "value": 3}, {1: 2}],
    *[{"from": [0, "c"], "to": [1, "a"]}, {"from": 1}, {"kernel": 0, "name": "c"}, {"name": "a"}],
    *[{"binding": "x"}, {"shape": [2]}, {"shape": "ab"}, {"dtype": 7}, {"binding": 2.5, "shape": [2]}],
]
FIELDS = {
    900: ["spirv", "spirv_binary", "entry_point", "stage", "shader_stage", "x"],
    901: [
        *["name", "kernel_name", "shader", "workgroup_size", "workgroups", "specialization", "push_constants"],
        *["inputs", "outputs", "x"],
    ],
    902: ["name", "kernels", "links", "outputs", "contract"],
}


def contracts() -> dict[int, dict[str, object]]:
    """A valid contract of each kind."""
    shader, tensor = hlx.collapse({900: {"spirv": GEMM}}), hlx.collapse([[1.0, 2.0], [3.0, 4.0]])
    first = {"name": "g", "shader": shader, "inputs": [tensor, tensor], "outputs": [{"name": "c", "shape": [2, 2]}]}
    second = {"name": "h", "shader": shader, "inputs": [{"name": "a"}, tensor], "outputs": [[2, 2]]}
    links = [{"from": [0, "c"], "to": [1, "a"]}]
    return {900: {"spirv": AXPY}, 901: first, 902: {"name": "p", "kernels": [first, second], "links": links}}


def anything(draw: random.Random, depth: int = 0) -> object:
    """A value of any type, nested or not."""
    kind = draw.random() if depth < 3 else 0
    if kind < 0.6:
        return draw.choice(BUILDING_BLOCKS)
    values = [anything(draw, depth + 1) for _ in range(draw.randint(0, 3))]
    names = ["name", "binding", "shape", "dtype", "tensor", "id", "value", "u32", "kernel", "from", "to", 1]
    return values if kind < 0.8 else {draw.choice(names): value for value in values}


@pytest.mark.parametrize("seed", range(8))
def test_no_form_raises_anything_but_one_line_of_hlx(seed):
    """And a contract that resolves has its handle again."""
    draw, cpu = random.Random(seed), hlx.VulkanContext("cpu")
    valid, handles = contracts(), 0
    for _ in range(100):
        number = draw.choice([900, 901, 902])
        fields = copy.deepcopy(valid[number])
        if number == 902 and draw.random() < 0.5:
            fields["kernels"][draw.randint(0, 1)][draw.choice(FIELDS[901])] = anything(draw)
        for _ in range(draw.randint(0, 2)):
            fields[draw.choice(FIELDS[number])] = anything(draw)
        try:
            handle = hlx.collapse({number: fields})
            assert hlx.collapse(hlx.resolve(handle)) == handle
            handles += 1
            cpu.prepare(handle)
        except hlx.Error as error:
            assert "\n" not in str(error)
    assert handles > 20
