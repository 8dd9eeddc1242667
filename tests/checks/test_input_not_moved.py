"""DEV103: what a moved model is given, or what meets its output, stayed on the host."""

from __future__ import annotations

from pathlib import Path

import pytest
from checks.helpers import check, findings, fixed

from devlint import engine
from devlint.config import Config
from devlint.finding import Applicability
from devlint.source import Source

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader


"""
LOOP = """\
def train(model, loader, device, other):
    model.to(device)
    model.train()
    for x, y in loader:
        {}
"""


def loop(lines: str) -> str:
    return HEAD + LOOP.format(lines.replace("\n", "\n        "))


def repaired(lines: str, *, unsafe: bool = False) -> str:
    text = fixed(loop(lines), "DEV103", unsafe=unsafe)
    return text[len(loop("")) - 1 :].rstrip("\n").replace("\n        ", "\n")


@pytest.mark.parametrize(
    "lines, wanted",
    [
        (
            "loss = F.cross_entropy(model(x.to(device)), y)",
            "loss = F.cross_entropy(model(x.to(device)), y.to(device))",
        ),
        (
            "x = x.to(device, non_blocking=True)\nloss = F.cross_entropy(model(x), y)",
            "x = x.to(device, non_blocking=True)\nloss = F.cross_entropy(model(x), y.to(device, non_blocking=True))",
        ),
        (
            "x = x.to(\n    device,  # there\n)\nloss = F.cross_entropy(model(x), y)",
            "x = x.to(\n    device,  # there\n)\nloss = F.cross_entropy(model(x), y.to(\n    device,  # there\n))",
        ),
        (
            "x = (x).to(device)\nloss = F.cross_entropy(model(x), y)",
            "x = (x).to(device)\nloss = F.cross_entropy(model(x), y.to(device))",
        ),
        ("y = y.to(device)\nloss = F.cross_entropy(model(x), y)", None),
        (
            "x = x.to(device)\nout = model(x)\nloss = F.cross_entropy(out, y)\nright = out.argmax(1) == y",
            "x = x.to(device)\nout = model(x)\nloss = F.cross_entropy(out, y.to(device))\n"
            "right = out.argmax(1) == y.to(device)",
        ),
        (
            "x = x.to(device)\nout = model(x)\nlosses = [F.cross_entropy(out, y) for _ in range(2)]",
            "x = x.to(device)\nout = model(x)\nlosses = [F.cross_entropy(out, y.to(device)) for _ in range(2)]",
        ),
    ],
)
def test_the_sibling_of_what_was_moved(lines: str, wanted: str | None) -> None:
    if wanted is None:
        wanted = lines.replace("model(x)", "model(x.to(device))")
    assert repaired(lines) == wanted


@pytest.mark.parametrize(
    "lines",
    [
        "x = x.to(device)\nout = model(x)\nfor device in range(2):\n    F.cross_entropy(out, y)",
        "x = x.to(device)\nout = model(x)\nlosses = [F.cross_entropy(out, y) for device in range(2)]",
        "x = x.to(other.pick())\nout = model(x)\nF.cross_entropy(out, y)",
        "x = x.to(device, torch.float16)\nout = model(x)\nF.cross_entropy(out, y)",
        "x = x.to(device, dtype=torch.float16)\nout = model(x)\nF.cross_entropy(out, y)",
    ],
)
def test_no_fix_where_the_transfer_cannot_be_repeated(lines: str) -> None:
    assert [one for one in findings(loop(lines), "DEV103") if one.fix] == []
    assert repaired(lines, unsafe=True) == lines


def test_an_error_that_is_caught_makes_the_fix_unsafe() -> None:
    lines = "x = x.to(device)\nout = model(x)\ntry:\n    F.cross_entropy(out, y)\nexcept RuntimeError:\n    pass"
    assert [one.fix.applicability for one in findings(loop(lines), "DEV103") if one.fix] == [Applicability.UNSAFE]


def test_an_augmented_assignment_is_reported_and_not_rewritten() -> None:
    text = HEAD + (
        "def f(loader, device):\n    model = nn.Linear(2, 2).to(device)\n    for x, y in loader:\n"
        "        x = x.to(device)\n        y.unsqueeze(0)\n        y += model(x)\n"
    )
    (found,) = findings(text, "DEV103")
    assert found.fix is None and found.start.row == HEAD.count("\n") + 6


@pytest.mark.parametrize(
    "lines",
    [
        "x, y = x.to(device), y.to(device)\nF.cross_entropy(model(x), y)",
        "x = x.to(device)\ny = y.to(device)\nF.cross_entropy(model(x), y)",
        "x, y = (t.to(device) for t in (x, y))\nF.cross_entropy(model(x), y)",
        "x = x.to(device)\ny = other.move(y)\nF.cross_entropy(model(x), y)",
        "F.cross_entropy(model(x), y)",
        "x = x.to(device)\nF.cross_entropy(model(x).cpu(), y)",
        "x = x.to(device)\nout = model(x)\nother.update(y.tolist())\nprint(y)",
        "x = x.to(device)\nout = model(x)\nout = out.cpu()\nright = (out.argmax(1) == y).sum()",
        "x = x.to(device)\nmodel(x)[y]",
    ],
)
def test_silent(lines: str) -> None:
    assert check(loop(lines), "DEV103") == []


@pytest.mark.parametrize(
    "text",
    [
        "def f(net, loader, device):\n    net = nn.DataParallel(net).to(device)\n    for x, y in loader:\n"
        "        F.cross_entropy(net(x), y.to(device))\n",
        "from accelerate import Accelerator\n\n\ndef f(model, loader):\n    accelerator = Accelerator()\n"
        "    model, loader = accelerator.prepare(model, loader)\n    for x, y in loader:\n"
        "        F.cross_entropy(model(x), y)\n",
        "import lightning as L\n\n\nclass M(L.LightningModule):\n    def __init__(self):\n        super().__init__()\n"
        "        self.l = nn.Linear(2, 2)\n\n    def training_step(self, batch, i):\n        x, y = batch\n"
        "        return F.cross_entropy(self.l(x), y)\n",
        "model = nn.Linear(2, 2)\nprint(model(torch.zeros(2)))\n",
        "from torch_geometric.loader import DataLoader as Loader\n\n\ndef f(model, device):\n    model.to(device)\n"
        "    for data, extra in Loader([]):\n        data.to(device)\n        model(data, extra)\n",
    ],
)
def test_others_that_move_inputs_are_silent(text: str) -> None:
    assert check(HEAD + text, "DEV103") == []


TOKENS = """\
from transformers import AutoModel, AutoTokenizer


