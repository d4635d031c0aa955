"""The compute layer: kernels on tensors, push constants, graphs, times, and what does not fit."""

import threading

import pytest
from shaders import AXPY, EXAMPLES, GEMM

import hlx
from hlx import compute


@pytest.fixture
def ctx(vulkan):
    """A context of each Vulkan device under test."""
    return hlx.VulkanContext(vulkan)


@pytest.fixture
def axpy(ctx):
    """`y = a x + y` for the first `count` elements; push constants count and a."""
    return ctx.kernel(AXPY, name="axpy")


def ramp(n: int) -> hlx.Tensor:
    """0, 1/8, 2/8, .."""
    return hlx.arange(n).to(hlx.float32) / 8


def test_the_interface_of_a_shader(tmp_path):
    """From bytes, buffers and paths."""
    shader = compute.Shader(AXPY)
    assert shader.bindings == [
        compute.Binding(0, "X", ["f32"], reads=True, writes=False),
        compute.Binding(1, "Y", ["f32"], reads=True, writes=True),
    ]
    assert shader.push_constants == ["u32", "f32"] and shader.workgroup_size == [64, 1, 1]
    assert shader.constants == {}
    path = tmp_path / "axpy.spv"
    path.write_bytes(AXPY)
    for source in [path, str(path), bytearray(AXPY), memoryview(AXPY)]:
        assert compute.Shader(source).spirv == AXPY
    ids = compute.Shader(GEMM).constants
    assert {id: (one.name, one.kind, one.default) for id, one in ids.items()} == {
        1000: ("HLX_NATIVE_FMA", "u32", 1),
        1001: ("HLX_NATIVE_FLUSH", "u32", 1),
    }


@pytest.mark.parametrize("own", [True, False], ids=["memory of its own", "memory that is shared"])
def test_a_kernel_changes_what_it_stores_to(ctx, axpy, own):
    """In memory of its own, and in memory that it is copied from and back to."""
    place = ctx.tensor if own else (lambda x: x.to(ctx.device))
    x, y = place(ramp(100)), place(hlx.ones(100))
    axpy(x, y, push=[100, 0.5])
    expected = ramp(100) * 0.5 + 1
    assert y.device == ctx.device and y.digest() == expected.digest()
    axpy(x, y, push=b"\x0a\0\0\0\0\0\0\x3f", workgroups=1)  # Ten elements, as bytes.
    expected[:10] += ramp(10) * 0.5
    assert y.digest() == expected.digest()


def test_a_view_that_is_not_in_row_major_order_is_stored_to(ctx, axpy):
    """And the elements beside it stay."""
    y = hlx.ones(20, 10, device=ctx.device)
    x = ramp(100).to(ctx.device)
    for view in [y[::2], y[1::2, :].t(), y.flatten()[3:13]]:
        before, count = view.to("cpu"), view.numel()
        axpy(x[:count], view, push=[count, 2.0], workgroups=2)
        expected = before + 2 * ramp(count).reshape(before.shape)
        assert view.digest() == expected.digest()


def test_launches_follow_hlxs_operations_in_order(ctx, axpy):
    """Without a wait in between."""
    x = ramp(1000).to(ctx.device)
    y = ctx.zeros([1000])
    for _ in range(20):
        x = x + 1
        axpy(x, y, push=[1000, 1.0])
    total = hlx.zeros(1000)
    for step in range(20):
        total = total + (ramp(1000) + (step + 1))
    assert (y + 0).digest() == total.digest()


def test_workgroups_cover_the_tensor_that_is_stored_to(ctx):
    """If none are given; gemm.spv has the bits of hlx.matmul."""
    gemm = ctx.kernel(GEMM, name="gemm")
    a, b = hlx.randn(33, 70), hlx.randn(70, 50)
    c = ctx.zeros([33, 50])
    gemm(ctx.tensor(a), ctx.tensor(b), c)
    assert c.digest() == hlx.matmul(a, b).digest()


