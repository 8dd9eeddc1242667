"""DEV203: what a module keeps in plain containers, and when it is right to."""

from __future__ import annotations

import pytest
import torch
from checks.helpers import check, findings, fixed

from devlint.checks.plain_module_container import MODULE_DICT_NAMES
from devlint.finding import Applicability

HEAD = """\
import copy
import torch
import pytorch_lightning as pl
import torch.nn as nn
from collections import OrderedDict
from torchmetrics import Accuracy


class Net(nn.Module):
    def __init__(self, n, names):
        super().__init__()
"""
TAIL = """
    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return x
"""
DICT_TAIL = """
    def forward(self, x):
        return {name: part(x) for name, part in self.parts.items()}
"""
ROW = HEAD.count("\n") + 1


def program(body: str, tail: str = TAIL) -> str:
    return HEAD + "".join(f"        {line}\n" for line in body.split("\n")) + tail


LISTS = [
    # (the body of __init__, the fixed body)
    ("self.parts = [nn.Linear(n, n)]", "self.parts = nn.ModuleList([nn.Linear(n, n)])"),
    ("self.parts = [nn.Linear(n, n), nn.ReLU()]", "self.parts = nn.ModuleList([nn.Linear(n, n), nn.ReLU()])"),
    ("self.parts = (nn.Linear(n, n), nn.ReLU())", "self.parts = nn.ModuleList((nn.Linear(n, n), nn.ReLU()))"),
    ("self.parts = nn.Linear(n, n), nn.ReLU()", "self.parts = nn.ModuleList((nn.Linear(n, n), nn.ReLU()))"),
    (
        "self.parts = [nn.Linear(n, n).to('cpu') for _ in range(n)]  # layers",
        "self.parts = nn.ModuleList([nn.Linear(n, n).to('cpu') for _ in range(n)])  # layers",
    ),
    (
        "self.parts = list(nn.Linear(n, n) for _ in names)",
        "self.parts = nn.ModuleList(nn.Linear(n, n) for _ in names)",
    ),
    ("self.parts = [nn.Linear(n, n)] * 3", "self.parts = nn.ModuleList([nn.Linear(n, n)] * 3)"),
    (
        "self.parts = []\nfor _ in names:\n    self.parts.append(nn.Linear(n, n))",
        "self.parts = nn.ModuleList()\nfor _ in names:\n    self.parts.append(nn.Linear(n, n))",
    ),
    (
        "self.parts = list()\nself.parts += [nn.Linear(n, n)]",
        "self.parts = nn.ModuleList()\nself.parts += [nn.Linear(n, n)]",
    ),
    (
        "self.parts = []\nself.parts.extend([nn.Linear(n, n), nn.Linear(n, n)])\nself.parts.insert(0, nn.Tanh())",
        "self.parts = nn.ModuleList()\n"
        "self.parts.extend([nn.Linear(n, n), nn.Linear(n, n)])\nself.parts.insert(0, nn.Tanh())",
    ),
    (
        "self.parts = []\nlayer = nn.Linear(n, n)\nnn.init.zeros_(layer.bias)\nself.parts.append(layer)",
        "self.parts = nn.ModuleList()\nlayer = nn.Linear(n, n)\nnn.init.zeros_(layer.bias)\nself.parts.append(layer)",
    ),
    (
        "parts = []\nfor _ in names:\n    parts.append(nn.Linear(n, n))\nself.parts = parts",
        "parts = []\nfor _ in names:\n    parts.append(nn.Linear(n, n))\nself.parts = nn.ModuleList(parts)",
    ),
    (
        "self.parts: list[nn.Module] = [nn.Linear(n, n) for _ in names]",
        "self.parts: nn.ModuleList = nn.ModuleList([nn.Linear(n, n) for _ in names])",
    ),
    (
        "self.parts = [nn.Sequential(nn.Linear(n, n), nn.ReLU()) for _ in names]",
        "self.parts = nn.ModuleList([nn.Sequential(nn.Linear(n, n), nn.ReLU()) for _ in names])",
    ),
    (
        "self.parts = [nn.Linear(n, n) if name else nn.Identity() for name in names]",
        "self.parts = nn.ModuleList([nn.Linear(n, n) if name else nn.Identity() for name in names])",
    ),
    (
        "self.parts = [nn.Parameter(torch.ones(n)), nn.Parameter(torch.ones(n))]",
        "self.parts = nn.ParameterList([nn.Parameter(torch.ones(n)), nn.Parameter(torch.ones(n))])",
    ),
    (
        "self.parts, self.others = [], [1, 2]\nself.parts.append(nn.Linear(n, n))",
        "self.parts, self.others = nn.ModuleList(), [1, 2]\nself.parts.append(nn.Linear(n, n))",
    ),
    (
        "self.parts = [copy.deepcopy(nn.Linear(n, n)) for _ in names]",
        "self.parts = nn.ModuleList([copy.deepcopy(nn.Linear(n, n)) for _ in names])",
    ),
    (
        "self.parts = [\n    nn.Linear(n, n),  # one\n    nn.ReLU(),\n]",
        "self.parts = nn.ModuleList([\n    nn.Linear(n, n),  # one\n    nn.ReLU(),\n])",
    ),
]


