"""What is proven to live apart: the host operand, the device operand, and when nothing is said."""

from __future__ import annotations

import ast

import pytest
from placement.believing import infer

from devlint.placement.infer import FUNCTIONS
from devlint.placement.mismatch import mismatches, same_place, table_mismatches
from devlint.placement.values import Place

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn

gpu = torch.device("cuda:1")


"""


def found(text: str, name: str = "f") -> list[tuple[str, str]]:
    """The operands that are apart: the one on the host, and the other."""
    inference = infer(HEAD + text)
    (owner,) = [n for n in ast.walk(inference.tree) if isinstance(n, FUNCTIONS) and n.name == name]
    both = [*mismatches(inference, owner), *table_mismatches(inference, owner)]
    return [(ast.unparse(one.host[0]), ast.unparse(one.device[0])) for one in both]


def function(lines: str, arguments: str = "x: torch.Tensor, d, flag") -> str:
    return f"def f({arguments}):\n    " + lines.replace("\n", "\n    ") + "\n"


@pytest.mark.parametrize(
    "lines, wanted",
    [
        ("t = torch.zeros(3)\nx + t", ("t", "x")),
        ("t = torch.zeros(3)\nt + x", ("t", "x")),
        ("t = torch.zeros(3)\nx += t", ("t", "x")),
        ("t = torch.zeros(3)\nx == t", ("t", "x")),
        ("t = torch.zeros(3).float()\nx @ t", ("t", "x")),
        ("t = torch.zeros(3)\ntorch.cat([x, t])", ("t", "x")),
        ("t = torch.from_numpy(flag)\nx * t", ("t", "x")),
        ("t = torch.zeros(3)\nx.to(gpu) + t", ("t", "x.to(gpu)")),
        ("t = torch.zeros(3)\nx.to(d) + t", ("t", "x.to(d)")),
        ("t = torch.zeros(3, device=d)\nt + torch.ones(3)", ("torch.ones(3)", "t")),
        ("t = x.cpu()\nx + t", ("t", "x")),
        ("t = torch.zeros(3)\nu = t.view(-1)\nx + u", ("u", "x")),
        ("t = torch.zeros(3, device='cuda:0')\nu = torch.zeros(3, device='cuda:1')\nt + u", ("t", "u")),
        ("t = torch.zeros(3, device='cuda')\nu = torch.zeros(3, device='mps')\nt + u", ("t", "u")),
        ("t = torch.eye(3)\nt[x]", ("t", "x")),
        ("torch.eye(3)[x]", ("torch.eye(3)", "x")),
        ("t = torch.eye(3)\nt[x.argmax(1)]", ("t", "x.argmax(1)")),
        ("m = None\nif m is None:\n    m = torch.zeros(3)\nx * m", ("m", "x")),
        ("h = torch.zeros(3)\nfor _ in range(3):\n    h = x * 2 + h", ("h", "x * 2")),
        ("net = nn.Linear(2, 2)\nnet(x)", ("net", "x")),
        ("net = nn.Linear(2, 2).to(d)\nnet(torch.zeros(2))", ("torch.zeros(2)", "net")),
        ("loss = nn.CrossEntropyLoss(weight=torch.zeros(3))\nloss(x, x)", ("loss", "x")),
        ("g = lambda z: z + x + torch.zeros(3)", ("torch.zeros(3)", "z + x")),
        ("[x + torch.zeros(3) for _ in range(2)]", ("torch.zeros(3)", "x")),
        ("return x if flag else x + torch.zeros(3)", ("torch.zeros(3)", "x")),
    ],
)
def test_apart(lines: str, wanted: tuple[str, str]) -> None:
    assert found(function(lines)) == [wanted]


def test_both_branches_that_make_a_cpu_tensor() -> None:
    lines = "if flag:\n    t = torch.zeros(3)\nelse:\n    t = torch.ones(3)\nreturn x + t"
    assert found(function(lines)) == [("t", "x"), ("t", "x")]


@pytest.mark.parametrize(
    "lines",
    [
        "x + torch.tensor(1.0)",
        "torch.where(x > 0, x, torch.tensor(0.0))",
        "x + torch.zeros(3, device=x.device)",
        "x + torch.zeros(3).to(x)",
        "x + torch.zeros(3).type_as(x)",
        "x + torch.zeros_like(x)",
        "x + x.new_zeros(3)",
        "x[torch.arange(3)]",
        "x[0] = torch.zeros(3)",
        "x.copy_(torch.zeros(3))",
        "t = torch.zeros(3)\nt[0] = x[0]",
        "t = torch.zeros(3)\nt.data = t.data.to(d)\nx + t",
        "x.cpu() + torch.zeros(3)",
        "x.numpy()\nx + torch.zeros(3)",
        "t = torch.zeros(3)\nif flag:\n    t = t.to(d)\nx + t",
        "t = torch.zeros(3)\nif flag:\n    t = torch.zeros(3, device=d)\nx + t",
        "t = torch.zeros(3, device=d) if flag else torch.zeros(3)\nx + t",
        "if flag:\n    t = torch.zeros(3)\nelse:\n    t = torch.zeros(3, device=d)\nx + t",
        "try:\n    t = torch.zeros(3, device=d)\nexcept RuntimeError:\n    t = torch.zeros(3)\nx + t",
        "match flag:\n    case 1:\n        t = torch.zeros(3)\n    case _:\n        t = torch.zeros(3).cuda()\nx + t",
        "t = torch.zeros(3)\nfor _ in range(2):\n    t = t.to(d)\nx + t",
        "t = torch.zeros(3, device='meta')\nt + torch.zeros(3)",
        "t = torch.zeros(3, device='cuda')\nu = torch.zeros(3, device='cuda:0')\nt + u",
        "t = torch.zeros(3)\nt + torch.ones(3)",
        "net = nn.Linear(2, 2)\nnet(torch.zeros(2))",
        "net = nn.ReLU()\nnet(x)",
        "net = nn.Linear(2, 2)\nnet.to(d)\nnet(x)",
        "net = nn.Linear(2, 2)\nprepare(net)\nnet(x)",
        "loss = nn.CrossEntropyLoss()\nloss(x, x)",
        "loss = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(2.0))\nloss(x, x)",
        "with torch.device(d):\n    t = torch.zeros(3)\nx + t",
        "with d:\n    pass\nx.sum()",
        "t = torch.zeros(3)\ndef move():\n    nonlocal t\n    t = t.to(d)\nmove()\nx + t",
        "t = torch.zeros(3)\ng = lambda: x + t\nt = t.to(d)",
        "t = torch.eye(3)\nt[x.cpu()]",
        "t = torch.eye(3)\nt[[0, 1]]",
        "t = torch.eye(3)\nt[1:]",
        "t = torch.eye(3).to(d)\nt[x]",
    ],
)
def test_not_apart(lines: str) -> None:
    assert found(function(lines)) == []


@pytest.mark.parametrize("arguments", ["x, d, flag", "x=None, d=None, flag=None"])
def test_an_argument_of_which_nothing_is_known_is_apart_from_nothing(arguments: str) -> None:
    assert found(function("x + torch.zeros(3)", arguments)) == []


@pytest.mark.parametrize(
    "call, count",
    [("f(torch.zeros(3), 0, 0)", 0), ("f(torch.zeros(3, device='cuda'), 0, 0)", 1), ("f(unknown, 0, 0)", 1)],
)
def test_calls_in_the_file_that_pass_a_cpu_tensor_are_believed(call: str, count: int) -> None:
    text = function("return x.unsqueeze(0) + torch.zeros(3)", "x, d, flag") + f"\n\n{call}\n"
    assert len(found(text)) == count


LOOP = """\
def f(model, loader, d, net):
    model.to(d)
    model.eval()
    for a, b in loader:
        {}
