"""What `devlint trace` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from devlint.output import Display
    from devlint.placement.trace import Belief


def render(beliefs: Sequence[Belief], path: str, row: int | None, display: Display) -> str:
    """A line per assignment, of one row only where one is asked for; closes with how many tensors have a place."""
    shown = [belief for belief in beliefs if row is None or belief.row == row]
    if not shown:
        where = f"line {row} of {path}" if row is not None else path
        return f"nothing is assigned in {where}\n"
    lines = [
        f"{display.path(path)}:{one.row}:{one.column + 1}: {display.paint(one.name, bold=True)}: {_words(one)}"
        for one in shown
    ]
    tensors = [belief for belief in shown if belief.kind.startswith(("tensor", "parameter", "buffer", "batch"))]
    placed = sum(belief.placed for belief in tensors)
    lines += ["", f"{len(shown)} values, {len(tensors)} of them tensors, {placed} of these with a known place"]
    return "\n".join(lines) + "\n"


def _words(belief: Belief) -> str:
    parts = [belief.kind]
    if belief.place:
        parts.append(f"place {belief.place}" if belief.place == "not known" else f"on {belief.place}")
    if belief.why:
        parts.append(belief.why)
    return ", ".join(parts).replace("on where", "where").replace("on the device", "on")
