"""The lattice, and what is believed of expressions: each belief is compared with what torch does on simulated GPUs."""

from __future__ import annotations

import pytest
from placement.believing import lives, value

from devlint.placement import values as v
from devlint.placement.values import CPU, NOWHERE_KNOWN, Origin, Place, Value, join, named_place

HEAD = """\
import copy
import functools
import numpy as np
import torch
import torch as th
import torch.nn.functional as F
from torch import nn, zeros as noughts

gpu = torch.device("cuda:1")
c = torch.ones(2, 2)
g = torch.ones(2, 2, device="cuda:1")
m = nn.Linear(2, 2).to(gpu)
i = torch.tensor([0, 1], device=gpu)
"""

ON_CPU = """\
torch.zeros(3)
th.zeros(3)
noughts(3)
torch.zeros(3, device=None)
torch.tensor([1, 2])
torch.tensor(3)
torch.tensor(np.zeros(2))
torch.as_tensor(np.zeros(2))
torch.from_numpy(np.zeros(2))
torch.arange(3)
torch.full((2,), 1.0)
torch.Tensor([1.0])
torch.LongTensor([1])
torch.triu(torch.ones(2, 2), 1).bool()
torch.cat([torch.tensor([1.0]), torch.ones(2)])
torch.stack([c for _ in range(2)])
torch.empty(2).copy_(g[0])
torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij")[0]
nn.Parameter(torch.zeros(2))
c.to(torch.float16)
c.type(torch.float16)
c.copy_(g)
g.cpu()
g.to("cpu")
g.to("cpu", torch.float16)
g.to(torch.float16).to(c)
g.new_zeros(3, device="cpu")
torch.zeros_like(g, device="cpu")
torch.randn_like(c)
torch.as_tensor(g, device="cpu")
(g, c)[1]
(g, c)[-1]
[c][0]
c if True else c
""".splitlines()

ON_GPU = """\
torch.zeros(3, device=gpu)
torch.zeros(3, device="cuda:1")
torch.zeros(3, device=1)
torch.zeros(3, device=torch.device("cuda", 1))
torch.zeros(3, device=torch.device(type="cuda", index=1))
torch.zeros(3, device=torch.device(1))
torch.zeros(3, device=g.device)
torch.zeros(3, device=m.weight.device)
torch.zeros(3, **{"device": gpu})
torch.zeros(3).to(gpu)
torch.zeros(3).cuda(1)
torch.zeros(3).cuda(device=gpu)
torch.zeros(3).to(g)
torch.zeros(3).to(device=gpu)
torch.zeros(3).to(gpu, torch.float16)
torch.zeros(3).to("cuda:1", non_blocking=True)
torch.zeros(2).half().to(gpu).float()
torch.FloatTensor(2, 2).to(gpu)
torch.ones(2, 2).type_as(m.weight)
c.type_as(g)
g.to(torch.float16)
g.to(dtype=torch.float16)
g.new_zeros(3)
g.new_tensor([1])
torch.zeros_like(g)
torch.as_tensor(g)
torch.randperm(3, device=gpu)
torch.tensor(1.0, device=gpu)
torch.normal(g, g.abs() + 1)
nn.Parameter(torch.zeros(2, device=gpu))
nn.Parameter(torch.zeros(2).to(gpu))
g.view(-1)
g.T
g.data
g[0]
g[:, None]
g[i]
g[torch.tensor([0])]
-g
~(g > 0)
1 - g
g @ g
g > 0
(g == g)
(g + torch.tensor(1.0))
torch.tensor(1.0) * g
torch.cat([g, g])
torch.stack((g, g), dim=0)
torch.stack([g for _ in range(2)])
torch.where(g > 0, g, torch.tensor(0.0))
F.relu(g)
F.cross_entropy(g, i)
torch.einsum("ij,jk->ik", g, g)
nn.utils.rnn.pad_sequence([g, g])
m(g)
m.forward(g)
m.weight
m.weight.data
m.half().weight
nn.Sequential(m, nn.ReLU())(g)
nn.Linear(2, 2, device=gpu)(g)
nn.ReLU()(g)
nn.MSELoss()(g, g)
copy.deepcopy(g)
copy.deepcopy(m).weight
g.detach().clone().requires_grad_()
g.masked_fill(g > 0, 0)
g.mul_(2)
g.max(0)[0]
g.max(0).values
torch.max(g, 0).indices
g.topk(1)[1]
g.split(1)[0]
g.unbind()[0]
torch.sum(torch.stack([g, g]))
{"a": g}["a"]
(z := g)
next(m.parameters())
next(iter(m.parameters()))
list(m.parameters())[0]
[p for p in m.parameters()][0]
""".splitlines()

