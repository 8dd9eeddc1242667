"""What devlint prints: one module per format, each with `render(reports, display) -> str`.

A format is added as one module, and its name in `devlint.config.OUTPUT_FORMATS`. Nothing here writes: the command does.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from devlint.config import OUTPUT_FORMATS

if TYPE_CHECKING:
    from devlint.engine import Report

FORMATS = OUTPUT_FORMATS
"""Names of the formats; each is the module of that name in this package."""

FOR_PEOPLE = ("text", "concise")
"""Formats whose closing counts belong to the output itself; beside the others they go to stderr."""


@dataclass(frozen=True, slots=True)
class Display:
    """How findings are shown. `base` is the folder to which shown paths are relative, empty for paths as they are."""

    colour: bool = False
    base: str = ""

    def path(self, path: str) -> str:
        """`path` as shown: relative to `base` if it lies under it."""
        if not self.base:
            return path
        try:
            relative = os.path.relpath(os.path.join(self.base, path), self.base)
        except ValueError:  # another drive on Windows
            return path
        return path if relative.startswith(os.pardir) else relative

    def paint(self, text: str, **how: object) -> str:
        """`text` in colour (click.style's words) where colour is wanted."""
        if not self.colour:
            return text
        import click

        return click.style(text, **how)  # type: ignore[arg-type]


class Renderer(Protocol):
    """What each module of a format offers."""

    def render(self, reports: Sequence[Report], display: Display) -> str:
        """The findings of all reports as one text, empty or ending in a line end."""


def renderer(name: str) -> Renderer:
    """The format of this name, one of `FORMATS`."""
    if name not in FORMATS:
        raise LookupError(name)
    return cast(Renderer, import_module(f"devlint.output.{name}"))
