"""Prints SHA-256 digests of small computations: they are the same on every system and device.

`cargo xtask python --wheels` compares what the wheels of other systems print. Run `python python/tools/digests.py
vulkan` for another device.
"""

import sys

import hlx


def network(device: str) -> hlx.Tensor:
    """Trains two layers by hand for ten steps and returns the weights of the first."""
    x, y = hlx.randn(64, 8, device=device), hlx.randn(64, 1, device=device)
    first = (0.3 * hlx.randn(8, 16, device=device)).requires_grad_()
    second = (0.3 * hlx.randn(16, 1, device=device)).requires_grad_()
    for _ in range(10):
        loss = ((hlx.tanh(x @ first) @ second - y) ** 2).mean()
        loss.backward()
        with hlx.no_grad():
            for weight in (first, second):
                weight -= 0.1 * weight.grad
                weight.grad = None
    return first.detach()


def main() -> None:
    """Prints a line per computation: its name and the digest of its result."""
    device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    hlx.manual_seed(1)
    x = hlx.randn(100, 37, device=device)
    results = {
        "functions": hlx.sin(x) * hlx.exp(x) / (1 + x * x),
        "product": x @ x.T,
        "sum": x.sum(0),
        "softmax": x.softmax(-1),
        "sort": x.sort(1)[0],
        "bfloat16": x.to(hlx.bfloat16).cumsum(0),
        "network": network(device),
    }
    for name, result in results.items():
        print(f"{name:10} {result.digest()}")


if __name__ == "__main__":
    main()
