"""DEV302: `map_location` in `load_state_dict`, and its way to the load."""

from __future__ import annotations

import pytest
from checks.helpers import check, findings, fixed

CODE = "DEV302"
HEAD = "import torch\nfrom torch import nn\nnet = nn.Linear(2, 2)\nopt = torch.optim.Adam(net.parameters())\n"


def mended(body: str) -> str:
    return fixed(HEAD + body + "\n", CODE).removeprefix(HEAD).rstrip("\n")


MOVED = [
    pytest.param(
        "net.load_state_dict(torch.load(p), map_location='cpu')",
        "net.load_state_dict(torch.load(p, map_location='cpu'))",
        id="inside",
    ),
    pytest.param(
        "net.load_state_dict(torch.load(p), map_location=pick(), strict=False)",
        "net.load_state_dict(torch.load(p, map_location=pick()), strict=False)",
        id="first of two keywords",
    ),
    pytest.param(
        "net.load_state_dict(map_location='cpu', state_dict=torch.load(p)['net'])",
        "net.load_state_dict(state_dict=torch.load(p, map_location='cpu')['net'])",
        id="keywords",
    ),
    pytest.param(
        "opt.load_state_dict(torch.load(p).get('opt'), map_location=lambda s, l: s)",
        "opt.load_state_dict(torch.load(p, map_location=lambda s, l: s).get('opt'))",
        id="optimizer",
    ),
    pytest.param(
        "def f(p, device):\n    s = torch.load(p)\n    net.load_state_dict(s['a'], map_location=device)",
        "def f(p, device):\n    s = torch.load(p, map_location=device)\n    net.load_state_dict(s['a'])",
        id="through a name",
    ),
    pytest.param(
        "net.load_state_dict(torch.load(p, map_location='cpu'), map_location='cpu')",
        "net.load_state_dict(torch.load(p, map_location='cpu'))",
        id="there already",
    ),
    pytest.param(
        "def f(m, p):\n    m.eval()\n    m.load_state_dict(torch.load(p), map_location='cpu')",
        "def f(m, p):\n    m.eval()\n    m.load_state_dict(torch.load(p, map_location='cpu'))",
        id="a module by its methods",
    ),
]


@pytest.mark.parametrize(("body", "wanted"), MOVED)
def test_moves_to_the_load(body: str, wanted: str) -> None:
    assert mended(body) == wanted
    assert check(HEAD + wanted + "\n", CODE) == []


LEFT = [
    pytest.param("net.load_state_dict(state, map_location='cpu')", "not seen", id="no load"),
    pytest.param("net.load_state_dict(torch.load(p, **kw), map_location='cpu')", "not seen", id="stars"),
    pytest.param(
        "s = torch.load(p)\nd = torch.device('cpu')\nnet.load_state_dict(s, map_location=d)",
        "not be set",
        id="set later",
    ),
    pytest.param(
        "s = torch.load(p)\ns = torch.load(q)\nnet.load_state_dict(s, map_location='cpu')", "not seen", id="two loads"
    ),
]


@pytest.mark.parametrize(("body", "why"), LEFT)
def test_no_fix_says_why(body: str, why: str) -> None:
    (found,) = findings(HEAD + body + "\n", CODE)
    assert found.fix is None
    assert why in (found.no_fix or "")


SILENT = [
    pytest.param("thing.load_state_dict(s, map_location='cpu')", id="unknown receiver"),
    pytest.param("engine.load_state_dict(torch.load(p), map_location='cpu')", id="unknown receiver of a load"),
    pytest.param("net.load_state_dict(s, **kw)", id="stars"),
    pytest.param(
        "class M(nn.Module):\n    def load_state_dict(self, s, map_location=None): ...\n"
        "M().load_state_dict(s, map_location='cpu')",
        id="own method",
    ),
]


@pytest.mark.parametrize("body", SILENT)
def test_silent(body: str) -> None:
    assert check(HEAD + body + "\n", CODE) == []


def test_torch_raises_what_the_message_says() -> None:
    torch = pytest.importorskip("torch")
    net = torch.nn.Linear(2, 2)
    for receiver in (net, torch.optim.Adam(net.parameters())):
        with pytest.raises(TypeError, match="unexpected keyword argument 'map_location'"):
            receiver.load_state_dict(receiver.state_dict(), map_location="cpu")


def test_finding_stands_at_the_keyword_and_speaks_before_the_load() -> None:
    text = HEAD + "net.load_state_dict(torch.load(p), map_location='cpu')\n"
    (found,) = findings(text, CODE, "DEV301")
    assert (found.code, found.start.column, found.end.column) == (CODE, 36, 48)
    assert [code for _, code in check(text, "DEV301")] == ["DEV301"]
