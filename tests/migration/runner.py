"""Runs scripts one after another, each in a process of its own, and notes what they read, print and save.

Started plainly, or by torchrun: then each of its processes runs the same scripts, and each script forms a process group
of its own with its siblings. Importing torch takes longer than a script does, so it is imported once here and each
script runs in a fork. What a script uses of torch is torch's own: where samples are fetched and files saved it is
noted, and only a script that is to read its samples in a given order is told this order.

    python runner.py JOBS.json        torchrun --nproc-per-node=2 runner.py JOBS.json
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d
from torch.utils.data import RandomSampler
from torch.utils.data._utils.fetch import _MapDatasetFetcher

SECONDS = 30
RANK = int(os.environ.get("RANK", "0"))


def main(path: str) -> None:
    jobs = json.loads(Path(path).read_text())
    # optimizers, DistributedDataParallel and simulations import it when they are first used, which takes two seconds
    importlib.import_module("torch._dynamo")
    for job in jobs:
        for run, arguments in enumerate(job["runs"]):
            notes = Path(job["notes"]) / str(run)
            notes.mkdir(parents=True, exist_ok=True)
            if "RANK" in os.environ:
                _meet(notes / "port")
            _wait(_start(job, arguments, notes), notes)


def _meet(where: Path) -> None:
    """Give the processes of a script a store of their own: that of the launch keeps what other scripts put there."""
    if RANK == 0:
        with socket.socket() as free:
            free.bind(("", 0))
            port = str(free.getsockname()[1])
        where.with_suffix(".new").write_text(port)
        where.with_suffix(".new").rename(where)
    while not where.exists():
        time.sleep(0.005)
    os.environ |= {"MASTER_PORT": where.read_text(), "TORCHELASTIC_USE_AGENT_STORE": "False"}


def _start(job: dict[str, Any], arguments: list[str], notes: Path) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        with open(notes / f"{RANK}.out", "w") as out, open(notes / f"{RANK}.err", "w") as err:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
        faulthandler.register(signal.SIGUSR1, all_threads=True)  # asked where it stands before it is stopped
        code = _script(job, arguments, notes)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _wait(child: int, notes: Path) -> None:
    """Wait for a script; one whose sibling failed, or that takes too long, is stopped."""
    end = time.monotonic() + SECONDS
    failed = notes / "failed"
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            if status:
                failed.touch()
            return
        if failed.exists() or time.monotonic() > end:
            os.kill(child, signal.SIGUSR1)
            time.sleep(0.2)  # what it has to say is mostly said by then
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            failed.touch()
            return
        time.sleep(0.01)


def _script(job: dict[str, Any], arguments: list[str], notes: Path) -> int:
    """Run a script in its folder as `__main__`; its exit code."""
    record = _Record()
    os.chdir(job["folder"])
    sys.argv = [job["script"], *arguments]
    sys.path[0] = str(Path(job["script"]).parent)
    try:
        with record.noting(_orders(job["order"], job["samples"])), _machine(job["devices"]):
            try:
                runpy.run_path(job["script"], run_name="__main__")
            finally:
                record.group_is_left = dist.is_initialized()
    except BaseException:
        traceback.print_exc()
        return 1
    (notes / f"{RANK}.json").write_text(json.dumps(record.noted))
    return 0


def _orders(notes: str | None, size: int) -> list[list[int]]:
    """The samples of each pass over the data set of this size, step by step, that a run with these notes has read."""
    found = []
    for run in sorted(Path(notes).iterdir()) if notes else ():
        processes = [json.loads(path.read_text())["passes"] for path in sorted(run.glob("*.json"))]
        for one in zip(*[[batches for s, batches in passes if s == size] for passes in processes], strict=True):
            found.append([index for step in zip(*one, strict=True) for batch in step for index in batch])
    return found


@contextlib.contextmanager
def _machine(devices: int) -> Iterator[None]:
    """The machine that a script runs on: this one, or one with simulated GPUs."""
    if not devices:
        yield
        return
    from devlint.runtime import simulate

    with simulate(devices=devices):
        yield


class _Record:
    """What one process did."""

    def __init__(self) -> None:
        self.passes: list[tuple[int, list[list[int]]]] = []
        """Of each pass over a loader: the size of its data set, and the samples of each batch."""
        self.saves: list[str] = []
        self.group_is_left = False
        self._groups: list[Any] = []

    @property
    def noted(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    @contextlib.contextmanager
    def noting(self, order: list[list[int]]) -> Iterator[None]:
        """Note from here on; `order` has the samples of each pass over a shuffled loader, where that is given."""
        make, fetch = _MapDatasetFetcher.__init__, _MapDatasetFetcher.fetch
        save, shuffle, update = torch.save, RandomSampler.__iter__, distributed_c10d._update_default_pg
        orders = iter(order)

        def __init__(fetcher: Any, dataset: Any, *rest: Any) -> None:
            make(fetcher, dataset, *rest)
            fetcher.noted = []
            self.passes.append((len(dataset), fetcher.noted))

        def noted_fetch(fetcher: Any, indices: Any) -> Any:
            fetcher.noted.append([int(index) for index in indices])
            return fetch(fetcher, indices)

        def noted_save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
            self.saves.append(str(f))
            save(obj, f, *args, **kwargs)

        def kept_update(group: Any) -> None:
            # A gloo group that goes out of use while its thread waits for the interpreter's lock hangs: the destructor
            # joins the thread with the lock in hand. A model that outlives destroy_process_group in main() is enough.
            self._groups.append(group)
            update(group)

        def ordered(sampler: RandomSampler) -> Iterator[int]:
            yield from next(orders)

        _MapDatasetFetcher.__init__, _MapDatasetFetcher.fetch = __init__, noted_fetch
        torch.save, distributed_c10d._update_default_pg = noted_save, kept_update
        if order:
            RandomSampler.__iter__ = ordered
        try:
            yield
        finally:
            _MapDatasetFetcher.__init__, _MapDatasetFetcher.fetch = make, fetch
            torch.save, RandomSampler.__iter__, distributed_c10d._update_default_pg = save, shuffle, update


if __name__ == "__main__":
    main(sys.argv[1])
