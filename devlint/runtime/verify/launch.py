"""Starts the process in which a program runs, waits for it, and reads what it has seen. Needs no torch itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field, replace

from ..torch_import import require_torch_installed
from .evidence import End, Evidence

_GRACE = 20  # seconds beyond --max-seconds for the start of torch, and for a program that lets no thread run


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
        sys.stdout.flush()
        limit = None if order.max_seconds is None else order.max_seconds + _GRACE
        command = [sys.executable, "-m", "devlint.runtime.verify.child", file]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE if keep_output else (_error_output() if aside else None),
            stderr=subprocess.DEVNULL if keep_output else None,
        ) as process:  # fmt: skip
            late = False
            try:
                output, _ = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                process.kill()
                output, _ = process.communicate()
                late = True
            except BaseException:
                process.kill()
                raise
        evidence = Evidence()
        if os.path.exists(out):
            with open(out, encoding="utf-8") as read:
                evidence = Evidence.from_json(read.read())
        if evidence.end.kind == "died":
            evidence.end = End("late") if late else End("died", process.returncode)
        return Ran(evidence, output)


def _error_output() -> int:
    sys.stderr.flush()
    return 2