def test_a_kernel_reaches_no_other_tensor(ctx, axpy):
    """With indices far past its own."""
    before = hlx.full((4096,), 777.0, device=ctx.device)
    x, y = hlx.ones(64, device=ctx.device), hlx.zeros(64, device=ctx.device)
    after = hlx.full((4096,), 777.0, device=ctx.device)
    axpy(x, y, push=[1 << 22, 1.0], workgroups=65535)
    assert y.tolist() == [1.0] * 64
    for guard in [before, after]:
        assert guard.tolist() == [777.0] * 4096


def test_a_graph_replays_kernels_and_operations(ctx, axpy):
    """Over inputs that change in place."""
    x, y = ctx.zeros([64]), ctx.zeros([64])
    with ctx.record() as graph:
        twice = x * 2
        axpy(twice, y, push=[64, 1.0])
        result = y.exp()
    assert len(graph) >= 3
    assert y.tolist() == [0.0] * 64  # Recorded, not run.
    total = hlx.zeros(64)
    for step in range(3):
        values = ramp(64) - step
        x.copy_(values)
        graph.replay()
        total = total + values * 2
        assert (y.digest(), result.digest()) == (total.digest(), total.exp().digest())
    graph.replay(2)
    assert y.digest() == (total + values * 2 + values * 2).digest()


def test_a_graph_records_on_the_cpu_too():
    """Operations of HLX alone."""
    ctx = hlx.VulkanContext("cpu")
    x = ctx.tensor([1.0, 2.0])
    with ctx.record() as graph:
        y = x * 3
    x.copy_(hlx.tensor([5.0, 7.0]))
    graph.replay()
    assert y.tolist() == [15.0, 21.0]


def test_a_recording_that_fails_leaves_the_device_usable(ctx, axpy):
    """And says what is not possible meanwhile."""
    x, y = ctx.tensor(ramp(8)), ctx.zeros([8])
    graph = ctx.record()
    with pytest.raises(hlx.errors.RuntimeError, match="nothing was recorded"):
        graph.replay()
    with pytest.raises(ZeroDivisionError), graph:
        axpy(x, y, push=[8, 1.0])
        with pytest.raises(hlx.errors.RuntimeError, match="still being recorded"):
            graph.replay()
        with pytest.raises(hlx.errors.ValueError, match="not possible while a graph is being recorded"):
            x.tolist()
        with pytest.raises(hlx.errors.ValueError, match="a graph is already being recorded"), ctx.record():
            pass
        raise ZeroDivisionError
    assert y.tolist() == [0.0] * 8
    with pytest.raises(hlx.errors.RuntimeError, match="its recording failed"):
        graph.replay()
    with pytest.raises(hlx.errors.RuntimeError, match="recorded once"), graph:
        pass
    axpy(x, y, push=[8, 1.0])
    assert y.digest() == ramp(8).digest()


def test_another_thread_cannot_launch_into_a_recording(ctx, axpy):
    """It gets an error, and the graph is not changed."""
    x, y = ctx.tensor(ramp(8)), ctx.zeros([8])
    errors = []

    def launch() -> None:
        try:
            axpy(x, y, push=[8, 1.0])
        except hlx.errors.ValueError as error:
            errors.append(str(error))

    with ctx.record() as graph:
        thread = threading.Thread(target=launch)
        thread.start()
        thread.join()
        axpy(x, y, push=[8, 2.0])
    assert errors and "another thread is recording a graph" in errors[0]
    graph.replay()
    assert y.digest() == (ramp(8) * 2).digest()


