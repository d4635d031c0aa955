"""Contracts from Python: handles, the founders' field names and those of docs/contracts.md, execution, errors."""

import hashlib
import json
import os
import pickle
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from shaders import AXPY, EXAMPLES, GEMM, gemm

import hlx
from hlx import contracts
from hlx._contract_fields import workgroups_for

PAGE = (EXAMPLES.parent / "docs/contracts.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python,needs=vulkan\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
# The object of [[1, 2], [3, 4]] as docs/store.md lays it out: magic, tensor, f32, rank, zeros, extents, length, data.
MATRIX = (
    "sha256:"
    + hashlib.sha256(b"HLXOBJ1\n" + struct.pack("<BBHIQQQ4f", 1, 10, 2, 0, 2, 2, 16, 1.0, 2.0, 3.0, 4.0)).hexdigest()
)


def run(code: str, folder: Path) -> str:
    """Runs Python in a process of its own and returns what it prints."""
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def product(size: int = 64) -> dict[str, object]:
    """The product of HLX's own shader that `hlx contract pipeline` makes, over other tensors."""
    text = (EXAMPLES / "contracts/product_and_sum_64.json").read_text()
    kernel = json.loads(text)["kernels"][0]
    hlx.manual_seed(3)
    tensors = [hlx.randn(size, size), hlx.randn(size, size), hlx.randn(size)]
    for one, tensor in zip(kernel["inputs"], tensors, strict=True):
        one["tensor"] = hlx.collapse(tensor)
    return kernel


@pytest.mark.usefixtures("vulkan")
def test_the_snippet_runs_as_written():
    """In a folder with gemm.spv, it prints the product."""
    printed = run(BLOCKS[0], EXAMPLES / "python")
    assert printed == "tensor([[19., 22.],\n        [43., 50.]])\n"


@pytest.mark.usefixtures("vulkan")
def test_the_code_of_the_page_runs(tmp_path, monkeypatch, capsys):
    """The Python blocks of docs/contracts.md run in order, in the folder of the examples."""
    monkeypatch.chdir(EXAMPLES / "python")
    monkeypatch.setenv("HLX_STORE", str(tmp_path))
    assert len(BLOCKS) == 3
    namespace: dict[str, object] = {}
    for block in BLOCKS:
        exec(block, namespace)
    assert "tensor([[19., 22.],\n        [43., 50.]], device='vulkan:" in capsys.readouterr().out


def test_a_handle_is_a_string_with_a_form():
    """A string that hashes, compares and pickles, and that is checked."""
    handle = hlx.collapse([[1.0, 2.0], [3.0, 4.0]])
    assert str(handle) == MATRIX and type(str(handle)) is str
    assert repr(handle) == f"Handle('{MATRIX}')"
    assert handle == hlx.Handle(MATRIX) == MATRIX and hash(handle) == hash(MATRIX)
    again = pickle.loads(pickle.dumps(handle))
    assert again == handle and type(again) is hlx.Handle
    assert sorted([hlx.Handle("sha256:" + "f" * 64), handle])[0] == handle
    with pytest.raises(AttributeError):
        handle.other = 1
    for wrong, line in [
        ("sha256:12", "`sha256:12` is no handle: has 2 digits, expected 64"),
        ("md5:12", "`md5:12` is no handle: expected `sha256:` and 64 hexadecimal digits"),
    ]:
        with pytest.raises(hlx.errors.ValueError, match=line):
            hlx.Handle(wrong)
    with pytest.raises(hlx.errors.TypeError, match="Handle: int, expected sha256:"):
        hlx.Handle(7)


def test_equal_content_has_an_equal_handle():
    """However it is given; the same bytes of another dtype or shape are another object."""
    numpy = pytest.importorskip("numpy")
    values = [[1.0, 2.0], [3.0, 4.0]]
    ways = [
        values,
        ((1, 2), (3, 4)),
        hlx.tensor(values),
        hlx.tensor(values).t().contiguous().t(),
        numpy.array(values, dtype=numpy.float32),
        memoryview(numpy.array(values, dtype=numpy.float32)),
    ]
    assert {hlx.collapse(way) for way in ways} == {MATRIX}
    doubles = numpy.array(values)
    assert hlx.collapse(doubles, dtype=hlx.float32) == MATRIX
    with pytest.raises(hlx.errors.TypeError, match="HLX has no float64"):
        hlx.collapse(doubles)
    # The same bytes with another dtype or shape are another object.
    others = [values[0] + values[1], hlx.tensor(values).to(hlx.float16), hlx.tensor(values).to(hlx.int32)]
    handles = {hlx.collapse(other) for other in others} | {hlx.collapse(b"\0\0\0\0"), hlx.collapse([0.0])}
    assert MATRIX not in handles and len(handles) == 5
    assert hlx.collapse([[1, 2], [3, 4]], dtype=hlx.int32) == hlx.collapse(hlx.tensor([[1, 2], [3, 4]]))


def test_handles_are_equal_across_processes():
    """A handle depends on the content alone."""
    code = "import hlx; print(hlx.collapse([[1.0, 2.0], [3.0, 4.0]]), hlx.collapse(b'bytes'))"
    assert run(code, Path.cwd()).split() == [MATRIX, hlx.collapse(b"bytes")]


def test_every_nan_and_every_device_has_one_handle(device):
    """Payloads of NaN, which differ between devices, are no part of it."""
    numpy = pytest.importorskip("numpy")
    nans = numpy.array([0x7FC00000, 0x7FC00001, 0xFFFFFFFF], dtype=numpy.uint32).view(numpy.float32)
    handle = hlx.collapse(nans)
    assert handle == hlx.collapse([float("nan")] * 3)
    assert handle == hlx.collapse(hlx.tensor([float("nan")] * 3).to(device))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "uint32", "int8", "uint8", "bool"])
