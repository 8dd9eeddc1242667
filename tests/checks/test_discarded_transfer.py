"""DEV101: the copy that a transfer or cast gives is thrown away; when the assignment is a safe fix."""

from __future__ import annotations

import pytest
from checks.helpers import check, findings, fixed

from devlint.finding import Applicability

HEAD = """\
import contextlib
import time
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence


"""
FIRST = HEAD.count("\n") + 1


def function(lines: str, arguments: str = "x: torch.Tensor, y, d, model: nn.Module") -> str:
    return f"{HEAD}def f({arguments}):\n    " + lines.replace("\n", "\n    ") + "\n"


@pytest.mark.parametrize(
    "line",
    [
        "x.to(d)",
        "x.cuda()",
        "x.cpu()",
        "x.to('cuda', non_blocking=True)",
        "x.half()",
        "x.float()",
        "x.type(torch.float16)",
        "x.type_as(y)",
        "x.long()",
        "x[0].to(d)",
        "x.sin().cuda()",
        "x.grad.cuda()",
        "(x).to(d)",
        "(x.to(d))",
        "x.to(\n    d,\n)",
        "x.to(d); y = 1",
        "if y: x.to(d)",
        "for t in x:\n    t.to(d)",
        "z = torch.zeros(3)\nz.to(d)",
        "model.weight = nn.Parameter(x)\nmodel.weight.to(d)",
        "packed = pack_padded_sequence(x, y)\npacked.to(d)",
        "with torch.no_grad():\n    x.to(d)",
        "try:\n    pass\nexcept RuntimeError:\n    x.to(d)",
        "try:\n    x.to(d)\nfinally:\n    pass",
        "x.cuda",
        "return x.cuda",
        "model(x.cpu)",
    ],
)
def test_reported(line: str) -> None:
    assert [code for _, code in check(function(line), "DEV101")] == ["DEV101"]


@pytest.mark.parametrize(
    "line",
    [
        "model.to(d)",
        "model.cuda()",
        "model.half()",
        "model.eval().to(d)",
        "net = nn.Linear(2, 2)\nnet.to(d)",
        "nn.Linear(2, 2).to(d)",
        "y.to(d)",
        "y.cuda()",
        "y.float()",
        "y.to('excel')",
        "y.type('text')",
        "x = x.to(d)",
        "z = x.cuda()",
        "return x.to(d)",
        "model(x.cuda())",
        "x.data = x.data.to(d)",
        "x.copy_(x.to(d))",
        "x.sin()",
        "x.to",
        "torch.zeros(1).cuda()",
        "torch.zeros(1).float().to(d)",
        "torch.randn(3, 3).sum().cuda()",
        "with pytest.raises(RuntimeError):\n    x.to('nowhere')",
        "with contextlib.suppress(RuntimeError):\n    x.cuda()",
        "with torch.profiler.profile():\n    x.to(d)",
        "with Timer():\n    x.cuda()",
        "try:\n    x.cuda()\nexcept RuntimeError:\n    return False",
        "if isinstance(x, nn.Module):\n    x.to(d)",
        "y.parameters()\ny.to(d)",
    ],
)
def test_silent(line: str) -> None:
    assert check(function(line), "DEV101") == []


@pytest.mark.parametrize(
    "text",
    [
        "class A:\n    def to(self, d):\n        self.x = self.x.to(d)\n\n\na = A()\na.to('cuda')\n",
        "from transformers import AutoTokenizer as T\n"
        "\nb = T.from_pretrained('a')('x', return_tensors='pt')\nb.to('cuda')\n",
        "import torchmetrics\n\nm = torchmetrics.Accuracy('binary')\nm.to('cuda')\n",
        "import pandas as pd\n\npd.DataFrame().to('excel')\n",
        "class A(nn.Module):\n    def __init__(self, d):\n"
        "        super().__init__()\n        self.to(d)\n        super().cuda()\n",
    ],
)
def test_what_moves_in_place_is_silent(text: str) -> None:
    assert check(HEAD + text, "DEV101") == []


LOOP = """\
def train(model, loader, device, loss_fn):
    model.to(device)
    for images, labels in loader:
        {}
"""


def loop(lines: str) -> str:
    return HEAD + LOOP.format(lines.replace("\n", "\n        "))


def repaired(lines: str, *, unsafe: bool = False) -> str:
    text = fixed(loop(lines), "DEV101", unsafe=unsafe)
    return text[len(loop("")) - 1 :].rstrip("\n").replace("\n        ", "\n")