@pytest.mark.parametrize("body, new", LISTS)
def test_lists(body: str, new: str) -> None:
    assert fixed(program(body), "DEV203", unsafe=True) == program(new)
    (found,) = findings(program(body), "DEV203")
    assert found.fix is not None and found.fix.applicability is Applicability.UNSAFE
    assert "state_dict" in found.fix.title and "state_dict" in found.message


@pytest.mark.parametrize("body", [new for _, new in LISTS if "Parameter(" not in new])
def test_a_fixed_program_registers_what_it_runs(body: str) -> None:
    text = (
        program(body).replace("import pytorch_lightning as pl\n", "").replace("from torchmetrics import Accuracy\n", "")
    )
    space: dict[str, type[torch.nn.Module]] = {}
    exec(compile(text, "t.py", "exec", dont_inherit=True), space)
    net = space["Net"](2, ["a", "b"])  # type: ignore[call-arg]
    net(torch.ones(1, 2)).sum().backward()
    assert list(net.parameters())
    assert all(parameter.grad is not None for parameter in net.parameters())


DICTS = [
    (
        "self.parts = {'a': nn.Linear(n, n), 'b': nn.Linear(n, n)}",
        "self.parts = nn.ModuleDict({'a': nn.Linear(n, n), 'b': nn.Linear(n, n)})",
    ),
    (
        "self.parts = {name: nn.Linear(n, n) for name in names}",
        "self.parts = nn.ModuleDict({name: nn.Linear(n, n) for name in names})",
    ),
    (
        "self.parts = {f'head_{i}': nn.Linear(n, n) for i in range(n)}",
        "self.parts = nn.ModuleDict({f'head_{i}': nn.Linear(n, n) for i in range(n)})",
    ),
    (
        "self.parts = {}\nfor name in names:\n    self.parts[name] = nn.Linear(n, n)",
        "self.parts = nn.ModuleDict()\nfor name in names:\n    self.parts[name] = nn.Linear(n, n)",
    ),
    ("self.parts = dict(a=nn.Linear(n, n))", "self.parts = nn.ModuleDict(dict(a=nn.Linear(n, n)))"),
    (
        "self.parts = OrderedDict()\nself.parts['a'] = nn.Linear(n, n)",
        "self.parts = nn.ModuleDict()\nself.parts['a'] = nn.Linear(n, n)",
    ),
    (
        "self.parts = {'acc': Accuracy(task='binary')}",
        "self.parts = nn.ModuleDict({'acc': Accuracy(task='binary')})",
    ),
    (
        "self.parts = {'a': nn.Parameter(torch.ones(1))}",
        "self.parts = nn.ParameterDict({'a': nn.Parameter(torch.ones(1))})",
    ),
]


@pytest.mark.parametrize("body, new", DICTS)
def test_dicts(body: str, new: str) -> None:
    assert fixed(program(body, DICT_TAIL), "DEV203", unsafe=True) == program(new, DICT_TAIL)