STATEMENTS = [
    ("y = torch.zeros(2)\ny += 1", "cpu"),
    ("y = torch.zeros(2)\ny.to(gpu)", "cpu"),
    ("y = torch.zeros(2)\ny = y.to(gpu)", "cuda:1"),
    ("y = torch.zeros(2)\nz = y\nz = z.to(gpu)", "cpu"),
    ("y = torch.zeros(2)\nz = y\nz.data = z.data.to(gpu)", "cuda:1"),
    ("y = z = torch.zeros(2)", "cpu"),
    ("y, z = g, c", "cuda:1"),
    ("z, y = g, c", "cpu"),
    ("(z, y), w = (c, g), c", "cuda:1"),
    ("[y, z] = g", "cuda:1"),
    ("y, z = torch.max(c, 0)", "cpu"),
    ("y, (h, w) = nn.LSTM(2, 2).to(gpu)(g[None])", "cuda:1"),
    ("y: torch.Tensor = torch.zeros(2)", "cpu"),
    ("y = nn.Linear(2, 2)", "cpu"),
    ("y = nn.Linear(2, 2)\ny.to(gpu)", "cuda:1"),
    ("y = nn.Linear(2, 2)\nz = y\nz.to(gpu)", "cuda:1"),
    ("y = m\nm.cpu()", "cpu"),
    ("y = nn.Linear(2, 2)\ny.cuda(1).eval()", "cuda:1"),
    ("y = nn.Linear(2, 2).to(dtype=torch.float16)", "cpu"),
    ("y = nn.Sequential(nn.Linear(2, 2), nn.ReLU())\ny.to(gpu)", "cuda:1"),
    ("y = torch.compile(m)", "cuda:1"),
    ("y = m.requires_grad_(False).train()", "cuda:1"),
    ("with torch.device(gpu):\n    y = torch.zeros(2)", "cuda:1"),
    ("with gpu:\n    y = torch.zeros(2)\ny = torch.zeros(2)", "cpu"),
    ("with torch.no_grad(), torch.device(1):\n    y = torch.ones(2)", "cuda:1"),
    ("with torch.device(gpu):\n    y = torch.zeros(2, device='cpu')", "cpu"),
    ("[y := t.cpu() for t in [g]]", "cpu"),
    ("y = c\n[y := t for t in [g]]", "cuda:1"),
    ("make = functools.partial(torch.zeros, 3)\ny = make(device=gpu)", "cuda:1"),
]
"""What `y` is after these lines."""

PROGRAMS = [
    *((f"y = {line}", "cpu") for line in ON_CPU),
    *((f"y = {line}", "cuda:1") for line in ON_GPU),
    *STATEMENTS,
]


@pytest.mark.parametrize("lines, place", PROGRAMS)
def test_the_place_that_is_believed(lines: str, place: str) -> None:
    assert lives(HEAD + lines, "y") == place


@pytest.fixture(scope="module")
def simulation():
    from devlint.runtime import simulate

    with simulate(2):
        yield


@pytest.mark.parametrize("lines, place", PROGRAMS)
def test_torch_agrees(lines: str, place: str, simulation: None) -> None:
    import torch

    names: dict[str, object] = {}
    exec(HEAD + lines, names)
    y = names["y"]
    if isinstance(y, torch.nn.Module):
        y = next(y.parameters())
    assert isinstance(y, torch.Tensor)
    assert str(y.device) == place


@pytest.mark.parametrize(
    "expression",
    [
        "torch.tensor(1.0)",
        "torch.tensor(3, device=gpu)",
        "torch.zeros(())",
        "torch.tensor(1.0) * 2",
        "torch.tensor(1.0) + torch.tensor(2.0)",
        "torch.tensor(1.0).sqrt()",
        "g.sum()",
        "g.max()",
        "g.mean()",
        "torch.sum(g)",
        "F.cross_entropy(g, i)",
        "torch.arange(3)[1]",
    ],
)
def test_no_dimensions(expression: str, simulation: None) -> None:
    names: dict[str, object] = {}
    exec(f"{HEAD}y = {expression}", names)
    assert names["y"].dim() == 0  # type: ignore[attr-defined]
    assert value(f"{HEAD}y = {expression}", "y").dims == 0


