"""DEV202: tensors that a module keeps without registering them."""

from __future__ import annotations

import pytest
from checks.helpers import check, findings, fixed

from devlint.finding import Applicability

MODULE = """\
import torch
from torch import nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, size: int, given=None):
        super().__init__()
        self.layer = nn.Linear(size, size)
        {set}

    def forward(self, x):
        h = self.layer(x)
        {use}
"""


def module(set_: str, use: str) -> str:
    return MODULE.format(set=set_.replace("\n", "\n        "), use=use.replace("\n", "\n        "))


WINDOW = "self.window = torch.hann_window(size)"


@pytest.mark.parametrize(
    "use",
    [
        "return h * self.window",
        "return self.window[None] * h",
        "return torch.cat([h, self.window.expand(2, -1)])",
        "window = self.window.unsqueeze(0)\nreturn h + window",
        "return F.mse_loss(h, self.window)",
        "return self.layer(self.window)",
        "return x - self.window",
        "return x.abs() @ (self.window * 2)",
        "return torch.where(h > 0, h, self.window)",
        "return [h * self.window for _ in range(2)]",
    ],
)
def test_an_attribute_that_meets_the_input_is_reported(use: str) -> None:
    assert check(module(WINDOW, use), "DEV202") == [(10, "DEV202")]


@pytest.mark.parametrize(
    "use",
    [
        "return h * self.window.to(x.device)",
        "return h * self.window.to(x)",
        "return h * self.window.type_as(h)",
        "return h * self.window.cuda()",
        "self.window = self.window.to(h.device)\nreturn h * self.window",
        "window = self.window\nif x.is_cuda:\n    window = window.cuda()\nreturn h * window",
        "return h if x.is_cuda else h * self.window",
        "return h[:, self.window.long()]",
        "self.window += 1\nreturn h",
        "return h * len(self.window) + self.window.size(0) + self.window.sum().item()",
        "return h * self.window.sum()",
    ],
)
def test_moved_at_use_or_never_meeting_the_input_is_silent(use: str) -> None:
    assert check(module(WINDOW, use), "DEV202") == []


@pytest.mark.parametrize(
    "set_",
    [
        "self.window = nn.Parameter(torch.ones(size))",
        "self.window = nn.Parameter(torch.ones(size), requires_grad=False)",
        "self.register_buffer('window', torch.ones(size))",
        "self.register_buffer('window', None)\nself.window = torch.ones(size)",
        "self.register_buffer(name='window', tensor=None)\nself.window = torch.ones(size)",
        "for n in ('window',):\n    self.register_buffer(n, None)\nself.window = torch.ones(size)",
        "self.window = torch.tensor(0.5)",
        "self.window = torch.tensor(given)",
        "self.window = torch.sqrt(torch.tensor(given).float())",
        "self.window = given",
        "self.window = torch.ones(size, device=given)",
        "self.window = torch.ones(size).cuda()",
        "self.window = [1.0] * size",
        "self.window = self.layer.weight.detach()",
        "with torch.device(given):\n    self.window = torch.ones(size)",
    ],
)
def test_registered_scalar_unknown_or_placed_tensors_are_silent(set_: str) -> None:
    assert check(module(set_, "return h * self.window"), "DEV202") == []


@pytest.mark.parametrize(
    "set_",
    [
        "self.window = torch.tensor([0.1, 0.2])",
        "self.window = torch.tensor([0.5 for _ in range(size)])",
        "self.window = torch.tensor(given).view(1, -1)",
        "self.window = torch.tensor(given, dtype=torch.float32) / len(given)",
        "import numpy as np\nself.window = torch.from_numpy(np.ones(size))",
        "self.window = torch.Tensor(given)",
        "ones = torch.ones(size)\nself.window = ones / ones.sum()",
    ],
)
def test_the_value_may_be_made_in_many_ways(set_: str) -> None:
    rows = [row for row, _ in check(module(set_, "return h * self.window"), "DEV202")]
    assert rows == [9 + len(set_.split("\n"))]


