"""Fixes, run: the old and the new code on the device and on a machine without one.

What was wrong must be gone, and where the old code worked the new one must print the same. The new text is never
written: the program imports it in place of the file's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from devlint.config import Config
from devlint.engine import fix_bytes
from devlint.files import discover, read_file
from devlint.finding import Finding
from devlint.runtime.verify import judge
from devlint.runtime.verify.evidence import Evidence
from devlint.runtime.verify.launch import Order, Ran
from devlint.runtime.verify.launch import run as run_order
from devlint.session import require, settle
from devlint.source import decode_source
from devlint.verifying.claims import Checked, check_data
from devlint.verifying.script import CannotRun, order_for

CPU = "simulated:0"
SEED = 0

Run = Callable[[Order], Ran]


@dataclass(frozen=True, slots=True)
class FixedFile:
    """A file that devlint would fix: its new text, and the findings of the old one that the fixes are for."""

    path: str
    text: str
    fixed: list[Checked]


@dataclass(frozen=True, slots=True)
class Proof:
    """What running the old and the new code showed. `faults` are empty where the fixes hold."""

    program: str
    device: str
    before: list[tuple[Finding, judge.Verdict]]
    notes: list[str]
    faults: list[str]


def proofs(
    paths: Sequence[str], unsafe: bool | None, order: Order | None, device: str, max_seconds: float | None
) -> list[Proof]:
    """Run each program that shows what the fixes under `paths` do; `unsafe` None leaves it to the configuration.

    Raises MissingPath, ConfigError, CannotRun, TorchMissing.
    """
    require(paths)
    config, _ = settle(paths, {} if unsafe is None else {"unsafe-fixes": unsafe})
    files = fixed_files(paths, config)
    if not files:
        return []
    if order is not None:
        return [prove(order, files, files)]
    return [prove(own_program(file, device, max_seconds), files, [file]) for file in files]


def fixed_files(paths: Sequence[str], config: Config) -> list[FixedFile]:
    """The files under these paths that `devlint fix` would change."""
    found = []
    for path in discover(paths, config):
        if isinstance(path, Finding):
            continue
        name, data = os.path.realpath(path), read_file(Path(path))
        result = fix_bytes(data, name, config)
        if result.data != data:
            made = {(finding.code, finding.start) for finding in result.fixed}
            checked = [one for one in check_data(data, name, config) if (one.finding.code, one.finding.start) in made]
            found.append(FixedFile(name, decode_source(result.data, name).text, checked))
    return found


def own_program(file: FixedFile, device: str, max_seconds: float | None) -> Order:
    """A fixed file run by itself: under pytest where its name is that of a test."""
    name = os.path.basename(file.path)
    if name.startswith("test_") or name.endswith("_test.py"):
        return order_for("pytest", file.path, ["-q"], device, max_seconds)
    return order_for("script", file.path, [], device, max_seconds)


def _quietly(order: Order) -> Ran:
    return run_order(order, keep_output=True)


def prove(order: Order, files: Sequence[FixedFile], shown: Sequence[FixedFile], run: Run = _quietly) -> Proof:
    """Run one program before and after the fixes of `files`, on its device and on the CPU; say so of those `shown`.

    Raises CannotRun without the device.
    """
    old = replace(order, seed=SEED)
    if order.kind == "pytest":
        old = replace(old, arguments=["--assert=plain", *order.arguments])
    new = replace(old, texts={file.path: file.text for file in files})
    before, after = run(old), run(new)
    if before.evidence.end.kind == "refused":
        raise CannotRun(before.evidence.end.message)
    checked = [one for file in shown for one in file.fixed]
    verdicts = judge.judge([one.claim for one in checked], before.evidence)
    notes: list[str] = []
    faults = list(_left(before.evidence, after.evidence))
    for where, (first, second), at in (
        (before.evidence.device, (before, after), old.device),
        ("the CPU alone", (run(replace(old, device=CPU)), run(replace(new, device=CPU))), CPU),
    ):
        if first.evidence.end.kind != "finished" or _fatal(first.evidence):
            notes.append(f"the old code fails on {where}")
            if second.evidence.end.kind == "finished" and not _fatal(second.evidence):
                notes.append(f"the new code runs on {where}")
        elif second.evidence.end.kind != "finished" or _fatal(second.evidence):
            faults.append(f"the new code fails on {where}, where the old one worked: {_why(second.evidence)}")
        elif first.output == second.output:
            notes.append(f"the same output on {where}")
        elif run(replace(old, device=at)).output != first.output:
            notes.append(f"output on {where} changes from run to run and was not compared")
        else:
            faults.append(f"another output on {where}, where the old code worked")
    told = [(one.finding, verdict) for one, verdict in zip(checked, verdicts, strict=True)]
    return Proof(order.target or "pytest", before.evidence.device, told, notes, faults)


def _fatal(evidence: Evidence) -> list[str]:
    return [f"{failure.error}: {failure.message}" for failure in evidence.failures if failure.fatal]


def _left(before: Evidence, after: Evidence) -> Iterator[str]:
    """The errors about devices that are there after as before."""
    for message in _fatal(after):
        if message in _fatal(before):
            yield f"still there: {message}"


def _why(evidence: Evidence) -> str:
    return (_fatal(evidence) or [f"{evidence.end.kind} {evidence.end.error}: {evidence.end.message}"])[0]
