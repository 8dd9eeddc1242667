"""DEV506: whether the processes of a distributed run share out the samples."""

from __future__ import annotations

import pytest
from checks.helpers import check, findings, fixed

from devlint.finding import Applicability

SCRIPT = """\
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler as Own
from torch.utils import data

def main(model, dataset, optimizer, args, rank):
    dist.init_process_group("nccl")
    model = DDP(model)
{body}
"""
FIRST = 10
LOOP = """
for epoch in range(args.epochs):
    for x, y in loader:
        model(x, y).backward()
        optimizer.step()"""


def script(body: str, sampler: bool = False) -> str:
    text = SCRIPT if sampler else SCRIPT.replace(", DistributedSampler as Own", "")
    return text.format(body="\n".join(f"    {line}" for line in body.strip("\n").split("\n")))


def rows(text: str) -> list[int]:
    """Rows of the findings, counted from the first line of `body`."""
    return [row - FIRST for row, _ in check(text, "DEV506")]


# --- no sampler -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body, wanted",
    [
        (
            "loader = DataLoader(dataset, batch_size=8, shuffle=True)" + LOOP,
            "loader = DataLoader(dataset, batch_size=8, sampler=torch.utils.data.DistributedSampler(dataset))"
            + LOOP.replace("    for x", "    loader.sampler.set_epoch(epoch)\n    for x"),
        ),
        (
            "loader = data.DataLoader(args.data, shuffle=True, drop_last=True)" + LOOP,
            "loader = data.DataLoader(args.data, sampler=data.DistributedSampler(args.data), drop_last=True)"
            + LOOP.replace("    for x", "    loader.sampler.set_epoch(epoch)\n    for x"),
        ),
        (
            "loader = DataLoader(dataset, shuffle=True, sampler=None)" + LOOP,
            None,
        ),
        (
            "loader = DataLoader(dataset, shuffle=True)" + LOOP.replace("epoch in", "_ in"),
            "loader = DataLoader(dataset, sampler=torch.utils.data.DistributedSampler(dataset))"
            + LOOP.replace("    for x", "    loader.sampler.set_epoch(epoch)\n    for x"),
        ),
        ("loader = DataLoader(make(args), shuffle=True)" + LOOP, None),
        ("loader = DataLoader(dataset, 8, True)" + LOOP, None),
        (
            "loader = DataLoader(dataset, shuffle=True)"
            + LOOP.replace("for epoch in range(args.epochs)", "while True"),
            None,
        ),
        ("loader = DataLoader(dataset, shuffle=True)\nfor x, y in loader:\n    model(x, y).backward()", None),
    ],
)
def test_a_training_loader_that_shuffles_everything(body: str, wanted: str | None) -> None:
    text = script(body)
    (found,) = findings(text, "DEV506")
    assert found.start.row == FIRST
    assert (found.fix is None) == (found.no_fix is not None)
    assert fixed(text, "DEV506") == text
    if wanted is None:
        assert fixed(text, "DEV506", unsafe=True) == text
    else:
        assert found.fix is not None and found.fix.applicability is Applicability.UNSAFE
        right = script(wanted)
        assert fixed(text, "DEV506", unsafe=True) == right
        assert check(right, "DEV506") == []


def test_the_loop_may_stand_in_a_function_that_is_called() -> None:
    call = "loader = DataLoader(dataset, shuffle=True)\nfor epoch in range(9):\n    train(model, loader)"
    train = "\ndef train(model, batches):\n    for x, y in batches:\n        step(model, x, y)\n"
    step = "\ndef step(model, x, y):\n    model(x, y).backward()\n"
    assert rows(script(call) + train + step) == [0]
    assert rows(script(call) + train) == []


@pytest.mark.parametrize(
    "body",
    [
        "loader = DataLoader(dataset, shuffle=False)" + LOOP,
        "loader = DataLoader(dataset)" + LOOP,
        "loader = DataLoader(dataset, shuffle=args.shuffle)" + LOOP,
        "loader = DataLoader(dataset, shuffle=True, **args)" + LOOP,
        "loader = DataLoader(dataset, batch_sampler=args.batches, shuffle=True)" + LOOP,
        "val_loader = DataLoader(dataset, shuffle=True)" + LOOP.replace("loader", "val_loader"),
        "loader = DataLoader(dataset, shuffle=True)\nfor x, y in loader:\n    print(model(x, y))",
        "if not args.distributed:\n    loader = DataLoader(dataset, shuffle=True)" + LOOP,
        "loader = DataLoader(dataset[rank::dist.get_world_size()], shuffle=True)" + LOOP,
        "part = split(dataset, rank)\nloader = DataLoader(part, shuffle=True)" + LOOP,
        "dataset = Own(args, rank=rank)\nloader = DataLoader(dataset, shuffle=True)" + LOOP,
        "args.shards = split_dataset_by_node(dataset)\nloader = DataLoader(dataset, shuffle=True)" + LOOP,
    ],
)
def test_what_does_not_shuffle_or_may_be_a_part_is_silent(body: str) -> None:
    assert rows(script(body)) == []


@pytest.mark.parametrize(
    "line",
    [
        "import lightning as L",
        "import accelerate",
        "import deepspeed",
        "from transformers import Trainer, AutoModel",
        "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP",
    ],
)
def test_libraries_that_share_out_the_samples_are_silent(line: str) -> None:
    text = script("loader = DataLoader(dataset, shuffle=True)" + LOOP)
    assert rows(text) == [0]
    assert rows(f"{line}\n{text}") == []


