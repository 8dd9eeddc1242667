"""One line per finding, as flake8 prints them; [*] marks what `devlint fix` would fix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from devlint.finding import Applicability

if TYPE_CHECKING:
    from devlint.engine import Report
    from devlint.finding import Finding
    from devlint.output import Display


def render(reports: Sequence[Report], display: Display) -> str:
    """`path:row:column: CODE [*] message`, one line each."""
    return "".join(f"{_line(finding, display)}\n" for report in reports for finding in report.findings)


def _line(finding: Finding, display: Display) -> str:
    safe = finding.fix is not None and finding.fix.applicability is Applicability.SAFE
    mark = f"[{display.paint('*', fg='cyan')}] " if safe else ""
    return f"{place(finding, display)} {display.paint(finding.code, fg='red', bold=True)} {mark}{finding.message}"


def place(finding: Finding, display: Display) -> str:
    """`path:row:column:`, the form that editors and terminals turn into a link."""
    path = display.paint(display.path(finding.path), bold=True)
    return f"{path}:{finding.start.row}:{finding.start.column}:"
