"""Devices, real and simulated: the only part of devlint that imports torch, and only once something here is called.

from devlint.runtime import simulate

with simulate(devices=2, kind="cuda"):
    model = torch.nn.Linear(4, 2).to("cuda:1")
    model(torch.zeros(1, 4))  # raises as it would on a machine with two GPUs
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .torch_import import TorchMissing, require_torch

if TYPE_CHECKING:
    from .simulation import Simulation

__all__ = ["TorchMissing", "simulate"]


def simulate(devices: int | None = None, kind: str = "cuda") -> Simulation:
    """A context manager in which a CPU build of torch behaves like a machine with accelerators.

    `devices` is their number (2 when not given; mps has one at most), `kind` is "cuda", "xpu" or "mps". Nothing is
    changed before the `with` block and everything is restored after it. See `devlint.runtime.simulation` for what is
    simulated and how. Raises TorchMissing without torch and ValueError for a kind or number that there is not.
    """
    require_torch()
    from .simulation import Simulation

    return Simulation(devices=devices, kind=kind)