@pytest.mark.parametrize(
    "method",
    [
        "def _apply(self, fn, recurse=True):\n        self.window = fn(self.window)\n        return super()._apply(fn)",
        "def to(self, *args, **kwargs):\n        return super().to(*args, **kwargs)",
        "def cuda(self, index=None):\n        self.window = self.window.cuda(index)\n        return super().cuda()",
        "def __setattr__(self, name, value):\n        super().__setattr__(name, value)",
        "def place(self, device):\n        self.window = self.window.to(device)",
    ],
)
def test_a_class_that_moves_its_attributes_itself_is_silent(method: str) -> None:
    text = module(WINDOW, "return h * self.window") + f"\n    {method}\n"
    assert check(text, "DEV202") == []


@pytest.mark.parametrize(
    "after",
    [
        "net = Net(3)\nnet.window = net.window.cuda()\n",
        "class Other(Net):\n    def start(self, device):\n        self.window = self.window.to(device)\n",
        "for net in [Net(3)]:\n    net.window, net.other = net.window.cuda(), 1\n",
    ],
)
def test_an_attribute_that_is_set_from_outside_is_silent(after: str) -> None:
    assert check(module(WINDOW, "return h * self.window") + "\n\n" + after, "DEV202") == []


@pytest.mark.parametrize(
    "base, wanted",
    [
        ("nn.Module", 1),
        ("torch.nn.Module", 1),
        ("lightning.pytorch.LightningModule", 1),
        ("pl.LightningModule", 1),
        ("Base", 1),
        ("torch.utils.data.Dataset", 0),
        ("object", 0),
        ("Unknown", 0),
        ("torchvision.transforms.v2.Transform", 0),
    ],
)
def test_only_what_is_known_to_be_a_module_counts(base: str, wanted: int) -> None:
    text = f"""\
import torch, torchvision, lightning.pytorch
import pytorch_lightning as pl
from torch import nn
from elsewhere import Unknown


class Base(nn.Module):
    pass


class Net({base}):
    def __init__(self, size):
        super().__init__()
        self.window = torch.ones(size)

    def forward(self, x):
        return x.abs() * self.window
"""
    assert len(check(text, "DEV202")) == wanted


def test_names_that_a_layer_of_torch_registers_are_silent() -> None:
    text = """\
import torch
from torch import nn


class Norm(nn.BatchNorm1d):
    def __init__(self, size):
        super().__init__(size)
        self.running_mean = torch.ones(size)

    def forward(self, x):
        return x.abs() - self.running_mean
"""
    assert check(text, "DEV202") == []
    assert check(text.replace("running_mean", "shift"), "DEV202") == [(8, "DEV202")]


def test_a_tensor_used_only_while_the_module_is_built_is_silent() -> None:
    text = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.layer = nn.Linear(size, size)
        self.start = torch.ones(size, size)
        self.reset()

    def reset(self):
        with torch.no_grad():
            self.layer.weight.copy_(self.layer.weight * self.start)

    def forward(self, x):
        return self.layer(x)
"""
    assert check(text, "DEV202") == []


def test_what_the_method_makes_itself_is_a_matter_of_dev201() -> None:
    text = module("pass", "self.window = torch.ones(3)\nreturn h * self.window")
    assert check(text, "DEV202", "DEV201") == [(14, "DEV201")]


@pytest.mark.parametrize(
    "index, reported", [("x.long()", True), ("x.argmax(1)", True), ("x.long()[0][0]", False), ("0", False)]
)
def test_a_table_that_is_indexed_by_the_input(index: str, reported: bool) -> None:
    rows = [row for row, _ in check(module(WINDOW, f"return self.window[{index}]"), "DEV202")]
    assert rows == ([10] if reported else [])


# --- caches ---------------------------------------------------------------------------------------------------------

CACHE = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = None
        self.length = 0

    def forward(self, x):
        n = x.size(1)
        if {test}:
            self.length = n
            self.steps = torch.arange(n, device=x.device)
        return x + self.steps
"""


