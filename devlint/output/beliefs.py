"""What `devlint trace` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from devlint.output.closing import count

if TYPE_CHECKING:
    from devlint.output import Display
    from devlint.placement.trace import Belief


def render(beliefs: Sequence[Belief], path: str, row: int | None, display: Display) -> str:
    """A line per value, all of them in `row` where that is given; closes with how many tensors have a place."""
    if not beliefs and row is not None:
        return f"no value is set or read in line {row} of {path}; `devlint trace {path}` shows all that is set\n"
    if not beliefs:
        return f"nothing is assigned in {path}\n"
    lines = [
        f"{display.path(path)}:{one.row}:{one.column + 1}: {display.paint(one.name, bold=True)}: {_words(one)}"
        for one in beliefs
    ]
    tensors = [belief for belief in beliefs if belief.kind.startswith(("tensor", "parameter", "buffer", "batch"))]
    placed = sum(belief.placed and not _of_its_own(belief) for belief in tensors)
    lines += [
        "",
        f"{count(len(beliefs), 'value')}, {len(tensors)} of them tensors, {placed} of these with a known place",
    ]
    return "\n".join(lines) + "\n"


def _words(belief: Belief) -> str:
    parts = [belief.kind]
    if _of_its_own(belief):
        parts.append("place given by the caller")
    elif belief.place:
        parts.append(f"place {belief.place}" if belief.place == "not known" else f"on {belief.place}")
    if belief.why:
        parts.append(belief.why)
    return ", ".join(parts).replace("on where", "where").replace("on the device", "on")


def _of_its_own(belief: Belief) -> bool:
    """Whether the place is only known as that of the value itself, as of an argument."""
    return belief.place == f"where {belief.name} is"
