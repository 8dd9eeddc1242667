"""DEV504: which GPU a process of a distributed run takes."""

from __future__ import annotations

import re

import pytest
import torch
import torch.distributed as dist
from checks.helpers import check, findings, fixed

from devlint.finding import Applicability

HEAD = """\
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
"""
FIRST = HEAD.count("\n") + 2


def script(body: str) -> str:
    return HEAD + "def main(args, local_rank):\n    " + body.replace("\n", "\n    ") + "\n"


JOINED = "\ndef join():\n    dist.init_process_group('nccl')\n"


def rows(text: str) -> list[int]:
    """Rows of the findings, counted from the first line of `body`."""
    return [row - FIRST for row, _ in check(text, "DEV504")]


# --- the rank among all machines -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body, row",
    [
        ("torch.cuda.set_device(dist.get_rank())", 0),
        ("rank = int(os.environ['RANK'])\ntorch.cuda.set_device(rank)", 1),
        ("rank = int(os.environ.get('RANK', 0))\ntorch.cuda.set_device(device=rank)", 1),
        ("rank = int(os.getenv('RANK', '0'))\ntorch.accelerator.set_device_index(rank)", 1),
        ("rank = dist.get_rank() if dist.is_initialized() else 0\ntorch.cuda.set_device(rank)", 1),
        ("rank = 0\nif args:\n    rank = dist.get_rank()\ntorch.cuda.set_device(rank)", 3),
        ("rank, size = dist.get_rank(), dist.get_world_size()\ntorch.cuda.set_device(rank)", 1),
        ("args.rank = int(os.environ['SLURM_PROCID'])\ntorch.cuda.set_device(args.rank)", 1),
        ("rank = dist.get_rank()\ntorch.cuda.set_device(f'cuda:{rank}')", 1),
        ("rank = dist.get_rank()\ntorch.cuda.set_device('cuda:{}'.format(rank))", 1),
        ("rank = dist.get_rank()\ntorch.cuda.set_device('cuda:' + str(rank))", 1),
        ("device = torch.device('cuda', dist.get_rank())\ntorch.cuda.set_device(device)", 1),
        ("device = torch.device(f'cuda:{dist.get_rank()}')\nreturn device", 0),
        ("rank = dist.get_rank()\nnet = nn.Linear(2, 2).cuda(rank)\nreturn DDP(net, device_ids=[rank])", 1),
        ("rank = dist.get_rank()\nreturn nn.Linear(2, 2).to(rank)", 1),
        ("rank = dist.get_rank()\nreturn DDP(args, device_ids=[rank])", 1),
        # the current device first, where there is one
        ("rank = dist.get_rank()\ndevice = torch.device('cuda', rank)\ntorch.cuda.set_device(rank)", 2),
    ],
)
def test_the_rank_among_all_machines_is_no_number_of_a_gpu(body: str, row: int) -> None:
    (found,) = findings(script(body) + JOINED, "DEV504")
    assert found.start.row - FIRST == row
    assert found.fix is None and found.no_fix is not None and "LOCAL_RANK" in found.no_fix
    assert "invalid device ordinal" in found.message


def test_a_rank_says_nothing_of_machines_where_others_start_the_processes() -> None:
    body = "rank = dist.get_rank()\ndevice = torch.device('cuda', rank)\nreturn DDP(args.net, device_ids=[rank])"
    assert rows(script(body)) == []
    assert rows(script(body) + JOINED) == [1]
    assert rows(script(body) + JOINED.replace("'nccl'", "'nccl', rank=0, world_size=1")) == []
    assert rows(script("torch.cuda.set_device(dist.get_rank())")) == [0]


def test_it_is_followed_through_functions_of_the_file() -> None:
    setup = "\ndef setup(rank):\n    torch.cuda.set_device(rank)\n"
    assert rows(script("setup(dist.get_rank())") + setup) == [3]
    assert rows(script("setup(local_rank)") + setup) == []
    assert rows(script("setup(dist.get_rank())\nsetup(local_rank)") + setup) == []
    assert rows(script("setup(dist.get_rank())\nargs.start(setup)") + setup) == []
    given = "\ndef ranks():\n    return dist.get_rank(), dist.get_world_size()\n"
    assert rows(script("rank, size = ranks()\ntorch.cuda.set_device(rank)") + given) == [1]
    assert rows(script("rank, size = ranks()\ntorch.cuda.set_device(size)") + given) == []