@pytest.mark.parametrize(
    "expression",
    [
        "torch.tensor([1.0])",
        "torch.tensor(np.zeros(2))",
        "torch.tensor(1.0).unsqueeze(0)",
        "torch.tensor(1.0).expand(3)",
        "torch.tensor(1.0).repeat(3)",
        "torch.tensor(1.0)[None]",
        "torch.tensor(1.0).view(1)",
        "torch.stack([g.sum(), g.sum()])",
        "g.sum(0)",
        "g.max(0)[0]",
        "g.mean(dim=0)",
        "torch.zeros(3)",
        "torch.zeros((1,))",
        "torch.tensor(1.0) * g",
        "g[0]",
    ],
)
def test_dimensions(expression: str, simulation: None) -> None:
    names: dict[str, object] = {}
    exec(f"{HEAD}y = {expression}", names)
    assert names["y"].dim() > 0  # type: ignore[attr-defined]
    assert value(f"{HEAD}y = {expression}", "y").dims != 0


@pytest.mark.parametrize(
    "expression",
    [
        "torch.zeros(3)",
        "torch.zeros(3, 4)",
        "torch.zeros((3, 4))",
        "torch.full((2,), 1.0)",
        "torch.rand(c.size(0), 2)",
        "torch.eye(3)",
        "torch.arange(3)",
        "torch.tensor([1, 2])",
        "torch.tensor([[1.0], [2.0]])",
        "torch.zeros(3, 4)[0]",
        "torch.zeros(3, 4)[0, 1]",
        "torch.zeros(3, 4)[-1]",
        "torch.zeros(3, 4)[:, 0]",
        "torch.zeros(3, 4)[None]",
        "torch.zeros(3, 4)[1:]",
        "torch.zeros(3, 4)[..., 0]",
        "torch.arange(3)[1]",
        "torch.arange(3)[1] * 2 + 1",
        "torch.zeros(3).mul_(2)",
        "next(iter(torch.zeros(3)))",
        "[t for t in torch.zeros(3, 4)][0]",
    ],
)
def test_known_dimensions_are_those_of_torch(expression: str, simulation: None) -> None:
    names: dict[str, object] = {}
    exec(f"{HEAD}y = {expression}", names)
    dims = names["y"].dim()  # type: ignore[attr-defined]
    assert value(f"{HEAD}y = {expression}", "y").dims in ((dims, None) if dims else (0, v.MAYBE_NONE))


@pytest.mark.parametrize("expression", ["t[k]", "t[k, k]", "t[k] * 2", "-t[k]", "t[k].abs()", "t[k] + t[0]"])
def test_items_of_a_tensor_of_unknown_dimensions_may_have_none(expression: str) -> None:
    assert value(f"{HEAD}t = torch.zeros(*sizes)\ny = {expression}", "y").dims == v.MAYBE_NONE


@pytest.mark.parametrize("expression", ["t[:, k]", "t[None]", "t[k:]", "t[[0, 1]]", "t[i]", "t[k, ...]", "t[k] + c"])
def test_parts_of_a_tensor_have_dimensions(expression: str) -> None:
    assert value(f"{HEAD}t = torch.zeros(*sizes)\ny = {expression}", "y").dims not in (0, v.MAYBE_NONE)