UNFIXED = [
    # (body, tail, a word of the reason)
    ("self.parts = {1: nn.Linear(n, n)}", DICT_TAIL, "no strings"),
    ("self.parts = {i: nn.Linear(n, n) for i in range(n)}", DICT_TAIL, "no strings"),
    ("self.parts = {i: nn.Linear(n, n) for i, name in enumerate(names)}", DICT_TAIL, "no strings"),
    ("self.parts = {(n, n): nn.Linear(n, n)}", DICT_TAIL, "no strings"),
    (
        "self.parts = {}",
        "\n    def forward(self, x):\n        key = x.shape\n        if key not in self.parts:\n"
        "            self.parts[key] = nn.Linear(1, 1)\n        return self.parts[key](x)\n",
        "no strings",
    ),
    ("self.parts = {'a.b': nn.Linear(n, n)}", DICT_TAIL, "dot"),
    ("self.parts = {f'a.{i}': nn.Linear(n, n) for i in names}", DICT_TAIL, "dot"),
    ("self.parts = {'type': nn.Linear(n, n)}", DICT_TAIL, "`type`"),
    ("self.parts = {'a': nn.Linear(n, n), 'f': torch.mean}", DICT_TAIL, "more than modules"),
    ("self.parts = [nn.Linear(n, n), None]", TAIL, "more than modules"),
    ("self.parts = [('a', nn.Linear(n, n))]", TAIL, "more than modules"),
    ("self.parts = [[nn.Linear(n, n)] for _ in names]", TAIL, "more than modules"),
    ("self.parts = [nn.Linear(n, n), nn.Parameter(torch.ones(1))]", TAIL, "more than modules"),
    ("self.parts = [nn.Linear(n, n)]\nself.parts.sort(key=id)", TAIL, "`.sort`"),
    ("self.parts = [nn.Linear(n, n), nn.ReLU()]\nself.parts[1:] = [nn.Linear(n, n)]", TAIL, "slice"),
    ("self.parts = [nn.Linear(n, n)]\nassert isinstance(self.parts, list)", TAIL, "isinstance"),
    ("self.parts = [nn.Linear(n, n)]", "\n    def forward(self, x):\n        return run(self.parts, x)\n", "handed"),
    (
        "self.parts = [nn.Linear(n, n)]",
        "\n    def forward(self, x):\n        every = [None, *self.parts]\n        return every[1](x)\n",
        "handed",
    ),
    (
        "self.parts = {'a': nn.Linear(n, n)}",
        "\n    def forward(self, x):\n        return self.parts.get(x)\n",
        "`.get`",
    ),
]


@pytest.mark.parametrize("body, tail, reason", UNFIXED)
def test_reported_without_a_fix(body: str, tail: str, reason: str) -> None:
    text = program(body, tail)
    assert check(text, "DEV203") == [(ROW, "DEV203")]
    (found,) = findings(text, "DEV203")
    assert found.fix is None
    if reason:
        assert found.no_fix is not None and reason in found.no_fix


def test_before_super_init_there_is_no_fix() -> None:
    text = program("").replace(
        "        super().__init__()\n", "        self.parts = [nn.Linear(n, n)]\n        super().__init__()\n"
    )
    (found,) = findings(text, "DEV203")
    assert found.fix is None and found.no_fix is not None and "super" in found.no_fix


@pytest.mark.parametrize(
    "imports, written",
    [
        ("from torch import nn", "nn.ModuleList"),
        ("import torch", "torch.nn.ModuleList"),
        ("import torch as th", "th.nn.ModuleList"),
        ("from torch import nn as layers", "layers.ModuleList"),
        ("from torch.nn import Linear, Module, ModuleList", "ModuleList"),
        ("from torch.nn import Linear, Module", None),
    ],
)
def test_the_name_is_as_the_file_writes_it(imports: str, written: str | None) -> None:
    prefix = {"nn": "nn.", "torch": "torch.nn.", "th": "th.nn.", "layers": "layers."}.get(imports.split()[-1], "")
    body = f"""
class Net({prefix}Module):
    def __init__(self):
        super().__init__()
        self.parts = [{prefix}Linear(1, 1)]

    def forward(self, x):
        return [part(x) for part in self.parts]
"""
    (found,) = findings(imports + "\n" + body, "DEV203")
    if written is None:
        assert found.fix is None
    else:
        assert found.fix is not None
        assert f"self.parts = {written}([{prefix}Linear(1, 1)])" in fixed(imports + body, "DEV203", unsafe=True)


