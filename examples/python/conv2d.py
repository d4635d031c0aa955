"""A convolution of images by a kernel of one's own, with push constants, in a graph with operations of HLX.

The kernel is conv2d.comp, compiled to conv2d.spv by `cargo xtask shaders`. It sums in the order that docs/numerics.md
specifies, so that its bits are those of hlx.nn.functional.conv2d.

    python conv2d.py [DEVICE]
"""

import sys
from pathlib import Path

import hlx

SPIRV = Path(__file__).parent / "conv2d.spv"
BATCH, CHANNELS, OUT_CHANNELS, HEIGHT, WIDTH, KERNEL, PADDING = 2, 3, 8, 32, 48, 3, 1


def main(device: str | None = None) -> None:
    """Convolves random images, also in a graph with new images, and compares bits with HLX's convolution."""
    try:
        ctx = hlx.VulkanContext(device)
    except hlx.errors.RuntimeError as error:
        sys.exit(
            f"{error}\nThis example runs a shader: it needs a Vulkan driver (Debian: apt install mesa-vulkan-drivers)."
        )
    if ctx.is_cpu:
        sys.exit("The CPU device runs no SPIR-V: leave DEVICE out, or name a Vulkan device, such as vulkan:0.")
    conv2d = ctx.kernel(SPIRV, name="conv2d")
    print(f"device  {ctx.name}\nbinds   {', '.join(one.name for one in conv2d.shader.bindings)}")

    hlx.manual_seed(1)
    weights = hlx.randn(OUT_CHANNELS, CHANNELS, KERNEL, KERNEL)
    images = [hlx.randn(BATCH, CHANNELS, HEIGHT, WIDTH) for _ in range(3)]

    # Memory of the context is bound without a copy. The graph reads x, and writes y and what is made of it.
    x, w = ctx.zeros(images[0].shape), ctx.tensor(weights)
    y = ctx.zeros([BATCH, OUT_CHANNELS, HEIGHT, WIDTH])
    with ctx.record() as graph:
        # The workgroups cover y: its width in x, its height in y, and image and channel in z.
        conv2d(x, w, y, push=[CHANNELS, HEIGHT, WIDTH, OUT_CHANNELS, KERNEL, PADDING])
        positive = y.relu()
    print(f"graph   {len(graph)} launches")

    for image in images:
        x.copy_(image)
        graph.replay()
        expected = hlx.nn.functional.conv2d(image, weights, padding=PADDING)
        for found, wanted in ((y, expected), (positive, expected.relu())):
            if found.digest() != wanted.digest():
                sys.exit(f"the kernel's digest is {found.digest()}, that of hlx's convolution {wanted.digest()}")
    print(f"digest  {y.digest()}, equal to hlx's convolution on the CPU")


if __name__ == "__main__":
    main(*sys.argv[1:2])
