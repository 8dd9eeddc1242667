"""DEV201: tensors made on the CPU that meet what need not be there; when the fix is safe, and what it says."""

from __future__ import annotations

import pytest
from checks.helpers import check, findings, fixed
from work import calls_of

from devlint.config import Config
from devlint.engine import check_text
from devlint.finding import Applicability
from devlint.source import Source

HEAD = """\
import functools
import torch
import torch as th
import torch.nn.functional as F
import numpy as np
from torch import nn, zeros as noughts
from typing import List, Optional


"""
FIRST = HEAD.count("\n") + 1


def function(lines: str, arguments: str = "x, flag, d") -> str:
    """A function that shows its first argument to be a tensor, and then runs these lines."""
    return f"{HEAD}def f({arguments}):\n    x.unsqueeze(0)\n    " + lines.replace("\n", "\n    ") + "\n"


def repaired(lines: str, arguments: str = "x, flag, d", *, unsafe: bool = False) -> str:
    text = fixed(function(lines, arguments), "DEV201", unsafe=unsafe)
    start = text.index("x.unsqueeze(0)\n    ") + len("x.unsqueeze(0)\n    ")
    return text[start:].rstrip("\n").replace("\n    ", "\n")


SAFE = [
    ("return x + torch.zeros(3)", "return x + torch.zeros(3, device=x.device)"),
    ("return x + th.zeros(3,)", "return x + th.zeros(3, device=x.device,)"),
    ("return x + noughts((3))", "return x + noughts((3), device=x.device)"),
    ("return x + torch.zeros(\n    3,  # n\n    dtype=x.dtype,\n)", None),
    ("return x + torch.zeros(*x.shape)", "return x + torch.zeros(*x.shape, device=x.device)"),
    ("return x + torch.from_numpy(flag)", "return x + torch.from_numpy(flag).to(x.device)"),
    ("return x + torch.tensor([1.0, 2.0])", "return x + torch.tensor([1.0, 2.0], device=x.device)"),
    (
        "t = torch.arange(3)\nreturn x * t.float()[None]",
        "t = torch.arange(3, device=x.device)\nreturn x * t.float()[None]",
    ),
    ("x += torch.ones(3)\nreturn x", "x += torch.ones(3, device=x.device)\nreturn x"),
    ("return torch.cat([x, torch.zeros(1)])", "return torch.cat([x, torch.zeros(1, device=x.device)])"),
    ("return x.masked_fill(torch.ones(3).bool(), 0)", "return x.masked_fill(torch.ones(3, device=x.device).bool(), 0)"),
    ("return x.gather(0, torch.arange(3))", "return x.gather(0, torch.arange(3, device=x.device))"),
    ("return [x + torch.zeros(3) for _ in flag]", "return [x + torch.zeros(3, device=x.device) for _ in flag]"),
    ("return lambda: x + torch.zeros(3)", "return lambda: x + torch.zeros(3, device=x.device)"),
    ("y = x * 2\nreturn y + torch.zeros(3)", "y = x * 2\nreturn y + torch.zeros(3, device=x.device)"),
    ("x = x.sin()\nreturn x + torch.zeros(3)", "x = x.sin()\nreturn x + torch.zeros(3, device=x.device)"),
    (
        "m = None\nif flag:\n    m = torch.ones(3)\nelse:\n    m = torch.zeros(3)\nreturn x * m",
        "m = None\nif flag:\n    m = torch.ones(3, device=x.device)\nelse:\n"
        "    m = torch.zeros(3, device=x.device)\nreturn x * m",
    ),
    (
        "h = torch.zeros(3)\nfor _ in flag:\n    h = h + x\nreturn h",
        "h = torch.zeros(3, device=x.device)\nfor _ in flag:\n    h = h + x\nreturn h",
    ),
    (
        "async def g():\n    y = x.sin()\n    return y + torch.zeros(3)",
        "async def g():\n    y = x.sin()\n    return y + torch.zeros(3, device=y.device)",
    ),
]


