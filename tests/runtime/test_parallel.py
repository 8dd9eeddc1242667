"""Several devices and several processes: DataParallel, DistributedDataParallel, collectives, threads, workers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from runtime.case_drivers import one_process
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from devlint.runtime import simulate

X = torch.arange(24.0).view(6, 4) / 24


@pytest.fixture(autouse=True)
def machine() -> Iterator[None]:
    with simulate(devices=2):
        yield


class Spy(nn.Module):
    """Notes where it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 2)
        self.seen: list[tuple[str, str, int]] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append((str(x.device), str(self.inner.weight.device), torch.cuda.current_device()))
        return self.inner(x)


def test_data_parallel_scatters_replicates_and_gathers() -> None:
    net = Spy().cuda()
    out = nn.DataParallel(net)(X)
    assert sorted(net.seen) == [("cuda:0", "cuda:0", 0), ("cuda:1", "cuda:1", 1)]
    assert str(out.device) == "cuda:0"
    torch.testing.assert_close(out, net.inner(X.cuda()))
    out.sum().backward()
    assert str(net.inner.weight.grad.device) == "cuda:0"  # type: ignore[union-attr]
    torch.testing.assert_close(net.inner.weight.grad, X.sum(0).expand(2, 4).cuda())


def test_gradients_pass_from_one_wrapped_model_into_another() -> None:
    """The backward of the second scatter gathers gradients, which the engine hands on."""
    first, second = nn.Linear(4, 2).cuda(), nn.Linear(2, 1).cuda()
    nn.DataParallel(second)(nn.DataParallel(first)(X)).sum().backward()
    assert str(first.weight.grad.device) == "cuda:0"  # type: ignore[union-attr]
    torch.testing.assert_close(first.weight.grad, second.weight.detach().t() @ X.sum(0, keepdim=True).cuda())


def test_data_parallel_scatters_an_input_from_the_other_device() -> None:
    assert str(nn.DataParallel(nn.Linear(4, 2).cuda())(X.to("cuda:1")).device) == "cuda:0"


def test_data_parallel_output_device() -> None:
    assert str(nn.DataParallel(nn.Linear(4, 2).cuda(), output_device=1)(X).device) == "cuda:1"


@pytest.mark.parametrize("place", ["cpu", "cuda:1"])
def test_data_parallel_wants_its_module_on_the_first_device(place: str) -> None:
    """torch/nn/parallel/data_parallel.py, forward."""
    text = (
        "module must have its parameters and buffers on device cuda:0 (device_ids[0]) but found one of them on "
        f"device: {place}"
    )
    with pytest.raises(RuntimeError, match=re.escape(text)):
        nn.DataParallel(nn.Linear(4, 2).to(place))(X)


def test_a_fixed_index_in_a_replica_fails_on_the_other_device() -> None:
    class Fixed(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.ones(4, device="cuda:0")

    with pytest.raises(RuntimeError, match="Caught RuntimeError in replica 1 on device 1"):
        nn.DataParallel(Fixed())(X)


def test_bare_cuda_in_a_replica_is_its_own_device() -> None:
    """torch/nn/parallel/parallel_apply.py sets the current device for each replica."""

    class Bare(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.ones(4).cuda()

    torch.testing.assert_close(nn.DataParallel(Bare())(X), (X + 1).cuda())


def test_nccl_takes_device_tensors_only() -> None:
    with one_process():
        dist.init_process_group("nccl")
        assert dist.get_backend() == "nccl"
        value = torch.tensor([3.0], device="cuda")
        dist.all_reduce(value)
        assert value.item() == 3.0
        with pytest.raises(RuntimeError, match="No backend type associated with device type cpu"):
            dist.all_reduce(torch.tensor([3.0]))
        objects: list[Any] = [None]
        dist.all_gather_object(objects, {"rank": 0})
        assert objects == [{"rank": 0}]
        group = dist.new_group(backend="gloo")
        dist.all_reduce(torch.tensor([3.0]), group=group)


def test_a_backend_for_each_device_takes_both() -> None:
    """doc/distributed.html, init_process_group: without a name gloo and nccl are made, for CPU and CUDA tensors."""
    for backend in (None, "cpu:gloo,cuda:nccl"):
        with one_process():
            dist.init_process_group(backend)
            for place in ("cpu", "cuda"):
                value = torch.tensor([3.0], device=place)
                dist.all_reduce(value)
                assert value.item() == 3.0


def test_distributed_data_parallel_with_one_process() -> None:
    with one_process():
        dist.init_process_group("nccl")
        torch.cuda.set_device(1)
        model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2).cuda(), device_ids=[1])
        model(X).sum().backward()
        assert str(model.module.weight.grad.device) == "cuda:1"


