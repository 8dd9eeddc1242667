"""Workflow commands of GitHub Actions, which show findings beside the lines of a pull request.

Format and escapes: https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands and the
toolkit's own escapeData and escapeProperty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from devlint.finding import Group

if TYPE_CHECKING:
    from devlint.engine import Report
    from devlint.finding import Finding
    from devlint.output import Display


def render(reports: Sequence[Report], display: Display) -> str:
    """One line per finding: `::error` for bugs, `::warning` for the other groups."""
    return "".join(f"{_command(finding, display)}\n" for report in reports for finding in report.findings)


def _command(finding: Finding, display: Display) -> str:
    path = display.path(finding.path).replace("\\", "/")
    level = "error" if finding.group is Group.BUG else "warning"
    properties = {
        "title": f"devlint ({finding.code})",
        "file": path,
        "line": str(finding.start.row),
        "col": str(finding.start.column),
        "endLine": str(finding.end.row),
        "endColumn": str(finding.end.column),
    }
    if finding.end.row != finding.start.row:  # GitHub refuses columns of an annotation over several lines
        del properties["col"], properties["endColumn"]
    listed = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    place = f"{path}:{finding.start.row}:{finding.start.column}"
    return f"::{level} {listed}::{_data(f'{place}: {finding.code} {finding.message}')}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
