"""What is wrong with a contract is one line, which names it."""

import os
import subprocess
import sys

import pytest
from shaders import GEMM, gemm

import hlx


def missing(field: str) -> dict[str, object]:
    """The contract without a field."""
    return {name: value for name, value in gemm().items() if name != field}


ABSENT = "sha256:" + "0" * 64
WRONG = [
    (lambda: {"900": {"spirv_binary": b"no module"}}, "the SPIR-V is refused: 9 bytes are no whole number of words"),
    (lambda: {"900": {"spirv_binary": GEMM[:-4]}}, "the SPIR-V is refused: "),
    (lambda: {"900": {"spirv_binary": GEMM, "entry_point": "other"}}, "no entry point `other`: it has `main`"),
    (
        lambda: {"900": {"spirv_binary": GEMM, "shader_stage": "vertex"}},
        "unknown variant `vertex`, expected `compute`",
    ),
    (lambda: {"900": {}}, 'contract 900: the field "spirv" or "spirv_binary" is missing'),
    (lambda: {"901": missing("shader_handle")}, 'contract 901: the field "shader" or "shader_handle" is missing'),
    (lambda: {"901": missing("kernel_name")}, 'contract 901: the field "name" or "kernel_name" is missing'),
    (
        lambda: {"901": gemm(threads=3)},
        'contract 901: unknown field "threads", expected contract, name (kernel_name), ',
    ),
    (lambda: {"901": gemm(name="x")}, 'contract 901: "kernel_name" and "name" are the same field'),
    (lambda: {"903": {}}, "contract '903', expected 900 (shader), 901 (kernel) or 902 (pipeline)"),
    (lambda: {"901": gemm(), "902": {}}, "found a dict with the keys ['901', '902']"),
    (lambda: {"901": gemm(inputs=[ABSENT, ABSENT])}, f"{ABSENT} is not in this process's memory"),
    (lambda: {"901": gemm(shader_handle=ABSENT)}, f"gemm: {ABSENT} is not in this process's memory"),
    (lambda: {"901": gemm(inputs=[None, None])}, "gemm: input `input0` has neither a tensor nor a shape"),
    (lambda: {"901": gemm(inputs=[hlx.collapse(b"x")] * 2)}, "holds bytes, expected a tensor"),
    (lambda: {"901": gemm(outputs=[2, 2])}, "gemm: output 0: shape is 2, expected a list of integers"),
    (lambda: {"901": gemm(outputs=[[-2, 2]])}, "gemm: output 0: shape is [-2, 2], expected no negative number"),
    (lambda: {"901": gemm(workgroup_size=[16, 16])}, "gemm: workgroup_size is [16, 16], expected 3 integers"),
    (lambda: {"901": gemm(specialization={7: 1})}, "gemm: specialization constant 7: the shader has none of this id"),
    (lambda: {"901": gemm(push_constants=[1])}, "gemm: push constants: 1 numbers, the shader's block has 0 ()"),
]


@pytest.mark.parametrize(("contract", "line"), WRONG, ids=[line[:40] for _, line in WRONG])
def test_a_wrong_contract_is_one_line(contract, line):
    """What is wrong by itself is found when it is collapsed."""
    with pytest.raises((hlx.errors.ValueError, hlx.errors.TypeError)) as caught:
        hlx.collapse(contract())
    text = str(caught.value)
    assert line in text and "\n" not in text


WRONG_TO_EXECUTE = [
    (lambda: gemm(workgroup_size=[8, 8, 1]), "gemm: workgroup_size is [8, 8, 1], the shader's [16, 16, 1]"),
    (lambda: gemm(workgroups=[0, 1, 1]), "gemm: [0, 1, 1] workgroups: nothing would run"),
    (lambda: gemm(inputs=[[[1.0]]]), "gemm: binding 2 (C): the shader has it, the contract binds nothing there"),
    (lambda: gemm(inputs=[[1.0]] * 3), "gemm: binding 2 (input2): it is an input, and the shader stores to it"),
    (
        lambda: gemm(inputs=[hlx.tensor([1, 2]), [1.0]]),
        "gemm: binding 0 (input0): dtype i32, the shader's `A` holds f32",
    ),
    (
        lambda: gemm(inputs=[hlx.tensor([1.0]).to(hlx.float16), [1.0]]),
        "gemm: binding 0 (input0): dtype f16, expected f32, u32 or i32",
    ),
    (lambda: gemm(outputs=[]), "gemm: no outputs"),
    (lambda: gemm(kernel_name="two words"), "expected a name of 1 to 128 bytes without spaces"),
]


@pytest.mark.parametrize(("fields", "line"), WRONG_TO_EXECUTE, ids=[line[:40] for _, line in WRONG_TO_EXECUTE])
def test_a_contract_that_does_not_fit_its_shader_is_one_line(fields, line, vulkan):
    """What is wrong with its shader is found before it runs."""
    ctx = hlx.VulkanContext(vulkan)
    with pytest.raises(hlx.errors.ValueError) as caught:
        ctx.execute_kernel({"901": fields()})
    assert line in str(caught.value) and "\n" not in str(caught.value)


def test_what_is_no_contract_is_refused():
    """Tensors, shaders and text in a contract's place."""
    ctx = hlx.VulkanContext("cpu")
    with pytest.raises(hlx.errors.TypeError, match="expected a kernel"):
        ctx.execute_kernel(hlx.collapse([1.0]))
    with pytest.raises(hlx.errors.ValueError, match="contract 901, expected 902"):
        ctx.execute_pipeline({"901": gemm()})
    with pytest.raises(hlx.errors.ValueError, match=r"a shader \(900\), expected a kernel"):
        ctx.prepare({"900": {"spirv_binary": GEMM}})
    with pytest.raises(hlx.errors.TypeError, match="collapse: a str is neither a tensor nor bytes"):
        hlx.collapse("text")
    with pytest.raises(hlx.errors.ValueError, match="is not in this process's memory"):
        hlx.resolve(ABSENT)


def test_the_cpu_refuses_a_shader_of_ones_own():
    """With the line of docs/contracts.md."""
    ctx = hlx.VulkanContext("cpu")
    with pytest.raises(hlx.errors.RuntimeError) as caught:
        ctx.execute_kernel({"901": gemm()})
    assert str(caught.value).endswith(
        "is not one of HLX's own; the CPU device runs HLX's own kernels, a Vulkan device any"
    )


def test_without_a_vulkan_device_the_cpu_is_named(tmp_path):
    """In one line."""
    code = """
import hlx
try:
    hlx.VulkanContext()
except hlx.errors.RuntimeError as error:
    print(error)
"""
    environment = {
        "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)),
        "VK_ICD_FILENAMES": "/none",
        "VK_DRIVER_FILES": "/none",
    }
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("VulkanContext: ") and 'VulkanContext("cpu") runs HLX' in done.stdout, done.stdout
    assert done.stdout.count("\n") == 1