"""


@pytest.mark.parametrize(
    "lines, wanted",
    [
        ("a = a.to(d)\nF.cross_entropy(model(a), b)", [("b", "model(a)")]),
        ("F.cross_entropy(model(a.to(d)), b)", [("b", "model(a.to(d))")]),
        ("b = b.to(d)\nF.cross_entropy(model(a), b)", [("a", "model")]),
        ("a, b = a.to(d), b.to(d)\nF.cross_entropy(model(a), b)", []),
        ("a = a.to(d)\nb = b.to(d)\nF.cross_entropy(model(a), b)", []),
        ("F.cross_entropy(model(a), b)", []),
        ("a = a.to(d)\nb = move(b)\nF.cross_entropy(model(a), b)", []),
        ("a = a.to(d)\nF.cross_entropy(model(a).cpu(), b)", []),
        ("a = a.to(other)\nF.cross_entropy(model(a), b)", []),
        ("a = a.to(d)\nout = model(a)\nprint(b)", []),
    ],
)
def test_siblings_of_a_batch(lines: str, wanted: list[tuple[str, str]]) -> None:
    assert found(LOOP.format(lines.replace("\n", "\n        "))) == wanted


def test_places_that_met_are_the_same_wherever_the_program_runs() -> None:
    one, two, three, four = (Place(key=("at", i)) for i in range(4))
    assert same_place([(one, two), (two, three)], one, three)
    assert same_place([(one, two), (two, three)], three, one)
    assert not same_place([(one, two), (three, four)], one, three)
    assert same_place([], one, one) and not same_place([], one, two)
