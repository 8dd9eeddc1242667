"""What is believed after branches, loops, handlers and nested functions, where a name may hold one thing or another."""

from __future__ import annotations

import pytest
from placement.believing import infer, lives, run, value
from work import calls_of

from devlint.config import Config
from devlint.engine import check_text
from devlint.placement import values as v
from devlint.placement.infer import FUNCTIONS
from devlint.source import Source

HEAD = """\
import torch
from torch import nn

gpu = torch.device("cuda:1")
"""

FUNCTION = HEAD + "\n\ndef f(x, flag, xs, d):\n    {}\n"


def function(lines: str) -> str:
    return FUNCTION.format(lines.replace("\n", "\n    "))


def places(lines: str) -> set[str]:
    """The places of all that `y` can be at the end of a function."""
    found = value(function(lines), "y", "f")
    return {one.place.device or ("a symbol" if one.place.key else "unknown") for one in found.possibilities()}


@pytest.mark.parametrize(
    "lines, place",
    [
        ("y = torch.zeros(2)\nif flag:\n    y = y + 1", "cpu"),
        ("if flag:\n    y = torch.zeros(2)\nelse:\n    y = torch.ones(2)", "cpu"),
        ("if flag:\n    y = torch.zeros(2, device=gpu)\nelse:\n    y = torch.ones(2, device='cuda:1')", "cuda:1"),
        ("y = torch.zeros(2)\nif flag:\n    raise ValueError\n    y = y.cuda()", "cpu"),
        ("y = torch.zeros(2)\nif flag:\n    y = y.cuda()\n    return y", "cpu"),
        ("y = torch.zeros(2)\nif flag:\n    y = y.cuda()", "unknown"),
        ("y = torch.zeros(2)\nif flag:\n    y = y.cuda(1)\nelse:\n    y = y.to(gpu)", "cuda:1"),
        ("y = torch.zeros(2).cuda(1) if flag else torch.ones(2, device=gpu)", "cuda:1"),
        ("y = torch.zeros(2)\nwhile flag:\n    y = y * 2", "cpu"),
        ("y = torch.zeros(2)\nfor _ in xs:\n    y = y.cuda()", "unknown"),
        ("y = torch.zeros(2)\nfor _ in xs:\n    break\nelse:\n    y = y.cuda(1)", "unknown"),
        ("for _ in xs:\n    y = torch.zeros(2)\n    continue\n    y = y.cuda()", "cpu"),
        ("while True:\n    y = torch.zeros(2, device=gpu)\n    if flag:\n        break", "cuda:1"),
        ("for y in torch.zeros(3, 2):\n    pass", "cpu"),
        ("for y in [torch.zeros(2), torch.ones(2)]:\n    pass", "cpu"),
        ("for _, y in enumerate(torch.zeros(3, 2)):\n    pass", "cpu"),
        ("for _, y in zip(xs, torch.zeros(3, 2)):\n    pass", "cpu"),
        ("ys = []\nfor _ in xs:\n    ys.append(torch.zeros(2))\ny = torch.stack(ys)", "cpu"),
        ("ys = []\nys += [torch.zeros(2, device=gpu)]\ny = ys[0]", "cuda:1"),
        ("try:\n    y = torch.zeros(2)\nexcept RuntimeError:\n    y = torch.ones(2)", "cpu"),
        ("try:\n    y = torch.zeros(2)\nfinally:\n    y = torch.zeros(2, device=gpu)", "cuda:1"),
        ("y = torch.zeros(2)\ntry:\n    y = y.cuda()\nexcept RuntimeError:\n    pass", "unknown"),
        ("y = torch.zeros(2)\ntry:\n    pass\nexcept RuntimeError:\n    raise\nelse:\n    y = y.to(gpu)", "cuda:1"),
        ("match flag:\n    case 1:\n        y = torch.zeros(2)\n    case _:\n        y = torch.ones(2)", "cpu"),
        ("y = torch.zeros(2)\nmatch flag:\n    case [1, y]:\n        pass", "unknown"),
        ("with torch.device(gpu):\n    y = torch.zeros(2)", "cuda:1"),
        ("with d:\n    y = torch.zeros(2, device=gpu)", "cuda:1"),
        ("with torch.device('cuda:1') as here:\n    y = torch.zeros(2)", "cuda:1"),
        ("with torch.cuda.device(1):\n    y = torch.zeros(2)", "cpu"),
        ("with on_device(d):\n    y = torch.zeros(2)", "unknown"),
        ("with init_empty_weights():\n    y = torch.zeros(2)", "unknown"),
        ("with (torch.device(d) if flag else nullcontext()):\n    y = torch.zeros(2)", "unknown"),
        ("y = torch.zeros(2)\ndef inner():\n    y = torch.zeros(2, device=gpu)", "cpu"),
        ("y = torch.zeros(2)\ndef inner():\n    nonlocal y\n    y = y.to(gpu)\ninner()", "unknown"),
        ("y = torch.zeros(2)\n[y for y in xs]", "cpu"),
        ("y = torch.zeros(2)\nz = [(y := x) for x in [torch.zeros(2, device=gpu)]]", "cuda:1"),
        ("y = torch.zeros(2)\nlambda y: y.cuda()", "cpu"),
        ("if (y := torch.zeros(2)) is not None:\n    pass", "cpu"),
        ("y = torch.zeros(2)\ny.data = y.data.to(gpu)", "cuda:1"),
        ("async def g():\n    pass\ny = torch.zeros(2)", "cpu"),
    ],
)
def test_where_a_name_is_in_the_end(lines: str, place: str) -> None:
    assert lives(function(lines), "y", "f") == place


