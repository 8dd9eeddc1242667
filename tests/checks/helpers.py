"""Runs the rules on small texts, as the command does."""

from __future__ import annotations

from devlint.config import Config
from devlint.engine import check_text, fix_bytes
from devlint.finding import Finding
from devlint.source import Source


def findings(text: str, *codes: str, **options: object) -> tuple[Finding, ...]:
    """The findings of these rules."""
    return check_text(Source("t.py", text), Config(select=codes, **options)).findings  # type: ignore[arg-type]


def check(text: str, *codes: str, **options: object) -> list[tuple[int, str]]:
    """Row and code of each finding of these rules."""
    return [(found.start.row, found.code) for found in findings(text, *codes, **options)]


def fixed(text: str, *codes: str, unsafe: bool = False, **options: object) -> str:
    """The text after `fix`."""
    config = Config(select=codes, unsafe_fixes=unsafe, **options)  # type: ignore[arg-type]
    result = fix_bytes(text.encode(), "t.py", config)
    assert not [found for found in result.report.findings if found.code.startswith("DEV9")], result.report.findings
    return result.data.decode()
