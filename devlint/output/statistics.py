"""How often each rule reported, in place of the findings themselves."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from devlint.finding import Applicability

if TYPE_CHECKING:
    from devlint.engine import Report


def render(reports: Sequence[Report], output_format: str) -> str:
    """A line per rule, the most frequent first: count, code, [*] if all have a safe fix ([-] some), name.

    For the format `json`: a list of objects with `code`, `name`, `count`, `fixable_count`, the last of safe fixes.
    """
    found = [finding for report in reports for finding in report.findings]
    counts = Counter((finding.code, finding.name) for finding in found)
    fixable = Counter(
        finding.code for finding in found if finding.fix is not None and finding.fix.applicability is Applicability.SAFE
    )
    rows = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if output_format == "json":
        objects = [
            {"code": code, "name": name, "count": number, "fixable_count": fixable[code]}
            for (code, name), number in rows
        ]
        return json.dumps(objects, indent=2) + "\n"
    width = max((len(str(number)) for _, number in rows), default=0)
    return "".join(
        f"{number:>{width}}  {code}  {_mark(fixable[code], number)} {name}\n" for (code, name), number in rows
    )


def _mark(fixable: int, total: int) -> str:
    if not fixable:
        return "[ ]"
    return "[*]" if fixable == total else "[-]"