@pytest.mark.parametrize(
    "lines, wanted",
    [
        ("y = torch.zeros(2)\nif flag:\n    y = torch.zeros(2, device='cuda')", {"cpu", "cuda"}),
        ("y = torch.zeros(2, device='mps')\nfor _ in xs:\n    y = torch.zeros(2)", {"mps", "cpu"}),
        ("y = torch.zeros(2) if flag else torch.zeros(2, device='cuda')", {"cpu", "cuda"}),
        ("y = x\nif flag:\n    y = torch.zeros(2)", {"a symbol", "cpu"}),
        ("try:\n    y = torch.zeros(2)\nexcept E:\n    y = torch.zeros(2, device='cuda')", {"cpu", "cuda"}),
    ],
)
def test_where_a_name_may_be(lines: str, wanted: set[str]) -> None:
    assert places(lines) == wanted


@pytest.mark.parametrize(
    "lines, kind",
    [
        ("y = x\nassert isinstance(y, torch.Tensor)", v.TENSOR),
        ("y = x\nif not isinstance(y, torch.Tensor):\n    raise TypeError", v.TENSOR),
        ("y = x\nif not torch.is_tensor(y):\n    return", v.TENSOR),
        ("y = x\nif isinstance(y, torch.Tensor):\n    return", v.UNKNOWN),
        ("y = x\nif isinstance(y, list):\n    return\ny = y.unsqueeze(0)", v.TENSOR),
        ("y = x\nassert isinstance(y, nn.Module) and flag", v.MODULE),
        ("y = None\nif flag:\n    y = torch.zeros(2)\nassert y is not None", v.TENSOR),
        ("y = None\nif flag:\n    y = torch.zeros(2)\nif y is None:\n    return", v.TENSOR),
        ("y = torch.zeros(2)\ndel y\ny = 1", v.NUMBER),
        ("y = torch.zeros(2)\nimport y", v.NAME),
        ("def y():\n    pass", v.FUNCTION),
        ("class y:\n    pass", v.CLASS),
        ("try:\n    pass\nexcept E as y:\n    z = 1", v.UNKNOWN),
        ("y = x.unsqueeze(0)", v.TENSOR),
        ("y = x\nx.unsqueeze(0)", v.TENSOR),
        ("y = x.view(-1)", v.UNKNOWN),
        ("y = x.view(-1)\ny.backward()", v.TENSOR),
        ("y = x\ny.parameters()", v.MODULE),
        ("y = x\ny.to(d)\ny(flag)", v.MODULE),
        ("y = x\ny.to(d)", v.UNKNOWN),
        ("y = x\ny.mean(dim=1)", v.TENSOR),
        ("y = x\ny.mean(axis=1)", v.UNKNOWN),
        ("y = torch.zeros(2)\nif flag:\n    y = 3", v.UNKNOWN),
        ("y = torch.zeros(2)\nif flag:\n    y = nn.Linear(2, 2)", v.UNKNOWN),
        ("global y\ny = torch.zeros(2)", v.TENSOR),
    ],
)
def test_what_a_name_is_in_the_end(lines: str, kind: str) -> None:
    outcome = run(function(lines), "f")
    assert outcome.resolved(outcome.state.names["y"]).kind == kind


