"""Only functions in which values can come apart are followed: none of those, and few others."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from devlint import engine
from devlint.checks.worth_following import worth_following
from devlint.config import Config
from devlint.source import Source

HEAD = """\
import torch
from torch import nn
from torchvision import transforms
from other import load


class Net(nn.Module):
    pass


def read(path):
    return transforms.ToTensor()(path)


def show(x):
    print(x)


"""


def followed(root: Path, lines: str, function: str = "main") -> bool:
    (root / "other.py").write_text("import torch\n\ndef load(path):\n    return torch.load(path)\n")
    (root / "train.py").write_text(HEAD + "def main(x, net, loader, device):\n    " + lines.replace("\n", "\n    "))
    source, config = Source(str(root / "train.py"), (root / "train.py").read_text()), Config(root=root)
    context = engine.make_context(source, engine.project_of(config).of(source), config)
    owners = worth_following(context)
    return any(isinstance(owner, ast.FunctionDef) and owner.name == function for owner in owners)


@pytest.mark.parametrize(
    "lines",
    [
        "y = torch.zeros(3)\nreturn x + y",
        "y = torch.zeros(3).to(torch.float16)\nreturn x + y",
        "y = torch.zeros(3).to(x.dtype)\nreturn x + y",
        "return torch.zeros(3).mul(x)",
        "y = torch.zeros(3, device='cpu')\nreturn x + y",
        "y = x.cpu()\nreturn x + y",
        "return x.to('cuda:0') + net.to('cuda:1')(x)",
        "for a, b in loader:\n    a = a.to(device)\n    net(a, b)",
        "for a, b in loader:\n    c = a\n    c = c.to(device)\n    net(c, b)",
        "x = x.to(device)\nhead = nn.Linear(3, 3)\nreturn head(x)",
        "x = x.to(device)\nhead = Net()\nreturn head(x)",
        "net.to(device)\nreturn net(read(x))",
        "net = net.to(device).eval()\nreturn net(load(x))",
        "tokens = net(x, return_tensors='pt')",
    ],
)
def test_values_may_come_apart(tmp_path: Path, lines: str) -> None:
    assert followed(tmp_path, lines)


@pytest.mark.parametrize(
    "lines",
    [
        "return x + 1",
        "return torch.zeros(3)",
        "return torch.rand(1).item() < x",
        "y = torch.zeros(3, device=device)\nreturn x + y",
        "y = torch.zeros(3).to(device)\nreturn x + y",
        "return x.cpu().numpy()",
        "return torch.zeros(3).float().unsqueeze(0)",
        "y = torch.zeros(3).view(1, -1).to(device)\nreturn x + y",
        "x = x.to(torch.float32)\nb, c = x.shape\nreturn x",
        "x = x.to(device)\nb, c = x.shape\nreturn x",
        "x = x.to(device)\nreturn read(x)",
        "net.to(device)\nshow(x)\nreturn net(x)",
        "x = x.to(device)\nraise ValueError(x)",
    ],
)
def test_nothing_can_come_apart(tmp_path: Path, lines: str) -> None:
    assert not followed(tmp_path, lines)


@pytest.mark.parametrize(
    ("base", "lines", "wanted"),
    [
        ("nn.Module", "self.table = torch.zeros(3) + size", False),
        ("Net", "self.table = torch.zeros(3) + size", False),
        ("object", "self.table = torch.zeros(3) + size", True),
        ("nn.Module", "self.table = torch.zeros(3) + size.to(device)", True),
        ("nn.Module", "self.table = torch.zeros(3) + torch.ones(3, device=device)", True),
    ],
)
def test_constructors(tmp_path: Path, base: str, lines: str, wanted: bool) -> None:
    lines = f"pass\n\nclass A({base}):\n    def __init__(self, size, device):\n        {lines}\n"
    assert followed(tmp_path, lines, "__init__") is wanted
