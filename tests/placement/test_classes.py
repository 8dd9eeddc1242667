"""What is believed of classes of the file: what their instances are, what their attributes hold, where that is."""

from __future__ import annotations

import ast

import pytest
from placement.believing import infer, lives, run, value, written
from work import calls_of

from devlint.placement import values as v

HEAD = """\
import torch
from torch import nn
from functools import cached_property
from torch.utils.data import Dataset
import lightning as L
import torchmetrics

gpu = torch.device("cuda:1")
"""


@pytest.mark.parametrize(
    "text, kind",
    [
        ("class A: pass", v.OBJECT),
        ("class A(object): pass", v.OBJECT),
        ("class A(nn.Module): pass", v.MODULE),
        ("class A(torch.nn.Linear): pass", v.MODULE),
        ("class A(nn.Sequential): pass", v.MODULE),
        ("class B(nn.Module): pass\nclass A(B): pass", v.MODULE),
        ("class C(nn.Module): pass\nclass B(C): pass\nclass A(dict, B): pass", v.MODULE),
        ("class A(L.LightningModule): pass", v.MODULE),
        ("class A(torchmetrics.Metric): pass", v.METRIC),
        ("class A(Dataset): pass", v.DATASET),
        ("class A(torch.optim.Optimizer): pass", v.OPTIMIZER),
        ("class A(torch.optim.SGD): pass", v.OPTIMIZER),
        ("class A(somewhere.Base): pass", v.OBJECT),
        ("class A(A): pass", v.OBJECT),
        ("class B(A): pass\nclass A(B): pass", v.OBJECT),
        ("class A(*bases): pass", v.OBJECT),
        ("class A(make()): pass", v.OBJECT),
        ("class A(nn.Module, metaclass=M): pass", v.MODULE),
    ],
)
def test_what_an_instance_is(text: str, kind: str) -> None:
    inference = infer(HEAD + text)
    (node,) = [n for n in ast.walk(inference.tree) if isinstance(n, ast.ClassDef) and n.name == "A"]
    assert inference.classes.kind(node) == kind


MODULE = """

class A(nn.Module):
    shared = torch.zeros(2)

    def __init__(self, given, size, device=None):
        super().__init__()
        {line}

    def forward(self, x):
        y = {expression}
        return y
"""


def held(line: str, expression: str = "self.a") -> v.Value:
    text = HEAD + MODULE.format(line=line.replace("\n", "\n        "), expression=expression)
    outcome = run(text, "forward")
    return outcome.resolved(outcome.state.names["y"])


SELF = "where self is"


def where(found: v.Value) -> str:
    return SELF if isinstance(found.place.key, tuple) and found.place.key[0] == "self" else written(found.place)


@pytest.mark.parametrize(
    "line, kind, place",
    [
        ("self.a = nn.Linear(2, 2)", v.MODULE, SELF),
        ("self.a = nn.Linear(2, 2).to(gpu)", v.MODULE, "cuda:1"),
        ("self.a = nn.Linear(2, 2)\nself.a.to(gpu)", v.MODULE, "cuda:1"),
        ("self.a = nn.ReLU()", v.MODULE, "unknown"),
        ("self.a = nn.ModuleList([nn.Linear(2, 2)])", v.CONTAINER, SELF),
        ("self.a = nn.Parameter(torch.zeros(2))", v.PARAMETER, SELF),
        ("self.a = nn.Buffer(torch.zeros(2))", v.BUFFER, SELF),
        ("self.a = self.b = nn.Parameter(torch.zeros(2))", v.PARAMETER, SELF),
        ("self.a: nn.Parameter = nn.Parameter(torch.zeros(2))", v.PARAMETER, SELF),
        ("self.a, self.b = nn.Linear(2, 2), 3", v.MODULE, SELF),
        ("self.a = torch.zeros(2)", v.TENSOR, "cpu"),
        ("self.a = torch.zeros(2, device=gpu)", v.TENSOR, "cuda:1"),
        ("if size:\n    self.a = torch.zeros(2)\nelse:\n    self.a = torch.ones(2)", v.TENSOR, "cpu"),
        ("self.a = torch.zeros(2)\nself.a = self.a.to(gpu)", v.TENSOR, "unknown"),
        ("self.a = None", v.UNKNOWN, "a symbol"),
        ("self.a = None\nif size:\n    self.a = nn.Linear(2, 2)", v.MODULE, SELF),
        ("self.a = size or 3", v.UNKNOWN, "unknown"),
        ("self.a = 3", v.NUMBER, "unknown"),
        ("self.a = torch.device('cuda:1')", v.DEVICE, "cuda:1"),
        ("self.a = given", v.UNKNOWN, "a symbol"),
        ("other = torch.zeros(2)\nother.a = 3", v.UNKNOWN, "a symbol"),
        ("setattr(self, 'a', torch.zeros(2))", v.UNKNOWN, "a symbol"),
        ("def later():\n    self.a = torch.zeros(2)", v.UNKNOWN, "a symbol"),
    ],
)
def test_what_an_attribute_holds(line: str, kind: str, place: str) -> None:
    found = held(line)
    assert (found.kind, where(found)) == (kind, place)


