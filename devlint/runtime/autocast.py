"""torch.autocast on a simulated device.

torch's own autocast acts on CPU tensors when it is switched on for "cpu" and on accelerators when it is switched on
for them. So a call whose tensors lie on a simulated device is made under the CPU's autocast, with the dtype chosen for
the device, whenever the device's autocast is on. The CPU has a shorter list of operations that go up to float32;
what the device adds to it stands here (docs.pytorch.org/docs/stable/amp.html, "CUDA Ops that can autocast to float32").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from .machine import Machine

FLOAT32 = frozenset(
    [
        "__pow__",
        "__rdiv__",
        "__rpow__",
        "__rtruediv__",
        "acos",
        "asin",
        "binary_cross_entropy_with_logits",
        "cosh",
        "cosine_embedding_loss",
        "cdist",
        "cosine_similarity",
        "cross_entropy_loss",
        "cumprod",
        "cumsum",
        "dist",
        "erfinv",
        "exp",
        "expm1",
        "group_norm",
        "hinge_embedding_loss",
        "kl_div",
        "l1_loss",
        "layer_norm",
        "log",
        "log10",
        "log_softmax",
        "log1p",
        "log2",
        "margin_ranking_loss",
        "mse_loss",
        "multilabel_margin_loss",
        "multi_margin_loss",
        "nll_loss",
        "nll_loss_nd",
        "norm",
        "normalize",
        "pdist",
        "poisson_nll_loss",
        "pow",
        "prod",
        "reciprocal",
        "rsqrt",
        "sinh",
        "smooth_l1_loss",
        "soft_margin_loss",
        "softmax",
        "softmin",
        "softplus",
        "sum",
        "renorm",
        "tan",
        "triplet_margin_loss",
    ]
)
_HALVES = (torch.float16, torch.bfloat16)


def _same(values: Any) -> Any:
    return values


def _upcast(values: Any) -> Any:
    """The arguments with the half tensors in them as float32."""
    if isinstance(values, torch.Tensor):
        return values.float() if values.dtype in _HALVES else values
    if type(values) in (list, tuple):
        return type(values)(_upcast(value) for value in values)
    if isinstance(values, dict):
        return {key: _upcast(value) for key, value in values.items()}
    return values


@contextmanager
def like(machine: Machine, func: Any, cache: bool = True) -> Iterator[Callable[[Any], Any]]:
    """Call under the device's autocast; yields what to do to the arguments first.

    Without `cache` weights are cast anew: a cast that comes from the cache does not say where its weight lies.
    """
    if not torch.is_autocast_enabled(machine.kind):
        yield _same
        return
    if getattr(func, "__name__", "") in FLOAT32:
        yield _upcast
        return
    enabled, dtype = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
    kept = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(kept and cache)
    torch.set_autocast_enabled("cpu", True)
    torch.set_autocast_dtype("cpu", torch.get_autocast_dtype(machine.kind))
    try:
        yield _same
    finally:
        torch.set_autocast_cache_enabled(kept)
        torch.set_autocast_enabled("cpu", enabled)
        torch.set_autocast_dtype("cpu", dtype)
