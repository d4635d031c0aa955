"""Tensors and gradients with the same bits on any Vulkan GPU and on the CPU.

The names are PyTorch's. A tensor is on the CPU unless a device is named:

>>> x = hlx.tensor([1.0, 2.0, 3.0], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
tensor([2., 4., 6.])
"""

import atexit as _atexit
import math as _math
import os as _os

from hlx import _hlx, errors
from hlx._hlx import (
    Generator,
    Tensor,
    device,
    digest,
    dtype,
    from_dlpack,
    get_default_device,
    initial_seed,
    is_grad_enabled,
    manual_seed,
    note_fork,
    set_default_device,
)
from hlx._size import Size
from hlx.errors import Error

float32 = float = dtype("float32")
float16 = half = dtype("float16")
bfloat16 = dtype("bfloat16")
int32 = int = dtype("int32")
uint32 = dtype("uint32")
int8 = dtype("int8")
uint8 = dtype("uint8")
bool = dtype("bool")
int16 = short = dtype("int16")
int64 = long = dtype("int64")
float64 = double = dtype("float64")

from hlx import _differentiation, _exchange, autograd  # noqa: E402
from hlx._compile import compile  # noqa: E402
from hlx._exchange import (  # noqa: E402
    as_tensor,
    asarray,
    from_numpy,
    from_torch,
    load_file,
    save_file,
    tensor,
)
from hlx._modes import (  # noqa: E402
    enable_grad,
    get_default_dtype,
    inference_mode,
    no_grad,
    set_default_dtype,
    set_grad_enabled,
)
from hlx._operations import install as _install  # noqa: E402
from hlx._settings import (  # noqa: E402
    are_deterministic_algorithms_enabled,
    get_float32_matmul_precision,
    set_float32_matmul_precision,
    use_deterministic_algorithms,
)

_install(globals(), Tensor)
for _name, _method in {**_differentiation.METHODS, **_exchange.METHODS}.items():
    setattr(Tensor, _name, _method)

from hlx import (  # noqa: E402
    _array_api,
    accelerator,
    amp,
    backends,
    callbacks,
    compute,
    contracts,
    cuda,
    func,
    linalg,
    models,
    nn,
    optim,
    random,
    return_types,
    runs,
    serialization,
    text,
    utils,
    vulkan,
)
from hlx.amp import (  # noqa: E402
    autocast,
    clear_autocast_cache,
    get_autocast_dtype,
    is_autocast_cache_enabled,
    is_autocast_enabled,
    set_autocast_cache_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from hlx.contracts import Handle, VulkanContext, collapse, resolve  # noqa: E402
from hlx.models import load_model  # noqa: E402
from hlx.random import get_rng_state, seed, set_rng_state  # noqa: E402
from hlx.runs import Audit, AuditCheck, Run, Verification, audit, check_audit, new_key, train, verify  # noqa: E402
from hlx.serialization import load, save  # noqa: E402

_array_api.attach(Tensor)

#: What the package has, as `pip` installs it.
__version__ = "0.1.0"
e, pi, inf, nan = _math.e, _math.pi, _math.inf, _math.nan
newaxis = None

_atexit.register(_hlx.finish)
if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=note_fork)
