"""DEV208: devices that a module remembers from its construction."""

from __future__ import annotations

import pytest
from checks.helpers import check, findings, fixed

from devlint.finding import Applicability

MODULE = """\
import torch
from torch import nn
import pytorch_lightning as pl


class Net({base}):
    def __init__(self, size, device="cpu"):
        super().__init__()
        self.layer = nn.Linear(size, size)
        {set}

    def forward(self, x, y=None):
        {line}
"""


def module(line: str, set_: str = "self.device = device", base: str = "nn.Module") -> str:
    return MODULE.format(base=base, set=set_.replace("\n", "\n        "), line=line.replace("\n", "\n        "))


@pytest.mark.parametrize(
    "line, wanted, safe",
    [
        (
            "return x + torch.randn(x.shape, device=self.device)",
            "return x + torch.randn(x.shape, device=x.device)",
            True,
        ),
        (
            "z = torch.zeros(3, device=self.device)\nreturn self.layer(x) * z",
            "z = torch.zeros(3, device=x.device)\nreturn self.layer(x) * z",
            True,
        ),
        (
            "z = torch.zeros(3, device=self.device)\nreturn x.abs() * z, z",
            "z = torch.zeros(3, device=x.device)\nreturn x.abs() * z, z",
            False,
        ),
        ("return x.abs() + torch.zeros(3).to(self.device)", "return x.abs() + torch.zeros(3).to(x.device)", True),
        (
            "return torch.cat([x, torch.zeros(1, 3, device=self.device)])",
            "return torch.cat([x, torch.zeros(1, 3, device=x.device)])",
            False,
        ),
    ],
)
def test_the_device_of_the_input_takes_its_place(line: str, wanted: str, safe: bool) -> None:
    text = module(line)
    (found,) = findings(text, "DEV208")
    assert found.fix is not None
    assert found.fix.applicability is (Applicability.SAFE if safe else Applicability.UNSAFE)
    assert "Expected all tensors to be on the same device" in found.message
    assert fixed(text, "DEV208", unsafe=True) == module(wanted)
    assert check(module(wanted), "DEV208", "DEV201") == []


@pytest.mark.parametrize(
    "line",
    [
        "x = x.to(self.device)\nreturn x + torch.zeros(3, device=self.device)",
        "return x.abs() + torch.zeros(3, device=x.device)",
        "return x.abs() + torch.tensor(1.0, device=self.device)",
        "x = torch.as_tensor(x, device=self.device)\nreturn self.layer(x)",
        "return torch.zeros(3, device=self.device)",
        "return torch.zeros(3, device=self.device) + torch.ones(3, device=self.device)",
        "if x.device == self.device:\n    x = x.abs() + torch.zeros(3, device=self.device)\nreturn x",
    ],
)
def test_moved_inputs_scalars_and_what_meets_no_input_are_silent(line: str) -> None:
    assert check(module(line), "DEV208") == []


USE = "return x.abs() + torch.zeros(3, device=self.device)"


@pytest.mark.parametrize(
    "set_", ["self.device = device", "self.device = torch.device(device)", "self.device = 'cuda:0'"]
)
def test_however_the_device_is_stored(set_: str) -> None:
    wanted = [] if "cuda:0" in set_ else [(13, "DEV208")]  # a fixed device is a matter of DEV801
    assert check(module(USE, set_), "DEV208") == wanted


@pytest.mark.parametrize("base", ["pl.LightningModule", "object", "Unknown", "torch.utils.data.Dataset"])
def test_live_devices_and_what_is_no_module_are_silent(base: str) -> None:
    assert check(module(USE, base=base), "DEV208") == []


@pytest.mark.parametrize(
    "method",
    [
        "def to(self, device):\n        self.device = device\n        return super().to(device)",
        "def _apply(self, fn):\n        return super()._apply(fn)",
        "def move(self, device):\n        self.device = device",
    ],
)
def test_a_class_that_renews_its_device_is_silent(method: str) -> None:
    assert check(module(USE) + f"\n    {method}\n", "DEV208") == []


def test_a_property_is_live() -> None:
    text = module(USE, "pass") + "\n    @property\n    def device(self):\n        return self.layer.weight.device\n"
    assert check(text, "DEV208") == []


def test_a_device_that_is_set_from_outside_is_silent() -> None:
    assert check(module(USE) + "\n\nnet = Net(3)\nnet.device = 'cuda'\n", "DEV208") == []


def test_the_states_of_a_recurrent_layer_meet_its_input() -> None:
    text = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, size, device):
        super().__init__()
        self.rnn = nn.LSTM(size, size)
        self.device = device

    def forward(self, x):
        h = torch.zeros(1, x.size(1), 4, device=self.device)
        c = torch.zeros(1, x.size(1), 4, device=self.device)
        return self.rnn(x, (h, c))
"""
    assert check(text, "DEV208") == [(12, "DEV208"), (13, "DEV208")]
    assert fixed(text, "DEV208", unsafe=True) == text.replace("device=self.device)", "device=x.device)")
