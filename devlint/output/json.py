"""A JSON list with one object per finding, under the names that Ruff's JSON has.

Rows and columns count from 1, columns in characters. `fix.edits` replace what lies between `location` and
`end_location` by `content`; the file is the one named by `filename`, an absolute path as in Ruff.
`fix.applicability` is safe, unsafe or suggestion.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from devlint.rulebook import page_url
from devlint.source.noqa import comment_row

if TYPE_CHECKING:
    from devlint.engine import Report
    from devlint.finding import Finding, Location
    from devlint.output import Display
    from devlint.source.text import Source


def render(reports: Sequence[Report], display: Display) -> str:
    """The list, indented by two; `[]` when nothing was found."""
    found = [_finding(finding, report.source) for report in reports for finding in report.findings]
    return json.dumps(found, indent=2) + "\n"


def _finding(finding: Finding, source: Source | None) -> dict[str, object]:
    return {
        "code": finding.code,
        "name": finding.name,
        "message": finding.message,
        "filename": finding.path if finding.path == "-" else os.path.abspath(finding.path),
        "location": _location(finding.start),
        "end_location": _location(finding.end),
        "fix": _fix(finding, source),
        "no_fix": finding.no_fix,
        "group": finding.group.value,
        "noqa_row": noqa_row(finding, source),
        "url": page_url(finding.code, finding.name),
    }


def _location(location: Location) -> dict[str, int]:
    return {"row": location.row, "column": location.column}


def _fix(finding: Finding, source: Source | None) -> dict[str, object] | None:
    fix = finding.fix
    if fix is None or source is None:
        return None
    return {
        "applicability": fix.applicability.value,
        "message": fix.title,
        "edits": [
            {
                "content": edit.text,
                "location": _location(source.location(edit.start)),
                "end_location": _location(source.location(edit.end)),
            }
            for edit in fix.edits
        ],
    }


def noqa_row(finding: Finding, source: Source | None) -> int:
    """The row where a `# noqa` comment for this finding stands."""
    return finding.start.row if source is None else comment_row(source, finding.start.row)
