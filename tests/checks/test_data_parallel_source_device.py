"""DEV502: where a model is when `DataParallel` runs it."""

from __future__ import annotations

import re

import pytest
import torch
from checks.helpers import check, findings
from torch import nn

from devlint.runtime import simulate

HEAD = """\
import torch
from torch import nn
from torch.nn import DataParallel as DP

def main(x, given, ids):
    """


def rows(body: str) -> list[int]:
    """Rows of the findings, counted from the first line of `body`."""
    return [row - 6 for row, _ in check(HEAD + body.replace("\n", "\n    ") + "\n", "DEV502")]


@pytest.mark.parametrize(
    "body",
    [
        "net = nn.DataParallel(nn.Linear(6, 2))\nreturn net(x)",
        "net = nn.Linear(6, 2)\nnet = DP(net, device_ids=[0, 1])\nreturn net(x)",
        "net = nn.Linear(6, 2)\nnet = DP(net, [0, 1])\nfor _ in x:\n    net(x)",
        "net = nn.Linear(6, 2).cuda(1)\nnet = DP(net)\nreturn net(x)",
        "net = nn.Linear(6, 2).to('cuda:1')\nreturn DP(net)(x)",
        "net = DP(given.to('cuda:1'))\nreturn net",
        "net = DP(nn.Linear(6, 2).to('cuda:0'), device_ids=[1, 0])\nreturn net(x)",
        "net = DP(nn.Linear(6, 2).to('cuda:0'), device_ids=['cuda:1', 'cuda:0'])\nreturn net(x)",
        "net = DP(nn.Linear(6, 2).to('cuda:2'), device_ids=range(4))\nreturn net(x)",
        "net = DP(nn.Linear(6, 2).to('cuda:2'), device_ids=list(range(4)))\nreturn net(x)",
        "net = DP(nn.Linear(6, 2).cuda(), device_ids=[1, 2])\nreturn net(x)",
        "gpus = [1, 2]\nnet = DP(nn.Linear(6, 2).cuda(), device_ids=gpus)\nreturn net(x)",
        "device = 'cuda:1' if torch.cuda.is_available() else 'cpu'\nreturn DP(nn.Linear(6, 2).to(device))(x)",
    ],
)
def test_a_model_that_is_elsewhere_is_reported_where_it_is_wrapped(body: str) -> None:
    wrapped = next(i for i, line in enumerate(body.split("\n")) if "DP(" in line or "DataParallel(" in line)
    assert rows(body) == [wrapped]


@pytest.mark.parametrize(
    "body",
    [
        "net = DP(nn.Linear(6, 2))\nnet.cuda()\nreturn net(x)",
        "net = DP(nn.Linear(6, 2))\nnet.to('cuda')\nreturn net(x)",
        "net = DP(nn.Linear(6, 2)).cuda()\nreturn net(x)",
        "net = DP(nn.Linear(6, 2).cuda())\nreturn net(x.cpu())",
        "net = DP(nn.Linear(6, 2), device_ids=[1, 0]).to('cuda:1')\nreturn net(x)",
        "net = DP(nn.Linear(6, 2).to('cuda:1'), device_ids=[1])\nreturn net(x)",
        "net = DP(nn.Linear(6, 2).to('cuda:1'), device_ids=ids)\nreturn net(x)",
        "net = DP(nn.Linear(6, 2).to('cuda:1'), device_ids=[ids[0], 1])\nreturn net(x)",
        "net = DP(nn.Linear(6, 2).to('cuda:1'), **ids)\nreturn net(x)",
        "net = DP(nn.Linear(6, 2).to('cuda:1'), device_ids=range(1, 3))\nreturn net(x)",
        "torch.cuda.set_device(1)\nnet = DP(nn.Linear(6, 2).cuda(), device_ids=[1, 2])\nreturn net(x)",
        "net = DP(given.to('cuda:1'))\nnet.to('cuda:0')\nreturn net",
        "net = DP(given)\nreturn net(x)",
        "net = DP(nn.Linear(6, 2))\nreturn net",
        "net = DP(nn.Linear(6, 2))\nreturn net.module(x)",
        "return DP(nn.Linear(6, 2)).module(x)",
        "net = DP(nn.ReLU())\nreturn net(x)",
        "device = 'cuda:0' if torch.cuda.is_available() else 'cpu'\nreturn DP(nn.Linear(6, 2).to(device))(x)",
        "device = 'cuda:1' if ids else 'cpu'\nnet = DP(nn.Linear(6, 2).to(device), device_ids=[1, 0])\nreturn net(x)",
        "try:\n    net = DP(nn.Linear(6, 2))\n    net(x)\nexcept RuntimeError:\n    pass",
    ],
)
def test_what_is_on_the_first_gpu_or_unknown_is_silent(body: str) -> None:
    assert rows(body) == []


def test_a_model_of_an_object_may_be_moved_by_its_methods() -> None:
    text = """\
from torch import nn

class Runner(Base):
    def __init__(self, x):
        self.net = nn.DataParallel(nn.Linear(2, 2))
        {}
        self.net(x)
"""
    assert check(text.format("print(x)"), "DEV502") == [(5, "DEV502")]
    assert check(text.format("self.place()"), "DEV502") == []


@pytest.mark.parametrize("moved", ["", ".to('cuda:1')"])
def test_the_error_is_torchs(moved: str) -> None:
    text = HEAD + f"net = nn.DataParallel(nn.Linear(6, 2){moved})\n    return net(x)\n"
    (found,) = findings(text, "DEV502")
    (quoted,) = re.findall('"(.+)"', found.message)
    with simulate(devices=2):
        net = nn.Linear(6, 2).to("cuda:1") if moved else nn.Linear(6, 2)
        with pytest.raises(RuntimeError) as caught:
            nn.DataParallel(net)(torch.zeros(4, 6))
    assert quoted in str(caught.value)
