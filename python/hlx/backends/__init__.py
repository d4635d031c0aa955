"""Settings of PyTorch's backends, so that programs that set them run: none changes anything in HLX.

There is one arithmetic per device, and it is deterministic: products are never computed in TF32, and no algorithm is
chosen by trial. A setting keeps what it is given.

>>> hlx.backends.cuda.matmul.allow_tf32 = True
>>> hlx.backends.mps.is_available()
False
"""

from hlx.backends import cuda, cudnn, mps

__all__ = ["cuda", "cudnn", "mps"]
