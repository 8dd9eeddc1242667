"""What every part of devlint hands on: where something is, what is wrong there, and how to mend it.

This module imports nothing of devlint, so that each part can import it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Applicability(Enum):
    """How far a fix can be trusted."""

    SAFE = "safe"
    """Same behaviour wherever the old code worked, right where it did not."""
    UNSAFE = "unsafe"
    """Right if devlint reads the code rightly, or it changes numbers, keys or structure."""
    SUGGESTION = "suggestion"
    """Shown, never applied."""


class Group(Enum):
    """The five groups of rules; the first two are on unless switched off."""

    BUG = "bug"
    DEPRECATED = "deprecated"
    PERFORMANCE = "performance"
    PORTABILITY = "portability"
    STYLE = "style"

    @property
    def on_by_default(self) -> bool:
        return self in (Group.BUG, Group.DEPRECATED)


@dataclass(frozen=True, order=True, slots=True)
class Location:
    """A place in a file's text: row and column, both counted from 1, columns in characters."""

    row: int
    column: int


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the characters [start, end) of the decoded text by `text`; offsets count from 0."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """Edits that are applied all or not at all. The title is an imperative without a full stop."""

    title: str
    edits: tuple[Edit, ...]
    applicability: Applicability


@dataclass(frozen=True, slots=True)
class RuleInfo:
    """What selection, listings and pages need to know of a rule, without loading it."""

    code: str
    name: str
    groups: tuple[Group, ...]
    summary: str

    @property
    def on_by_default(self) -> bool:
        return any(group.on_by_default for group in self.groups)


@dataclass(frozen=True, slots=True)
class Finding:
    """One defect at one place.

    `group` is the group that applies to this finding (a rule may have two). `no_fix` says in one line why there
    is no fix, where a reader would expect one. `noqa_row` is the row whose `# noqa` comment speaks for it.
    """

    code: str
    name: str
    message: str
    path: str
    start: Location
    end: Location
    group: Group
    fix: Fix | None = None
    no_fix: str | None = None

    @property
    def sort_key(self) -> tuple[str, Location, str]:
        return (self.path, self.start, self.code)