def test_distributed_data_parallel_on_the_wrong_device() -> None:
    """The wrapper moves the input to device_ids[0]; the module was left on another device."""
    with one_process():
        dist.init_process_group("nccl")
        model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2).to("cuda:0"), device_ids=[1])
        with pytest.raises(RuntimeError, match="wrapper_CUDA_addmm"):
            model(X)


def test_a_process_group_does_not_outlive_the_machine() -> None:
    with one_process():
        with simulate(devices=1):
            dist.init_process_group("nccl")
        assert not dist.is_initialized()


def test_two_processes_under_torchrun(tmp_path: Path) -> None:
    script = Path(__file__).with_name("torchrun_ddp.py")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    done = subprocess.run(
        [*launcher, str(script), str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1))
    assert (first["place"], second["place"]) == ("cuda:0", "cuda:1")
    assert first["total"] == second["total"] == 3.0
    torch.testing.assert_close(first["weight"], second["weight"])
    torch.testing.assert_close(first["weight"], _plain_training(), rtol=0, atol=1e-6)


def _plain_training() -> torch.Tensor:
    """What the two processes compute together, in one: the mean of the two halves' gradients."""
    torch.manual_seed(0)
    net = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    batch = torch.arange(12.0).view(4, 3) / 12
    for _ in range(3):
        optimizer.zero_grad()
        (sum(net(batch[rank::2]).pow(2).mean() for rank in range(2)) / 2).backward()  # type: ignore[union-attr]
        optimizer.step()
    return net.weight.detach()


def test_threads_that_start_inside_are_inside() -> None:
    def where(device: str | None = None) -> tuple[str, int]:
        return str(torch.ones(1, device=device or "cuda").device), torch.cuda.current_device()

    torch.cuda.set_device(1)
    with ThreadPoolExecutor(2) as pool:
        assert pool.submit(where).result() == ("cuda:0", 0)  # a new thread starts at device 0, as in CUDA
    assert where() == ("cuda:1", 1)


def test_a_thread_that_outlives_the_machine_is_outside_again() -> None:
    go, answers = threading.Event(), []

    def wait() -> None:
        go.wait(30)
        answers.append((str(torch.ones(1).device), torch.cuda.is_available()))

    with simulate(devices=1):
        thread = threading.Thread(target=wait)
        thread.start()
    go.set()
    thread.join()
    assert answers[0][0] == "cpu"


class Moved(torch.utils.data.Dataset[Any]):
    """Makes device tensors in the worker."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        return X[index].cuda()


def test_a_forked_worker_cannot_use_the_device() -> None:
    with pytest.raises(RuntimeError, match="Cannot re-initialize CUDA in forked subprocess"):
        list(DataLoader(Moved(), num_workers=1))


def test_workers_give_host_tensors_and_pinned_memory() -> None:
    for (batch,) in DataLoader(TensorDataset(X), batch_size=3, num_workers=1, pin_memory=True):
        assert str(batch.device) == "cpu"
        assert batch.is_pinned()
    for (batch,) in DataLoader(TensorDataset(X.cuda()), batch_size=3):
        assert str(batch.device) == "cuda:0"
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        list(DataLoader(TensorDataset(X.cuda()), pin_memory=True))
