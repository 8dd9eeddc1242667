"""DEV501 speaks where a model is wrapped to be trained, and nowhere else."""

from __future__ import annotations

import pytest
from checks.helpers import check, findings

from devlint.config import Config
from devlint.engine import check_text
from devlint.source import Source

TRAINED = """\
import torch
from torch import nn


def train(model, loader, optimizer):
    {wrap}
    for x in loader:
        model(x).sum().backward()
        optimizer.step()
"""

WRAPS = [
    "model = nn.DataParallel(model)",
    "model = nn.DataParallel(module=model) if False else nn.DataParallel(model, [0, 1])",
    "model = torch.nn.DataParallel(model, device_ids=[1, 3])",
    "model = torch.nn.parallel.DataParallel(model, device_ids=list(range(torch.cuda.device_count()))).cuda()",
    "(model := nn.DataParallel(model))",
    "if not isinstance(model, nn.DataParallel): model = nn.DataParallel(model)",
]


@pytest.mark.parametrize("wrap", WRAPS)
def test_a_wrap_in_a_training_function_is_reported(wrap: str) -> None:
    assert set(check(TRAINED.format(wrap=wrap), "DEV501")) == {(6, "DEV501")}


@pytest.mark.parametrize(
    "line, callee",
    [
        ("from torch.nn import DataParallel as DP", "DP"),
        ("from torch.nn.parallel import DataParallel", "DataParallel"),
        ("import torch.nn.parallel as par", "par.DataParallel"),
        ("import torch as th", "th.nn.DataParallel"),
    ],
)
def test_aliases_are_followed(line: str, callee: str) -> None:
    text = f"{line}\ndef f(m, opt):\n    m = {callee}(m)\n    opt.step()\n"
    assert check(text, "DEV501") == [(3, "DEV501")]


def test_the_finding_stands_at_the_name_and_says_what_to_do() -> None:
    (found,) = findings(TRAINED.format(wrap="model = nn.DataParallel(model)"), "DEV501")
    assert (found.start.column, found.end.column) == (16, 28)
    assert found.fix is None
    assert found.no_fix is not None and "torchrun" in found.no_fix and "line 8 runs over no DataLoader" in found.no_fix


OTHER_FUNCTIONS = """\
import torch
from torch import nn


def epoch(model, loader, optimizer):
    model.train()
    optimizer.step()


def main(model, loader):
    model = nn.DataParallel(model)
    epoch(model, loader, None)


def build(model):
    return nn.DataParallel(model)


def run(model):
    model = build(model)
    torch.optim.Adam(model.parameters())
"""


def test_training_is_seen_in_what_is_called_and_in_callers() -> None:
    assert check(OTHER_FUNCTIONS, "DEV501") == [(11, "DEV501"), (16, "DEV501")]


def test_training_is_seen_in_the_class() -> None:
    text = """\
from torch import nn


class Trainer:
    def __init__(self, net):
        self.net = nn.DataParallel(net)

    def step(self, x):
        self.net(x).backward()
"""
    assert check(text, "DEV501") == [(6, "DEV501")]


def test_a_script_without_functions() -> None:
    text = "from torch import nn, optim\nm = nn.DataParallel(nn.Linear(2, 2))\no = optim.SGD(m.parameters(), lr=1.0)\n"
    assert check(text, "DEV501") == [(2, "DEV501")]


def test_unwrapping_what_was_trained_is_no_reading_of_keys() -> None:
    text = TRAINED.format(wrap="model = nn.DataParallel(model)") + "    return model.module\n"
    assert check(text, "DEV501") == [(6, "DEV501")]


def test_a_frozen_model_with_a_head_that_is_trained() -> None:
    text = """\
from torch import nn, optim


def tune(model, loss):
    for p in model.parameters():
        p.requires_grad = False
    model.fc = nn.Linear(2, 2)
    model = nn.DataParallel(model)
    optimizer = optim.SGD(model.module.fc.parameters(), lr=0.1)
    loss.backward()
    optimizer.step()
"""
    assert check(text, "DEV501") == [(8, "DEV501")]


def test_a_train_and_a_test_mode_of_one_model() -> None:
    text = """\
import torch
from torch import nn


class Trainer:
    def __init__(self, net, is_train):
        self.net = net
        self.parameters = list(self.net.parameters())
        if is_train:
            self.optimizer = torch.optim.Adam(self.parameters)
        else:
            self.net.eval()
        self.net = nn.DataParallel(self.net, device_ids=[0, 1])
"""
    assert check(text, "DEV501") == [(13, "DEV501")]