@pytest.mark.parametrize("lines, wanted", SAFE)
def test_safe_fixes(lines: str, wanted: str | None) -> None:
    after = repaired(lines)
    if wanted is None:
        wanted = lines.replace("dtype=x.dtype,\n", "dtype=x.dtype,\n    device=x.device,\n")
    assert after == wanted
    assert check(HEAD + "def f(x, flag, d):\n    x.unsqueeze(0)\n    " + after.replace("\n", "\n    "), "DEV201") == []


@pytest.mark.parametrize(
    "lines",
    [
        "t = torch.arange(3)\nif flag:\n    return x + t\nreturn t.numpy()",
        "t = torch.arange(3)\nif flag:\n    return x + t\nreturn np.asarray(t)",
        "t = torch.arange(3)\nif flag:\n    return x + t\nreturn nn.utils.rnn.pack_padded_sequence(x, t)",
        "t = torch.arange(3)\nif flag:\n    return x + t\nreturn t.pin_memory()",
    ],
)
def test_what_is_wanted_on_the_host_elsewhere_is_no_safe_fix(lines: str) -> None:
    (found,) = findings(function(lines), "DEV201")
    assert found.fix is not None and found.fix.applicability is Applicability.UNSAFE
    assert repaired(lines) == lines


@pytest.mark.parametrize(
    "lines",
    [
        "t = torch.arange(3)\nif flag:\n    x = x + t\nreturn t",
        "t = torch.arange(3)\nt = t if flag else x + t\nreturn t",
        "t = torch.arange(3)\nwhile flag:\n    x = x + t\nreturn t",
        "t = torch.arange(3)\nreturn [x + t for _ in d if flag], t",
        "t = torch.arange(3)\nif flag:\n    return t\nreturn x + t",
        "t = torch.arange(3)\nfor _ in d:\n    if flag:\n        break\n    x = x + t\nreturn t",
        "t = torch.arange(3)\ntry:\n    x = x + t\nexcept RuntimeError:\n    pass\nreturn t",
        "t = torch.arange(3)\nlater = lambda: x + t\nreturn t, later",
    ],
)
def test_what_may_not_meet_at_all_is_no_safe_fix(lines: str) -> None:
    (found,) = findings(function(lines), "DEV201")
    assert found.fix is not None and found.fix.applicability is Applicability.UNSAFE


@pytest.mark.parametrize(
    "lines",
    [
        "if flag:\n    t = torch.arange(3)\n    x = x + t\nreturn x",
        "if flag:\n    t = torch.arange(3)\nelse:\n    t = x\nreturn x + t",
        "t = torch.arange(3)\nwith torch.no_grad():\n    x = x + t\nreturn t",
        "t = torch.arange(3)\nfor _ in d:\n    x = x + t\nreturn t",
        "t = torch.arange(3)\nif (x + t).sum() > 0:\n    return x\nreturn t",
        "try:\n    t = torch.arange(3)\n    return x + t\nfinally:\n    print(x)",
        "return x + torch.zeros(3, 3)[:, 0]",
        "return x + torch.zeros(3, 3)[0]",
        "return x + torch.zeros(*flag)[None]",
    ],
)
def test_what_surely_meets_is_a_safe_fix(lines: str) -> None:
    (found,) = findings(function(lines), "DEV201")
    assert found.fix is not None and found.fix.applicability is Applicability.SAFE


