"""DEV503: attributes that a wrapper does not have."""

from __future__ import annotations

import pytest
import torch.distributed as dist
from checks.helpers import check, findings, fixed
from torch import nn

from devlint.checks.wrapper_attribute import OWN
from devlint.finding import Applicability

SCRIPT = """\
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.size = 3
        self.out = nn.Linear(3, 3)

    def describe(self):
        return self.size

def main(several, given):
    {body}
"""
FIRST = SCRIPT.count("\n")


def rows(body: str) -> list[int]:
    return [row - FIRST for row, _ in check(script(body), "DEV503")]


def script(body: str) -> str:
    return SCRIPT.format(body=body.replace("\n", "\n    "))


@pytest.mark.parametrize(
    "body",
    [
        "net = nn.DataParallel(Net())\nreturn net.size",
        "net = DDP(Net())\nreturn net.describe()",
        "net = nn.DataParallel(given)\nreturn net.out.weight",
        "net = nn.DataParallel(nn.Linear(2, 2))\nreturn net.in_features",
    ],
)
def test_attributes_of_the_model(body: str) -> None:
    (found,) = findings(script(body), "DEV503")
    assert found.start.row - FIRST == 1
    assert found.fix is not None and found.fix.applicability is Applicability.SUGGESTION
    assert [edit.text for edit in found.fix.edits] == ["module."]
    assert fixed(script(body), "DEV503", unsafe=True) == script(body)


@pytest.mark.parametrize(
    "body",
    [
        "net = nn.DataParallel(Net())\nreturn net.module.size, net.device_ids, net.training, net.eval()",
        "net = DDP(Net())\nwith net.no_sync():\n    return net.require_backward_grad_sync, net.module.size",
        "net = nn.DataParallel(Net())\nnet.size = 4\nreturn net.size",
        "net = nn.DataParallel(Net())\nreturn net.size if hasattr(net, 'size') else 0",
        "net = nn.DataParallel(Net())\ntry:\n    return net.size\nexcept AttributeError:\n    return 0",
        "net = Net()\nreturn net.size",
        "net = Net()\nif several:\n    net = nn.DataParallel(net)\nreturn net.size",
        "return given.size",
    ],
)
def test_what_is_there_or_asked_for_is_silent(body: str) -> None:
    assert rows(body) == []


def test_module_where_there_may_be_no_wrapper() -> None:
    wrap = "net = Net()\nif several:\n    net = nn.DataParallel(net)\n"
    assert rows(wrap + "return net.module.size") == [3]
    assert rows(wrap.replace("Net()", "nn.Linear(2, 2)") + "return net.module.weight") == [3]
    assert rows(wrap + "if given:\n    return net.module.size") == [4]
    for asked in ("several", "not several", "hasattr(net, 'module')", "isinstance(net, nn.DataParallel)"):
        assert rows(wrap + f"if {asked}:\n    return net.module.size") == []
    assert rows(wrap + "return net.module.size if several else net.size") == []
    assert rows(wrap.replace("Net()", "given") + "return net.module.size") == []
    assert rows(wrap + "else:\n    net = DDP(net)\nreturn net.module.size") == []


def test_a_model_that_has_a_module_of_its_own() -> None:
    text = script("net = Net()\nif several:\n    net = nn.DataParallel(net)\nreturn net.module")
    assert len(check(text, "DEV503")) == 1
    assert check(text.replace("self.out =", "self.module ="), "DEV503") == []


def test_the_names_that_wrappers_have_are_torchs() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        for wrapper in (nn.DataParallel(nn.Linear(1, 1)), nn.parallel.DistributedDataParallel(nn.Linear(1, 1))):
            has = {name for name in {*dir(wrapper), "module"} - set(dir(nn.Module())) if not name.startswith("_")}
            assert has <= set(OWN[type(wrapper).__name__].split())
    finally:
        dist.destroy_process_group()


def test_the_error_is_torchs() -> None:
    (found,) = findings(script("net = nn.DataParallel(Net())\nreturn net.size"), "DEV503")
    with pytest.raises(AttributeError) as caught:
        _ = nn.DataParallel(nn.Linear(1, 1)).size
    assert str(caught.value) in found.message