@pytest.mark.parametrize(
    "lines, wanted",
    [
        ("images.to(device)\nmodel(images)", "images = images.to(device)\nmodel(images)"),
        (
            "images.to(device)\nlabels = labels.to(device)\nF.cross_entropy(model(images), labels)",
            "images = images.to(device)\nlabels = labels.to(device)\nF.cross_entropy(model(images), labels)",
        ),
        (
            "images.to(\n    device,  # where the model is\n    non_blocking=True,\n)\nmodel(images)",
            "images = images.to(\n    device,  # where the model is\n    non_blocking=True,\n)\nmodel(images)",
        ),
        ("(images.to(device))\nmodel(images)", "images = (images.to(device))\nmodel(images)"),
        ("images.to(device); model(images)", "images = images.to(device); model(images)"),
        ("if device: images.to(device)\nmodel(images)", "if device: images = images.to(device)\nmodel(images)"),
        (
            "images.to(device)\nn = images.size(0)\nprint(images.shape)\nmodel(images)",
            "images = images.to(device)\nn = images.size(0)\nprint(images.shape)\nmodel(images)",
        ),
    ],
)
def test_safe_fixes(lines: str, wanted: str) -> None:
    assert repaired(lines) == wanted


@pytest.mark.parametrize(
    "lines",
    [
        "model(images)\nimages.to(device)\nloss_fn(images)",
        "images.to(device)\nmodel(images)\nimages.numpy()",
        "images.to(device)\nmodel(images)\nloss_fn.append(images)",
        "images.to(device)\nmodel(images)\ndef later():\n    return images.numpy()",
        "images.to(device)\nmodel(images)\nlater = lambda: images.numpy()",
        "images.to(device)\nmodel(images)\nlater = (images for _ in labels)",
        "images.to(device)\nmodel(images)\nlabels = labels.to(images.device)",
        "images.to(device)\nmodel(images)\nif images.is_cuda:\n    labels = labels.cuda()",
        "images.to(device)\ntry:\n    model(images)\nexcept RuntimeError:\n    model(images.cuda())",
        "images.half()\nmodel(images)",
        "images.to(device, torch.float16)\nmodel(images)",
        "images.to(device, dtype=torch.float16)\nmodel(images)",
        "images.to('cuda:1')\nmodel(images)",
        "images.cuda()\nmodel(images)",
        "images.to(device)\nF.cross_entropy(images, labels.cpu())\nmodel(images)",
    ],
)
def test_fixes_that_may_change_what_works_are_unsafe(lines: str) -> None:
    found = [one for one in findings(loop(lines), "DEV101") if one.fix is not None]
    assert [one.fix.applicability for one in found if one.fix] == [Applicability.UNSAFE] or not found
    assert repaired(lines) == lines


def test_an_unsafe_fix_is_the_assignment() -> None:
    lines = "model(images)\nimages.half()\nmodel(images)"
    assert repaired(lines, unsafe=True) == "model(images)\nimages = images.half()\nmodel(images)"


@pytest.mark.parametrize(
    "text",
    [
        function("x.to(d)"),
        function("x[0].to(d)\nreturn x"),
        function("model.weight = nn.Parameter(x)\nmodel.weight.to(d)\nreturn model.weight"),
        function("class A:\n    x.to(d)\nreturn x + 1"),
        HEAD + "t = torch.zeros(3)\n\n\ndef f(d):\n    t.to(d)\n    return t + 1\n",
    ],
)
def test_no_fix_where_no_assignment_would_help(text: str) -> None:
    (found,) = findings(text, "DEV101")
    assert found.fix is None and found.no_fix


def test_the_finding_stands_at_the_method() -> None:
    (found,) = findings(function("x.sin(\n).to(d)"), "DEV101")
    assert (found.start.row, found.start.column, found.end.column) == (
        FIRST + 2,
        len("    ).") + 1,
        len("    ).to") + 1,
    )


def test_fixed_programs_run_where_the_old_ones_stopped() -> None:
    import torch

    from devlint.runtime import simulate

    text = loop("images.to(device)\nlabels.to(device)\nF.cross_entropy(model(images), labels).backward()")
    after = fixed(text, "DEV101")
    with simulate(1):
        for code, works in ((text, False), (after, True)):
            names: dict[str, object] = {}
            exec(code.replace("import pytest\n", ""), names)
            model, batch = torch.nn.Linear(3, 3), (torch.ones(2, 3), torch.tensor([0, 1]))
            if works:
                names["train"](model, [batch], "cuda", None)  # type: ignore[operator]
                assert model.weight.grad is not None
            else:
                with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
                    names["train"](model, [batch], "cuda", None)  # type: ignore[operator]
