"""DEV401: devices that torch refuses, and calls that take none."""

from __future__ import annotations

import pytest
from checks.helpers import check, findings, fixed

from devlint.finding import Applicability

HEAD = """\
import argparse
import numpy as np
import torch
import torch as th
from functools import partial
from torch import nn, device as D, load as tload
x = torch.zeros(2)
net = nn.Linear(2, 2)
either = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""
START = HEAD.count("\n")


def rows(body: str) -> list[int]:
    """The rows of the body (from 1) with a finding."""
    return [row - START for row, _ in check(HEAD + body, "DEV401")]


WRONG = [
    'torch.device("cuda:0,1")',
    'torch.device("gpu")',
    'th.device("cuda0")',
    'D("cuda: 0")',
    'torch.device(type="CUDA")',
    'torch.device(device="cuda:01")',
    'torch.device("cuda:128")',
    'torch.device("cuda:256")',
    'torch.device("")',
    'torch.device("0")',
    'torch.device("cuda:0", 1)',
    'torch.device("cuda", -1)',
    'torch.device("cuda", index=128)',
    'torch.device("gpu" if torch.cuda.is_available() else "cpu")',
    'torch.device(("cpu" if x else ("cuda:0,1")))',
    'x.to("cuda:0,1")',
    'x.to("float32")',
    'x.to(device="cude")',
    'x.cuda("cuda:0,1")',
    'net.to("GPU:0")',
    'x.new_zeros(2, device="gpu")',
    'torch.zeros(2, device="cuda:0,1")',
    'torch.zeros(\n    2,\n    device=either or\n    "gpu",\n)',
    'torch.zeros_like(x, device="gpu")',
    'nn.Linear(2, 2, device="gpu")',
    'torch.Generator("gpu")',
    'torch.Generator(device="cuda0")',
    'torch.cuda.set_device("cuda:0,1")',
    'torch.set_default_device("gpu")',
    'torch.load("f", map_location="gpu")',
    'torch.load("f", "cuda:0,1")',
    'torch.load("f", map_location="cpu:0")',
    'tload("f", map_location="cuda0")',
    'torch.hub.load_state_dict_from_url("u", map_location="gpu")',
    'partial(torch.zeros, device="gpu")',
    'with torch.device("gpu"): pass',
    'y = (d := torch.device("gpu"))',
    'NAME = "gpu"\ntorch.device(NAME)',
    'if x.sum():\n    name = "cuda:0,1"\nelse:\n    name = "cpu"\nnet.to(name)',
    'name = "gpu" if torch.cuda.is_available() else "cpu"\nnet.to(name)',
    'd = torch.device("cuda:1")\ntorch.device(f"cuda:{d}")',
    'torch.device(f"cuda:{either}")',
    'torch.device("cuda:{}".format(either))',
    'torch.device("cuda:%s" % either)',
    'torch.device("cuda:" + str(either))',
    'torch.device(f"cuda: {x.dim()}")',
    'torch.device(f"gpu:{x.dim()}")',
    'i = None\ntorch.device(f"cuda:{i}")',
    'i = "0,1"\ntorch.device(f"cuda:{i}")',
    'def f(y, device="gpu"):\n    return torch.zeros(2, device=device)',
    'def f(y, *, ids="0,1"):\n    return torch.device("cuda:" + ids)',
    'class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.to("gpu")',
    'async def f(y: torch.Tensor):\n    return y.to("gpu")',
    'match x.dim():\n    case 1:\n        x.to("gpu")',
    '[x.to("gpu") for _ in range(3)]',
    "torch.from_numpy(np.zeros(2), device=either)",
    'th.from_numpy(np.zeros(2), device="cpu")',
    "x.type_as(x, device=either)",
    'x.cuda(torch.device("cpu"))',
    'x.cuda("cpu")',
    "x.cuda(either)",
    "x.cuda(device=either)",
    "net.cuda(either)",
    "def f(batch, device=None):\n    device = device or torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
    "    return [t.cuda(device=device) for t in batch]",
    "def f(y):\n    if torch.cuda.is_available():\n        device = torch.device('cuda')\n    else:\n"
    "        device = torch.device('cpu')\n    return torch.ones(2).cuda(device)",
]


@pytest.mark.parametrize("body", WRONG)
def test_wrong_devices_are_found(body: str) -> None:
    assert len(rows(body + "\n")) == 1, body


RIGHT = [
    'torch.device("cuda:0")',
    'torch.device("cuda", 127)',
    'torch.device("npu:0"), torch.device("musa"), torch.device("auto"), torch.device("privateuseone:1")',
    'torch.device("cuda", x.dim())',
    'torch.device("cuda:0", None)',
    'torch.device(f"cuda:{x.dim()}")',
    'torch.device(f"{either.type}:0"), torch.device(f"{either}")',
    'torch.device(f"{either}:0")',  # right where the device has no index
    'i = 1\ntorch.device(f"cuda:{i}")',
    'i = "1"\ntorch.device("cuda:" + i)',
    "torch.device(f'cuda:{x:0>2}')",
    'kind = "gpu"\nprint(kind, {"gpu": 1}["gpu"])',
    'engine.to("cuda:0,1"); engine.device("gpu"); engine.cuda("cpu")',
    'def device(name):\n    return name\n\ndevice("gpu")',
    'import jax\njax.devices("gpu"); jax.jit(print, backend="gpu", device="gpu")',
    'torch.autocast("cuda"); torch.load("f", map_location="cpu"); torch.load("f", map_location={"cuda:1": "cuda:0"})',
    'torch.load("f", lambda storage, location: storage)',
    "torch.load(\"f\", map_location=torch.device('cpu:0'))",
    'try:\n    torch.device("gpu")\nexcept RuntimeError:\n    pass',
    'import pytest\nwith pytest.raises(RuntimeError):\n    torch.device("cuda:0,1")',
    'import unittest\nunittest.TestCase().assertRaises(RuntimeError, lambda: torch.device("gpu"))',
    "class A(nn.Module):\n    def to(self, where):\n        return self\n\nA().to('gpu')",
    "class A(nn.Module):\n    def cuda(self, where):\n        return self\n\nA().cuda(either)",
    "class A:\n    def cuda(self, where):\n        return self\n\ndef f(a):\n    a.cuda(either)",
    'if either.type == "cuda":\n    x.cuda(either)',
    "if torch.cuda.is_available():\n    x.cuda(either)",
    "y = x.cuda(either) if torch.cuda.is_available() else x",
    "def f(y):\n    if not torch.cuda.is_available():\n        return y\n    return torch.ones(2).cuda(either)",
    "def f(y):\n    assert either.type == 'cuda'\n    return torch.ones(2).cuda(either)",
    'x.cuda(torch.device("cuda"))',
    "x.cuda(0); x.cuda(None); x.cuda()",
    "def f(y, device):\n    return torch.ones(2).cuda(device)",
    "def f(y, device: torch.device):\n    return torch.ones(2).cuda(device)",
    "torch.from_numpy(np.zeros(2)).to(either)",
    "torch.frombuffer(b'', dtype=torch.uint8)",
    "x.type_as(x)",
    "from numpy import frombuffer as from_numpy\nfrom_numpy(b'', device=1)",
    'def f(y, d="gpu"):\n    if d == "gpu":\n        d = "cuda"\n    return torch.ones(2, device=d)',
    'def f(y, framework):\n    if framework == "jax":\n        name = "gpu"\n    else:\n        name = "cuda"\n'
    '    if framework == "torch":\n        return torch.ones(2).to(name)',
    'def f(y, torch):\n    return torch.device("gpu")',
]


@pytest.mark.parametrize("body", RIGHT)
def test_right_devices_are_silent(body: str) -> None:
    assert rows(body + "\n") == [], body


OPTION = HEAD + "p = argparse.ArgumentParser()\np.add_argument({option})\nargs = p.parse_args()\n{use}\n"


@pytest.mark.parametrize(
    ("option", "use", "count"),
    [
        ('"--device", default="cuda:0"', 'torch.device(f"cuda:{args.device}")', 1),
        ('"--gpu", default="0,1", type=str', 'torch.device("cuda:" + args.gpu)', 1),
        ('"-d", "--my-device", default="gpu"', "net.to(args.my_device)", 1),
        ('"--dev", dest="where", default="gpu"', "net.to(args.where)", 1),
        ('"--device", default="gpu"', "def f(a):\n    return torch.device(a.device)\nf(args)", 1),
        ('"--gpu", default=0, type=int', 'torch.device(f"cuda:{args.gpu}")', 0),
        ('"--gpu", default="0"', 'torch.device(f"cuda:{args.gpu}")', 0),
        ('"--device", default="gpu"', 'torch.device("cuda" if args.device == "gpu" else args.device)', 0),
        (
            '"--device", default="gpu"',
            'if args.device == "gpu":\n    args.device = "cuda"\ntorch.device(args.device)',
            0,
        ),
        ('"--device", default="gpu"', "def f(a):\n    return torch.device(a.device)\nf(other())", 0),
        ('"--device", default="gpu", type=resolve', "torch.device(args.device)", 0),
        ('"--device", default="gpu"', "p.set_defaults(device='cuda')\ntorch.device(args.device)", 0),
    ],
)
def test_defaults_of_options(option: str, use: str, count: int) -> None:
    text = OPTION.replace("{option}", option).replace("{use}", use)
    found = findings(text, "DEV401")
    assert len(found) == count
    assert all(one.fix is None and "default" in one.message for one in found)


SAFE = [
    ('torch.device("cuda:1,3")', 'torch.device("cuda:1")'),
    ("torch.device('gpu')", "torch.device('cuda')"),
    ('torch.device("cuda0" if x else "cpu")  # why', 'torch.device("cuda:0" if x else "cpu")  # why'),
    ('x.to("cuda: 0", non_blocking=True)', 'x.to("cuda:0", non_blocking=True)'),
    ('torch.load("f", map_location="cpu:0")', 'torch.load("f", map_location="cpu")'),
    ('NAME = "gpu"\ntorch.device(NAME)', 'NAME = "cuda"\ntorch.device(NAME)'),
    ("torch.from_numpy(np.zeros(2), device=either)", "torch.from_numpy(np.zeros(2)).to(either)"),
    ("torch.from_numpy(\n    np.zeros(2),\n    device=either,\n)", "torch.from_numpy(\n    np.zeros(2),\n).to(either)"),
    (
        "torch.from_numpy(np.zeros(2), device=(either or 0)).sum()",
        "torch.from_numpy(np.zeros(2)).to(either or 0).sum()",
    ),
    ("x.type_as(x, device=either)", "x.type_as(x)"),
    ("x.type_as(device=either, other=x)", None),
    ("x.cuda(either)", "x.to(either)"),
    ("x.cuda(either, True)", "x.to(either, non_blocking=True)"),
    ("net.cuda(device=either)", "net.to(device=either)"),
    ('x.cuda("cpu")', 'x.to("cpu")'),
    ('torch.device("cuda:01")', None),
    ('torch.device("cuda:128")', None),
    ('torch.device("cuda:0" ",1")', None),
    ('torch.device(r"gpu")', None),
    ('torch.device(f"cuda:{either}")', None),
    ("torch.from_numpy(np.zeros(2), **{}, device=either)", None),
    ('def f(y, device="gpu"):\n    return torch.zeros(2, device=device)', None),
]


@pytest.mark.parametrize(("old", "new"), SAFE)
def test_safe_fixes(old: str, new: str | None) -> None:
    assert findings(HEAD + old + "\n", "DEV401"), old
    assert fixed(HEAD + old + "\n", "DEV401") == HEAD + (new or old) + "\n"
    if new is not None:
        assert findings(HEAD + new + "\n", "DEV401") == ()


def test_unsafe_fixes() -> None:
    read_elsewhere = 'NAME = "gpu"\nprint(NAME == "gpu")\ntorch.device(NAME)\n'
    may_be_none = (
        "def f(batch, device=None):\n    device = device or either\n    return [t.cuda(device) for t in batch]\n"
    )
    for body in (read_elsewhere, may_be_none):
        (found,) = findings(HEAD + body, "DEV401")
        assert found.fix is not None, body
        assert found.fix.applicability is Applicability.UNSAFE, body
        assert fixed(HEAD + body, "DEV401") == HEAD + body
    assert "[t.to(device) for t in batch]" in fixed(HEAD + may_be_none, "DEV401", unsafe=True)


def test_crlf_and_comments_stay() -> None:
    text = 'import torch\r\nd = torch.device(  # two\r\n    "cuda:0,1",  # GPUs\r\n)\r\n'
    assert fixed(text, "DEV401") == text.replace("cuda:0,1", "cuda:0")


def test_a_string_used_twice_is_one_finding_at_the_string() -> None:
    body = 'NAME = "cuda:0,1"\nnet.to(NAME)\nx.to(NAME)\n'
    (found,) = findings(HEAD + body, "DEV401")
    assert (found.start.row, found.start.column) == (START + 1, 8)


def test_the_message_quotes_torch() -> None:
    (found,) = findings(HEAD + 'torch.zeros(2, device="cuda:0,1")\n', "DEV401")
    assert found.message == "torch.zeros raises Invalid device string: 'cuda:0,1'"


def test_text_inside_a_string_is_left_alone() -> None:
    """A peer rewrote `.cuda()` inside string literals and left the call."""
    body = 'print("x.cuda(either)", x.cuda(either))\n'
    assert fixed(HEAD + body, "DEV401") == HEAD + 'print("x.cuda(either)", x.to(either))\n'


def test_names_and_paths_are_left_alone() -> None:
    """A peer renamed identifiers and paths that hold the word."""
    body = 'gpu = use_cuda = "/usr/local/cuda:0,1"\nprint(gpu, use_cuda)\n'
    assert fixed(HEAD + body, "DEV401", unsafe=True) == HEAD + body


@pytest.mark.parametrize(
    "call", ['torch.load(net.state_dict(), "./net.pth")', 'torch.load("a.pt", map_location="b.pt")']
)
def test_the_name_of_a_file_in_the_place_of_the_device(call: str) -> None:
    import torch

    net = torch.nn.Linear(2, 2)
    (found,) = findings(HEAD + call, "DEV401")
    assert "is the name of a file" in found.message and found.fix is None
    with pytest.raises((AttributeError, OSError, RuntimeError)):
        eval(call, {"torch": torch, "net": net})
