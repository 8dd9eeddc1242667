"""Starts the process in which a program runs, waits for it, and reads what it has seen. Needs no torch itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from ..torch_import import require_torch_installed
from .evidence import End, Evidence

_EVERY = 0.1  # seconds between two looks at a process that has only so much time
_GRACE = 10  # seconds beyond --max-seconds, after which a program that lets no other thread run is ended from here


@dataclass(frozen=True, slots=True)
class Order:
    """What to run and where.

    `kind` is script, module, pytest or scripts; `target` is a file, a module's name, or a folder of scripts. `device`
    is auto, cuda, mps, xpu or simulated, the last with a number after a colon if wanted. `texts` are files, by real
    path, that have another text than on disk. `out` is filled in by `run`.
    """

    kind: str
    target: str
    root: str
    arguments: list[str] = field(default_factory=list)
    device: str = "auto"
    max_seconds: float | None = None
    texts: dict[str, str] = field(default_factory=dict)
    seed: int | None = None
    out: str = ""


@dataclass(frozen=True, slots=True)
class Ran:
    """What was seen, and what the program printed where that was kept."""

    evidence: Evidence
    output: bytes | None = None


def run(order: Order, *, keep_output: bool = False, aside: bool = False) -> Ran:
    """Run a program in a process of its own.

    Its output goes where devlint's goes, to stderr with `aside`, or is kept. Raises TorchMissing without torch.
    """
    require_torch_installed()
    with tempfile.TemporaryDirectory(prefix="devlint-") as folder:
        out, file = os.path.join(folder, "seen.json"), os.path.join(folder, "order.json")
        with open(file, "w", encoding="utf-8") as written:
            json.dump(asdict(replace(order, out=out)), written)
        printed = os.path.join(folder, "output")
        sys.stdout.flush()
        with ExitStack() as stack:
            output = stack.enter_context(open(printed, "wb")) if keep_output else _error_output() if aside else None
            command = [sys.executable, "-m", "devlint.runtime.verify.child", file]
            process = stack.enter_context(
                subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL if keep_output else None)
            )
            late = _wait(process, out, order.max_seconds)
        evidence = Evidence()
        if os.path.exists(out):
            with open(out, encoding="utf-8") as read:
                evidence = Evidence.from_json(read.read())
        if evidence.end.kind == "died":
            evidence.end = End("late") if late else End("died", process.returncode)
        return Ran(evidence, Path(printed).read_bytes() if keep_output else None)


def _wait(process: subprocess.Popen[bytes], started: str, seconds: float | None) -> bool:
    """Wait for the process; end it where it does not end itself in time, and say whether that was so.

    The time counts from when the file `started` is there: before that torch is imported, which takes what it takes.
    """
    deadline = None
    try:
        while True:
            try:
                process.wait(timeout=None if seconds is None else _EVERY)
                return False
            except subprocess.TimeoutExpired:
                assert seconds is not None
                if deadline is None and os.path.exists(started):
                    deadline = time.monotonic() + seconds + _GRACE
                if deadline is not None and time.monotonic() > deadline:
                    process.kill()
                    return True
    except BaseException:
        process.kill()
        raise


def _error_output() -> int:
    sys.stderr.flush()
    return 2