def test_tensors_of_every_type_come_back(dtype):
    """With dtype, shape and bits."""
    for shape in [(), (3,), (2, 5), (0, 4)]:
        x = hlx.ones(*shape).to(getattr(hlx, dtype)) if shape else hlx.tensor(1.0).to(getattr(hlx, dtype))
        back = hlx.resolve(hlx.collapse(x))
        assert (back.dtype, tuple(back.shape), back.digest()) == (x.dtype, shape, x.digest())


def test_bytes_and_contracts_come_back():
    """A contract as a dict whose handle is the same."""
    assert hlx.resolve(hlx.collapse(b"some bytes")) == b"some bytes"
    assert hlx.resolve(hlx.collapse(bytearray(b""))) == b""
    shader = hlx.collapse({"900": {"spirv_binary": GEMM}})
    found = hlx.resolve(shader)
    assert found == {"contract": 900, "entry_point": "main", "stage": "compute", "spirv": GEMM}
    kernel = hlx.collapse({"901": gemm()})
    for handle in [shader, kernel]:
        assert hlx.collapse(hlx.resolve(handle)) == handle
        assert isinstance(hlx.resolve(handle, raw=True), bytes)
    assert hlx.resolve(kernel)["workgroups"] == [1, 1, 1]


def test_the_golden_handles_of_the_examples():
    """Those of docs/contracts.md, under either set of names."""
    folder = EXAMPLES / "contracts"
    kernel = json.loads((folder / "product_1024.json").read_text())
    golden = "sha256:42c820ededec9aaba8ad6555687060560a9f3b68393618837cc2d5dea4001a84"
    assert hlx.collapse(kernel) == golden
    fields = {name: value for name, value in kernel.items() if name != "contract"}
    names = {"name": "kernel_name", "shader": "shader_handle"}
    founders = {names.get(name, name): value for name, value in fields.items()}
    assert hlx.collapse({"901": founders}) == hlx.collapse({901: fields}) == golden
    pipeline = json.loads((folder / "product_and_sum_64.json").read_text())
    assert hlx.resolve(hlx.collapse(pipeline)) == pipeline


