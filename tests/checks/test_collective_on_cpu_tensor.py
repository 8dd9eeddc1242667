"""DEV505: tensors on the CPU in collectives of NCCL."""

from __future__ import annotations

import inspect

import pytest
import torch
import torch.distributed as dist
import torch.distributed.nn
from checks.helpers import check, findings, fixed

from devlint.checks.collective_on_cpu_tensor import COLLECTIVES
from devlint.finding import Applicability
from devlint.runtime import simulate

SCRIPT = """\
import torch
import torch.distributed as dist
from torch.distributed import all_reduce, init_process_group as start

def main(x, device, flag, local_rank):
    {start}
    {line}
"""


def script(line: str, start: str = 'dist.init_process_group("nccl")') -> str:
    return SCRIPT.format(line=line.replace("\n", "\n    "), start=start.replace("\n", "\n    "))


def rows(text: str) -> list[int]:
    return [row for row, _ in check(text, "DEV505")]


@pytest.mark.parametrize(
    "line, row",
    [
        ("t = torch.zeros(1)\ndist.all_reduce(t)", 8),
        ("t = torch.zeros(1)\nall_reduce(t, op=dist.ReduceOp.MAX)", 8),
        ("dist.broadcast(torch.tensor([local_rank]), src=0)", 7),
        ("t = torch.tensor(0.5)\ndist.reduce(tensor=t, dst=0)", 8),
        ("t = x.to(device).cpu()\ndist.all_reduce(t)", 8),
        ("parts = [torch.zeros(2) for _ in range(4)]\ndist.all_gather(parts, x)", 8),
        ("dist.all_gather([torch.zeros(2), torch.zeros(2)], x)", 7),
        ("t = torch.zeros(1)\ndist.all_reduce(t, group=None)", 8),
        ("t = torch.zeros(1)\ndist.all_reduce(t, group=dist.group.WORLD)", 8),
        ("send = dist.all_reduce\nsend(torch.ones(3))", 8),
        ("t = torch.zeros(1) if flag else torch.ones(1)\ndist.all_reduce(t)", 8),
        ("t = torch.ones(1, device='cpu')\ndist.all_reduce(t)", 8),
        ("work = dist.all_reduce(torch.ones(3), async_op=True)\nwork.wait()", 7),
        ("dist.send(torch.ones(3), 1)", 7),
    ],
)
def test_tensors_on_the_cpu_are_reported_at_the_collective(line: str, row: int) -> None:
    assert rows(script(line)) == [row]


@pytest.mark.parametrize(
    "line",
    [
        "dist.all_reduce(x)",
        "t = torch.zeros(1, device=device)\ndist.all_reduce(t)",
        "t = torch.zeros(1).cuda()\ndist.all_reduce(t)",
        "t = torch.zeros_like(x)\ndist.all_reduce(t)",
        "t = torch.zeros(1)\nif flag:\n    t = t.cuda()\ndist.all_reduce(t)",
        "t = torch.zeros(1)\ndist.all_reduce(t, group=flag)",
        "t = torch.zeros(1)\ndist.all_reduce(t, dist.ReduceOp.SUM, flag)",
        "t = torch.zeros(1)\ndist.all_reduce(t, **flag)",
        "t = torch.zeros(1)\ndist.all_reduce(*flag, t)",
        "t = torch.zeros(1)\nif dist.get_backend() == 'gloo':\n    dist.all_reduce(t)",
        "t = torch.zeros(1)\nif device.type == 'cpu':\n    dist.all_reduce(t)",
        "t = torch.zeros(1)\ntry:\n    dist.all_reduce(t)\nexcept RuntimeError:\n    pass",
        "with torch.device(device):\n    t = torch.zeros(1)\ndist.all_reduce(t)",
        "dist.all_gather_object([None], torch.zeros(1))",
        "x.all_reduce(torch.zeros(1))",
    ],
)
def test_what_is_right_or_unknown_is_silent(line: str) -> None:
    assert rows(script(line)) == []