@pytest.mark.parametrize(
    "lines, arguments, wanted",
    [
        ("x = x.to(d)\nreturn x + torch.zeros(3)", "x, flag, d", "x = x.to(d)\nreturn x + torch.zeros(3, device=d)"),
        ("return x.to(d) + torch.zeros(3)", "x, flag, d", "return x.to(d) + torch.zeros(3, device=d)"),
        ("return x.cuda() + torch.zeros(3)", "x, flag, d", 'return x.cuda() + torch.zeros(3, device="cuda")'),
        (
            "gpu = torch.device('cuda')\nreturn x.to(gpu) + torch.zeros(3)",
            "x, flag, d",
            "gpu = torch.device('cuda')\nreturn x.to(gpu) + torch.zeros(3, device=gpu)",
        ),
        ("y = torch.ones(3, device=d)\nreturn y + torch.Tensor(3)", "x, d", None),
    ],
)
def test_unsafe_fixes(lines: str, arguments: str, wanted: str | None) -> None:
    if wanted is None:
        wanted = lines.replace("torch.Tensor(3)", "torch.empty(3, device=y.device)")
    assert repaired(lines, arguments) == lines
    assert repaired(lines, arguments, unsafe=True) == wanted


@pytest.mark.parametrize(
    "lines, arguments",
    [
        ("return x + torch.zeros(3, pin_memory=True)", "x"),
        ("return x + torch.LongTensor([1, 2])", "x"),
        ("return x + torch.FloatTensor(flag)", "x, flag"),
    ],
)
def test_no_fix_where_what_is_meant_is_not_certain(lines: str, arguments: str) -> None:
    (found,) = findings(function(lines, arguments), "DEV201")
    assert found.fix is None and found.no_fix


@pytest.mark.parametrize(
    "arguments", ["x=None", "*, x=None", "x: Optional[torch.Tensor] = None", "y, x: 'torch.Tensor | None'"]
)
def test_an_optional_argument_names_no_device(arguments: str) -> None:
    (found,) = findings(function("return x + torch.zeros(3)", arguments), "DEV201")
    assert found.fix is None


def test_names_of_lambdas_and_comprehensions_name_no_device_outside() -> None:
    text = HEAD + (
        "def f(xs: List[torch.Tensor], x: torch.Tensor):\n"
        "    first = [y.view(-1) for y in xs][0]\n"
        "    z = x.sin()\n"
        "    return lambda x: z + torch.zeros(3), first\n"
    )
    assert "z + torch.zeros(3, device=z.device)" in fixed(text, "DEV201")


def test_a_meeting_on_another_branch_names_no_device() -> None:
    lines = "z = y.sin()\nif flag:\n    return x + z\nelse:\n    return z + torch.zeros(3)"
    assert "device=x.device" not in repaired(lines, "x, y: torch.Tensor, flag")
    assert "torch.zeros(3, device=y.device)" in repaired(lines, "x, y: torch.Tensor, flag")


@pytest.mark.parametrize("leaves", ["return x", "raise ValueError", "x = y"])
def test_a_meeting_that_may_not_come_names_no_device(leaves: str) -> None:
    head = f"{HEAD}def f(flag, x: torch.Tensor, w):\n    h = self.w * 1\n"
    text = head.replace("h = self.w * 1", "h = w.sin()") + (
        f"    t = torch.zeros(3)\n    if flag:\n        {leaves}\n    return x @ h + t\n"
    )
    assert "device=h.device" not in fixed(text, "DEV201") or "device=x.device" not in fixed(text, "DEV201")


MODULE = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.rnn = nn.GRU(3, 3)
        self.w = nn.Parameter(torch.ones(3))

    def forward(self, x):
        {}