@pytest.mark.parametrize(
    "expression, kind, place",
    [
        ("self.a(x)", v.TENSOR, SELF),
        ("self.a.weight", v.PARAMETER, SELF),
        ("self.a.weight.device", v.DEVICE, SELF),
        ("next(self.parameters())", v.PARAMETER, SELF),
        ("next(self.parameters()).device", v.DEVICE, SELF),
        ("self.a(x).sum(1)", v.TENSOR, SELF),
        ("torch.zeros(2, device=self.a.weight.device)", v.TENSOR, SELF),
        ("torch.zeros(2).to(self.a.weight)", v.TENSOR, SELF),
        ("torch.zeros(2).to(next(self.parameters()).device)", v.TENSOR, SELF),
        ("torch.zeros(2)", v.TENSOR, "cpu"),
        ("self.missing", v.UNKNOWN, "a symbol"),
        ("self.train()", v.MODULE, SELF),
    ],
)
def test_what_the_methods_see(expression: str, kind: str, place: str) -> None:
    found = held("self.a = nn.Linear(2, 2)", expression)
    assert (found.kind, where(found)) == (kind, place)


PROPERTIES = """

class A(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(2, 2)

    {decorator}
    def device(self):
        return {returned}

    def forward(self, x):
        y = torch.zeros(3, device=self.device)
        z = torch.ones(3).to(self.device)
        return y + z
"""


@pytest.mark.parametrize("decorator", ["@property", "@cached_property"])
def test_properties_are_read(decorator: str) -> None:
    text = HEAD + PROPERTIES.format(decorator=decorator, returned="torch.device('cuda:1')")
    assert lives(text, "y", "forward") == "cuda:1"


def test_a_property_is_one_place() -> None:
    names = run(HEAD + PROPERTIES.format(decorator="@property", returned="self.a.weight.device"), "forward").state.names
    assert names["y"].place.known and names["y"].place.same(names["z"].place)


NEW = """

class A(nn.Module):
    def __init__(self, size, where=None):
        super().__init__()
        {line}


y = {call}
"""


@pytest.mark.parametrize(
    "line, call, place",
    [
        ("self.a = nn.Linear(2, 2)", "A(3)", "cpu"),
        ("self.a = nn.Linear(2, 2)", "A(3).to(gpu)", "cuda:1"),
        ("self.a = nn.Linear(2, 2)", "A(3).to(gpu).cpu()", "cpu"),
        ("self.a = nn.Linear(2, 2)", "A(3, gpu)", "unknown"),
        ("self.a = nn.Linear(2, 2)", "A(3, device)", "unknown"),
        ("self.a = nn.Linear(2, 2)", "A(3, where='cuda')", "unknown"),
        ("self.a = nn.Linear(2, 2)", "A(**options)", "unknown"),
        ("self.to(gpu)", "A(3)", "unknown"),
        ("self.a = nn.Linear(2, 2).cuda()", "A(3)", "unknown"),
        ("self.a = nn.Linear(2, 2, device=where)", "A(3)", "unknown"),
    ],
)
def test_where_a_new_instance_is(line: str, call: str, place: str) -> None:
    assert lives(HEAD + NEW.format(line=line, call=call), "y") == place


def test_a_new_instance_in_a_device_context_is_not_on_the_cpu() -> None:
    text = HEAD + NEW.format(line="self.a = nn.Linear(2, 2)", call="0") + "with gpu:\n    y = A(3)\n"
    assert lives(text, "y") != "cpu"


def test_an_instance_of_an_unknown_base_may_be_anywhere() -> None:
    text = HEAD + "from models import Base\n\nclass A(Base, nn.Module):\n    pass\n\ny = A()\n"
    assert lives(text, "y") == "unknown"


METHODS = """

class A:
    {decorator}
    def make({first}n):
        return torch.zeros(n)

    def use(self):
        y = {call}
        return y
"""


@pytest.mark.parametrize(
    "decorator, first, call",
    [
        ("", "self, ", "self.make(3)"),
        ("@staticmethod", "", "A.make(3)"),
        ("@staticmethod", "", "self.make(3)"),
        ("@classmethod", "cls, ", "A.make(3)"),
        ("@torch.no_grad()", "self, ", "self.make(3)"),
    ],
)
def test_methods_give_what_they_return(decorator: str, first: str, call: str) -> None:
    text = HEAD + METHODS.format(decorator=decorator, first=first, call=call)
    assert lives(text, "y", "use") == "cpu"


def test_methods_of_a_base_in_the_file() -> None:
    text = HEAD + "class B:\n    def make(self):\n        return torch.zeros(2)\nclass A(B): pass\ny = A().make()\n"
    assert lives(text, "y") == "cpu"


def test_an_attribute_that_is_made_from_itself_ends() -> None:
    text = """
class A:
    def __init__(self):
        self.a = torch.zeros(2)

    def grow(self):
        self.a = self.a + 1
        self.b = self.c
        self.c = self.b
"""
    assert lives(HEAD + text, "self.a", "grow") in ("cpu", "unknown", "a symbol")
    assert value(HEAD + text, "self.b", "grow").kind == v.UNKNOWN


def test_the_work_of_looking_up_attributes_grows_with_their_number() -> None:
    def work(n: int) -> int:
        made = "".join(f"        self.a{i} = torch.zeros(3)\n" for i in range(n))
        read = "".join(f"        x = x + self.a{i}\n" for i in range(n))
        text = f"{HEAD}class A(nn.Module):\n    def __init__(self):\n{made}    def forward(self, x):\n{read}"
        inference = infer(text)
        functions = [n for n in ast.walk(inference.tree) if isinstance(n, ast.FunctionDef)]
        return calls_of(lambda: [inference.run(node) for node in functions])

    assert work(400) < 1.5 * 4 * work(100)