@pytest.mark.parametrize(
    "body",
    [
        "torch.cuda.set_device(local_rank)",
        "torch.cuda.set_device(int(os.environ['LOCAL_RANK']))",
        "torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())",
        "torch.cuda.set_device(dist.get_rank(args.node_group))",
        "torch.cuda.set_device(dist.get_node_local_rank())",
        "rank = dist.get_rank()\nif args:\n    rank = local_rank\ntorch.cuda.set_device(rank)",
        "rank = dist.get_rank()\nrank -= args.first\ntorch.cuda.set_device(rank)",
        "torch.cuda.set_device(args.rank)",
        "torch.cuda.set_device(0)",
        "rank = dist.get_rank()\nprint(rank)",
        "os.environ['MASTER_ADDR'] = 'localhost'\ntorch.cuda.set_device(dist.get_rank())",
        "dist.init_process_group('nccl', init_method='tcp://127.0.0.1:1')\ntorch.cuda.set_device(dist.get_rank())",
        "torch.multiprocessing.spawn(main, nprocs=2)\ntorch.cuda.set_device(dist.get_rank())",
    ],
)
def test_local_ranks_and_runs_on_one_machine_are_silent(body: str) -> None:
    assert rows(script(body)) == []


@pytest.mark.parametrize(
    "line",
    [
        "import deepspeed",
        "from accelerate import Accelerator",
        "import pytorch_lightning as pl",
        "from lightning.fabric import Fabric",
        "from transformers import Trainer",
        "import horovod.torch as hvd",
    ],
)
def test_libraries_that_set_up_the_processes_are_silent(line: str) -> None:
    assert rows(f"{line}\n" + script("torch.cuda.set_device(dist.get_rank())")) == []
    assert rows(f"{line}\n" + script("return DDP(nn.Linear(2, 2), device_ids=[local_rank])")) == []


# --- what is wrapped --------------------------------------------------------------------------------------------------

START = "dist.init_process_group('nccl')\n"


@pytest.mark.parametrize(
    "body, wanted",
    [
        (
            "net = nn.Linear(2, 2)\nreturn DDP(net, device_ids=[local_rank])",
            "net = nn.Linear(2, 2)\nreturn DDP(net.to(local_rank), device_ids=[local_rank])",
        ),
        (
            "return DDP(nn.Linear(2, 2), [args.gpu])",
            "return DDP(nn.Linear(2, 2).to(args.gpu), [args.gpu])",
        ),
        (
            "return DDP(nn.Linear(2, 2), device_ids=[int(os.environ['LOCAL_RANK'])])",
            None,
        ),
    ],
)
def test_a_model_on_the_cpu_with_device_ids(body: str, wanted: str | None) -> None:
    text = script(body)
    (found,) = findings(text, "DEV504")
    assert fixed(text, "DEV504") == text
    assert (found.fix is not None and found.fix.applicability is Applicability.UNSAFE) == (wanted is not None)
    assert fixed(text, "DEV504", unsafe=True) == (script(wanted) if wanted else text)


def test_a_model_of_an_object_may_be_moved_by_its_methods() -> None:
    text = (
        HEAD
        + """\

class Trainer(Base):
    def __init__(self, gpu):
        self.net = nn.Linear(2, 2)
        {}
        self.net = DDP(self.net, device_ids=[gpu])

    def place(self):
        {}
"""
    )
    assert len(check(text.format("print(gpu)", "pass"), "DEV504")) == 1
    assert check(text.format("self.place()", "pass"), "DEV504") == []
    assert check(text.format("print(gpu)", "self.net.cuda()"), "DEV504") == []


def test_several_device_ids_are_those_of_data_parallel() -> None:
    assert rows(script("return DDP(args.model, device_ids=[0, 1])")) == [0]


@pytest.mark.parametrize(
    "body",
    [
        START + "net = nn.Linear(2, 2).cuda()\nreturn DDP(net, device_ids=[local_rank])",
        START + "net = nn.Linear(2, 2)\nnet.to('cuda')\nreturn DDP(net, device_ids=[local_rank])",
        START + "net = nn.Linear(2, 2).to('cuda:0')\nreturn DDP(net, device_ids=[local_rank])",
        START + "net = nn.Linear(2, 2).cuda()\nreturn DDP(net)",
        "dist.init_process_group(args.backend)\nnet = nn.Linear(2, 2).cuda()\nreturn DDP(net)",
    ],
)
def test_every_process_on_the_first_gpu(body: str) -> None:
    assert rows(script(body)) == [body.count("\n")]