"""


@pytest.mark.parametrize(
    "lines, wanted",
    [
        ("return self.layer(x) + torch.zeros(3)", "device=x.device"),
        ("return self.layer(torch.zeros(3)) + x", "device=x.device"),
        ("h = torch.zeros(1, 2, 3)\nreturn self.rnn(x, h)", "device=x.device"),
        ("return self.w + torch.zeros(3)", None),
        ("x = self.layer(x)\nreturn x + torch.zeros(3)", "device=x.device"),
    ],
)
def test_modules(lines: str, wanted: str | None) -> None:
    text = HEAD + MODULE.format(lines.replace("\n", "\n        "))
    (found,) = findings(text, "DEV201")
    after = fixed(text, "DEV201", unsafe=True)
    assert (wanted in after) if wanted else (after == text and found.no_fix)


@pytest.mark.parametrize(
    "lines",
    [
        "return x + torch.zeros(3, device=x.device)",
        "return x + torch.zeros(3, device=d)",
        "return x + torch.zeros(3, **flag)",
        "return x + torch.zeros(3).to(x)",
        "return x + torch.zeros(3).cuda()",
        "return x + torch.zeros(3).type_as(x)",
        "return x + torch.zeros_like(x) + x.new_zeros(3) + x.new_tensor([1])",
        "return x + torch.tensor(1.0)",
        "return x + torch.tensor(flag)",
        "return x + torch.zeros(3)[0]",
        "start = torch.rand(1) * flag\nstart = start.long().squeeze()\nreturn x >= start",
        "return x * torch.zeros((1, 1)).squeeze()",
        "t = torch.linspace(0, 1, 3)\nreturn x * t[flag] * t[flag - 1]",
        "return [x * t for t in torch.linspace(0, 1, 3)]",
        "a, b = torch.arange(2)\nreturn x * a",
        "offsets = torch.as_tensor([0, *flag]).cumsum_(0)\nreturn [x + o for _, o in zip(d, offsets)]",
        "return x[torch.randperm(3)]",
        "x[0] = torch.zeros(3)\nreturn x",
        "return x + torch.arange(3).sum().item()",
        "return x.view(torch.zeros(3, 4).shape)",
        "return x + torch.zeros(3).numpy()",
        "return x.cpu() + torch.zeros(3)",
        "t = torch.zeros(3)\nif x.is_cuda:\n    t = t.cuda()\nreturn x + t",
        "if x.device.type == 'cpu':\n    return x + torch.zeros(3)",
        "t = torch.zeros(3).cuda() if x.is_cuda else torch.zeros(3)\nreturn x + t",
        "t = torch.zeros(3)\nif flag:\n    t = torch.zeros(3, device=d)\nreturn x + t",
        "with torch.device(d):\n    return x + torch.zeros(3)",
        "with x.device:\n    return x + torch.zeros(3)",
        "torch.set_default_device(d)\nreturn x + torch.zeros(3)",
        "if x.is_cuda:\n    return x + torch.zeros(3).cuda()\nreturn x + torch.zeros(3)",
        "zeros = functools.partial(torch.zeros, device=d)\nreturn x + zeros(3)",
        "zeros = functools.partial(torch.zeros, **flag)\nreturn x + zeros(3)",
        "if d:\n    return x\nt = u = torch.empty(0)\nif flag:\n    t = u = x\nif flag:\n    return x * t + u",
        "y, _ = torch.broadcast_tensors(x, torch.zeros(3))\nreturn x + y",
        "return x + torch.zeros(3, out=d)",
        "t = torch.zeros(3)\ndef move():\n    nonlocal t\n    t = t.to(d)\nmove()\nreturn x + t",
        "t = torch.zeros(3)\ng = lambda: x + t\nt = t.to(d)\nreturn g()",
    ],
)
def test_silent(lines: str) -> None:
    assert check(function(lines), "DEV201") == []


@pytest.mark.parametrize(
    "text",
    [
        "class D(torch.utils.data.Dataset):\n    def __getitem__(self, i):\n"
        "        return i.unsqueeze(0) + torch.zeros(3)\n",
        "from torch_geometric.data import Data\n\n\ndef graph(x):\n"
        "    return Data(x=torch.cat([x, torch.zeros(3, 2)]))\n",
        "class Mask:\n    def __call__(self, img):\n        return img.unsqueeze(0) * torch.zeros(3)\n",
        "def collate(batch: torch.Tensor):\n    return batch + torch.zeros(3)\n",
        "def f(x):\n    return x.unsqueeze(0) + torch.zeros(3)\n\n\nf(torch.zeros(3))\n",
        "import tensorflow as torch\n\n\ndef f(x):\n    return x.unsqueeze(0) + torch.zeros(3)\n",
        "def f(x, zeros):\n    return x.unsqueeze(0) + zeros(3)\n",
        "def f(x):\n    a = x.numpy()\n    return x + torch.from_numpy(a)\n",
    ],
)
def test_host_code_and_other_libraries_are_silent(text: str) -> None:
    assert check(HEAD + text, "DEV201") == []


TURNS = """\
total = torch.zeros(1)
first = True
for i in range(9):
    if {test}:
        {then}
    else:
        total = torch.cat([total, x])
