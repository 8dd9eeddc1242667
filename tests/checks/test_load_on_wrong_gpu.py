"""DEV303: loads that put a checkpoint onto one GPU in every process."""

from __future__ import annotations

import pytest
from checks.helpers import check, fixed

CODE = "DEV303"
HEAD = """\
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
"""
WORKER = """\
def worker(rank, path):
    {setup}
    net = nn.Linear(2, 2)
    {load}
    return net
"""


def rows(text: str, *codes: str) -> list[tuple[int, str]]:
    first = HEAD.count("\n")
    return [(row - first, code) for row, code in check(HEAD + text, *(codes or (CODE,)))]


def program(setup: str, load: str) -> str:
    return WORKER.format(setup=setup, load=load.replace("\n", "\n    "))


SETUPS = [
    pytest.param("dist.init_process_group('nccl', rank=rank)", id="init_process_group"),
    pytest.param("torch.distributed.init_process_group(backend='nccl')", id="full name"),
    pytest.param("other = DDP(nn.Linear(2, 2).cuda(rank), device_ids=[rank])", id="wrapper"),
    pytest.param("rank = int(os.environ['LOCAL_RANK'])", id="environment"),
]


@pytest.mark.parametrize("setup", SETUPS)
def test_what_shows_a_process_of_many(setup: str) -> None:
    text = program(setup, "net.load_state_dict(torch.load(path))")
    assert rows(text) == [(4, CODE)]
    assert 'torch.load(path, map_location="cpu")' in fixed(HEAD + text, CODE)


LOADS = [
    pytest.param("torch.load(path)", 'torch.load(path, map_location="cpu")', id="nothing said"),
    pytest.param("torch.load(path, map_location=None)", 'torch.load(path, map_location="cpu")', id="None"),
    pytest.param("torch.load(path, map_location='cuda:0')", 'torch.load(path, map_location="cpu")', id="GPU 0"),
    pytest.param("torch.load(path, 'cuda:1')", 'torch.load(path, "cpu")', id="GPU 1 by position"),
    pytest.param(
        "torch.load(path, map_location=torch.device('cuda:0'))", 'torch.load(path, map_location="cpu")', id="device"
    ),
    pytest.param(
        "torch.load(path, map_location=lambda s, l: s.cuda(0))", 'torch.load(path, map_location="cpu")', id="function"
    ),
]


@pytest.mark.parametrize(("load", "wanted"), LOADS)
def test_one_gpu_for_all(load: str, wanted: str) -> None:
    text = program("dist.init_process_group('nccl')", f"net.load_state_dict({load})")
    assert rows(text) == [(4, CODE)]
    after = fixed(HEAD + text, CODE)
    assert wanted in after
    assert check(after, CODE, "DEV301") == []


RIGHT = [
    "torch.load(path, map_location='cpu')",
    "torch.load(path, map_location=f'cuda:{rank}')",
    "torch.load(path, map_location=torch.device('cuda', rank))",
    "torch.load(path, map_location={'cuda:0': f'cuda:{rank}'})",
    "torch.load(path, map_location=lambda s, l: s)",
    "torch.load(path, map_location=lambda s, l: s.cuda(rank))",
    "torch.load(path, map_location=where)",
    "torch.load(path, **kw)",
]


@pytest.mark.parametrize("load", RIGHT)
def test_own_place_is_right(load: str) -> None:
    assert rows(program("dist.init_process_group('nccl')", f"net.load_state_dict({load})")) == []


def test_cuda_is_the_current_device_after_set_device() -> None:
    load = "net.load_state_dict(torch.load(path, map_location='cuda'))"
    assert rows(program("dist.init_process_group('nccl')\n    torch.cuda.set_device(rank)", load)) == []
    assert rows(program("dist.init_process_group('nccl')", load)) == [(4, CODE)]


ONE_LOADS = [
    "if rank == 0:\n    net.load_state_dict(torch.load(path, map_location='cuda:0'))",
    "if is_main_process():\n    net.load_state_dict(torch.load(path, 'cuda:0'))",
    "if rank != 0:\n    return\nnet.load_state_dict(torch.load(path, 'cuda:0'))",
    "net.load_state_dict(torch.load(f'{path}_{rank}.pt'))",
    "own = path + '_rank_' + str(args.local_rank)\nnet.load_state_dict(torch.load(own))",
    "if args.gpu is None:\n    net.load_state_dict(torch.load(path))",
    "if args.gpu is not None:\n    pass\nelse:\n    net.load_state_dict(torch.load(path))",
    "net.load_state_dict(torch.load(path) if args.gpu is None else torch.load(path, map_location=where))",
    "net.load_state_dict(torch.load(path, 'cuda:0'))\nfor p in net.parameters():\n    dist.broadcast(p.data, 0)",
]


@pytest.mark.parametrize("load", ONE_LOADS)
def test_one_process_loads(load: str) -> None:
    assert rows(program("dist.init_process_group('nccl')", load)) == []


def test_a_process_that_has_a_gpu_of_its_own_loads_for_itself() -> None:
    load = "if args.gpu is not None:\n    net.load_state_dict(torch.load(path))"
    assert rows(program("dist.init_process_group('nccl')", load)) == [(5, CODE)]


@pytest.mark.parametrize(
    "setup",
    [
        pytest.param("pass", id="one process"),
        pytest.param("dist.init_process_group('nccl', rank=0, world_size=1)", id="a group of one"),
        pytest.param("dist.init_process_group('gloo', rank=rank)", id="processes on the CPU"),
        pytest.param("assert isinstance(path, DDP) or dist.is_initialized()", id="asked only"),
    ],
)
def test_no_process_of_many(setup: str) -> None:
    assert rows(program(setup, "net.load_state_dict(torch.load(path, 'cuda:0'))")) == []


def test_through_a_caller_and_a_class() -> None:
    text = """\
def resume(net, path):
    net.load_state_dict(torch.load(path), strict=True)


def main(path):
    dist.init_process_group("nccl")
    resume(nn.Linear(2, 2), path)


class Trainer:
    def __init__(self, rank):
        self.net = DDP(nn.Linear(2, 2).cuda(rank), device_ids=[rank])

    def resume(self, path):
        self.net.module.load_state_dict(torch.load(path)["net"])
"""
    assert rows(text) == [(2, CODE), (15, CODE)]


def test_used_as_it_is_means_the_device_of_the_process() -> None:
    text = program(
        "dist.init_process_group('nccl')\n    device = torch.device('cuda', rank)",
        "net.to(device)\nmean = torch.load(path)\nprint(net(mean.unsqueeze(0)))",
    )
    assert "mean = torch.load(path, map_location=device)" in fixed(HEAD + text, CODE, unsafe=True)
    assert fixed(HEAD + text, CODE) == HEAD + text


def test_speaks_before_the_general_rule() -> None:
    text = program("dist.init_process_group('nccl')", "net.load_state_dict(torch.load(path))")
    assert rows(text, "DEV301", CODE) == [(4, CODE)]
    assert rows(text, "DEV301") == [(4, "DEV301")]


def test_what_holds_no_tensors() -> None:
    text = program("dist.init_process_group('nccl')", "scheduler.load_state_dict(torch.load(path))")
    assert rows(text) == []