def read(text: str, expression: str) -> v.Value:
    """What an expression that stands once in a text is believed to be."""
    import ast

    inference = infer(text)
    (node,) = [n for n in ast.walk(inference.tree) if isinstance(n, ast.expr) and ast.unparse(n) == expression]
    return inference.value(node)


OUTER = """\
import torch

def outer(x, d):
    t = torch.zeros(3)
    {before}
    def inner(z):
        return t * (1 * z)
    {after}
"""


@pytest.mark.parametrize(
    "before, after, place",
    [
        ("pass", "pass", "cpu"),
        ("t = torch.ones(3, device='cuda')", "pass", "cuda"),
        ("pass", "t = t.to('cuda')", "cuda"),
    ],
)
def test_closures_read_what_the_outer_function_left(before: str, after: str, place: str) -> None:
    assert read(OUTER.format(before=before, after=after), "t * (1 * z)").place.device == place


@pytest.mark.parametrize(
    "lines",
    ["g = lambda: t\nt = t.to(d)", "for t in xs:\n    g = lambda: t", "t = t.to(d)\ng = lambda: t"],
)
def test_a_lambda_sees_what_its_names_hold_later(lines: str) -> None:
    text = function(f"t = torch.zeros(3)\n{lines}").replace("lambda: t", "lambda: t + 1")
    assert not read(text, "t + 1").place.device


def test_a_lambda_sees_what_is_bound_once() -> None:
    assert read(function("t = torch.zeros(3)\ng = lambda: t + 1"), "t + 1").place.is_cpu


def test_globals_that_functions_bind_prove_nothing() -> None:
    text = HEAD + "t = torch.zeros(3)\ndef move():\n    global t\n    t = t.cuda()\nmove()\ny = t + 1\n"
    assert lives(text, "y") == "unknown"
    assert lives(text.replace("    global t\n", ""), "y") == "cpu"


def test_a_chosen_device_is_one_place() -> None:
    text = function(
        "device = 'cuda' if flag else 'cpu'\na = torch.zeros(2, device=device)\nb = torch.ones(2).to(device)"
    )
    outcome = run(text, "f")
    first, second = outcome.state.names["a"].place, outcome.state.names["b"].place
    assert first.known and first.same(second)


@pytest.mark.parametrize("again", ["device = pick()", "device = 'cuda' if flag else 'mps'", "for device in xs: pass"])
def test_a_device_that_is_chosen_again_is_another_place(again: str) -> None:
    text = function(
        f"device = 'cuda' if flag else 'cpu'\na = torch.zeros(2, device=device)\n{again}\nb = torch.ones(2).to(device)"
    )
    outcome = run(text, "f")
    assert not outcome.state.names["a"].place.same(outcome.state.names["b"].place)


