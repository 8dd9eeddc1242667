"""The counts with which a run closes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from devlint.finding import Applicability

if TYPE_CHECKING:
    from devlint.engine import Report
    from devlint.finding import Finding


def count(number: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def check_line(reports: Sequence[Report]) -> str:
    """What `check` found, and how much of it `fix` would mend; empty when nothing was found."""
    found = [finding for report in reports for finding in report.findings]
    if not found:
        return ""
    safe, unsafe = _fixable(found, Applicability.SAFE), _fixable(found, Applicability.UNSAFE)
    parts = [f"{count(len(found), 'finding')} in {_files(found)}"]
    if safe:
        parts.append(f"{safe} fixable with `devlint fix`")
    if unsafe:
        parts.append(f"{unsafe}{' more' if safe else ' fixable'} with `devlint fix --unsafe-fixes`")
    if not safe and not unsafe:
        parts.append("none fixable")
    return ", ".join(parts)


def fix_line(fixed: Sequence[Finding], left: Sequence[Finding], *, unsafe: bool, written: bool) -> str:
    """What `fix` fixed and left, and what `--unsafe-fixes` would add; empty when nothing was found.

    `unsafe` says that unsafe fixes were allowed, `written` is False where the files were left as they were (`--diff`).
    """
    if not fixed and not left:
        return ""
    verb = "fixed" if written else "would be fixed"
    where = f" in {_files(fixed)}" if fixed else ""
    parts = [f"{len(fixed)} {verb}{where}", f"{len(left)} left"]
    more = _fixable(left, Applicability.UNSAFE)
    if more and not unsafe:
        parts.append(f"{more} of them fixable with `--unsafe-fixes`")
    return ", ".join(parts)


def _fixable(findings: Sequence[Finding], applicability: Applicability) -> int:
    return sum(finding.fix is not None and finding.fix.applicability is applicability for finding in findings)


def _files(findings: Sequence[Finding]) -> str:
    return count(len({finding.path for finding in findings}), "file")
