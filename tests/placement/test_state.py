"""Modules without parameters are nowhere: a loss of another library, a class that only computes."""

from __future__ import annotations

import pytest
from checks.helpers import check

PROGRAM = """\
import torch
from torch import nn
import monai
from torchvision import models


class Computes(nn.Module):
    def forward(self, x):
        return x.mean()


class Learns(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return self.layer(x)


class Wraps(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Learns()

    def forward(self, x):
        return self.inner(x)


class Activates(nn.Module):
    def __init__(self):
        super().__init__()
        self.activation = nn.ReLU()

    def forward(self, x):
        return self.activation(x)


def fit(model, loader, device):
    model.to(device)
    second = {second}
    for x, y in loader:
        x = x.to(device)
        print(model(x), second(x))
"""


@pytest.mark.parametrize("second", ["Computes()", "Activates()", "monai.losses.DiceLoss()", "nn.ReLU()"])
def test_what_has_no_state_cannot_be_left_behind(second):
    assert check(PROGRAM.format(second=second), "DEV106") == []


@pytest.mark.parametrize("second", ["Learns()", "Wraps()", "models.resnet18()", "nn.Linear(3, 3)"])
def test_what_has_state_can(second):
    assert check(PROGRAM.format(second=second), "DEV106") == [(41, "DEV106")]


def test_indices_of_index_put_may_be_on_the_cpu():
    text = """\
import torch


def scores(user: torch.Tensor, items: torch.Tensor, values: torch.Tensor):
    rows = torch.arange(user.shape[0])
    table = user.new_zeros(user.shape[0], 10)
    table.index_put_((rows, items), values)
    return table
"""
    assert check(text, "DEV201") == []
