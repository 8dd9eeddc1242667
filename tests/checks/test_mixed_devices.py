"""DEV601: operands on two devices meet, where no other rule has the word."""

from __future__ import annotations

import pytest
from checks.helpers import check, findings

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn


"""
FIRST = HEAD.count("\n") + 1


def function(lines: str) -> str:
    made = "    a = torch.ones(2, 2, device='cuda:0')\n    b = torch.ones(2, 2, device='cuda:1')\n    c = a.cpu()\n"
    return f"{HEAD}def f(d, flag):\n{made}    " + lines.replace("\n", "\n    ") + "\n"


APART = [
    "a + b",
    "b - a",
    "a @ b",
    "a == b",
    "a += b",
    "a + c",
    "c * b",
    "torch.cat([a, b])",
    "torch.stack((a, c))",
    "torch.matmul(a, b)",
    "torch.where(a > 0, b, b)",
    "F.mse_loss(a, b)",
    "a.mul(b)",
    "a.add_(b)",
    "nn.Linear(2, 2, device='cuda:0')(b)",
    "a.index_select(0, torch.tensor([0], device='cuda:1'))",
    "[t + b for t in (a, a)]",
    "(lambda: a + b)()",
    "a + torch.ones(2, device='cpu')",
    "a.to('cuda:1') + a",
    "a.sin().cos() + b.sin()",
    "torch.stack([a for _ in range(2)]) + b",
]
TOGETHER = [
    "a + a.to('cuda:0')",
    "a.to('cuda:1') + b",
    "a.to(b) + b",
    "a.cpu() + b.cpu()",
    "a.cuda(1) + b",
    "a + torch.tensor(2.0)",
    "a + b.sum().item()",
    "a * c.sum().cpu()",
    "torch.where(a > 0, a, torch.tensor(0.0))",
    "torch.broadcast_tensors(a, b)[0] + a",
    "a[torch.tensor([0])]",
    "a[0] = b[0]",
    "a[:] = b",
    "a.copy_(b)",
    "b.copy_(c)",
    "c.copy_(a)",
    "a.shape == b.shape",
    "a.device == b.device",
    "[a, b]",
    "a is b",
    "torch.zeros_like(a) + a",
    "a.new_zeros(2) + a",
    "a.type_as(b) + b",
    "nn.Linear(2, 2).to('cuda:1')(b)",
    "nn.ReLU()(b)",
]


@pytest.mark.parametrize("line", APART)
def test_reported(line: str) -> None:
    (found,) = findings(function(line), "DEV601")
    assert found.start.row == FIRST + 4
    assert found.fix is None and found.no_fix
    assert "Expected all tensors to be on the same device" in found.message


@pytest.mark.parametrize("line", TOGETHER)
def test_silent(line: str) -> None:
    assert check(function(line), "DEV601") == []


@pytest.fixture(scope="module")
def simulation():
    from devlint.runtime import simulate

    with simulate(2):
        yield


@pytest.mark.parametrize("line", APART)
def test_torch_refuses_what_is_reported(line: str, simulation: None) -> None:
    names: dict[str, object] = {}
    exec(function(line), names)
    with pytest.raises(RuntimeError, match="same device"):
        names["f"]("cuda", True)  # type: ignore[operator]


@pytest.mark.parametrize("line", TOGETHER)
def test_torch_takes_what_is_not_reported(line: str, simulation: None) -> None:
    names: dict[str, object] = {}
    exec(function(line), names)
    names["f"]("cuda", True)  # type: ignore[operator]


@pytest.mark.parametrize(
    "lines",
    [
        "x = a if flag else b\nx + a",
        "x = a\nif flag:\n    x = b\nreturn x + b",
        "x = torch.ones(2, device='cuda')\nx + a",
        "x = torch.ones(2, device='meta')\nx + a",
        "x = torch.ones(2, device=d)\nx + a",
        "if a.device == b.device:\n    a + b",
        "if torch.cuda.device_count() > 1:\n    b = b.to(a)\na + b",
        "try:\n    b = b.to(a)\nexcept RuntimeError:\n    pass\na + b",
        "for _ in range(2):\n    b = b.to(a)\nb + a",
        "def half(s):\n    return 1 - s, s\nlow, high = half(c[flag])\ntorch.stack([(d - flag) / torch.log(high)]) @ a",
    ],
)
def test_what_is_not_proven_is_silent(lines: str) -> None:
    assert check(function(lines), "DEV601") == []


@pytest.mark.parametrize(
    "lines",
    ["x = torch.ones(2, device=d)\nx + x.cpu()", "x = torch.ones(2, device=d)\nx + torch.ones(2, device='cpu')"],
)
def test_a_chosen_device_is_not_the_cpu(lines: str) -> None:
    assert check(function(lines), "DEV601") == [(FIRST + 5, "DEV601")]


def test_the_more_specific_rule_speaks() -> None:
    assert {code for _, code in check(function("a + torch.ones(2)"), "DEV")} == {"DEV201"}
    assert {code for _, code in check(function("torch.eye(2)[b.long()]"), "DEV")} == {"DEV602"}


def test_both_ends_are_named() -> None:
    (found,) = findings(function("a + b"), "DEV601")
    assert "`cuda:0`" in found.message and "`cuda:1`" in found.message
    assert f"line {FIRST + 1}" in found.message and f"line {FIRST + 2}" in found.message
