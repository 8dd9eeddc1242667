"""A loss that is an argument of the function: what is given to it beside the model's output must be there too."""

from __future__ import annotations

import pytest
from checks.helpers import check, fixed

PROGRAM = """\
import torch


def train(model, loader, criterion, device):
    model.to(device)
    for x, y in loader:
        {line}
        loss = criterion(model(x), y)
        {end}
"""


def test_a_target_left_behind_is_found_and_moved():
    text = PROGRAM.format(line="x = x.to(device)", end="loss.backward()")
    assert check(text, "DEV103") == [(8, "DEV103")]
    assert "loss = criterion(model(x), y.to(device))" in fixed(text, "DEV103")


@pytest.mark.parametrize(
    ("line", "end"),
    [
        ("x, y = x.to(device), y.to(device)", "loss.backward()"),
        ("x = x.to(device)", "print(loss)"),  # nothing says that it is a loss
        ("pass", "loss.backward()"),  # nothing was moved, so the loader may give device tensors
    ],
)
def test_what_proves_nothing_stays_silent(line, end):
    assert check(PROGRAM.format(line=line, end=end), "DEV103") == []
