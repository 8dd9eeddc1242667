"""The rule book, run: each `bad` block of a page shows its fault, and no `fixed` or `good` one does."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from devlint.config import Config
from devlint.finding import Group
from devlint.rulebook import Block, Page, find_page, pages
from devlint.runtime.verify import judge
from devlint.runtime.verify.evidence import Evidence
from devlint.runtime.verify.launch import Order, run
from devlint.verifying.claims import check_data
from devlint.verifying.script import CannotRun

SHOWN, SILENT, NOT_RUN, WRONG = "shows its fault", "runs without a fault", "cannot show here", "is wrong"

_NEEDS = (
    (r"No module named '(\w+)'", r"needs the package \1"),
    (r"environment variable \w+ expected|Process \d+ terminated", "needs several processes"),
)
"""Errors of what is not there, and what they say of a block: it cannot be run here."""


@dataclass(frozen=True, slots=True)
class BlockResult:
    """One block of Python of a page, and what running it showed: SHOWN, SILENT, NOT_RUN or WRONG, and why."""

    page: Page
    block: Block
    outcome: str
    reason: str


def chosen(rule: str) -> tuple[Page, ...]:
    """The page of one rule, by code or name, or `all`. Raises UnknownRule."""
    return pages() if rule == "all" else (find_page(rule),)


def verify_pages(
    wanted: Sequence[Page], device: str, max_seconds: float | None = None
) -> tuple[list[BlockResult], str]:
    """Run all blocks of these pages, in one process; the results, and in words where they ran.

    Raises CannotRun without the device, TorchMissing without torch.
    """
    blocks = [(page, block) for page in wanted for block in page.blocks if block.kind]
    with tempfile.TemporaryDirectory(prefix="devlint-pages-") as folder:
        folder = os.path.realpath(folder)
        for number, (_, block) in enumerate(blocks):
            _path(folder, number).write_text(block.text, encoding="utf-8")
        refused = run(Order("scripts", folder, folder, device=device, max_seconds=max_seconds), keep_output=True)
        if refused.evidence.end.kind == "refused":
            raise CannotRun(refused.evidence.end.message)
        results = []
        words = ""
        for number, (page, block) in enumerate(blocks):
            path = _path(folder, number)
            seen = Path(f"{path}.json")
            evidence = Evidence.from_json(seen.read_text(encoding="utf-8")) if seen.exists() else Evidence()
            words = words or evidence.device
            results.append(BlockResult(page, block, *_said(page, block, str(path), evidence)))
    return results, words


def _path(folder: str, number: int) -> Path:
    return Path(folder, f"block_{number:04}.py")


def _said(page: Page, block: Block, path: str, evidence: Evidence) -> tuple[str, str]:
    """What running one block showed."""
    checked = check_data(block.text.encode(), path, Config(extend_select=(page.code,)))
    claims = [item.claim for item in checked if item.claim.code == page.code]
    verdicts = judge.judge(claims, evidence)
    shown = [verdict.reason for verdict in verdicts if verdict.outcome == judge.CONFIRMED]
    end, faults = evidence.end, list(_faults(evidence))
    if block.kind == "bad" and shown:
        return SHOWN, shown[0]
    for words, needs in _NEEDS:
        match = re.search(words, end.message) if end.kind == "raised" else None
        if match:
            return NOT_RUN, match.expand(needs)
    if block.kind == "bad":
        if all(verdict.outcome == judge.NOT_REACHED for verdict in verdicts):
            return NOT_RUN, "nothing calls it"
        if all(item.finding.group is Group.PORTABILITY for item in checked):
            return NOT_RUN, "is about machines with other devices"
        return WRONG, f"the run does not show the fault: {end.kind} {end.error}".strip()
    if shown or faults or end.kind != "finished":
        return WRONG, (shown or faults or [f"{end.kind} {end.error}: {end.message}"])[0]
    return SILENT, ""


def _faults(evidence: Evidence) -> Iterator[str]:
    for failure in evidence.failures:
        if failure.fatal:
            yield f"{failure.error}: {failure.message}"
    for seen, _ in evidence.seen:
        if seen.kind == "comparison":
            yield seen.what
