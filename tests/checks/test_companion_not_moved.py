"""DEV106: a loss with weights or a second network stays behind when the model moves."""

from __future__ import annotations

import pytest
from checks.helpers import check, findings, fixed

from devlint.finding import Applicability

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        return self.layer(x)


"""
STEP = """\
def f(model, loader, device, w):
    model.to(device)
    model.train()
    {made}
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        {used}
"""
WEIGHTED = "loss = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0]))"


def step(made: str, used: str = "loss(model(x), y)") -> str:
    return HEAD + STEP.format(made=made.replace("\n", "\n    "), used=used.replace("\n", "\n        "))


@pytest.mark.parametrize(
    "made, used",
    [
        (WEIGHTED, "loss(model(x), y)"),
        ("loss = nn.CrossEntropyLoss(torch.ones(2))", "loss(model(x), y)"),
        ("loss = nn.BCEWithLogitsLoss(pos_weight=torch.ones(2))", "loss(model(x), y)"),
        ("head = nn.Linear(2, 2)", "head(model(x).relu())\nF.mse_loss(model(x), y)"),
        ("head = nn.Sequential(nn.Linear(2, 2), nn.ReLU())", "F.mse_loss(model(x), y)\nhead(y)"),
        ("head = nn.Embedding(2, 2)", "F.mse_loss(model(x), y)\nhead(y)"),
    ],
)
def test_reported_where_it_is_made(made: str, used: str) -> None:
    (found,) = findings(step(made, used), "DEV106")
    assert found.start.row == HEAD.count("\n") + 4
    assert found.fix is not None and found.fix.applicability is Applicability.UNSAFE
    assert fixed(step(made, used), "DEV106") == step(made, used)
    after = fixed(step(made, used), "DEV106", unsafe=True)
    assert after == step(f"{made}.to(device)", used)
    assert check(after, "DEV106") == []


@pytest.mark.parametrize(
    "made, used",
    [
        ("loss = nn.CrossEntropyLoss()", "loss(model(x), y)"),
        ("loss = nn.CrossEntropyLoss(weight=None)", "loss(model(x), y)"),
        ("loss = nn.CrossEntropyLoss(weight=torch.ones(2).to(device))", "loss(model(x), y)"),
        ("loss = nn.CrossEntropyLoss(weight=torch.ones(2, device=device))", "loss(model(x), y)"),
        ("loss = nn.CrossEntropyLoss(weight=w)", "loss(model(x), y)"),
        ("loss = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(2.0))", "loss(model(x), y)"),
        (WEIGHTED + "\nloss.to(device)", "loss(model(x), y)"),
        (WEIGHTED + "\nloss = loss.to(device)", "loss(model(x), y)"),
        (WEIGHTED + ".cuda()", "loss(model(x), y)"),
        (WEIGHTED + "\nprepare(loss)", "loss(model(x), y)"),
        (WEIGHTED, "loss(model(x).cpu(), y.cpu())"),
        (WEIGHTED, "print(loss)"),
        ("head = nn.ReLU()", "head(model(x))"),
        ("head = nn.Linear(2, 2, device=device)", "head(model(x).relu())"),
        ("with torch.device(device):\n    head = nn.Linear(2, 2)", "head(y)"),
        ("head = nn.Linear(2, 2)\nmodel.head = head\nmodel.to(device)", "print(y)"),
    ],
)
def test_silent(made: str, used: str) -> None:
    assert check(step(made, used), "DEV106") == []


def test_a_network_of_the_file() -> None:
    text = step("net = Net()", "F.mse_loss(model(x), y)\nnet(y)")
    (found,) = findings(text, "DEV106")
    assert "net" in found.message and "Expected all tensors" in found.message


@pytest.mark.parametrize(
    "line", ["self.layer = nn.Linear(2, 2, device='cuda')", "self.layer = nn.Linear(2, 2)\n        self.to('cuda')"]
)
def test_a_network_that_places_itself_is_silent(line: str) -> None:
    text = step("net = Net()", "F.mse_loss(model(x), y)\nnet(y)")
    assert check(text.replace("self.layer = nn.Linear(2, 2)", line), "DEV106") == []


@pytest.mark.parametrize("used", ["head(x)", "head(x.sin())", "head(x.to(device))"])
def test_an_argument_is_on_the_device_only_where_something_says_so(used: str) -> None:
    text = HEAD + f"def f(x: torch.Tensor, device):\n    head = nn.Linear(2, 2)\n    return {used}\n"
    assert len(check(text, "DEV106")) == used.count("device")


def test_fixed_programs_run_where_the_old_ones_stopped() -> None:
    import torch

    from devlint.runtime import simulate

    text = step(WEIGHTED)
    with simulate(1):
        for code, works in ((text, False), (fixed(text, "DEV106", unsafe=True), True)):
            names: dict[str, object] = {}
            exec(code, names)
            arguments = torch.nn.Linear(2, 2), [(torch.ones(3, 2), torch.tensor([0, 1, 0]))], "cuda", None
            if works:
                names["f"](*arguments)  # type: ignore[operator]
            else:
                with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
                    names["f"](*arguments)  # type: ignore[operator]


@pytest.mark.parametrize(("transform", "reported"), [("MelScale()", True), ("AmplitudeToDB(top_db=80.0)", False)])
def test_transforms_of_audio_without_a_tensor_work_anywhere(transform: str, reported: bool) -> None:
    used = f"torchaudio.transforms.{transform}(torch.stft(x, 8))"
    assert bool(check("import torchaudio\n" + step("pass", used), "DEV106")) == reported


def test_a_module_that_a_loss_of_another_file_is_given_is_where_it_was_moved() -> None:
    text = """\
import torch.nn as nn
from other import criterion, loader, model

device = "cuda:0"
model.to(device)
head = nn.Linear(1, 1)
head.to(device)
for x, y in loader:
    logits = model(x.to(device))
    loss = criterion(logits, y.to(device), head)
    loss.backward()
"""
    assert check(text, "DEV106", "DEV103", "DEV601") == []
