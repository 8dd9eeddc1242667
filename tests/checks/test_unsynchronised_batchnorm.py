"""DEV507: BatchNorm in models for DistributedDataParallel."""

from __future__ import annotations

import pytest
from checks.helpers import check, findings, fixed

from devlint.finding import Applicability

SCRIPT = """\
import torch
import torchvision
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

class Block(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(*[Block(4) for _ in range(3)])

def build():
    net = Net()
    return net

def main(given, local_rank):
    {body}
"""
FIRST = SCRIPT.count("\n")


def script(body: str) -> str:
    return SCRIPT.format(body=body.replace("\n", "\n    "))


@pytest.mark.parametrize(
    "model",
    [
        "nn.BatchNorm2d(3)",
        "nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))",
        "nn.Sequential(nn.Linear(2, 2), nn.LazyBatchNorm1d()).cuda(local_rank)",
        "Block(3)",
        "Net()",
        "build()",
        "torchvision.models.resnet50(weights=None)",
        "torchvision.models.vgg16_bn()",
    ],
)
def test_models_that_show_a_batchnorm(model: str) -> None:
    text = script(f"net = {model}\nnet = net.to(local_rank)\nreturn DDP(net, device_ids=[local_rank])")
    (found,) = findings(text, "DEV507")
    assert found.start.row - FIRST == 2
    assert found.fix is not None and found.fix.applicability is Applicability.SUGGESTION
    assert [edit.text for edit in found.fix.edits] == ["nn.SyncBatchNorm.convert_sync_batchnorm(", ")"]
    assert fixed(text, "DEV507", unsafe=True) == text


@pytest.mark.parametrize(
    "body",
    [
        "return DDP(given)",
        "return DDP(nn.Linear(2, 2))",
        "return DDP(nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2)))",
        "return DDP(torchvision.models.vit_b_16())",
        "return DDP(torchvision.models.vgg16())",
        "return DDP(torchvision.models.resnet18(norm_layer=given))",
        "return nn.DataParallel(Net())",
        "net = nn.SyncBatchNorm.convert_sync_batchnorm(Net())\nreturn DDP(net)",
        "torch.distributed.init_process_group('gloo')\nreturn DDP(Net())",
        "net = Net()\ngiven.freeze_bn(net)\nreturn DDP(net)",
        "net = Net()\nif given:\n    net.requires_grad_(False)\nreturn DDP(net)",
    ],
)
def test_others_are_silent(body: str) -> None:
    assert check(script(body), "DEV507") == []


def test_libraries_that_convert_are_silent() -> None:
    text = script("return DDP(Net())")
    assert len(check(text, "DEV507")) == 1
    assert check("import lightning\n" + text, "DEV507") == []
