"""What calls say: of their arguments, of modules that move in place, of loops over loaders, of what meets what."""

from __future__ import annotations

import ast

import pytest
from placement.believing import infer, lives, run, value, written

from devlint.placement import values as v

HEAD = """\
import copy
import torch
import torch.nn.functional as F
import torchaudio
from torch import nn
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader
from transformers import AutoModel, AutoTokenizer
from tqdm import tqdm

gpu = torch.device("cuda:1")


def f(x, model, loader, d, size):
    {}
"""


def text(lines: str) -> str:
    return HEAD.format(lines.replace("\n", "\n    "))


def kind(lines: str, name: str = "x") -> str:
    outcome = run(text(lines), "f")
    return outcome.resolved(outcome.state.names[name]).kind


@pytest.mark.parametrize(
    "use, wanted",
    [
        ("x.unsqueeze(0)", v.TENSOR),
        ("x.masked_fill(x > 0, 1)", v.TENSOR),
        ("x.backward()", v.TENSOR),
        ("x.size(0)", v.TENSOR),
        ("x.requires_grad", v.TENSOR),
        ("x.sum(dim=0)", v.TENSOR),
        ("x.sum(keepdim=True)", v.TENSOR),
        ("x.sum(keepdims=True)", v.UNKNOWN),
        ("torch.exp(x)", v.TENSOR),
        ("torch.cat([x, x])", v.TENSOR),
        ("F.relu(x)", v.TENSOR),
        ("F.mse_loss(size, x)", v.TENSOR),
        ("nn.Linear(2, 2)(x)", v.TENSOR),
        ("x.parameters()", v.MODULE),
        ("x.state_dict()", v.UNKNOWN),
        ("x.load_state_dict(size)", v.UNKNOWN),
        ("x.zero_grad()", v.UNKNOWN),
        ("x.apply(size)", v.UNKNOWN),
        ("x.eval()", v.MODULE),
        ("x.named_modules()", v.MODULE),
        ("x.size", v.UNKNOWN),
        ("x.shape", v.UNKNOWN),
        ("x.T", v.UNKNOWN),
        ("x.sum()", v.UNKNOWN),
        ("x.mean(axis=0)", v.UNKNOWN),
        ("x.reshape(-1)", v.UNKNOWN),
        ("x.view(-1)", v.UNKNOWN),
        ("x.to(d)", v.UNKNOWN),
        ("x.cpu()", v.UNKNOWN),
        ("x.to('excel')", v.UNKNOWN),
        ("x(1)", v.UNKNOWN),
        ("torch.pow(x, 2)", v.UNKNOWN),
        ("torch.div(x, torch.ones(2))", v.UNKNOWN),
        ("torch.add(x, torch.ones(2))", v.UNKNOWN),
        ("torch.tensor(x)", v.UNKNOWN),
        ("x.unsqueeze", v.UNKNOWN),
        ("x + 1", v.UNKNOWN),
        ("x + torch.zeros(3)", v.UNKNOWN),
        ("print(x)", v.UNKNOWN),
    ],
)
def test_what_uses_say_of_an_argument(use: str, wanted: str) -> None:
    assert kind(use) == wanted


@pytest.mark.parametrize(
    "annotation", ["torch.Tensor", "'torch.Tensor'", "Optional[torch.Tensor]", "torch.Tensor | None"]
)
def test_annotations_of_tensors(annotation: str) -> None:
    found = value(f"import torch\nfrom typing import Optional\ndef f(x: {annotation}):\n    y = x\n", "y", "f")
    assert found.kind == v.TENSOR and found.place.known and not found.place.device


@pytest.mark.parametrize(
    "annotation, kind",
    [
        ("nn.Module", v.MODULE),
        ("torch.device", v.DEVICE),
        ("int", v.NUMBER),
        ("str", v.TEXT),
        ("DataLoader", v.LOADER),
        ("list[torch.Tensor]", v.SEQUENCE),
        ("torch.Tensor | int", v.UNKNOWN),
        ("Any", v.UNKNOWN),
        ("'not valid['", v.UNKNOWN),
        ("np.ndarray", v.UNKNOWN),
    ],
)
def test_other_annotations(annotation: str, kind: str) -> None:
    head = "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n"
    assert value(f"{head}def f(x: {annotation}):\n    y = x\n", "y", "f").kind == kind


