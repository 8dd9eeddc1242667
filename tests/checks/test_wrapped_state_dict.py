"""DEV304: states of wrappers that are saved."""

from __future__ import annotations

import pytest
import torch
from checks.helpers import check, findings, fixed
from torch import nn

from devlint.finding import Applicability

SCRIPT = """\
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

def main(net, path, several):
    {body}
"""


def script(body: str) -> str:
    return SCRIPT.format(body=body.replace("\n", "\n    "))


@pytest.mark.parametrize(
    "body",
    [
        "net = nn.DataParallel(net)\ntorch.save(net.state_dict(), path)",
        "net = DDP(net)\ntorch.save({'net': net.state_dict()}, path)",
        "net = DDP(net)\nstate = net.state_dict()\ntorch.save(state, path)",
        "net = DDP(net)\nstate = {'net': net.state_dict(), 'epoch': 3}\ntorch.save(state, path)",
        "net = DDP(net)\nstate = dict(net=net.state_dict())\ntorch.save(state, path)",
        "net, state = DDP(net), {}\nstate['net'] = net.state_dict()\ntorch.save(state, path)",
    ],
)
def test_the_state_of_a_wrapper_is_saved(body: str) -> None:
    text = script(body)
    (found,) = findings(text, "DEV304")
    assert text.split("\n")[found.start.row - 1][found.start.column - 1 :].startswith("state_dict()")
    assert found.fix is not None and found.fix.applicability is Applicability.SUGGESTION
    assert [edit.text for edit in found.fix.edits] == ["module."]
    assert fixed(text, "DEV304", unsafe=True) == text


@pytest.mark.parametrize(
    "body",
    [
        "net = nn.DataParallel(net)\ntorch.save(net.module.state_dict(), path)",
        "torch.save(net.state_dict(), path)",
        "if several:\n    net = nn.DataParallel(net)\ntorch.save(net.state_dict(), path)",
        "net = nn.DataParallel(net)\nreturn net.state_dict()",
        "net = nn.DataParallel(net)\nstate = net.state_dict()\nprint(len(state))",
        "net = nn.DataParallel(net)\nkeys = len(net.state_dict())\ntorch.save(keys, path)",
        "net = nn.DataParallel(net)\ntorch.save(net.state_dict(), path)\nnet.load_state_dict(torch.load(path))",
        "net = nn.DataParallel(net)\ntorch.save(net.state_dict(), path)\nprint('module.')",
        "net = nn.DataParallel(net)\nif not hasattr(net, 'module'):\n    torch.save(net.state_dict(), path)",
    ],
)
def test_what_is_right_or_known_of_is_silent(body: str) -> None:
    assert check(script(body), "DEV304") == []


def test_the_error_is_torchs() -> None:
    (found,) = findings(script("net = DDP(net)\ntorch.save(net.state_dict(), path)"), "DEV304")
    with pytest.raises(RuntimeError) as caught:
        nn.Linear(2, 2).load_state_dict(nn.DataParallel(nn.Linear(2, 2)).state_dict())
    assert "Missing key(s) in state_dict" in found.message and "Missing key(s) in state_dict" in str(caught.value)
    assert all(key.startswith("module.") for key in nn.DataParallel(torch.nn.Linear(2, 2)).state_dict())
