"""Which calls draw random numbers, and the check of the generator that they are given.

On a machine with accelerators every device has a generator of its own, and a draw takes the one of the device that it
writes to (docs.pytorch.org/docs/stable/notes/randomness.html; aten/src/ATen/native/Distributions.cpp).
"""

from __future__ import annotations

from typing import Any

import torch

from . import texts
from .machine import Machine

_FUNCTIONS: list[str] = [
    "rand",
    "rand_like",
    "randn",
    "randn_like",
    "randint",
    "randint_like",
    "randperm",
    "normal",
    "bernoulli",
    "multinomial",
    "poisson",
    "binomial",
    "dropout",
    "dropout_",
    "native_dropout",
    "alpha_dropout",
    "alpha_dropout_",
    "feature_dropout",
    "feature_dropout_",
    "feature_alpha_dropout",
    "feature_alpha_dropout_",
    "rrelu",
    "rrelu_",
    "_sample_dirichlet",
    "_standard_gamma",
    "_dirichlet_grad",
]
_METHODS = [
    "bernoulli",
    "bernoulli_",
    "cauchy_",
    "exponential_",
    "geometric_",
    "log_normal_",
    "multinomial",
    "normal_",
    "random_",
    "uniform_",
]
_NN = ["rrelu_with_noise", "rrelu_with_noise_", "scaled_dot_product_attention"]

DRAWS: frozenset[Any] = frozenset(
    [getattr(torch, name) for name in _FUNCTIONS if hasattr(torch, name)]
    + [getattr(torch._C._VariableFunctions, name) for name in _FUNCTIONS if hasattr(torch._C._VariableFunctions, name)]
    + [getattr(torch.Tensor, name) for name in _METHODS]
    + [getattr(torch._C._nn, name) for name in _NN if hasattr(torch._C._nn, name)]
)


def check_generator(machine: Machine, place: torch.device | None, kwargs: dict[str, Any]) -> None:
    """Raise torch's RuntimeError where the generator belongs to another type of device than the numbers."""
    generator = kwargs.get("generator")
    if generator is None:
        return
    wanted = "cpu" if place is None else place.type
    if generator.device.type != wanted:
        raise texts.generator_type(wanted, generator.device.type)