@pytest.mark.parametrize(
    "expression, kind",
    [
        ("1", v.NUMBER),
        ("-1.5", v.NUMBER),
        ("'cuda'", v.TEXT),
        ("f'cuda:{i}'", v.TEXT),
        ("str(gpu)", v.TEXT),
        ("None", v.NOTHING),
        ("[g, c]", v.SEQUENCE),
        ("{'a': g}", v.MAPPING),
        ("gpu", v.DEVICE),
        ("g.device", v.DEVICE),
        ("torch.device('cuda' if g.is_cuda else 'cpu')", v.DEVICE),
        ("gpu.type", v.TEXT),
        ("len(g)", v.NUMBER),
        ("g.item()", v.NUMBER),
        ("g.cpu().numpy()", v.ARRAY),
        ("g", v.TENSOR),
        ("m", v.MODULE),
        ("m.weight", v.PARAMETER),
        ("nn.Parameter(c)", v.PARAMETER),
        ("nn.ModuleList([m])", v.CONTAINER),
        ("nn.Sequential(m)", v.CONTAINER),
        ("torch.optim.SGD(m.parameters(), 0.1)", v.OPTIMIZER),
        ("torch.utils.data.DataLoader([])", v.LOADER),
        ("torch.Generator()", v.GENERATOR),
        ("lambda: g", v.FUNCTION),
        ("torch", v.NAME),
        ("torch.zeros", v.NAME),
        ("undefined", v.UNKNOWN),
        ("undefined.attribute(3)", v.UNKNOWN),
    ],
)
def test_the_kind_that_is_believed(expression: str, kind: str) -> None:
    assert value(f"{HEAD}y = {expression}", "y").kind == kind


@pytest.mark.parametrize(
    "text, place",
    [
        ("cpu", CPU),
        ("cuda", Place("cuda")),
        ("cuda:0", Place("cuda", 0)),
        ("cuda:11", Place("cuda", 11)),
        ("mps", Place("mps")),
        ("cuda:01", None),
        ("cuda:", None),
        ("cuda:0,1", None),
        ("", None),
        ("cuda:1 ", None),
    ],
)
def test_places_named_by_strings(text: str, place: Place | None) -> None:
    assert named_place(text) == place


def test_only_proven_places_are_the_same() -> None:
    here, there = Place(key=("at", 1)), Place(key=("at", 2))
    assert here.same(Place(key=("at", 1), text="x"))
    assert not here.same(there)
    assert CPU.same(Place("cpu")) and not CPU.same(Place("cuda"))
    assert not Place("cuda").same(Place("cuda", 0)), "which GPU is the current one is not known"
    assert not NOWHERE_KNOWN.same(NOWHERE_KNOWN)
    assert not here.same(CPU) and not CPU.same(here)


def tensor(place: Place, words: str = "made", row: int = 1) -> Value:
    return Value(kind=v.TENSOR, place=place, origin=Origin(words, row), ids=frozenset([row]))


def test_branches_that_agree() -> None:
    joined = join(tensor(Place("cuda")), tensor(Place("cuda"), row=2))
    assert (joined.kind, joined.place) == (v.TENSOR, Place("cuda"))
    assert joined.ids == {1, 2}


def test_branches_that_disagree_keep_both() -> None:
    joined = join(tensor(CPU), tensor(Place("cuda"), row=2))
    assert (joined.kind, joined.place) == (v.TENSOR, NOWHERE_KNOWN)
    assert [one.place for one in joined.possibilities()] == [CPU, Place("cuda")]


def test_two_factories_on_the_cpu_are_both_kept() -> None:
    joined = join(tensor(CPU), tensor(CPU, row=2))
    assert joined.place == CPU
    assert [one.origin.row for one in joined.possibilities() if one.origin] == [1, 2]


def test_a_tensor_moved_on_one_way_only_is_nowhere_known() -> None:
    root = object()
    stays = Value(kind=v.TENSOR, place=CPU, origin=Origin("made", 1, root, root))
    moved = Value(kind=v.TENSOR, place=Place("cuda"), origin=Origin("moved", 2, object(), root))
    joined = join(stays, moved)
    assert (joined.place, joined.alternatives) == (NOWHERE_KNOWN, ())


def test_values_in_values_are_bounded() -> None:
    one = tensor(CPU)
    for _ in range(60):
        one = Value(kind=v.SEQUENCE, items=(one, one), element=one)
        assert one.size <= v.MAX_SIZE
    other = Value(kind=v.SEQUENCE, items=(one, one))
    assert join(one, other).kind == v.SEQUENCE


def test_modules_have_no_alternatives() -> None:
    one, other = (Value(kind=v.MODULE, place=place, ids=frozenset([place])) for place in (CPU, Place("cuda")))
    assert join(one, other).alternatives == ()
    text = f"{HEAD}for y in (nn.Linear(2, 2), nn.Linear(2, 2, device=gpu)):\n    y.to(gpu)\n    z = y(g)\n"
    assert lives(text, "z") == "cuda:1"