@pytest.mark.parametrize(
    "body",
    [
        START
        + "torch.cuda.set_device(local_rank)\nnet = nn.Linear(2, 2).cuda()\nreturn DDP(net, device_ids=[local_rank])",
        START + "with torch.cuda.device(local_rank):\n    return DDP(nn.Linear(2, 2).cuda())",
        START + "os.environ['CUDA_VISIBLE_DEVICES'] = str(local_rank)\nreturn DDP(nn.Linear(2, 2).cuda())",
        START + "print(os.environ['SLURM_PROCID'])\nreturn DDP(nn.Linear(2, 2).cuda())",
        START + "net = nn.Linear(2, 2).cuda(local_rank)\nreturn DDP(net, device_ids=[local_rank])",
        START + "net = nn.Linear(2, 2)\nnet.cuda(local_rank)\nreturn DDP(net, device_ids=[local_rank])",
        START + "net = nn.Linear(2, 2).to(local_rank)\nnet = nn.SyncBatchNorm.convert_sync_batchnorm(net)\n"
        "return DDP(net, device_ids=[local_rank])",
        START + "return DDP(args.net, device_ids=[local_rank])",
        START + "return DDP(nn.Linear(2, 2).cuda(), device_ids=[0])",
        START + "return DDP(nn.Linear(2, 2).cuda(), **args)",
        "dist.init_process_group('nccl', device_id=local_rank)\nreturn DDP(nn.Linear(2, 2).cuda())",
        "dist.init_process_group('gloo')\nreturn DDP(nn.Linear(2, 2).cuda())",
        "net = nn.Linear(2, 2).cuda()\nreturn DDP(net, device_ids=[local_rank])",
        "return DDP(nn.Linear(2, 2))",
        "return DDP(nn.Linear(2, 2), device_ids=None)",
        "return DDP(nn.Linear(2, 2), device_ids=[])",
        "return DDP(nn.Linear(2, 2), device_ids=[local_rank] if args.cuda else None)",
    ],
)
def test_what_is_right_or_set_up_elsewhere_is_silent(body: str) -> None:
    assert rows(script(body)) == []


def test_a_helper_of_another_module_may_choose_the_gpu() -> None:
    body = START + "{}\nnet = nn.Linear(2, 2).cuda()\nreturn DDP(net, device_ids=[local_rank])"
    assert rows("from utils import bind_gpu, seed\n" + script(body.format("seed(1)"))) == [4]
    assert rows("from utils import bind_gpu, seed\n" + script(body.format("bind_gpu(local_rank)"))) == []


@pytest.mark.parametrize(
    "body, wanted",
    [
        (
            START
            + "net = nn.Linear(2, 2)\nloss = nn.MSELoss().cuda()\nnet.cuda()\nreturn DDP(net, device_ids=[local_rank])",
            START + "net = nn.Linear(2, 2)\ntorch.cuda.set_device(local_rank)\nloss = nn.MSELoss().cuda()\nnet.cuda()\n"
            "return DDP(net, device_ids=[local_rank])",
        ),
        (
            START + "if args.cuda:\n    args.net.cuda()\nnet = nn.Linear(2, 2).cuda()\n"
            "return DDP(net, device_ids=[args.gpu])",
            START
            + "torch.cuda.set_device(args.gpu)\nif args.cuda:\n    args.net.cuda()\nnet = nn.Linear(2, 2).cuda()\n"
            "return DDP(net, device_ids=[args.gpu])",
        ),
        (
            START + "net = nn.Linear(2, 2).cuda()\ngpu = local_rank\nreturn DDP(net, device_ids=[gpu])",
            None,
        ),
        (START + "net = nn.Linear(2, 2).cuda()\nreturn DDP(net)", None),
        ("pass; net = nn.Linear(2, 2).cuda(); " + START + "return DDP(net, device_ids=[local_rank])", None),
    ],
)
def test_the_gpu_is_chosen_before_the_first_use(body: str, wanted: str | None) -> None:
    text = script(body)
    assert len(findings(text, "DEV504")) == 1
    assert fixed(text, "DEV504") == text
    assert fixed(text, "DEV504", unsafe=True) == (script(wanted) if wanted else text)


def test_the_errors_are_torchs() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        for ids in ("[local_rank]", "[local_rank, 1]"):
            with pytest.raises(ValueError) as caught:
                torch.nn.parallel.DistributedDataParallel(
                    torch.nn.Linear(2, 2), device_ids=eval(ids, {"local_rank": 0})
                )
            (found,) = findings(script(f"return DDP(nn.Linear(2, 2), device_ids={ids})"), "DEV504")
            (quoted,) = re.findall('"(.+)"', found.message)
            assert str(caught.value).startswith(quoted)
    finally:
        dist.destroy_process_group()