@pytest.mark.parametrize(
    "lines, place",
    [
        ("y = x", "a symbol"),
        ("y = x.to(gpu)", "cuda:1"),
        ("y = x.cuda()", "cuda"),
        ("y = x.cuda(0)", "cuda:0"),
        ("y = x.cuda(d)", "a symbol"),
        ("y = x.to(d)", "a symbol"),
        ("y = x.cpu()", "cpu"),
        ("y = x.xpu()", "xpu"),
        ("y = x.to('mps')", "mps"),
        ("y = x.to('cuda', torch.float16)", "cuda"),
        ("y = x.to(torch.float16)", "a symbol"),
        ("y = x.to(**size)", "unknown"),
        ("model = model.to(gpu)\nmodel.train()\ny = model(x)", "cuda:1"),
        ("model.to(gpu)\ny = model", "a symbol"),
        ("model.to(gpu)\nmodel.train()\ny = model", "cuda:1"),
        ("net = nn.Linear(2, 2).to(gpu)\ny = net(x)", "cuda:1"),
        ("net = nn.Linear(2, 2)\nnet.to(gpu)\ny = net(x).sum(1)", "cuda:1"),
        ("net = nn.Linear(2, 2).to(gpu)\nprepare(net)\ny = net(x)", "cuda:1"),
        ("net = nn.Linear(2, 2)\nprepare(net)\ny = net", "unknown"),
        ("net = nn.DataParallel(nn.Linear(2, 2).to(gpu))\ny = net", "cuda:1"),
        ("net = AutoModel.from_pretrained('a').to(gpu)\ny = net", "cuda:1"),
        ("net = AutoModel.from_pretrained('a', device_map='auto')\ny = net", "a symbol"),
        ("y = AutoTokenizer.from_pretrained('a')('hi', return_tensors='pt')", "cpu"),
        ("y = AutoTokenizer.from_pretrained('a')('hi', return_tensors='pt')['input_ids']", "cpu"),
        ("y = AutoTokenizer.from_pretrained('a')('hi', return_tensors='pt').input_ids", "cpu"),
        ("y = AutoTokenizer.from_pretrained('a')('hi', return_tensors='pt').to(gpu)", "cuda:1"),
        ("y = AutoTokenizer.from_pretrained('a').encode('hi', return_tensors='pt')", "cpu"),
        ("y = torch.load('a.pt')", "unknown"),
        ("y = torch.zeros(3, **size)", "unknown"),
        ("y = torch.zeros(*size)", "cpu"),
        ("y = torch.zeros(*size, device=gpu)", "cuda:1"),
        ("y = copy.deepcopy(nn.Linear(2, 2).to(gpu))", "cuda:1"),
        ("y = nn.utils.weight_norm(nn.Linear(2, 2))", "cpu"),
        ("y = nn.utils.weight_norm(nn.Linear(2, 2).to(gpu))", "cuda:1"),
        ("y = nn.utils.parametrizations.spectral_norm(x)", "a symbol"),
        ("y = nn.utils.fuse_conv_bn_eval(nn.Conv2d(1, 1, 1).to(gpu), model)", "cuda:1"),
        ("y = AveragedModel(nn.Linear(2, 2).to(gpu))", "cuda:1"),
        ("y = AveragedModel(nn.Linear(2, 2).to(gpu), 'cpu')", "cpu"),
        ("y = torchaudio.load('a.wav')[0]", "cpu"),
        ("y, rate = torchaudio.load('a.wav')", "cpu"),
        ("rate, y = torchaudio.load('a.wav')", "unknown"),
        ("y, lengths = nn.utils.rnn.pad_packed_sequence(torch.zeros(2, 2).to(gpu))", "cuda:1"),
        ("lengths, y = nn.utils.rnn.pad_packed_sequence(torch.zeros(2, 2).to(gpu))", "cpu"),
    ],
)
def test_where_the_result_is(lines: str, place: str) -> None:
    assert lives(text(lines), "y", "f") == place


@pytest.mark.parametrize(
    "head",
    [
        "for a, b in loader:",
        "for i, (a, b) in enumerate(loader):",
        "for a, b in tqdm(loader):",
        "for i, (a, b) in enumerate(tqdm(loader), 1):",
        "for (a, b) in DataLoader(size):",
    ],
)
def test_parts_of_a_batch_that_a_model_is_fed_are_tensors(head: str) -> None:
    lines = f"model = nn.Linear(2, 2)\n{head}\n    model(a)\n    F.cross_entropy(model(a), b)"
    assert (kind(lines, "a"), kind(lines, "b")) == (v.TENSOR, v.TENSOR)


def test_parts_of_a_batch_that_nothing_is_done_with_are_unknown() -> None:
    assert kind("for a, b in loader:\n    print(a, b)", "a") == v.UNKNOWN