def test_owners() -> None:
    text = """\
import pytorch_lightning as pl
from torch import nn
from torchmetrics import Accuracy, Metric


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(1, 1)


class Base(nn.Sequential):
    pass


class A(Base):
    def __init__(self):
        super().__init__()
        self.parts = [Layer() for _ in range(2)]

    def forward(self, x):
        return self.parts[0](x)


class B(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.metrics = {"acc": Accuracy(task="binary")}

    def validation_step(self, batch, index):
        for name, metric in self.metrics.items():
            self.log(name, metric(batch))


class C(nn.Module):
    def build(self):
        self.parts = []
        for _ in range(3):
            self.parts.append(make())

    def forward(self, x):
        return [part(x) for part in self.parts]


def make():
    return nn.Sequential(nn.Linear(1, 1), nn.ReLU())
"""
    assert check(text, "DEV203") == [(19, "DEV203"), (28, "DEV203"), (37, "DEV203")]


def test_results_in_attributes_register_nothing() -> None:
    tail = (
        "\n    def forward(self, x):\n        self.outs = [part(x) for part in self.parts]\n"
        "        self.last = self.parts[-1](x)\n        return self.last\n"
    )
    assert check(program("self.parts = [nn.Linear(n, n) for _ in names]", tail), "DEV203") == [(ROW, "DEV203")]


def test_a_method_that_makes_layers() -> None:
    tail = TAIL + "\n    def make(self, n):\n        return nn.Sequential(nn.Linear(n, n), nn.ReLU())\n"
    assert check(program("self.parts = [self.make(n) for _ in names]", tail), "DEV203") == [(ROW, "DEV203")]


def test_a_method_that_hands_out_what_is_registered() -> None:
    tail = TAIL + "\n    def pick(self, n):\n        return self.layer\n"
    body = "self.layer = nn.Linear(n, n)\nself.parts = [self.pick(n) for _ in names]"
    assert check(program(body, tail), "DEV203") == []


SILENT = {
    "moved parameters are none": "self.parts = [nn.Parameter(torch.ones(n)).cuda() for _ in names]",
    "unpacked into a Sequential": "self.parts = [nn.Linear(n, n)]\nself.net = nn.Sequential(*self.parts)",
    "given to a ModuleList": "self.parts = [nn.Linear(n, n)]\nself.kept = nn.ModuleList(self.parts)",
    "given to a ModuleList later": "self.parts = []\nself.parts.append(nn.Linear(n, n))\n"
    "self.parts = nn.ModuleList(self.parts)",
    "local list unpacked": "parts = [nn.Linear(n, n)]\nself.net = nn.Sequential(*parts)\nself.parts = parts",
    "comprehension into a ModuleList": "self.parts = [nn.Linear(n, n)]\n"
    "self.kept = nn.ModuleList([part for part in self.parts])",
    "add_module in the loop": "self.parts = []\nfor i in range(n):\n    layer = nn.Linear(n, n)\n"
    "    self.add_module(str(i), layer)\n    self.parts.append(layer)",
    "add_module afterwards": "self.parts = [nn.Linear(n, n)]\nfor i, part in enumerate(self.parts):\n"
    "    self.add_module(str(i), part)",
    "setattr": "self.parts = [nn.Linear(n, n)]\nfor i, part in enumerate(self.parts):\n"
    "    setattr(self, f'part{i}', part)",
    "attribute as well": "layer = nn.Linear(n, n)\nself.layer = layer\nself.parts = [layer]",
    "attributes of self": "self.a = nn.Linear(n, n)\nself.b = nn.Linear(n, n)\nself.parts = [self.a, self.b]",
    "stateless": "self.parts = [nn.ReLU(), nn.Tanh(), nn.Sequential(nn.ReLU(), nn.MaxPool2d(2)), nn.MSELoss()]",
    "loss without a weight": "self.parts = [nn.CrossEntropyLoss(reduction='none'), nn.CrossEntropyLoss(weight=None)]",
    "functions": "self.parts = [torch.relu, torch.tanh]",
    "classes": "self.parts = [nn.Linear, nn.Conv2d]",
    "strings": "self.parts = ['a', 'b']",
    "arguments": "self.parts = [n, names]",
    "a hidden teacher": "self.parts = [names]",
    "set to evaluation": "self.parts = [nn.Linear(n, n).eval() for _ in names]",
    "a local variable": "parts = [nn.Linear(n, n)]\nself.parts = nn.ModuleList(parts)",
    "registered already": "self.parts = nn.ModuleList([nn.Linear(n, n)])",
    "not read": "self.others = [nn.Linear(n, n)]",
    "unknown elements": "from mine import Block\nself.parts = [Block(n) for _ in names]",
    "assigned twice": "self.parts = [nn.Linear(n, n)]\nself.parts = None",
}


