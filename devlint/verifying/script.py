"""One run of a script, a module or a test suite, and what it says of the findings on the files that ran."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from devlint.config import Config
from devlint.files import ChangedMeanwhile, write_atomically
from devlint.runtime.verify import judge
from devlint.runtime.verify.evidence import Evidence
from devlint.runtime.verify.launch import Order, run
from devlint.session import settle
from devlint.source import SourceError, comment_row, encode_source
from devlint.source.noqa import with_comment
from devlint.verifying.claims import Judged, check_files, project_root


class CannotRun(Exception):
    """There is nothing to run, or no device to run it on; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """All that a run showed."""

    evidence: Evidence
    judged: list[Judged]
    extras: list[judge.Extra]

    @property
    def failed(self) -> bool:
        """Whether the program ended for another cause than a fault of devices."""
        end = self.evidence.end
        if end.kind in ("died", "exited"):
            return True
        if end.kind != "raised" or any(failure.fatal for failure in self.evidence.failures):
            return False
        return not any(item.verdict.ends for item in self.judged)

    @property
    def found(self) -> bool:
        """Whether a finding stands that the run did not refute, or the run showed a fault."""
        return bool(self.extras) or any(item.verdict.outcome != judge.REFUTED for item in self.judged)


def order_for(kind: str, target: str | None, arguments: Sequence[str], device: str, max_seconds: float | None) -> Order:
    """What to run; `kind` is script, module or pytest, where `target` is only the first argument.

    Raises CannotRun where the script is no file.
    """
    words = list(arguments)
    if kind == "pytest" and target is not None:
        words.insert(0, target)
    if kind == "script" and not os.path.isfile(target or ""):
        raise CannotRun(f"no such script: {target}")
    folder = Path(target).resolve().parent if kind == "script" and target else Path.cwd()
    return Order(kind, target or "", str(project_root(folder)), words, device, max_seconds)


def verify(order: Order, *, aside: bool = False) -> Outcome:
    """Run a program and judge the findings on the project's files that ran.

    `aside` sends the program's output to stderr. Raises CannotRun, TorchMissing, and ConfigError.
    """
    config, _ = settle([order.root], {})  # what is wrong in it is said before a long run, not after it
    evidence = run(order, aside=aside).evidence
    if evidence.end.kind == "refused":
        raise CannotRun(evidence.end.message)
    return outcome(evidence, config)


def outcome(evidence: Evidence, config: Config) -> Outcome:
    """What a run says of the findings on the files that ran."""
    checked = check_files(evidence.files, config)
    claims = [item.claim for item in checked]
    verdicts = judge.judge(claims, evidence)
    judged = [Judged(item.finding, item.source, verdict) for item, verdict in zip(checked, verdicts, strict=True)]
    return Outcome(evidence, judged, judge.extras(claims, verdicts, evidence))


def silence(judged: Sequence[Judged], say: Callable[[str], None]) -> int:
    """Write each refuted finding's reason behind its line, as `# noqa: CODE  reason`; returns how many were written."""
    written = 0
    by_path: dict[str, list[Judged]] = {}
    for item in judged:
        if item.verdict.outcome == judge.REFUTED:
            by_path.setdefault(item.finding.path, []).append(item)
    for path, items in by_path.items():
        source = items[0].source
        text = source.text
        rows = {comment_row(source, item.finding.start.row): item for item in items}
        for row in sorted(rows, reverse=True):
            text = with_comment(text, row, rows[row].finding.code, rows[row].verdict.reason)
        try:
            old, new = encode_source(source, source.text), encode_source(source, text)
            write_atomically(Path(path), old, new)
        except (ChangedMeanwhile, OSError, SourceError) as error:
            say(f"{path}: not written: {error}")
            continue
        written += len(rows)
    return written