return total"""


@pytest.mark.parametrize(
    "test, then, reported",
    [
        ("first", "total, first = x, False", False),
        ("not first", "total, first = x, True", False),
        ("i == 0", "total = x", False),
        ("flag", "total = x", True),
        ("i == 3", "total = x", True),
        ("first", "first = False", True),
    ],
)
def test_what_the_first_turn_of_a_loop_sets_is_no_operand_in_the_others(test: str, then: str, reported: bool) -> None:
    assert bool(check(function(TURNS.format(test=test, then=then)), "DEV201")) == reported


@pytest.mark.parametrize(
    "factory", ["torch.rand(3).squeeze()", "torch.rand(1)", "torch.rand(1).squeeze(0) + torch.ones(3)"]
)
def test_one_element_alone_may_lose_its_dimensions(factory: str) -> None:
    assert check(function(f"return x * ({factory})"), "DEV201") != []


@pytest.mark.parametrize(
    "lines, reported",
    [
        ("a = sizes[:, 0]\nreturn x * torch.tensor(sizes)", False),
        ("a = sizes[:, 0]\nreturn x * torch.tensor([sizes, sizes])", True),
        ("a, b = sizes\nn = len(sizes)\nreturn x * torch.tensor(sizes)", True),
        ("sizes = [1, 2]\nreturn x * torch.tensor(sizes)", True),
    ],
)
def test_a_copy_of_what_a_module_is_given_may_be_a_copy_of_a_tensor(lines: str, reported: bool) -> None:
    text = HEAD + MODULE.format(lines.replace("\n", "\n        ")).replace(
        "forward(self, x)", "forward(self, x, sizes)"
    )
    assert bool(check(text, "DEV201")) == reported


BUILT = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3))
        self.{name}()

    def {name}(self):
        with torch.no_grad():
            self.w.add_(torch.ones(3))

    def forward(self, x):
        return x * self.w
"""


@pytest.mark.parametrize(
    "name, more, reported",
    [
        ("reset_parameters", "", False),
        ("_fill", "", False),
        ("init_weights", "", False),
        ("grow", "", True),
        ("reset_parameters", "\n    def start(self):\n        self.reset_parameters()\n", True),
        ("reset_parameters", "\n\nnet = Net().cuda()\nnet.reset_parameters()\n", True),
    ],
)
def test_what_fills_the_parameters_of_a_module_as_it_is_made(name: str, more: str, reported: bool) -> None:
    assert bool(check(HEAD + BUILT.format(name=name) + more, "DEV201")) == reported


def test_the_finding_stands_at_the_factory_and_names_both_ends() -> None:
    (found,) = findings(function("mask = torch.ones(3)\nreturn x * mask"), "DEV201")
    assert (found.start.row, found.start.column) == (FIRST + 2, len("    mask = torch.") + 1)
    assert "`torch.ones()`" in found.message and f"line {FIRST + 3}" in found.message
    assert "Expected all tensors to be on the same device" in found.message