def test_threads_launch_one_kernel(ctx, axpy):
    """Each launch is whole."""
    x, y = ctx.tensor(hlx.ones(64)), ctx.zeros([64])

    def launch() -> None:
        for _ in range(20):
            axpy(x, y, push=[64, 1.0], workgroups=1)

    threads = [threading.Thread(target=launch) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert y.tolist() == [1000.0] * 64


def test_launches_are_timed(ctx, axpy):
    """One by one, under the kernel's name."""
    x, y = ctx.tensor(ramp(64)), ctx.zeros([64])
    with ctx.timing() as times:
        with ctx.record() as graph:
            axpy(x, y, push=[64, 1.0])
        axpy(x, y, push=[64, 1.0])
        graph.replay(2)
    assert [launch.name for launch in times.launches] == ["axpy"] * 3
    assert [(kernel.name, kernel.calls) for kernel in times.kernels] == [("axpy", 3)]
    starts = [launch.start_us for launch in times.launches]
    assert starts[0] == 0 and starts == sorted(starts)
    assert times.total_ms == pytest.approx(sum(launch.duration_us for launch in times.launches) / 1e3)
    axpy(x, y, push=[64, 1.0])
    ctx.synchronize()
    with ctx.timing() as empty:
        pass
    assert empty.launches == []  # What ran without timing is not measured.


def test_specialization_constants(ctx):
    """By id; they choose the operation of one of HLX's shaders."""
    # HLX's binary element-wise shader; constant 0 is the operation: 0 adds, 1 subtracts.
    path = EXAMPLES.parent / "crates/hlx-kernels/spv/elementwise/binary.spv"
    shader = compute.Shader(path)
    assert shader.constants[0].kind == "u32"
    a, b = ramp(64), hlx.ones(64)
    expected = {0: a + b, 1: a - b}
    for operation, result in expected.items():
        c = ctx.zeros([64])
        kernel = ctx.kernel(shader, name="binary", constants={0: operation})
        kernel(ctx.tensor(a), ctx.tensor(b), c, push=[64, 0.0])
        assert c.digest() == result.digest()


def test_memory_of_the_context(ctx):
    """Zeros, and copies of what is given."""
    x = ctx.tensor([[1, 2], [3, 4]], dtype=hlx.int32)
    assert (x.dtype, x.device, x.tolist()) == (hlx.int32, ctx.device, [[1, 2], [3, 4]])
    assert ctx.zeros([2, 3]).tolist() == [[0.0] * 3] * 2
    assert ctx.zeros([0, 3]).shape == (0, 3)
    source = hlx.ones(4, device=ctx.device)
    copy = ctx.tensor(source)
    copy.add_(1)
    assert source.tolist() == [1.0] * 4 and copy.tolist() == [2.0] * 4


def test_gradients_do_not_get_lost(ctx, axpy):
    """A tensor that requires one is refused, and a change in place is noted."""
    x = hlx.ones(8, device=ctx.device, requires_grad=True)
    y = ctx.zeros([8])
    with pytest.raises(hlx.errors.ValueError, match=r"axpy: binding 0 \(X\): the tensor requires a gradient"):
        axpy(x, y, push=[8, 1.0])
    with hlx.no_grad():
        axpy(x, y, push=[8, 1.0])
    # A change in place is seen by the backward pass that has saved the values.
    w = hlx.ones(8, device=ctx.device, requires_grad=True)
    loss = (w * y).sum()
    axpy(x.detach(), y, push=[8, 1.0])
    with pytest.raises(hlx.errors.RuntimeError):
        loss.backward()


def wrong_calls(ctx, axpy):
    """Calls by the lines that they raise."""
    x, y = ctx.zeros([8]), ctx.zeros([8])
    push = [8, 1.0]
    return {
        "axpy: 1 tensors, the shader binds 2 (X, Y)": lambda: axpy(x, push=push),
        "axpy: binding 0 (X): dtype i32, the shader's `X` holds f32": lambda: axpy(x.to(hlx.int32), y, push=push),
        "axpy: binding 0 (X): dtype f16, expected f32, u32 or i32": lambda: axpy(x.to(hlx.float16), y, push=push),
        "axpy: binding 1 (Y): a tensor without elements": lambda: axpy(x, y[:0], push=push, workgroups=1),
        "axpy: binding 1 (Y): it shares memory with binding 0, and the shader stores to it": lambda: axpy(
            x, x, push=push
        ),
        "axpy: push constants: 1 numbers, the shader's block has 2 (u32, f32)": lambda: axpy(x, y, push=[8]),
        "axpy: push constants: 4 bytes, the shader's block has 8": lambda: axpy(x, y, push=b"1234"),
        "axpy: push constants: -1 is no u32": lambda: axpy(x, y, push=[-1, 1.0]),
        "axpy: push constants: 0.5 is no u32": lambda: axpy(x, y, push=[0.5, 1.0]),
        "axpy: [0, 1, 1] workgroups: nothing would run": lambda: axpy(x, y, push=push, workgroups=0),
        "axpy: workgroups is [1, 2, 3, 4], expected at most 3 integers": lambda: axpy(
            x, y, push=push, workgroups=[1, 2, 3, 4]
        ),
        "axpy: specialization constant 9: the shader has none of this id": lambda: ctx.kernel(
            AXPY, name="axpy", constants={9: 1}
        ),
        "no entry point `other`: it has `main`": lambda: ctx.kernel(AXPY, entry_point="other"),
        "the SPIR-V is refused: 3 bytes are no whole number of words": lambda: ctx.kernel(b"abc"),
    }


def test_what_does_not_fit_is_one_line(ctx, axpy):
    """Tensors, push constants, workgroups, constants, SPIR-V."""
    for line, call in wrong_calls(ctx, axpy).items():
        with pytest.raises(hlx.errors.ValueError) as caught:
            call()
        assert line in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(
        hlx.errors.ValueError, match=r"axpy: binding 0 \(X\): the tensor is on .*\[cpu\], the kernel on"
    ):
        axpy(hlx.zeros(8), ctx.zeros([8]), push=[8, 1.0])
    with pytest.raises(hlx.errors.ValueError, match="workgroups"):
        axpy(ctx.zeros([8]), ctx.zeros([8]), push=[8, 1.0], workgroups=(1, 1 << 20, 1))
    with pytest.raises(hlx.errors.TypeError, match="axpy: binding 1 is list, expected a tensor"):
        axpy(ctx.zeros([8]), [0.0] * 8, push=[8, 1.0])
    with pytest.raises(hlx.errors.TypeError, match="zeros: shape is 8, expected a list of integers"):
        ctx.zeros(8)
    with pytest.raises(hlx.errors.TypeError, match="Shader: spirv is int, expected bytes or a path"):
        ctx.kernel(7)


def test_the_cpu_refuses_spirv():
    """With the line of docs/contracts.md."""
    with pytest.raises(hlx.errors.RuntimeError, match="is SPIR-V; the CPU device runs HLX's own kernels"):
        hlx.VulkanContext("cpu").kernel(AXPY)


def test_a_kernel_with_a_gradient(ctx):
    """In an autograd.Function, whose forward is not on the tape."""
    kernel = ctx.kernel(EXAMPLES / "python/inference.spv", name="scaled_relu_squared")
    scale, bias = ctx.tensor(hlx.rand(8) + 0.5), ctx.tensor(hlx.randn(8))

    class ScaledReluSquared(hlx.autograd.Function):
        @staticmethod
        def forward(context, x):
            context.save_for_backward(x)
            y = ctx.zeros(x.shape)
            kernel(x, scale, bias, y, workgroups=-(-x.numel() // 64))
            return y

        @staticmethod
        def backward(context, dy):
            (x,) = context.saved_tensors
            return dy * 2 * (x * scale + bias).relu() * scale

    values = hlx.randn(5, 8)
    x = values.to(ctx.device).requires_grad_()
    y = ScaledReluSquared.apply(x)
    y.sum().backward()
    expected = values.clone().requires_grad_()
    result = (expected * scale.cpu() + bias.cpu()).relu().square()
    result.sum().backward()
    assert y.detach().digest() == result.detach().digest()
    assert hlx.allclose(x.grad.cpu(), expected.grad)
