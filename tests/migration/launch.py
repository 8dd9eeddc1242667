"""Starts the runner, and reads what it noted."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from support import environment

RUNNER = Path(__file__).with_name("runner.py")
_NOISE = re.compile(r"\[Gloo\] .*|.*\b(?:Warning|warnings\.warn)\b.*|\s*$")


@dataclass(frozen=True)
class Job:
    """One script to run, once for each list of arguments; with `devices`, on so many simulated GPUs."""

    script: Path
    folder: Path
    runs: tuple[tuple[str, ...], ...] = ((),)
    devices: int = 0
    samples: int = 0
    """How many there are to train with."""
    order: Path | None = None
    """The notes of another job, where the samples are to be read in its order and not in one drawn by the script."""


@dataclass(frozen=True)
class Process:
    """What one process of a run did."""

    out: str
    err: str
    passes: list[tuple[int, list[list[int]]]]
    saves: list[str]
    group_is_left: bool

    @property
    def lines(self) -> list[str]:
        """Its lines on stdout and stderr, without those that libraries write."""
        lines = [line for text in (self.out, self.err) for line in text.split("\n")]
        return [line for line in lines if not _NOISE.fullmatch(line)]


@dataclass(frozen=True)
class Outcome:
    """What became of a job: for each run its processes, and the files that were left."""

    folder: Path
    runs: list[list[Process]]
    error: str = ""

    @property
    def processes(self) -> list[Process]:
        return [process for run in self.runs for process in run]

    def passes(self, size: int) -> list[list[list[list[int]]]]:
        """Of each pass over the data set of this size: for each process the samples of its batches."""
        return [
            [list(batches) for batches in one]
            for run in self.runs
            for one in zip(*[[b for s, b in process.passes if s == size] for process in run], strict=False)
        ]

    @cached_property
    def files(self) -> dict[str, Any]:
        """What was saved: the content of each file, tensors on the CPU."""
        found = {}
        for path in sorted(path for path in self.folder.rglob("*") if path.is_file()):
            text = path.suffix == ".txt"
            content = path.read_text() if text else torch.load(path, map_location="cpu", weights_only=True)
            found[path.relative_to(self.folder).as_posix()] = content
        return found


def launch(jobs: dict[str, Job], folder: Path, processes: int = 1) -> None:
    """Run jobs in the order given, in one process each or in several that torchrun starts; notes go into folder."""
    folder.mkdir(parents=True)
    listed = []
    for name, job in jobs.items():
        job.folder.mkdir(parents=True, exist_ok=True)
        entry = {"script": str(job.script), "folder": str(job.folder), "notes": str(folder / name), "runs": job.runs}
        entry |= {"devices": job.devices, "samples": job.samples, "order": str(job.order) if job.order else None}
        listed.append(entry)
    path = folder / "jobs.json"
    path.write_text(json.dumps(listed))
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command = [sys.executable, *(torchrun if processes > 1 else []), str(RUNNER), str(path)]
    done = subprocess.run(command, env=hidden(), capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr[-4000:]


def hidden() -> dict[str, str]:
    """An environment without GPUs and without what a launcher sets."""
    ours = environment(CUDA_VISIBLE_DEVICES="")
    return {
        key: value for key, value in ours.items() if not re.fullmatch("TORCHELASTIC.*|(LOCAL_)?RANK|WORLD_SIZE", key)
    }


def outcome(folder: Path, name: str, job: Job) -> Outcome:
    """What a launch into this folder noted of a job."""
    runs, errors = [], []
    for run in range(len(job.runs)):
        notes = folder / name / str(run)
        processes = []
        for out in sorted(notes.glob("*.out")):
            noted = out.with_suffix(".json")
            err = out.with_suffix(".err").read_text()
            if noted.exists():
                processes.append(Process(out.read_text(), err, **json.loads(noted.read_text())))
            else:
                errors.append(f"process {out.stem}: {err.strip()}")
        runs.append(processes)
    return Outcome(job.folder, runs, "\n".join(errors))
