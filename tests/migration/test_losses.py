"""Why a fix is withheld: the gradient of the whole batch is not the mean of its halves' gradients."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch
from migration.scripts import FOLDER
from torch import nn
from torch.utils.data import DataLoader

WITHHELD = sorted((FOLDER / "withheld").glob("*.py"))


def gradient(script: dict[str, object], batch: list[torch.Tensor]) -> torch.Tensor:
    """The gradient of a script's loss for these samples, by all parameters of a new model of its."""
    model = script["make_model"]()  # type: ignore[operator]
    script["batch_loss"](model, batch).backward()  # type: ignore[operator]
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def difference(script: dict[str, object]) -> float:
    """By how much two processes miss the gradient of the first batch of 16, relative to its norm."""
    batch = next(iter(DataLoader(script["make_data"](), batch_size=16)))  # type: ignore[arg-type, operator]
    whole = gradient(script, batch)
    halves = [gradient(script, [part[rank::2] for part in batch]) for rank in range(2)]
    return ((sum(halves) / 2 - whole).norm() / whole.norm()).item()


@pytest.mark.parametrize("path", WITHHELD, ids=lambda path: path.stem)
def test_two_processes_would_follow_another_gradient(path: Path) -> None:
    assert difference(runpy.run_path(str(path))) > 0.01


def test_they_follow_the_same_one_where_the_loss_is_a_mean() -> None:
    script = runpy.run_path(str(FOLDER / "withheld" / "summed_loss.py"))
    script["batch_loss"] = lambda model, batch: nn.functional.mse_loss(model(batch[0]), batch[1])
    assert difference(script) < 1e-6