@pytest.mark.parametrize(
    "start, found",
    [
        ('dist.init_process_group("nccl")', True),
        ('dist.init_process_group(backend="NCCL", rank=0)', True),
        ('start("nccl")', True),
        ('backend = "nccl"\ndist.init_process_group(backend)', True),
        ('dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")', True),
        ('if flag:\n    dist.init_process_group("nccl")\nelse:\n    dist.init_process_group("gloo")', True),
        ('dist.init_process_group("gloo")', False),
        ('dist.init_process_group("cpu:gloo,cuda:nccl")', False),
        ("dist.init_process_group()", False),
        ("dist.init_process_group(flag)", False),
        ("dist.init_process_group(**flag)", False),
        ('print("nccl")', False),
        ('dist.new_group(backend="nccl")', False),
    ],
)
def test_the_backend_must_be_shown(start: str, found: bool) -> None:
    text = script("dist.all_reduce(torch.zeros(1))", start)
    assert bool(rows(text)) is found


def test_the_group_of_another_function_counts_unless_one_of_gloo_stands_beside_it() -> None:
    text = script("pass") + "\n\ndef mean(n):\n    dist.all_reduce(torch.ones(n))\n"
    assert rows(text) == [11]
    assert rows(text + "\n\ndef on_cpu():\n    dist.init_process_group('gloo')\n") == []


@pytest.mark.parametrize(
    "line, wanted",
    [
        (
            "y = x.to(device)\nt = torch.zeros(1)\ndist.all_reduce(t)",
            "y = x.to(device)\nt = torch.zeros(1, device=device)\ndist.all_reduce(t)",
        ),
        (
            "net = torch.nn.Linear(2, 2).cuda(local_rank)\nt = torch.zeros(1)\ndist.all_reduce(t)",
            "net = torch.nn.Linear(2, 2).cuda(local_rank)\nt = torch.zeros(1, device=local_rank)\ndist.all_reduce(t)",
        ),
        (
            "dev = torch.device('cuda', local_rank)\ny = x.to(dev)\n"
            "parts = [torch.zeros(2, dtype=y.dtype) for _ in range(3)]\ndist.all_gather(parts, y)",
            "dev = torch.device('cuda', local_rank)\ny = x.to(dev)\n"
            "parts = [torch.zeros(2, dtype=y.dtype, device=dev) for _ in range(3)]\ndist.all_gather(parts, y)",
        ),
        ("y = x.to(device)\nt = torch.zeros(1)\nprint(t.numpy())\ndist.all_reduce(t)", None),
        ("y = x.to(device)\nt = y.cpu()\ndist.all_reduce(t)", None),
        ("y = x.to(device)\nt = torch.zeros(1, **flag)\ndist.all_reduce(t)", None),
        ("t = torch.zeros(1)\ndist.all_reduce(t)", None),
        ("y, z = x.to(device), x.to(local_rank)\nt = torch.zeros(1)\ndist.all_reduce(t)", None),
    ],
)
def test_it_is_made_where_the_function_computes_by_an_unsafe_fix(line: str, wanted: str | None) -> None:
    text = script(line)
    for found in findings(text, "DEV505"):
        assert (found.fix is None) == (wanted is None)
        assert found.fix is None or found.fix.applicability is Applicability.UNSAFE
    assert fixed(text, "DEV505") == text
    assert fixed(text, "DEV505", unsafe=True) == (text if wanted is None else script(wanted))


def test_beside_a_tensor_on_a_named_device_no_backend_need_be_shown() -> None:
    line = "n = [torch.tensor(0) for _ in range(2)]\ndist.all_gather(n, torch.tensor(3, device={}))"
    assert rows(script(line.format("x.device"), "pass")) == [8]
    assert rows(script(line.format("'cpu'"), "pass")) == []
    assert rows(script("n = [torch.tensor(0)]\ndist.all_gather(n, x)", "pass")) == []
    right = line.format("x.device").replace("torch.tensor(0)", "torch.tensor(0, device=x.device)")
    assert fixed(script(line.format("x.device"), "pass"), "DEV505", unsafe=True) == script(right, "pass")


def test_where_the_group_stands_is_as_torch_has_it() -> None:
    for name, position in COLLECTIVES.items():
        function = dist.nn if name.startswith("nn.") else dist
        parameters = list(inspect.signature(getattr(function, name.removeprefix("nn."))).parameters)
        assert parameters[position] == "group", name


def test_the_error_is_the_one_that_the_message_quotes() -> None:
    (found,) = findings(script("dist.all_reduce(torch.zeros(1))"), "DEV505")
    with simulate(devices=1):
        dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
        with pytest.raises(RuntimeError) as caught:
            dist.all_reduce(torch.zeros(1))
    assert str(caught.value) in found.message