@pytest.mark.parametrize(
    "setter",
    [
        "torch.set_default_device('cuda')",
        "torch.set_default_tensor_type(torch.cuda.FloatTensor)",
        "from torch import set_default_device",
    ],
)
def test_a_default_device_anywhere_makes_factories_unknown(setter: str) -> None:
    assert lives(f"{HEAD}y = torch.zeros(2)\ndef later():\n    {setter}\n", "y") == "unknown"


@pytest.mark.parametrize(
    "text",
    [
        "from torch import *\ny = zeros(2)",
        "import torch\ntorch = fake()\ny = torch.zeros(2)",
        "import torch\ndef zeros(n): return n\ny = zeros(2)",
        "y = torch.zeros(2)\nimport numpy as torch",
    ],
)
def test_names_that_may_not_be_torchs_prove_nothing(text: str) -> None:
    assert not value(text, "y").is_tensor


@pytest.mark.parametrize(
    "text, place",
    [
        ("def g():\n    return torch.zeros(2)\ny = g()", "cpu"),
        ("def g(n, d='cuda'):\n    return torch.zeros(n, device='cuda:1')\ny = g(2)", "cuda:1"),
        ("def h():\n    return g()\ndef g():\n    return torch.zeros(2)\ny = h()", "cpu"),
        ("def g():\n    return h()\ndef h():\n    return torch.zeros(2)\ny = g()", "cpu"),
        ("def g(x):\n    return x\ny = g(torch.zeros(2))", "a symbol"),
        ("def g():\n    yield torch.zeros(2)\ny = g()", "a symbol"),
        ("def g():\n    return torch.zeros(2), torch.ones(2, device=gpu)\nz, y = g()", "cuda:1"),
        ("def g(n):\n    return g(n - 1) if n else torch.zeros(2)\ny = g(2)", "a symbol"),
        (
            "def g(n):\n    if n:\n        return torch.zeros(2)\n    return torch.ones(2, device=gpu)\ny = g(2)",
            "unknown",
        ),
        ("def g() -> torch.Tensor:\n    ...\ny = g()", "unknown"),
    ],
)
def test_functions_of_the_same_file(text: str, place: str) -> None:
    assert lives(HEAD + text, "y") == place


# --- hostile programs ---------------------------------------------------------------------------------------------

LOOP = "for y{0} in x:"
HOSTILE = {
    "loops": lambda n: nested("for y{0} in x:", "a = x.unsqueeze(0) + a", n),
    "growing lists in loops": lambda n: nested("while x[{0}]:", "a = [a, x.unsqueeze(0)]", n),
    "ifs": lambda n: nested("if x[{0}]:", "a{0} = x.unsqueeze(0)", n),
    "tries": lambda n: nested("try:", "a = x.unsqueeze(0)", n) + closed("except E: a = 0", n),
    "functions": lambda n: "".join(f"{' ' * i}def g{i}(x{i}):\n{' ' * (i + 1)}a{i} = x{i} + x0\n" for i in range(n)),
    "doubled tuples": lambda n: body("a = (a, a)\nb = (b, b)\n" * n + "if d:\n    a = b"),
    "doubled dicts": lambda n: body("a = (a, b) if d else (b, a)\nb = {'x': a, 'y': a}\n" * n),
    "lists in themselves": lambda n: body("a.append(x.unsqueeze(0))\na.append(a)\n" * n),
    "choices": lambda n: body("".join(f"a = 'cuda:{i}' if d else a\n" for i in range(n))),
    "calls in a ring": lambda n: "".join(
        f"def g{i}(x):\n    return g{(i + 1) % n}(x) + g{i * 7 % n}(x)\n" for i in range(n)
    ),
    "bases": lambda n: (
        "class A0(torch.nn.Module): pass\n" + "".join(f"class A{i}(A{i - 1}): pass\n" for i in range(1, n))
    ),
}


def nested(header: str, line: str, n: int) -> str:
    lines = [f"{' ' * (i + 1)}{header.format(i)}\n{' ' * (i + 2)}{line.format(i)}\n" for i in range(n)]
    return "def g(x, a):\n" + "".join(lines)


