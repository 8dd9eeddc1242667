"""Where the result would be another: the fix is withheld or names the difference, and there is one.

A fix is withheld where the gradient of the whole batch is not the mean of its halves' gradients.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch
from migration import compare
from migration.conftest import Runs
from migration.scripts import APART, FOLDER, NAMED, WITHHELD
from torch import nn
from torch.utils.data import DataLoader

from devlint.config import Config
from devlint.engine import check_text
from devlint.finding import Finding
from devlint.source import Source


def finding(path: Path) -> Finding:
    (found,) = check_text(Source(path.name, path.read_text()), Config(select=("DEV501",))).findings
    return found


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


@pytest.mark.parametrize(("name", "words"), WITHHELD.items())
def test_two_processes_would_follow_another_gradient(name: str, words: str) -> None:
    path = FOLDER / "withheld" / f"{name}.py"
    assert difference(runpy.run_path(str(path))) > 0.01
    found = finding(path)
    assert found.fix is None
    assert words in (found.no_fix or "")


@pytest.mark.parametrize(("name", "words"), APART.items())
def test_processes_would_stop_or_differ(name: str, words: str) -> None:
    found = finding(FOLDER / "withheld" / f"{name}.py")
    assert found.fix is None
    assert words in (found.no_fix or "")


def test_they_follow_the_same_one_where_the_loss_is_a_mean() -> None:
    script = runpy.run_path(str(FOLDER / "withheld" / "summed_loss.py"))
    script["batch_loss"] = lambda model, batch: nn.functional.mse_loss(model(batch[0]), batch[1])
    assert difference(script) < 1e-6


@pytest.mark.parametrize("name", NAMED)
def test_a_difference_that_is_named(name: str, runs: Runs) -> None:
    before, after = runs.of(f"{name}, before"), runs.of(f"{name}, after")
    assert (before.error, after.error) == ("", "")
    assert compare.files(before.files, after.files) == []
    assert compare.values(before.files, after.files, 1e-3) != []
    fix = finding(FOLDER / "named" / f"{name}.py").fix
    assert fix is not None
    assert NAMED[name][1] in fix.title


def test_all_scripts_are_listed() -> None:
    assert {path.stem for path in (FOLDER / "withheld").glob("*.py")} == set(WITHHELD) | set(APART)
    assert {path.stem for path in (FOLDER / "named").glob("*.py")} == set(NAMED) | {f"{name}.fixed" for name in NAMED}