def meetings(lines: str) -> dict[str, list[tuple[str, str]]]:
    """What meets in a function: each operation with its operands and their places."""
    outcome = run(text(lines), "f")
    return {
        ast.unparse(node): [(ast.unparse(e), written(found.place)) for e, found in meeting.operands]
        for node, meeting in outcome.meetings.items()
    }


@pytest.mark.parametrize(
    "operation",
    [
        "a + b",
        "a @ b",
        "a == b",
        "a < b",
        "torch.add(a, b)",
        "torch.cat([a, b])",
        "torch.stack((a, b), 1)",
        "torch.where(a > 0, a, b)",
        "torch.where(condition=a > 0, input=a, other=b)",
        "a.add_(b)",
        "a.matmul(b)",
        "a.masked_fill(b, 0)",
        "a.index_select(0, b)",
        "a.gather(0, index=b)",
        "F.mse_loss(a, b)",
        "F.linear(a, weight=b)",
        "nn.MSELoss()(a, b)",
        "torch.bmm(a, b)",
        "torch.einsum('i,j', a, b)",
    ],
)
def test_tensors_meet(operation: str) -> None:
    found = meetings(f"a = torch.zeros(3, device=gpu)\nb = torch.zeros(3)\n{operation}")[
        ast.unparse(ast.parse(operation))
    ]
    assert ("b", "cpu") in found and any(place == "cuda:1" for _, place in found)


@pytest.mark.parametrize(
    "line",
    [
        "a[b]",
        "a[0] = b",
        "a.copy_(b)",
        "a.to(b)",
        "a.type_as(b)",
        "[a, b]",
        "(a, b)",
        "a.shape == b.shape",
        "a and b",
        "a is b",
        "a if size else b",
        "print(a, b)",
        "torch.save([a, b], 'x')",
        "a.size(0) + b.size(0)",
        "a.item() + b.item()",
        "len(a) + len(b)",
        "a.device == b.device",
        "torch.equal",
        "isinstance(a, type(b))",
    ],
)
def test_tensors_do_not_meet(line: str) -> None:
    found = meetings(f"a = torch.zeros(3, device=gpu)\nb = torch.zeros(3)\n{line}")
    assert not [operands for operands in found.values() if {"cpu", "cuda:1"} <= {place for _, place in operands}]


@pytest.mark.parametrize("line", ["a + b", "torch.where(a > 0, a, b)", "torch.maximum(a, b)"])
def test_numbers_in_tensors_meet_and_are_known_as_such(line: str) -> None:
    outcome = run(text(f"a = torch.zeros(3, device=gpu)\nb = torch.tensor(1.0)\ny = {line}"), "f")
    assert written(outcome.state.names["y"].place) == "cuda:1"
    (meeting,) = [m for n, m in outcome.meetings.items() if ast.unparse(n) == line]
    assert [found.dims for e, found in meeting.operands if ast.unparse(e) == "b"] == [0]


def test_an_augmented_assignment_meets_in_its_target() -> None:
    assert meetings("a = torch.zeros(3, device=gpu)\nb = torch.zeros(3)\na += b") == {
        "a": [("a", "cuda:1"), ("b", "cpu")]
    }


def test_a_table_is_indexed() -> None:
    outcome = run(text("a = torch.zeros(3)\nb = torch.tensor([1], device=gpu)\na[b]"), "f")
    (meeting,) = outcome.indexings.values()
    assert [written(found.place) for _, found in meeting.operands] == ["cpu", "cuda:1"]


@pytest.mark.parametrize(
    "calls, wanted",
    [
        ("g(torch.zeros(2))", ["cpu"]),
        ("g(x=torch.zeros(2))", ["cpu"]),
        ("g(torch.zeros(2, device='cuda'))\ng(torch.zeros(2))", ["cpu", "cuda"]),
        ("g(*pieces)", []),
        ("g(**pieces)", []),
        ("h.g(torch.zeros(2))", ["cpu"]),
        ("class A:\n    @staticmethod\n    def g(x): ...\n\nA.g(torch.zeros(2))", ["cpu"]),
        ("class A:\n    def g(self, x): ...\n\nA().g(torch.zeros(2))", ["cpu"]),
        ("", []),
    ],
)
def test_what_the_file_passes_for_an_argument(calls: str, wanted: list[str]) -> None:
    own = "" if calls.startswith("class") else "def g(x):\n    return x\n"
    inference = infer(f"import torch\n{own}{calls}\n")
    (function,) = [n for n in ast.walk(inference.tree) if isinstance(n, ast.FunctionDef)]
    found = inference.passed(function.args.args[-1], function)
    assert sorted(written(one.place) for one in found) == wanted