@pytest.mark.parametrize(
    "test, reported",
    [
        ("self.steps is None or self.steps.size(0) != n", True),
        ("self.steps is None or len(self.steps) < n", True),
        ("self.steps is None or self.steps.shape[0] != n", True),
        ("n > self.length", True),
        ("self.steps is None or self.steps.size(0) != n or self.steps.device != x.device", False),
        ("self.steps is None", False),
        ("self.training", False),
        ("n > 5", False),
    ],
)
def test_a_cache_renewed_by_size_only(test: str, reported: bool) -> None:
    found = findings(CACHE.format(test=test), "DEV202")
    assert [f.start.row for f in found] == ([15] if reported else [])
    assert all(f.fix is None and f.no_fix for f in found)


def test_a_cache_is_renewed_while_the_module_runs() -> None:
    """One that a caller fills, `net.fill(x)`, is filled where the module has been moved to."""
    split = CACHE.format(test="n > self.length").replace("        return x + self.steps\n", "")
    text = split.replace("def forward(self, x)", "def fill(self, x)")
    run = "\n    def forward(self, x):\n        {}return x + self.steps\n"
    assert check(text + run.format("self.fill(x)\n        "), "DEV202") == [(15, "DEV202")]
    assert check(text + run.format(""), "DEV202") == []


def test_a_cache_that_is_moved_where_it_is_read_is_silent() -> None:
    text = CACHE.format(test="n > self.length").replace("x + self.steps", "x + self.steps.to(x.device)")
    assert check(text, "DEV202") == []


def test_a_dictionary_keyed_by_device_is_silent() -> None:
    text = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = {}

    def forward(self, x):
        key = (x.size(1), x.device)
        if key not in self.tables:
            self.tables[key] = torch.arange(x.size(1), device=x.device)
        return x + self.tables[key]