def test_a_group_of_one_process_shares_nothing_out() -> None:
    text = script("loader = DataLoader(dataset, batch_size=8, shuffle=True)" + LOOP)
    assert rows(text) == [0]
    assert rows(text.replace('("nccl")', '("nccl", rank=0, world_size=1)')) == []


def test_without_ddp_or_in_another_function_nothing_is_said() -> None:
    text = script("loader = DataLoader(dataset, shuffle=True)" + LOOP)
    assert rows(text.replace("    model = DDP(model)\n", "")) == []
    assert rows(text.replace("    model = DDP(model)\n", "") + "\ndef wrap(model):\n    return DDP(model)\n") == []


@pytest.mark.parametrize(
    "old, new",
    [
        ("    model = DDP(model)\n", "    if args.distributed:\n        model = DDP(model)\n"),
    ],
)
def test_where_the_run_may_be_of_one_process_there_is_no_fix(old: str, new: str) -> None:
    text = script("loader = DataLoader(dataset, shuffle=True)" + LOOP)
    text = text.replace('    dist.init_process_group("nccl")\n', "").replace(old, new)
    (found,) = findings(text, "DEV506")
    assert found.fix is None and found.no_fix is not None


# --- the same order ---------------------------------------------------------------------------------------------------

SAMPLED = "sampler = Own(dataset)\nloader = DataLoader(dataset, sampler=sampler)"


@pytest.mark.parametrize(
    "body, wanted",
    [
        (SAMPLED + LOOP, "    sampler.set_epoch(epoch)\n"),
        (SAMPLED.replace("(dataset)", "(dataset, num_replicas=2, rank=rank)") + LOOP, "    sampler.set_epoch(epoch)\n"),
        ("loader = DataLoader(dataset, sampler=Own(dataset))" + LOOP, "    loader.sampler.set_epoch(epoch)\n"),
        (SAMPLED + LOOP.replace("in loader", "in enumerate(loader)"), "    sampler.set_epoch(epoch)\n"),
        (SAMPLED.replace("Own(dataset)", "Own(dataset) if args else None") + LOOP, None),
        (SAMPLED + LOOP.replace("range(args.epochs)", "args.epochs"), None),
        (SAMPLED + LOOP.replace("for epoch in range(args.epochs)", "while args.more"), None),
    ],
)
def test_a_sampler_that_is_never_told_the_epoch(body: str, wanted: str | None) -> None:
    text = script(body, sampler=True)
    (found,) = findings(text, "DEV506")
    assert found.start.row == FIRST and "set_epoch" in found.message
    assert (found.fix is None) == (wanted is None)
    assert fixed(text, "DEV506") == text
    right = (
        text
        if wanted is None
        else script(body.replace("    for x", wanted + "    for x").replace("    for i", wanted + "    for i"), True)
    )
    assert fixed(text, "DEV506", unsafe=True) == right


@pytest.mark.parametrize(
    "body",
    [
        SAMPLED + LOOP.replace("    for x", "    sampler.set_epoch(epoch)\n    for x"),
        SAMPLED + LOOP.replace("    for x", "    loader.sampler.set_epoch(epoch)\n    for x"),
        SAMPLED.replace("(dataset)", "(dataset, shuffle=False)", 1) + LOOP,
        SAMPLED.replace("(dataset)", "(dataset, shuffle=args.shuffle)", 1) + LOOP,
        SAMPLED + "\nfor x, y in loader:\n    model(x, y).backward()",
        SAMPLED + "\nfor epoch in range(2):\n    for x, y in loader:\n        print(model(x, y))",
        SAMPLED + "\nreturn loader",
        "sampler = Own(dataset)\nloader = DataLoader(dataset, sampler=args)" + LOOP,
    ],
)
def test_samplers_that_are_told_or_need_not_be_are_silent(body: str) -> None:
    assert rows(script(body, sampler=True)) == []


def test_in_a_class_the_loops_are_those_of_its_methods() -> None:
    text = """\
from torch.utils.data import DataLoader, DistributedSampler


class Trainer:
    def __init__(self, dataset):
        self.loader = DataLoader(dataset, sampler=DistributedSampler(dataset))

    def epoch(self):
        for x in self.loader:
            self.model(x).backward()

    def fit(self, epochs):
        for epoch in range(epochs):
            self.epoch()
"""
    (found,) = findings(text, "DEV506")
    assert found.start.row == 6 and found.fix is None
    assert check(text.replace("            self.epoch()\n", "            pass\n"), "DEV506") == []


def test_a_loader_may_come_from_a_function_of_the_file() -> None:
    body = "loader, held_out = loaders(dataset)" + LOOP
    make = "\ndef loaders(dataset):\n{}    return loader, dataset\n"
    shuffled = make.format("    loader = DataLoader(dataset, shuffle=True)\n")
    (found,) = findings(script(body) + shuffled, "DEV506")
    assert found.fix is None
    sampled = make.format("    sampler = Own(dataset)\n    loader = DataLoader(dataset, sampler=sampler)\n")
    (found,) = findings(script(body, True) + sampled, "DEV506")
    assert found.fix is None and "set_epoch" in found.message
    assert rows(script(body.replace("loader, held_out", "held_out, loader")) + shuffled) == []
    assert rows(script(body.replace("loaders(", "given.loaders(")) + shuffled) == []
