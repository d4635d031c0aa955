"""A matrix product by a kernel of one's own: as a contract, and as a kernel on tensors.

The kernel is gemm.comp, compiled to gemm.spv by `cargo xtask shaders`, or `glslangValidator -V -I../.. gemm.comp`. It
sums in the order that docs/numerics.md specifies, so that its bits are those of hlx.matmul.

    python gemm.py [DEVICE] [SIZE]
"""

import sys
from pathlib import Path

import hlx

SPIRV = (Path(__file__).parent / "gemm.spv").read_bytes()


def by_contract(ctx: hlx.VulkanContext, a: hlx.Tensor, b: hlx.Tensor) -> hlx.Tensor:
    """The product as a contract: its handle names all that the result depends on."""
    shader = hlx.collapse({"900": {"spirv_binary": SPIRV, "entry_point": "main", "shader_stage": "compute"}})
    kernel = hlx.collapse(
        {
            "901": {
                "kernel_name": "gemm",
                "shader_handle": shader,
                "workgroup_size": [16, 16, 1],
                "inputs": [hlx.collapse(a), hlx.collapse(b)],
                "outputs": [[a.shape[0], b.shape[1]]],
            }
        }
    )
    prepared = ctx.prepare(kernel)
    prepared.run(stored=False)  # The first run also warms the device up.
    result = prepared.run()
    print(f"kernel  {kernel}\nresult  {result.handle}\ntime    {result.run_ms:.2f} ms, from the submission to its end")
    return hlx.resolve(result.handle)


def on_tensors(ctx: hlx.VulkanContext, a: hlx.Tensor, b: hlx.Tensor) -> hlx.Tensor:
    """The product on tensors of the device, recorded as a graph and timed by the device's clock."""
    gemm = ctx.kernel(SPIRV, name="gemm")
    a, b, c = ctx.tensor(a), ctx.tensor(b), ctx.zeros([a.shape[0], b.shape[1]])
    with ctx.timing() as times:
        with ctx.record() as graph:
            gemm(a, b, c)
        graph.replay(3)
    best = min(launch.duration_us for launch in times.launches)
    gigaflops = 2 * a.shape[0] * a.shape[1] * b.shape[1] / best / 1e3
    print(f"graph   {len(times.launches)} launches, the fastest took {best:.0f} us: {gigaflops:.1f} GFLOP/s")
    return c.to("cpu")


def main(device: str | None = None, size: int = 256) -> None:
    """Computes a product in three ways and compares their bits."""
    try:
        ctx = hlx.VulkanContext(device)
    except hlx.errors.RuntimeError as error:
        sys.exit(
            f"{error}\nThis example runs a shader: it needs a Vulkan driver (Debian: apt install mesa-vulkan-drivers)."
        )
    if ctx.is_cpu:
        sys.exit("The CPU device runs no SPIR-V: leave DEVICE out, or name a Vulkan device, such as vulkan:0.")
    print(f"device  {ctx.name}, sizes {size} x {size + 1} x {size + 2}")
    hlx.manual_seed(1)
    a, b = hlx.randn(size, size + 2), hlx.randn(size + 2, size + 1)
    expected = hlx.matmul(a, b).digest()
    for found in (by_contract(ctx, a, b), on_tensors(ctx, a, b)):
        if found.digest() != expected:
            sys.exit(f"the kernel's digest is {found.digest()}, that of hlx.matmul {expected}")
    print(f"digest  {expected}, equal to hlx.matmul's on the CPU")


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:3]))