"""
    assert check(text, "DEV202") == []


# --- the fix --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value, safe",
    [
        ("torch.arange(10)", True),
        ("torch.arange(size)", True),
        ("torch.arange(given)", False),
        ("torch.arange(0, 1, 0.1)", False),
        ("torch.ones(size, dtype=torch.bool).triu(1)", True),
        ("torch.ones(size, dtype=torch.float16)", False),
        ("torch.ones(size).long().view(1, -1)", True),
        ("torch.ones(size)", False),
        ("torch.tensor([1, 2, -3])", True),
        ("torch.tensor([1, 2.0])", False),
        ("torch.randperm(size) + 1", True),
        ("torch.randperm(size) / 2", False),
        ("torch.ones(size) > 0", True),
        ("torch.zeros(size).to(torch.int64)", True),
        ("~(torch.zeros(size) > 1)", True),
    ],
)
def test_the_fix_is_safe_for_integers_and_booleans(value: str, safe: bool) -> None:
    (found,) = findings(module(f"self.window = {value}", "return h * self.window"), "DEV202")
    assert found.fix is not None
    assert found.fix.applicability is (Applicability.SAFE if safe else Applicability.UNSAFE)


def test_the_fix_is_unsafe_where_the_attribute_is_needed_on_the_host() -> None:
    text = module("self.window = torch.arange(size)", "return h * self.window, self.window.numpy()")
    (found,) = findings(text, "DEV202")
    assert found.fix is not None and found.fix.applicability is Applicability.UNSAFE


@pytest.mark.parametrize(
    "old, new",
    [
        (WINDOW, 'self.register_buffer("window", torch.hann_window(size), persistent=False)'),
        (
            "self.window=torch.ones(size)  # kept",
            'self.register_buffer("window", torch.ones(size), persistent=False)  # kept',
        ),
        (
            "self.window = (\n    torch.ones(size)  # a\n    * 2\n)",
            'self.register_buffer("window", (\n    torch.ones(size)  # a\n    * 2\n), persistent=False)',
        ),
        (
            "self.window = torch.ones(\n    size,\n)",
            'self.register_buffer("window", torch.ones(\n    size,\n), persistent=False)',
        ),
        (
            "self.window = \\\n    torch.ones(size)",
            'self.register_buffer("window", torch.ones(size), persistent=False)',
        ),
        (
            "self.window = torch.ones(size) @ torch.ones(size, size)",
            'self.register_buffer("window", torch.ones(size) @ torch.ones(size, size), persistent=False)',
        ),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_the_assignment_becomes_a_registration(old: str, new: str, newline: str) -> None:
    text = module(old, "return h * self.window").replace("\n", newline)
    wanted = module(new, "return h * self.window").replace("\n", newline)
    assert fixed(text, "DEV202", unsafe=True) == wanted
    assert check(wanted, "DEV202") == []


@pytest.mark.parametrize(
    "set_",
    [
        "self.window = self.other = torch.ones(size)",
        "self.window, self.other = torch.ones(size), 1",
        "self.window: torch.Tensor = torch.ones(size)",
        "self.window = None\nif given:\n    self.window = torch.zeros(size)",
        "for _ in range(2):\n    self.window = torch.ones(size)",
    ],
)
def test_no_fix_where_the_statement_does_more(set_: str) -> None:
    found = findings(module(set_, "return h * self.window"), "DEV202")
    assert found and all(f.fix is None and f.no_fix for f in found)


def test_no_fix_before_the_call_of_super() -> None:
    text = module(WINDOW, "return h * self.window").replace("        super().__init__()\n", "")
    text = text.replace(WINDOW, WINDOW + "\n        super().__init__()")
    (found,) = findings(text, "DEV202")
    assert found.fix is None and "super().__init__()" in (found.no_fix or "")


@pytest.mark.parametrize("line", ["window = None", "window: int = 3", "def window(self):\n        return 1"])
def test_no_fix_where_the_class_has_the_name(line: str) -> None:
    text = module(WINDOW, "return h * self.window").replace("(nn.Module):\n", f"(nn.Module):\n    {line}\n\n", 1)
    assert all(f.fix is None for f in findings(text, "DEV202"))


def test_an_annotation_in_the_class_is_no_attribute() -> None:
    text = module(WINDOW, "return h * self.window").replace(
        "(nn.Module):\n", "(nn.Module):\n    window: torch.Tensor\n\n", 1
    )
    (found,) = findings(text, "DEV202")
    assert found.fix is not None


def test_the_message_names_the_line_where_it_fails() -> None:
    (found,) = findings(module(WINDOW, "return h * self.window"), "DEV202")
    assert "line 14" in found.message and "`h`" in found.message
    assert "Expected all tensors to be on the same device" in found.message


@pytest.mark.parametrize("move", ["type_as(x)", "to(x.device)", "cuda()"])
def test_an_attribute_that_the_class_moves_by_hand(move: str) -> None:
    text = module("self.mean = torch.ones(size)", f"self.mean = self.mean.{move}\nreturn self.inner(h)")
    text += "\n    def inner(self, x):\n        return self.layer(x) - self.mean\n"
    assert check(text, "DEV202") == []
    assert check(text.replace(f"self.mean = self.mean.{move}", "pass"), "DEV202") != []


@pytest.mark.parametrize("empty", ["torch.tensor([])", "torch.Tensor()"])
def test_an_empty_tensor_that_holds_the_place_of_another(empty: str) -> None:
    text = module(f"self.seen = {empty}", "self.keep(x)\nreturn torch.cat([self.seen, h])")
    text += "\n    def keep(self, x):\n        self.seen = x\n"
    assert check(text, "DEV202") == []
    assert check(text.replace(empty, "torch.ones(3)"), "DEV202") != []