def test_fixed_programs_run_where_the_old_ones_stopped() -> None:
    import torch

    from devlint.runtime import simulate

    text = function(
        "mask = None\nif mask is None:\n    mask = torch.ones(3)\nreturn torch.cat([x * mask, torch.zeros(1)])"
    )
    with simulate(1):
        x = torch.ones(3, device="cuda")
        for code, works in ((text, False), (fixed(text, "DEV201"), True)):
            names: dict[str, object] = {}
            exec(code, names)
            if works:
                assert names["f"](x, None, None).device == x.device  # type: ignore[operator]
            else:
                with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
                    names["f"](x, None, None)  # type: ignore[operator]


def test_the_work_of_many_findings_grows_with_their_number() -> None:
    def work(n: int) -> int:
        text = function("".join(f"a{i} = torch.zeros(3) + x.sin()\n" for i in range(n)))
        return calls_of(lambda: check(text, "DEV201"))

    assert work(200) < 1.5 * 4 * work(50)


def test_what_may_be_pinned_is_meant_to_be_on_the_host() -> None:
    made = "result = torch.empty(3, pin_memory={})\nreturn torch.index_select(x, 0, d, out=result)"
    assert check(function(made.format("flag")), "DEV201") == []
    assert check(function(made.format("False")), "DEV201") != []


def test_sparse_tensors_are_where_their_values_are() -> None:
    lines = "s = torch.sparse.FloatTensor({}, torch.Size([2, 2]))\nreturn torch.sparse.mm(s, x)"
    assert check(function(lines.format("x.nonzero().t(), x[0]")), "DEV201", "DEV601") == []


PROGRAM = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(3, 3)

    def forward(self, x):
        return self.rnn(x, torch.zeros(1, x.size(1), 3))


{run}
"""


def test_a_program_that_trains_on_the_host_alone_is_silent() -> None:
    step = "Net()(torch.rand(2, 2, 3))[0].sum().backward()"
    at_once, guarded = step, f"def main():\n    {step}\n\n\nif __name__ == '__main__':\n    main()"
    for run in (at_once, guarded):
        assert check(HEAD + PROGRAM.format(run=run), "DEV201") == []


@pytest.mark.parametrize(
    "run",
    [
        pytest.param("net = Net()\nnet(torch.rand(2, 2, 3))", id="only tried out, for others to train"),
        pytest.param("def train(net, x):\n    net(x)[0].sum().backward()", id="given to it"),
        pytest.param("def train(x):\n    Net()(x)[0].sum().backward()", id="imported"),
        pytest.param("net = Net().cuda()\nnet(torch.rand(2, 2, 3).cuda())[0].sum().backward()", id="on a device"),
        pytest.param("# net.to(d)\nnet = Net()\nnet(torch.rand(2, 2, 3))[0].sum().backward()", id="moved at times"),
    ],
)
def test_what_others_may_run_elsewhere_is_reported(run: str) -> None:
    assert [code for _, code in check(HEAD + PROGRAM.format(run=run), "DEV201")] == ["DEV201"]


@pytest.mark.parametrize(
    ("path", "reported"),
    [("model.py", True), ("data.py", False), ("onnx_export.py", False), ("onnxexport/net.py", False)],
)
def test_files_that_hold_code_for_the_host(path: str, reported: bool) -> None:
    text = function("return x + torch.zeros(3)")
    report = check_text(Source(f"project/{path}", text), Config(select=("DEV201",)))
    assert bool(report.findings) == reported


def test_what_a_constructor_alone_calls_builds_on_the_host() -> None:
    text = (
        f"{HEAD}class Table(nn.Module):\n    def __init__(self, n):\n        super().__init__()\n"
        "        self.rows = nn.Parameter(self._rows(n))\n\n    @staticmethod\n"
        "    def _rows(x):\n        return torch.cat([torch.zeros(1), x.cumsum(0)])\n"
    )
    assert check(text, "DEV201") == []
    used = "\n    def forward(self, x):\n        return self._rows(x)\n"
    assert [code for _, code in check(text + used, "DEV201")] == ["DEV201"]
