"""Reports made by hand: what the formats are given."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from devlint.engine import Report
from devlint.finding import Applicability, Edit, Finding, Fix, Group, Location
from devlint.source.text import Source

MakeReport = Callable[..., Report]


@pytest.fixture
def make_report() -> MakeReport:
    """A function from a text and the place of a word in it to a report with one finding at that word."""

    def make(
        text: str,
        word: str,
        *,
        path: str = "train.py",
        code: str = "DEV101",
        name: str = "discarded-transfer",
        message: str = "the moved copy is thrown away",
        group: Group = Group.BUG,
        replace: dict[str, str] | None = None,
        applicability: Applicability = Applicability.SAFE,
        title: str = "Assign the copy",
        no_fix: str | None = None,
    ) -> Report:
        source = Source(path, text)
        at = text.index(word)
        edits = tuple(Edit(text.index(old), text.index(old) + len(old), new) for old, new in (replace or {}).items())
        finding = Finding(
            code=code,
            name=name,
            message=message,
            path=path,
            start=source.location(at),
            end=source.location(at + len(word)),
            group=group,
            fix=Fix(title, edits, applicability) if replace else None,
            no_fix=no_fix,
        )
        return Report(path, (finding,), source)

    return make


@pytest.fixture
def unreadable() -> Report:
    """The report on a file without a text."""
    finding = Finding(
        "DEV901", "unreadable", "cannot be read: no permission", "x.py", Location(1, 1), Location(1, 1), Group.BUG
    )
    return Report("x.py", (finding,), None)
