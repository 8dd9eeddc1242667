"""Findings as claims: which findings there are on the files that ran, and the rows of the statements they speak of."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devlint.config import Config
from devlint.engine import check_bytes
from devlint.files import is_excluded, read_file
from devlint.finding import Finding
from devlint.runtime.verify.judge import Claim, Verdict
from devlint.source import Source

ROOT_MARKS = ("pyproject.toml", "setup.py", "setup.cfg", ".git")


@dataclass(frozen=True, slots=True)
class Checked:
    """A finding with the claim that it makes, and the source it stands in."""

    finding: Finding
    claim: Claim
    source: Source


@dataclass(frozen=True, slots=True)
class Judged:
    """A finding, and what the run says of it."""

    finding: Finding
    source: Source
    verdict: Verdict


def project_root(folder: Path) -> Path:
    """The nearest folder above that holds a project's mark, else the folder itself."""
    folder = folder.resolve()
    for above in (folder, *folder.parents):
        if any((above / mark).exists() for mark in ROOT_MARKS):
            return above
    return folder


def check_files(paths: Sequence[str], config: Config) -> list[Checked]:
    """The findings on these files as claims; excluded files and those that can no longer be read have none."""
    found = []
    for path in paths:
        if is_excluded(Path(path), config):
            continue
        try:
            data = read_file(Path(path))
        except OSError:
            continue
        found += check_data(data, path, config)
    return found


def check_data(data: bytes, path: str, config: Config) -> list[Checked]:
    """The findings on one file with these bytes as claims."""
    report = check_bytes(data, path, config)
    if report.source is None:
        return []
    tree = ast.parse(report.source.text) if report.findings else None
    return [
        Checked(finding, Claim(finding.code, path, *_statement(tree, finding.start.row)), report.source)
        for finding in report.findings
        if tree is not None and not finding.code.startswith("DEV9")
    ]


def _statement(tree: ast.Module, row: int) -> tuple[int, int]:
    """First and last row of the innermost statement around a row: of a compound one, of its head alone."""
    best = (row, row)
    smallest = None
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt) or node.end_lineno is None:
            continue
        first, last = node.lineno, node.end_lineno
        body = getattr(node, "body", None)
        if isinstance(body, list) and body:
            first = min([first, *(item.lineno for item in getattr(node, "decorator_list", ()))])
            last = max(first, body[0].lineno - 1) if body[0].lineno > node.lineno else node.lineno
        if first <= row <= last and (smallest is None or last - first < smallest):
            best, smallest = (first, last), last - first
    return best