def f({arguments}):
    tok = AutoTokenizer.from_pretrained("a")
    {lines}
"""


def tokens(lines: str, arguments: str = "device") -> str:
    return HEAD + TOKENS.format(arguments=arguments, lines=lines.replace("\n", "\n    "))


MODEL = 'model = AutoModel.from_pretrained("a").to(device)\n'
TEXT = 'b = tok("hi", return_tensors="pt")\n'


@pytest.mark.parametrize(
    "lines, moved",
    [
        (MODEL + TEXT + "return model(**b)", "model.device"),
        (MODEL + TEXT + "return model(b.input_ids)", "model.device"),
        (TEXT + MODEL + "return model(**b)", "device"),
        ('model = AutoModel.from_pretrained("a")\n' + TEXT + "model.to(device)\nreturn model(**b)", "device"),
    ],
)
def test_what_a_tokenizer_gives(lines: str, moved: str) -> None:
    (found,) = findings(tokens(lines), "DEV103")
    assert found.fix is not None and found.fix.applicability is Applicability.SAFE
    assert fixed(tokens(lines), "DEV103") == tokens(lines.replace('"pt")', f'"pt").to({moved})'))


def test_tokens_that_may_not_meet_the_model_are_no_safe_fix() -> None:
    (found,) = findings(tokens(MODEL + TEXT + "if flag:\n    return model(**b)\nreturn b", "device, flag"), "DEV103")
    assert found.fix is not None and found.fix.applicability is Applicability.UNSAFE


def test_a_device_that_is_bound_later_is_not_named() -> None:
    lines = TEXT + 'device = "cuda"\n' + MODEL + "return model(**b)"
    after = fixed(tokens(lines, ""), "DEV103", unsafe=True)
    assert ".to(device)\n    device" not in after and ".to(model" not in after


@pytest.mark.parametrize(
    "how", ["**b.to(device)", "**{k: v.to(device) for k, v in b.items()}", "b['input_ids'].to(device)"]
)
def test_tokens_that_are_moved_where_they_are_used(how: str) -> None:
    assert check(tokens(MODEL + TEXT + f"return model({how})"), "DEV103") == []


@pytest.mark.parametrize(
    "lines, wanted",
    [
        ("return net(torch.from_numpy(a).float())", "return net(torch.from_numpy(a).float().to(device))"),
        ("t = torch.zeros(2)\nreturn net(t)", "t = torch.zeros(2)\nreturn net(t.to(device))"),
        (
            "t = torch.zeros(2)\nnet(t)\nreturn net(t)",
            "t = torch.zeros(2)\nnet(t.to(device))\nreturn net(t.to(device))",
        ),
    ],
)
def test_what_is_made_on_the_host_and_given_to_a_moved_model(lines: str, wanted: str) -> None:
    text = HEAD + "def f(a, device):\n    net = nn.Linear(2, 2).to(device)\n    {}\n"
    before = text.format(lines.replace("\n", "\n    "))
    assert [code for _, code in check(before, "DEV103")] == ["DEV103"]
    assert fixed(before, "DEV103") == before, "whether another place is meant is not certain"
    assert fixed(before, "DEV103", unsafe=True) == text.format(wanted.replace("\n", "\n    "))


def test_fixed_programs_run_where_the_old_ones_stopped() -> None:
    from devlint.runtime import simulate

    text = loop("x = x.to(device)\nout = model(x)\nF.cross_entropy(out, y).backward()")
    after = fixed(text, "DEV103")
    with simulate(1):
        model, batch = torch_pair()
        for code, works in ((text, False), (after, True)):
            names: dict[str, object] = {}
            exec(code, names)
            if works:
                names["train"](model, [batch], "cuda", None)  # type: ignore[operator]
            else:
                with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
                    names["train"](model, [batch], "cuda", None)  # type: ignore[operator]


def torch_pair():
    import torch

    return torch.nn.Linear(3, 3), (torch.ones(2, 3), torch.tensor([0, 1]))


def test_a_module_that_is_given_may_run_on_the_host() -> None:
    text = (
        "import torch\nfrom torch import nn\n\n\nclass Estimator:\n    def __init__(self, resize: nn.Module):\n"
        "        self.resize = resize\n\n    def run(self, images: torch.Tensor):\n"
        "        inputs = {}\n        return self.resize(inputs)\n"
    )
    assert check(text.format("images.float().cpu()"), "DEV103") == []


@pytest.mark.parametrize("kept, reported", [("resize", False), ("resize.to('cuda')", True)])
def test_a_module_that_a_base_in_another_file_keeps_may_run_on_the_host(
    tmp_path: Path, kept: str, reported: bool
) -> None:
    """What was given and kept may be on the host, as its caller knows; what was moved is not."""
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/__init__.py").write_text("")
    (tmp_path / "pkg/base.py").write_text(
        "from torch import nn\n\n\nclass Base:\n    def __init__(self, resize: nn.Module):\n"
        f"        self.resize = {kept}\n"
    )
    text = (
        "import torch\nfrom pkg.base import Base\n\n\nclass Estimator(Base):\n"
        "    def run(self, images: torch.Tensor):\n        inputs = images.cpu()\n        return self.resize(inputs)\n"
    )
    path = tmp_path / "pkg/run.py"
    path.write_text(text)
    config = Config(root=tmp_path, select=("DEV103", "DEV601"))
    assert bool(engine.check_text(Source(str(path), text), config).findings) == reported
