"""DEV103 stays silent where the module takes its input from the host: it moves it, or wants it there."""

from __future__ import annotations

from textwrap import indent

import pytest
from checks.helpers import check, fixed

PROGRAM = """\
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.rnn = nn.GRU(3, 3, batch_first=True)
        self.inner = Inner()

    def forward(self, other, x=None):
{body}
    def run(self, x, given):
        return self.rnn(pack_padded_sequence(x, given.cpu(), batch_first=True))

    def add(self, x, given):
        return self.layer(x) + given


class Inner(nn.Module):
    def forward(self, x, counts):
        return [row[:n] for row, n in zip(x, counts.tolist())]


def call(loader, device):
    net = Net()
    net.to(device)
    for x, other in loader:
        x = x.to(device)
        net(other, x)


def make(x, device):
    net = Net().to(device)
    x = x.to(device)
    return net(torch.tensor([3, 2]), x)
"""

FROM_HOST = {
    "packed": "packed = pack_padded_sequence(x, other, batch_first=True)\nreturn self.rnn(packed)\n",
    "packed by keyword": "return self.rnn(pack_padded_sequence(x, lengths=other, batch_first=True))\n",
    "moved": "other = other.to(x.device)\nreturn self.layer(x) + other\n",
    "moved where it is used": "return self.layer(x) + other.type_as(x)\n",
    "only counted": "return self.layer(x)[:, : int(other.max())]\n",
    "an index": "return self.layer(x)[other]\n",
    "not used": "return self.layer(x)\n",
    "asked": "if other is None:\n    return x\nreturn self.layer(x)[: len(other)]\n",
    "handed to a method": "return self.run(x, other)\n",
    "handed to a module": "return self.inner(x, other)\n",
}
MET = {
    "added": "return self.layer(x) + other\n",
    "added by a method": "return self.add(x, other)\n",
    "given to a layer": "return self.layer(x), self.layer(other)\n",
    "packed itself": "return self.rnn(pack_padded_sequence(other, [1, 2], batch_first=True))\n",
    "cast": "other = other.float()\nreturn self.layer(x) + other\n",
    "compared": "return self.layer(x) > other\n",
    "both": "size = other.tolist()\nreturn self.layer(x) * other\n",
}


def program(body: str) -> str:
    return PROGRAM.format(body=indent(body, " " * 8))


@pytest.mark.parametrize("body", FROM_HOST.values(), ids=FROM_HOST)
def test_taken_from_the_host(body):
    text = program(body)
    assert check(text, "DEV103") == []
    assert fixed(text, "DEV103", unsafe=True) == text


@pytest.mark.parametrize("body", MET.values(), ids=MET)
def test_met_where_it_is(body):
    text = program(body)
    rows = [row for row, line in enumerate(text.split("\n"), start=1) if "net(" in line and ", x)" in line]
    assert check(text, "DEV103") == [(row, "DEV103") for row in rows]


UNKNOWN = """\
def train(model, loader, device):
    model.to(device)
    for {name}, tokens in loader:
        tokens = tokens.to(device)
        model({name}, tokens)
"""


@pytest.mark.parametrize("name", ["lengths", "src_len", "lens", "x_lengths"])
def test_a_module_of_another_file_wants_lengths_on_the_host(name):
    assert check("import torch\n\n\n" + UNKNOWN.format(name=name), "DEV103") == []


@pytest.mark.parametrize("name", ["mask", "lenses", "silent"])
def test_a_module_of_another_file_wants_all_else_beside_it(name):
    assert check("import torch\n\n\n" + UNKNOWN.format(name=name), "DEV103") == [(8, "DEV103")]