def uniform(numpy, shape, seed):
    """The numbers of `hlx contract product`: Philox 4x32-10 keyed by the seed and 901, counted by elements."""
    counters = numpy.arange(-(-numpy.prod(shape) // 4), dtype=numpy.uint64)
    words, keys = [counters, *[numpy.zeros_like(counters)] * 3], [seed, 901]
    for _ in range(10):
        low, high = words[0] * numpy.uint64(0xD2511F53), words[2] * numpy.uint64(0xCD9E8D57)
        mixed = [high >> 32 ^ words[1] ^ numpy.uint64(keys[0]), low >> 32 ^ words[3] ^ numpy.uint64(keys[1])]
        words = [mixed[0], high & 0xFFFFFFFF, mixed[1], low & 0xFFFFFFFF]
        keys = [keys[0] + 0x9E3779B9 & 0xFFFFFFFF, keys[1] + 0xBB67AE85 & 0xFFFFFFFF]
    drawn = numpy.stack(words, axis=1).ravel()[: numpy.prod(shape)]
    return ((drawn >> 8).astype(numpy.float32) / numpy.float32(2**23) - numpy.float32(1)).reshape(shape)


def test_the_golden_result_of_the_product(device):
    """That of docs/contracts.md, from tensors made here."""
    numpy = pytest.importorskip("numpy")
    kernel = json.loads((EXAMPLES / "contracts/product_1024.json").read_text())
    tensors = [uniform(numpy, (1024, 1024), 1), uniform(numpy, (1024, 1024), 2), numpy.zeros(1024, numpy.float32)]
    assert [hlx.collapse(tensor) for tensor in tensors] == [one["tensor"] for one in kernel["inputs"]]
    golden = "sha256:3f333f9d55efd46156a0eb1d2f6aa6b21cf2e847c6b4bcfe8e4725b6a8ab6eb9"
    assert hlx.VulkanContext(device).execute_kernel(kernel) == golden


def test_what_is_left_out_is_what_is_given():
    """Defaults are part of the handle."""
    full = gemm(
        workgroup_size=[16, 16, 1],
        workgroups=[1, 1, 1],
        push_constants=[],
        outputs=[{"name": "output0", "binding": 2, "dtype": "f32", "shape": [2, 2]}],
    )
    full["inputs"] = [
        {"name": f"input{place}", "binding": place, "dtype": hlx.float32, "shape": [2, 2], "tensor": tensor}
        for place, tensor in enumerate(full["inputs"])
    ]
    assert hlx.collapse({"901": gemm()}) == hlx.collapse({"901": full})
    inline = gemm(
        shader_handle={"900": {"spirv_binary": GEMM}},
        inputs=[[[1, 2], [3, 4]], hlx.tensor([[5.0, 6], [7, 8]])],
    )
    assert hlx.collapse({"901": inline}) == hlx.collapse({"901": gemm()})


@pytest.mark.parametrize(
    ("shape", "size", "groups"),
    [
        ([2, 2], [16, 16, 1], [1, 1, 1]),
        ([33, 17], [16, 16, 1], [2, 3, 1]),
        ([2, 3, 5, 7], [4, 4, 1], [2, 2, 6]),
        ([1000], [64, 1, 1], [16, 1, 1]),
        ([], [64, 1, 1], [1, 1, 1]),
    ],
)
def test_workgroups_cover_the_first_output(shape, size, groups):
    """The last dimension in x, the one before in y, the others in z."""
    assert workgroups_for(shape, size) == groups


def test_every_device_gives_one_result(vulkan):
    """HLX's own shader, by its twin and by SPIR-V, has the bits of hlx's operation."""
    kernel = product()
    cpu = hlx.VulkanContext("cpu")
    a, b, bias = (hlx.resolve(one["tensor"]) for one in kernel["inputs"])
    result = cpu.execute_kernel(kernel)
    assert hlx.VulkanContext(vulkan).execute_kernel(hlx.collapse(kernel)) == result
    # The chain of a product with a bias starts at the bias, as that of hlx's linear layers.
    assert hlx.resolve(result).digest() == hlx.nn.functional.linear(a, b.t().contiguous(), bias).digest()


def test_the_contracts_of_hlxs_own_kernels(device):
    """A product and a sum, which every device runs to the bits of hlx's operations."""
    ctx = hlx.VulkanContext(device)
    a, b, bias = hlx.randn(70, 33), hlx.randn(33, 129), hlx.randn(129)
    expected = {
        hlx.matmul(a, b).digest(): contracts.product("c", a, hlx.collapse(b)),
        hlx.nn.functional.linear(a, b.t(), bias).digest(): contracts.product("c", a, b, bias),
        (a + 1.5).digest(): contracts.sum("c", a, hlx.full_like(a, 1.5)),
    }
    for digest, contract in expected.items():
        assert hlx.resolve(ctx.execute_kernel(contract)).digest() == digest
    for wrong, line in [
        (lambda: contracts.product("c", a, a), "c: a is [70, 33] and b [70, 33], expected b [33, ..]"),
        (lambda: contracts.product("c", a, bias), "c: b has shape [129], expected two dimensions"),
        (lambda: contracts.sum("c", b"x", a), "holds bytes, expected a tensor"),
        (lambda: ctx.execute_kernel(contracts.sum("c", a, b)), "is f32 [33, 129], expected f32 [70, 33]"),
        (lambda: ctx.execute_kernel(contracts.product("c", a, b, a)), "is f32 [70, 33], expected f32 [129]"),
    ]:
        with pytest.raises(hlx.errors.ValueError) as caught:
            wrong()
        assert line in str(caught.value)


def test_an_axpy_with_push_constants_of_numbers_and_bytes(vulkan):
    """Numbers, scalars of the JSON form and bytes are one contract."""
    # Its second binding is read and written; an output starts as zeros.
    fields = gemm(
        kernel_name="axpy",
        shader_handle=hlx.collapse({"900": {"spirv_binary": AXPY}}),
        inputs=[[1.0, 2.0, 3.0]],
        outputs=[[3]],
    )
    ctx = hlx.VulkanContext(vulkan)
    numbers = ctx.execute({"901": {**fields, "push_constants": [3, 0.1]}})
    words = [{"u32": 3}, {"f32": 0.1}]
    packed = b"\x03\0\0\0\xcd\xcc\xcc\x3d"
    for push in [words, packed]:
        assert hlx.collapse({"901": {**fields, "push_constants": push}}) == hlx.collapse(
            {"901": {**fields, "push_constants": [3, 0.1]}}
        )
    expected = hlx.tensor([1.0, 2.0, 3.0]) * 0.1
    assert hlx.resolve(numbers.handle).digest() == expected.digest()
    assert numbers.outputs == {"output0": numbers.handle} and numbers.run_ms > 0


def test_pipelines_link_and_return_several_outputs(vulkan):
    """Kernels as dicts and handles; names that two kernels share."""
    ctx = hlx.VulkanContext(vulkan)
    first = gemm(outputs=[{"name": "c", "shape": [2, 2]}])
    second = gemm(
        kernel_name="again",
        inputs=[{"name": "a"}, hlx.collapse([[1.0, 0.0], [0.0, 2.0]])],
        outputs=[{"name": "c", "shape": [2, 2]}],
    )
    fields = {
        "pipeline_name": "twice",
        "kernels": [first, hlx.collapse({"901": first}), second],
        "links": [{"from": [0, "c"], "to": [2, "a"]}],
        "outputs": [[0, "c"], [2, "c"]],
    }
    pipeline = hlx.collapse({"902": fields})
    results = hlx.resolve(ctx.execute_pipeline(pipeline))
    assert {name: tensor.tolist() for name, tensor in results.items()} == {
        "0.c": [[19.0, 22.0], [43.0, 50.0]],
        "2.c": [[19.0, 44.0], [43.0, 100.0]],
    }
    del fields["outputs"]  # Those of the last kernel.
    one = ctx.execute_pipeline({"902": fields})
    assert hlx.resolve(one).tolist() == [[19.0, 44.0], [43.0, 100.0]]


def test_a_prepared_contract_runs_again():
    """And stores its results if it is asked to."""
    store = contracts.Store()
    ctx = hlx.VulkanContext("cpu", store=store)
    kernel = product()
    for one in kernel["inputs"]:
        one["tensor"] = hlx.collapse(hlx.resolve(one["tensor"]), store=store)
    prepared = ctx.prepare(kernel)
    unstored = prepared.run(stored=False)
    assert unstored.handle not in store
    assert prepared.run().handle == unstored.handle and unstored.handle in store


def test_stores_in_memory_folders_and_processes(tmp_path):
    """Memory is emptied, folders are shared, and no other one is written."""
    memory = contracts.Store()
    handle = hlx.collapse([1.0], store=memory)
    assert handle in memory and (len(memory), memory.nbytes) == (1, 4)
    assert memory.remove(handle) and handle not in memory and not memory.remove(handle)
    hlx.collapse(b"x", store=memory)
    memory.clear()
    assert len(memory) == 0

    folder = contracts.Store(tmp_path / "store")
    handle = hlx.collapse([[1.0, 2.0]], store=folder)
    code = f"import hlx; print(hlx.resolve('{handle}', store={str(folder.path)!r}).tolist())"
    assert run(code, tmp_path) == "[[1.0, 2.0]]\n"
    with pytest.raises(hlx.errors.ValueError, match="is a folder; `hlx store gc` collects it"):
        folder.clear()
    # Nothing is written to the user's store unless it is named.
    code = "import hlx; hlx.collapse([1.0]); print(hlx.collapse([2.0], store='user'))"
    environment = {"HLX_STORE": str(tmp_path / "user"), "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    objects = list((tmp_path / "user/objects").glob("*/*"))
    assert ["sha256:" + path.parent.name + path.name for path in objects] == [done.stdout.strip()]