@pytest.mark.parametrize("name", SILENT)
def test_silent(name: str) -> None:
    assert check(program(SILENT[name]), "DEV203") == []


@pytest.mark.parametrize(
    "call, reported",
    [
        ("self.parts[0](x.to(self.device))", False),
        ("self.parts[0](x.to(device=self.device))", False),
        ("self.parts[0](x.to(x.dtype))", True),
        ("self.parts[0](x)", True),
        ("self.parts[0](x.to(self.device)) + self.parts[1](x)", True),
    ],
)
def test_items_that_are_fed_where_the_class_keeps_them(call: str, reported: bool) -> None:
    tail = f"\n    def forward(self, x):\n        return {call}\n"
    body = "self.parts = [nn.Linear(n, n) for _ in names]"
    assert check(program(f"{body}\nself.device = n", tail), "DEV203") == ([(ROW, "DEV203")] if reported else [])
    assert check(program(body, tail), "DEV203") == [(ROW, "DEV203")]


LEFT_OUT = "self.parts = [nn.Parameter(torch.ones(n)) for _ in names]"


@pytest.mark.parametrize(
    "method, reported",
    [
        ("def trained(self):\n        return [self.parts[0]]", False),
        ("def trained(self):\n        return self.parts", False),
        ("def start(self):\n        self.optimizer = torch.optim.SGD(self.parts, lr=0.1)", False),
        ("def start(self):\n        return torch.optim.SGD([self.parts[0]], lr=0.1)", False),
        ("def move(self, d):\n        for p in self.parts:\n            p.data = p.data.to(d)", False),
        ("def size(self):\n        return len(self.parts)", True),
        ("def first(self):\n        return self.parts[0].sum()", True),
        ("def clear(self):\n        for p in self.parts:\n            p.data = p.data.zero_()", True),
    ],
)
def test_parameters_that_the_class_looks_after_itself(method: str, reported: bool) -> None:
    tail = f"{TAIL}\n    {method}\n"
    assert check(program(LEFT_OUT, tail), "DEV203") == ([(ROW, "DEV203")] if reported else [])


def test_parameters_that_forward_returns_are_still_no_part_of_the_module() -> None:
    tail = "\n    def forward(self, x):\n        return self.parts\n"
    assert check(program(LEFT_OUT, tail), "DEV203") == [(ROW, "DEV203")]


def test_one_element_that_is_read_by_its_index_is_hidden_on_purpose() -> None:
    tail = "\n    def forward(self, x):\n        return self.parts[0](x)\n"
    assert check(program("self.parts = [nn.Linear(n, n)]", tail), "DEV203") == []


def test_a_class_that_moves_its_list_itself() -> None:
    tail = TAIL + (
        "\n    def _apply(self, fn, recurse=True):\n        for part in self.parts:\n            part._apply(fn)\n"
        "        return super()._apply(fn, recurse)\n"
    )
    assert check(program("self.parts = [nn.Linear(n, n)]", tail), "DEV203") == []


def test_plain_classes_own_what_they_like() -> None:
    text = program("self.parts = [nn.Linear(n, n)]").replace("(nn.Module)", "")
    assert check(text, "DEV203") == []


def test_stateless_classes_of_the_file() -> None:
    text = """\
from torch import nn


class Scale(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x * self.factor


class Buffered(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.register_buffer("table", table)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scales = [Scale(1.0), Scale(2.0)]
        self.tables = [Buffered(None), Buffered(None)]
        self.deep = [nn.Sequential(Scale(1.0), nn.Linear(1, 1)), Scale(nn.Linear(1, 1))]

    def forward(self, x):
        return [part(x) for parts in (self.scales[0], self.tables[0], self.deep[0]) for part in parts]
"""
    assert [row for row, _ in check(text, "DEV203")] == [23, 24]


def test_the_names_that_a_module_dict_refuses_are_those_of_torch() -> None:
    plain = torch.nn.ModuleDict()
    public = {name for name in dir(plain) if not name.startswith("_") and name != "training"}
    assert public <= MODULE_DICT_NAMES | {"training"}
    for name in sorted(MODULE_DICT_NAMES & public):
        with pytest.raises(KeyError):
            torch.nn.ModuleDict({name: torch.nn.ReLU()})
