"""DEV602: a table on the CPU is indexed by a tensor on a device."""

from __future__ import annotations

import pytest
from checks.helpers import check, findings, fixed

from devlint.finding import Applicability

HEAD = """\
import torch
import numpy as np
from torch import nn


"""
FIRST = HEAD.count("\n") + 1


def function(lines: str, arguments: str = "labels: torch.Tensor, d") -> str:
    return f"{HEAD}def f({arguments}):\n    " + lines.replace("\n", "\n    ") + "\n"


@pytest.mark.parametrize(
    "line, wanted",
    [
        ("return torch.eye(10)[labels]", "return torch.eye(10, device=labels.device)[labels]"),
        ("return torch.eye(10,)[labels]", "return torch.eye(10, device=labels.device,)[labels]"),
        ("return torch.eye(10)[labels].float()", "return torch.eye(10, device=labels.device)[labels].float()"),
        ("return torch.arange(10)[labels]", "return torch.arange(10, device=labels.device)[labels]"),
        ("return [torch.eye(3)[labels] for _ in d]", "return [torch.eye(3, device=labels.device)[labels] for _ in d]"),
        (
            "return [torch.eye(3)[labels] for labels in labels]",
            "return [torch.eye(3, device=labels.device)[labels] for labels in labels]",
        ),
    ],
)
def test_a_table_made_to_be_indexed_is_made_where_its_index_is(line: str, wanted: str) -> None:
    (found,) = findings(function(line), "DEV602")
    assert found.fix is not None and found.fix.applicability is Applicability.SAFE
    assert "indices should be either on cpu or on the same device as the indexed tensor" in found.message
    assert fixed(function(line), "DEV602") == function(wanted)
    assert check(function(wanted), "DEV602") == []


@pytest.mark.parametrize("line", ["torch.eye(10)[labels]", "labels = labels.to(d)\ntorch.eye(10)[labels]"])
def test_an_index_that_is_not_proven_a_tensor_makes_the_fix_unsafe(line: str) -> None:
    text = function(line, "labels, d")
    (found,) = findings(text, "DEV602")
    assert found.fix is not None and found.fix.applicability is Applicability.UNSAFE
    assert fixed(text, "DEV602") == text


@pytest.mark.parametrize(
    "line",
    [
        "table = torch.linspace(0, 1, 9)\nreturn table[labels]",
        "table = torch.cumprod(1 - torch.linspace(0, 1, 9), 0)\nreturn table[labels].sqrt()",
        "table = torch.zeros(3)\nreturn table[labels.to(d)]",
        "return torch.eye(3)[labels.argmax(1)]",
        "return torch.eye(3)[labels + 1]",
    ],
)
def test_reported_without_a_fix(line: str) -> None:
    (found,) = findings(function(line), "DEV602")
    assert found.fix is None and found.no_fix


@pytest.mark.parametrize(
    "line",
    [
        "return torch.eye(10, device=d)[labels]",
        "return torch.eye(10).to(labels.device)[labels]",
        "return torch.eye(10).to(d)[labels.to(d)]",
        "return torch.eye(10)[labels.cpu()]",
        "return torch.eye(10)[labels.cpu()].to(d)",
        "return torch.eye(10)[labels.tolist()]",
        "return torch.eye(10)[labels].numpy()",
        "return torch.eye(10)[0]",
        "return torch.eye(10)[1:, :2]",
        "return torch.eye(10)[None]",
        "return torch.eye(10)[[1, 2]]",
        "return torch.eye(10)[np.arange(3)]",
        "return labels[torch.randperm(3)]",
        "return labels[torch.arange(3)]",
        "return torch.zeros_like(labels)[labels]",
        "with torch.device(d):\n    return torch.eye(10)[labels]",
        "labels.numpy()\nreturn torch.eye(10)[labels]",
        "if labels.device.type == 'cpu':\n    return torch.eye(10)[labels]",
        "table = torch.eye(10)\nif d:\n    table = table.to(d)\nreturn table[labels]",
    ],
)
def test_silent(line: str) -> None:
    assert check(function(line), "DEV602") == []


def test_the_finding_stands_at_the_table() -> None:
    (found,) = findings(function("table = torch.eye(3)\nreturn table[labels]"), "DEV602")
    assert (found.start.row, found.start.column) == (FIRST + 2, len("    return ") + 1)


def test_fixed_programs_run_where_the_old_ones_stopped() -> None:
    import torch

    from devlint.runtime import simulate

    text = function("return torch.eye(10)[labels]")
    with simulate(1):
        labels = torch.tensor([1, 2], device="cuda")
        for code, works in ((text, False), (fixed(text, "DEV602"), True)):
            names: dict[str, object] = {}
            exec(code, names)
            if works:
                assert names["f"](labels, None).device == labels.device  # type: ignore[operator]
            else:
                with pytest.raises(RuntimeError, match="indices should be either on"):
                    names["f"](labels, None)  # type: ignore[operator]


CASES = """\
shape = torch.tensor([0])
if {first}:
    shape = labels * 2
{other}:
    shape = labels + 1
{rest}return shape[labels > 0]"""


@pytest.mark.parametrize(
    "first, other, rest, reported",
    [
        ("d == 1", "elif d == 2", "", False),
        ("d in (1, 3)", "elif d in (2, 4)", "", False),
        ("d == 1", "else", "", False),
        ("d == 1", "elif labels.dim() == 2", "", True),
        ("d", "elif d == 2", "", True),
        ("d == 1", "if d == 2", "", True),
        ("d == 1", "elif d == 2", "shape = torch.tensor([0])\n", True),
    ],
)
def test_what_holds_the_place_until_a_chain_of_cases_is_silent(
    first: str, other: str, rest: str, reported: bool
) -> None:
    lines = CASES.format(first=first, other=other, rest=rest)
    arguments = "labels: torch.Tensor, d: int"
    assert bool(check(function(lines, arguments), "DEV602")) == reported
    added = lines.replace("shape[labels > 0]", "shape + labels")
    assert bool(check(function(added, arguments), "DEV201", "DEV601")) == reported
