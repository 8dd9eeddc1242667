"""What a function gives, as its callers see it: where the result is, and which argument it follows."""

from __future__ import annotations

import pytest
from placement.believing import lives, run

from devlint.placement import values as v

FUNCTIONS = """
import torch
from torch import nn


def like(x, n):
    return torch.arange(n, device=x.device)


def filled(n, device="cpu"):
    return torch.zeros(n, device=device)


def maybe(n, device=None):
    return torch.zeros(n, device=device)


def pair(n, *, where: torch.device):
    return torch.zeros(n).to(where), torch.ones(n)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3))

    def mask(self, n):
        return torch.ones(n, device=self.weight.device)

    @staticmethod
    def table(x):
        return torch.eye(3).to(x.device)

    def use(self, x: torch.Tensor, device):
        on_gpu = torch.zeros(3, device="cuda:1")
        {line}
"""


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("y = like(on_gpu, 3)", "cuda:1"),
        ("y = like(n=3, x=on_gpu)", "cuda:1"),
        ("y = like(*device)", "unknown"),
        ("y = filled(3)", "cpu"),
        ("y = filled(3, 'cuda:1')", "cuda:1"),
        ("y = filled(3, device=on_gpu.device)", "cuda:1"),
        ("y = filled(3, **device)", "unknown"),
        ("y = maybe(3)", "unknown"),
        ("y = pair(3, where='cuda:1')[0]", "cuda:1"),
        ("y = pair(3, where='cuda:1')[1]", "cpu"),
        ("y, _ = pair(3, where=on_gpu.device)", "cuda:1"),
        ("y = self.table(on_gpu)", "cuda:1"),
        ("y = Net.table(on_gpu)", "cuda:1"),
    ],
)
def test_where_a_result_is(line: str, place: str) -> None:
    assert lives(FUNCTIONS.format(line=line), "y", "use") == place


@pytest.mark.parametrize(
    ("line", "other"),
    [
        ("y = like(x, 3)", "x"),
        ("y = self.mask(3)", "self.weight"),
        ("y, z = filled(3, device), x.to(device)", "z"),
        ("y, z = pair(3, where=device)[0], x.to(device)", "z"),
    ],
)
def test_a_result_follows_what_is_passed(line: str, other: str) -> None:
    text = FUNCTIONS.format(line=f"{line}; w = {other}")
    names = run(text, "use").state.names
    first, second = names["y"], names["w"]
    assert first.kind == v.TENSOR
    assert first.place.same(second.place)


def test_results_for_different_arguments_are_not_the_same() -> None:
    text = FUNCTIONS.format(line="y, z = filled(3, device), filled(3, x.device)")
    names = run(text, "use").state.names
    assert not names["y"].place.same(names["z"].place)


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        (("net.cuda()", "return net"), "cuda"),
        (("net.cuda()", "return net, 1"), "cuda"),
        (("if n:", "    net.cuda()", "return net"), "unknown"),
        (("return net",), "cpu"),
    ],
)
def test_a_module_that_is_returned_is_where_the_function_left_it(lines: tuple[str, ...], place: str) -> None:
    body = "\n    ".join(lines)
    result = "model, _" if ", 1" in body else "model"
    text = f"from torch import nn\n\ndef build(n):\n    net = nn.Linear(3, 3)\n    {body}\n\n{result} = build(3)\n"
    assert lives(text, "model") == place


def test_a_device_chosen_at_the_top_is_the_same_inside_and_outside() -> None:
    text = """
import torch
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

def batch(n):
    own = torch.device("cuda" if n else "cpu")
    return torch.randn(n).to(device), torch.randn(n).to(own)

def main(y):
    a, b = batch(3)
    c = y.to(device)
    d, e = batch(3)
"""
    names = run(text, "main").state.names
    assert names["a"].place.same(names["c"].place) and names["a"].place.same(names["d"].place)
    assert not names["b"].place.same(names["c"].place) and not names["b"].place.same(names["e"].place)
