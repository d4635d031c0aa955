"""The older names of `hlx.amp`."""

from __future__ import annotations

from hlx import amp
from hlx._hlx import dtype

__all__ = ["GradScaler", "autocast"]


class GradScaler(amp.GradScaler):
    """`hlx.amp.GradScaler`, as `torch.cuda.amp` has it."""

    def __init__(
        self,
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


#: What `torch.cuda.amp.autocast` computes in by default.
_FLOAT16 = dtype("float16")


class autocast(amp.autocast):
    """`hlx.autocast` for Vulkan devices, as `torch.cuda.amp` has it."""

    def __init__(self, enabled: bool = True, dtype: dtype = _FLOAT16, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)