SILENT = {
    "isinstance": "def f(m, opt):\n    opt.step()\n    return isinstance(m, nn.DataParallel)",
    "import": "from torch.nn import DataParallel\nopt.step()",
    "annotation": "def f(m: nn.DataParallel, opt) -> nn.DataParallel:\n    opt.step()",
    "subclass": "class Mine(nn.DataParallel):\n    def f(self, loss):\n        loss.backward()",
    "super call": (
        "class Mine(nn.DataParallel):\n    def __init__(self, m, loss):\n"
        "        super().__init__(m)\n        loss.backward()"
    ),
    "no training": "def f(m, x):\n    return nn.DataParallel(m)(x)",
    "evaluation": "def f(m, x):\n    m = nn.DataParallel(m)\n    m.eval()\n    return m(x)",
    "evaluation in the chain": "def f(m, opt):\n    m = nn.DataParallel(m).eval().cuda()\n    opt.step()",
    "teacher beside a student": (
        "def f(student, teacher, opt):\n    teacher = nn.DataParallel(teacher)\n    teacher.eval()\n"
        "    student.train()\n    opt.step()"
    ),
    "teacher frozen": "def f(t, opt):\n    t = nn.DataParallel(t)\n    t.requires_grad_(False)\n    opt.step()",
    "parameters frozen in a loop": (
        "def f(t, opt):\n    t = nn.DataParallel(t)\n    for p in t.parameters():\n"
        "        p.requires_grad = False\n    opt.step()"
    ),
    "keys": "def f(m, opt, s):\n    m = nn.DataParallel(m)\n    m.load_state_dict(s)\n    m = m.module\n    opt.step()",
    "keys asked for": (
        "def f(m, opt, s):\n    if 'module.' in next(iter(s)):\n        m = nn.DataParallel(m)\n    opt.step()"
    ),
    "put back": (
        "def f(m, opt):\n    if isinstance(m, nn.DataParallel):\n"
        "        m = m.module\n        m = nn.DataParallel(m)\n    opt.step()"
    ),
    "one device": "def f(m, opt):\n    m = nn.DataParallel(m, device_ids=[0])\n    opt.step()",
    "one device by place": "def f(m, opt):\n    m = nn.DataParallel(m, [1])\n    opt.step()",
    "ddp branch": (
        "def f(m, opt, a):\n    m = nn.parallel.DistributedDataParallel(m) if a else nn.DataParallel(m)\n    opt.step()"
    ),
    "ddp helper": "def f(m, opt, a):\n    m = smart_ddp(m) if a else nn.DataParallel(m)\n    opt.step()",
    "ddp option": "def f(m, opt, a):\n    if not a.distributed:\n        m = nn.DataParallel(m)\n    opt.step()",
    "rank": "import os\nr = os.environ.get('LOCAL_RANK')\ndef f(m, opt):\n    m = nn.DataParallel(m)\n    opt.step()",
    "launcher": "import accelerate\ndef f(m, opt):\n    m = nn.DataParallel(m)\n    opt.step()",
    "library module": (
        "class Net(nn.Module):\n    def __init__(self, n):\n"
        "        super().__init__()\n        self.n = nn.DataParallel(n)\n"
        "    def fit(self, loss):\n        loss.backward()"
    ),
    "test": "def test_wrapped(m, loss):\n    m = nn.DataParallel(m)\n    loss.backward()",
    "another library's": "from mine import DataParallel\ndef f(m, opt):\n    m = DataParallel(m)\n    opt.step()",
    "shadowed": (
        "from torch.nn import DataParallel\ndef f(m, opt, DataParallel):\n    m = DataParallel(m)\n    opt.step()"
    ),
    "set to evaluation by train": "def f(m, opt):\n    m = nn.DataParallel(m)\n    m.train(False)\n    opt.step()",
}


@pytest.mark.parametrize("name", SILENT)
def test_what_is_right_stays_silent(name: str) -> None:
    assert check(f"import torch\nfrom torch import nn\n{SILENT[name]}\n", "DEV501") == []


CLASS = """\
import torch
from torch import nn


class Experiment:
    def build(self):
        return nn.DataParallel(self.make())

    def optimizer(self):
        return torch.optim.Adam(self.model.parameters())

    def run(self):
        {run}
"""


def test_an_optimizer_that_nothing_asks_for_trains_nothing() -> None:
    assert check(CLASS.format(run="return self.model(1)"), "DEV501") == []
    assert check(CLASS.format(run="return self.optimizer()"), "DEV501") == [(7, "DEV501")]


@pytest.mark.parametrize("path", ["project/tests/train.py", "project/test/train.py", "project/test_train.py"])
def test_tests_of_models_train_nothing_that_lasts(path: str) -> None:
    text = TRAINED.format(wrap=WRAPS[0])
    config = Config(select=("DEV501",))
    assert not check_text(Source(path, text), config).findings
    assert check_text(Source("project/train.py", text), config).findings