def closed(line: str, n: int) -> str:
    return "".join(f"{' ' * i}{line}\n" for i in range(n, 0, -1))


def body(lines: str) -> str:
    return "def g(x, a, b, d):\n    " + lines.replace("\n", "\n    ") + "\n"


def work(text: str) -> int:
    """The calls of Python functions that inferring the whole of a text takes."""
    import ast

    inference = infer(HEAD + text)

    def follow() -> None:
        for owner in [n for n in ast.walk(inference.tree) if isinstance(n, FUNCTIONS)]:
            inference.run(owner)
        for node in [n for n in ast.walk(inference.tree) if isinstance(n, ast.ClassDef)]:
            assert inference.classes.kind(node) == v.MODULE

    return calls_of(follow)


@pytest.mark.parametrize("name", HOSTILE)
def test_what_no_person_writes_takes_no_more_than_its_share(name: str) -> None:
    assert work(HOSTILE[name](30)) < 3_000_000  # where each level doubles the work, 30 levels have no end


LONG = {
    "statements": lambda n: body("".join(f"a{i} = torch.zeros(3) + x\n" for i in range(n))),
    "attributes": lambda n: body("".join(f"x.a{i}.b = torch.zeros(3)\n" for i in range(n))),
    "ifs in a row": lambda n: body("".join(f"if d[{i}]:\n    a{i} = x.sin()\n" for i in range(n))),
    "loops in a row": lambda n: body("".join(f"for b{i} in x:\n    a{i} = b{i}\n" for i in range(n))),
    "withs in a row": lambda n: body("".join(f"with torch.device(d):\n    a{i} = torch.zeros(2)\n" for i in range(n))),
    "many functions": lambda n: "".join(f"def g{i}(x):\n    return x + torch.zeros(3)\n" for i in range(n)),
}


@pytest.mark.parametrize("name", LONG)
def test_work_grows_with_length_and_not_with_its_square(name: str) -> None:
    few, many = 250, 1_000
    assert work(LONG[name](many)) < 1.5 * work(LONG[name](few)) * many / few


def test_a_long_chain_of_functions_ends_in_nothing_known() -> None:
    lines = "".join(f"def g{i}():\n    y = g{i - 1}()\n    return y\n" for i in range(1, 3_000))
    text = f"{HEAD}def g0():\n    return torch.zeros(3)\n{lines}def use(x: torch.Tensor):\n    z = g{{}}()\n"
    assert lives(text.format(9), "z", "use") == "cpu"
    meeting = text.format(2_999) + "    return z + x + torch.ones(3)\n"
    codes = [found.code for found in check_text(Source("t.py", meeting), Config()).findings]
    assert codes == ["DEV201"]  # what is made there, and no rule has crashed


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("def g(n):\n    x = torch.arange(n)\n    y = n\n", v.NUMBER),
        ("def g(n):\n    y = n\n    x = torch.linspace(0, n, 3)\n", v.NUMBER),
        ("def g(n):\n    n = n.unsqueeze(0)\n    y = n\n    x = torch.zeros(n)\n", v.TENSOR),
        ("def g(a):\n    y = nn.Parameter(a).requires_grad_(False)\n", v.PARAMETER),
        ("def g(a):\n    y = nn.Parameter(a).view(3)\n", v.TENSOR),
    ],
)
def test_what_uses_say_of_kinds(text: str, kind: str) -> None:
    assert value(HEAD + text, "y", "g").kind == kind


def test_what_a_nested_function_reads_hangs_on_when_it_is_called() -> None:
    text = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.zeros(3)

    def forward(self, x):
        def read():
            y = self.table
        self.table = self.table.to(x.device)
        read()
"""
    assert value(HEAD + text, "y", "read").kind == v.UNKNOWN
    assert lives(HEAD + text.replace("        self.table = self.table.to(x.device)\n", ""), "y", "read") == "cpu"
