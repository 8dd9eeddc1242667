"""Names that come from other files of the project: what they are, and what is the same whoever asks first."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from placement.believing import written

from devlint import engine
from devlint.config import Config
from devlint.placement import values as v
from devlint.placement.evaluate import Evaluator
from devlint.placement.infer import FUNCTIONS, Inference
from devlint.placement.project import Module
from devlint.source import Source

PACKAGE = {
    "pkg/__init__.py": "from .models import Base\nfrom .inner import *\n",
    "pkg/devices.py": """
import torch
from pkg import models

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
HOST = torch.device("cpu")
SIZE = 3
TWICE = torch.device("cpu")
TWICE = torch.device("cuda")

def pick():
    return torch.device("cuda:1")

def build():
    net = models.Base()
    net.cuda()
    return net

def steps(x, n):
    return torch.arange(n, device=x.device), torch.ones(n)

def wrapped():
    return pick()
""",
    "pkg/models.py": """
import torch
from torch import nn
from .devices import DEVICE

class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("scale", torch.ones(3))
        self.mask = torch.ones(3)

    def table(self, n):
        return torch.zeros(n, device=self.layer.weight.device)

class Placed(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.layer = nn.Linear(3, 3).to(device)

class Bare(nn.Module):
    def forward(self, x):
        return x

class Odd(unknown.Thing):
    pass
""",
    "pkg/inner/__init__.py": "from .deep import Deep\nfrom torch import nn as layers\n",
    "pkg/inner/deep.py": "from ..models import Base\n\n\nclass Deep(Base):\n    def extra(self):\n        return 1\n",
    "helpers.py": "import torch\n\n\ndef made():\n    return torch.zeros(3)\n",
    "broken.py": "def made(:\n",
    "first.py": "from second import B\n\n\nclass A(B):\n    pass\n",
    "second.py": "from first import A\n\n\nclass B(A):\n    pass\n",
    "again.py": "from again import thing\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in PACKAGE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def follow(root: Path, text: str, function: str = "", name: str = "train.py") -> Evaluator:
    """The outcome of following a function, or the body, of a file that stands in a project."""
    (root / name).write_text(text)
    source = Source(str(root / name), text)
    config = Config(root=root)
    inference = engine.make_context(source, engine.project_of(config).of(source), config).inference
    owners = [node for node in inference.parents if isinstance(node, FUNCTIONS) and node.name == function]
    return inference.run(owners[0] if function else inference.tree)


IMPORTS = """
import torch
import pkg
import pkg.devices as where
import helpers
from helpers import made
from pkg import Base, Deep, layers
from pkg.devices import DEVICE, HOST, SIZE, TWICE, build, pick, steps, wrapped
from pkg.models import Bare, Odd, Placed
on_gpu = torch.zeros(3, device="cuda:1")
"""


@pytest.mark.parametrize(
    ("line", "kind", "place"),
    [
        ("x = made()", v.TENSOR, "cpu"),
        ("x = helpers.made()", v.TENSOR, "cpu"),
        ("x = pick()", v.DEVICE, "cuda:1"),
        ("x = where.pick()", v.DEVICE, "cuda:1"),
        ("x = pkg.devices.pick()", v.DEVICE, "cuda:1"),
        ("x = HOST", v.DEVICE, "cpu"),
        ("x = DEVICE", v.DEVICE, "a symbol"),
        ("x = SIZE", v.NUMBER, "unknown"),
        ("x = torch.zeros(3, device=HOST)", v.TENSOR, "cpu"),
        ("x = Base()", v.MODULE, "cpu"),
        ("x = pkg.Base()", v.MODULE, "cpu"),
        ("x = Deep()", v.MODULE, "cpu"),
        ("x = Deep().cuda()", v.MODULE, "cuda"),
        ("x = Deep(device)", v.MODULE, "unknown"),
        ("x = Placed(HOST)", v.MODULE, "unknown"),
        ("x = Bare()", v.MODULE, "unknown"),
        ("x = Odd()", v.OBJECT, "unknown"),
        ("x = build()", v.MODULE, "cuda"),
        ("x = layers.Linear(3, 3)", v.MODULE, "cpu"),
        ("x = steps(on_gpu, 3)[0]", v.TENSOR, "cuda:1"),
        ("x = steps(on_gpu, 3)[1]", v.TENSOR, "cpu"),
        ("x = Deep().cuda().layer", v.MODULE, "cuda"),
        ("x = Deep().cuda().table(3)", v.TENSOR, "cuda"),
        ("x = Deep().mask", v.TENSOR, "cpu"),
        ("x = Deep().to('cuda:1').table", v.NAME, "unknown"),
        ("x = wrapped()", v.DEVICE, "cuda:1"),
    ],
)
def test_what_another_file_gives(project: Path, line: str, kind: str, place: str) -> None:
    outcome = follow(project, IMPORTS + line)
    value = outcome.state.names["x"]
    assert (value.kind, written(outcome.state.place_of(value))) == (kind, place)


@pytest.mark.parametrize("line", ["x = TWICE", "x = pkg.nothing()", "x = pkg.devices.SIZE.made()"])
def test_what_is_not_known_stays_so(project: Path, line: str) -> None:
    assert follow(project, IMPORTS + line).state.names["x"].kind in (v.UNKNOWN, v.NAME)


def test_a_constant_of_another_file_is_one_place(project: Path) -> None:
    text = IMPORTS + "x = torch.zeros(3).to(DEVICE)\ny = torch.zeros(3).to(pkg.devices.DEVICE)\n"
    names = follow(project, text).state.names
    assert names["x"].place.same(names["y"].place)
    assert names["x"].place.text == "DEVICE"


def test_a_device_chosen_in_another_file_has_no_name_here(project: Path) -> None:
    (project / "data.py").write_text(
        "import torch\ndevice = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
        "def batch(n):\n    return torch.ones(n).to(device)\n"
    )
    names = follow(project, "from data import batch\nx, y = batch(3), batch(4)\n").state.names
    assert names["x"].place.same(names["y"].place)
    assert names["x"].place.text == ""


def test_attributes_that_a_base_in_another_file_sets(project: Path) -> None:
    text = """
from pkg import Deep

class Net(Deep):
    def use(self):
        a, b, c = self.mask, self.layer, self.table(3)
"""
    outcome = follow(project, text, "use")
    names = outcome.state.names
    assert (names["a"].kind, written(names["a"].place)) == (v.TENSOR, "cpu")
    assert str(names["a"].origin) == "made by torch.ones at line 11 of models.py"
    assert names["b"].type == "torch.nn.Linear"
    assert names["b"].place.same(names["c"].place) and names["c"].place.key[0] == "self"  # type: ignore[index]


def test_relative_imports_of_a_package(project: Path) -> None:
    imports = "from .devices import pick\nfrom .inner.deep import Deep\nfrom . import Base\n"
    text = imports + "x, y, z = pick(), Deep(), Base()\n"
    names = follow(project, text, name="pkg/train.py").state.names
    assert [names[name].kind for name in "xyz"] == [v.DEVICE, v.MODULE, v.MODULE]


@pytest.mark.parametrize(
    "text",
    [
        "from broken import made\nx = made()\n",
        "from missing import made\nx = made()\n",
        "from .missing import made\nx = made()\n",
        "from ....... import made\nx = made()\n",
        "from again import thing\nx = thing()\n",
        "from first import A\nx = A()\n",
        "import pkg.missing\nx = pkg.missing.made()\n",
    ],
)
def test_missing_broken_and_circular_files_are_fine(project: Path, text: str) -> None:
    assert follow(project, text).state.names["x"].kind in (v.UNKNOWN, v.OBJECT)


@pytest.mark.parametrize(
    "texts",
    [
        {"a.py": "from b import *\nfrom c import *\n", "b.py": "from a import *\n", "c.py": "from b import *\n"},
        {"a.py": "from a.b import *\nfrom a.c import *\nfrom a.d import *\n"},
        {"a/__init__.py": "from a.b import *\nfrom .c import *\nfrom . import *\nfrom .missing import *\n"},
        {"a/__init__.py": "from a.x import x\nfrom a.x.x import thing\n"},
        {"a/__init__.py": "from . import thing\nimport a\n"},
    ],
)
def test_imports_that_go_round(project: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(text)
    text = "import a\nfrom a import thing, x\ny, z, w = thing(), x.y.made(), a.a.thing()\n"
    names = follow(project, text).state.names
    assert [names[name].kind for name in "yzw"] == [v.UNKNOWN] * 3


def test_two_scripts_with_neighbours_of_one_name(project: Path) -> None:
    for folder, device in (("one", "cpu"), ("two", "cuda:1")):
        (project / folder).mkdir()
        (project / folder / "settings.py").write_text(f"import torch\n\nDEVICE = torch.device({device!r})\n")
    for folder, device in (("one", "cpu"), ("two", "cuda:1")):
        outcome = follow(project, "from settings import DEVICE\nx = DEVICE\n", name=f"{folder}/train.py")
        assert written(outcome.state.names["x"].place) == device


def test_a_changed_file_is_read_again(project: Path) -> None:
    assert follow(project, "from helpers import made\nx = made()\n").state.names["x"].kind == v.TENSOR
    (project / "helpers.py").write_text("def made():\n    return 3  # a number now\n")
    assert follow(project, "from helpers import made\nx = made()\n").state.names["x"].kind == v.NUMBER


def test_once_a_change_is_seen_nothing_older_is_believed(project: Path) -> None:
    (project / "between.py").write_text("from helpers import made\n")
    asking = "from helpers import made as same\nfrom between import made\ny, x = same(), made()\n"
    assert follow(project, asking).state.names["x"].kind == v.TENSOR
    (project / "helpers.py").write_text("def made():\n    return 3  # a number now\n")
    names = follow(project, asking).state.names
    assert [names[name].kind for name in "xy"] == [v.NUMBER] * 2


def test_findings_do_not_hang_on_which_file_is_asked_first(project: Path) -> None:
    texts = {
        "a.py": "import torch\nfrom b import g\n\ndef f():\n    return torch.zeros(3)\n\ndef h():\n    return g()\n",
        "b.py": "import torch\nfrom a import f\n\ndef g():\n    return f()\n\ndef k():\n    return torch.ones(3)\n",
    }
    for name, text in texts.items():
        (project / name).write_text(text)
    asking = "from a import f, h\nfrom b import g, k\nw, x, y, z = {}\n"
    orders = ["f(), g(), h(), k()", "(f(), g(), h(), k())"]
    seen = []
    for order in orders:
        names = follow(project, asking.format(order)).state.names
        seen.append([names[name].kind for name in "wxyz"])
    reverse = follow(project, "from b import k, g\nfrom a import h, f\nz, y, x, w = k(), h(), g(), f()\n").state.names
    seen.append([reverse[name].kind for name in "wxyz"])
    assert seen == [seen[0]] * 3
    assert seen[0][0] == seen[0][3] == v.TENSOR


def test_importing_many_stars_reads_none_of_them(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = []
    for number in range(12):
        (project / f"star{number}.py").write_text("import torch\n")
        lines.append(f"from star{number} import *\n")
    (project / "stars.py").write_text("".join(lines))
    read: list[str] = []
    original = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda self: (read.append(self.name), original(self))[1])
    follow(project, "from stars import thing\nx = thing()\n")
    assert "stars.py" in read and not any(name.startswith("star1") for name in read)


def test_files_not_asked_for_are_forgotten(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(6):
        text = "from base import Base\n\nclass Size(Base):\n    pass\n\ndef size():\n    return 3\n" + "# long\n" * 5
        (project / f"part{number}.py").write_text(text)
    (project / "base.py").write_text("class Base:\n    pass\n")
    monkeypatch.setattr("devlint.placement.project._KEPT", 600)  # four of them
    read: list[str] = []
    original = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda self: (read.append(self.name), original(self))[1])
    gc.collect()
    before = sum(type(one) is Inference for one in gc.get_objects())
    for number in range(6):
        lines = f"from part0 import size\nfrom part{number} import Size, size as other\nx = size(), other(), Size()\n"
        outcome = follow(project, lines, name=f"train{number}.py")
        assert [item.kind for item in outcome.state.names["x"].items or ()] == [v.NUMBER, v.NUMBER, v.OBJECT]
    gc.collect()
    alive = [one for one in gc.get_objects() if type(one) in (Module, Inference)]
    names = {one.path.name for one in alive if isinstance(one, Module) and one.path.parent == project}
    assert "part0.py" in names and "part1.py" not in names
    assert sum(isinstance(one, Inference) for one in alive) - before <= 5
    assert read.count("part0.py") == 1  # it is asked for each time
