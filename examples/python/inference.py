"""A small network whose layers are HLX's and whose activation is a kernel of one's own: the same digest everywhere.

Two layers of hlx.nn.functional.linear; between them y = max(x scale + bias, 0)^2, with a scale and a bias per column.
On a Vulkan device the activation is inference.comp, compiled to inference.spv by `cargo xtask shaders`; on the CPU
device, which runs no SPIR-V, it is the same formula of tensors. Every product and sum is rounded by itself in both, so
that the bits are equal.

    python inference.py [DEVICE ..]        by default the CPU, and the first Vulkan device if there is one
"""

import sys
from collections.abc import Callable
from pathlib import Path

import hlx

SPIRV = Path(__file__).parent / "inference.spv"
BATCH, INPUTS, HIDDEN, CLASSES = 32, 64, 128, 10

Activation = Callable[[hlx.Tensor, hlx.Tensor, hlx.Tensor], hlx.Tensor]


def activation(ctx: hlx.VulkanContext) -> Activation:
    """The activation on a device: by the kernel, or the same formula of tensors on the CPU."""
    if ctx.is_cpu:
        return lambda x, scale, bias: (x * scale + bias).relu().square()
    kernel = ctx.kernel(SPIRV, name="scaled_relu_squared")

    def run(x: hlx.Tensor, scale: hlx.Tensor, bias: hlx.Tensor) -> hlx.Tensor:
        y = ctx.zeros(x.shape)
        kernel(x, scale, bias, y, workgroups=-(-x.numel() // 64))
        return y

    return run


def infer(device: str | None) -> str:
    """Runs the network on a device and returns the digest of its probabilities."""
    ctx = hlx.VulkanContext(device)
    activate = activation(ctx)
    hlx.manual_seed(1)  # The same numbers on every device.
    parameters = {
        "first": hlx.randn(HIDDEN, INPUTS) / INPUTS**0.5,
        "scale": hlx.rand(HIDDEN) + 0.5,
        "bias": hlx.randn(HIDDEN),
        "last": hlx.randn(CLASSES, HIDDEN) / HIDDEN**0.5,
    }
    x = hlx.randn(BATCH, INPUTS).to(ctx.device)
    on_device = {name: values.to(ctx.device) for name, values in parameters.items()}
    with hlx.no_grad():
        hidden = hlx.nn.functional.linear(x, on_device["first"])
        hidden = activate(hidden, on_device["scale"], on_device["bias"])
        probabilities = hlx.nn.functional.linear(hidden, on_device["last"]).softmax(-1)
    digest = probabilities.digest()
    classes = probabilities.argmax(-1)[:8].tolist()
    print(f"{digest}  classes {classes} ..  {ctx.name} [{ctx.device}]")
    return digest


def main(*devices: str) -> None:
    """Runs the network on each device and compares the digests."""
    digests = {infer(device) for device in devices or ("cpu",)}
    if not devices:
        try:
            digests.add(infer(None))
        except hlx.errors.RuntimeError as error:
            print(f"only on the CPU: {error}")
    if len(digests) != 1:
        sys.exit("the digests differ")


if __name__ == "__main__":
    main(*sys.argv[1:])
