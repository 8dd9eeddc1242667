"""What was seen while a program ran, as plain values that go from the process that ran it to the one that judges.

Importing this needs no torch.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

Place = tuple[str, int]
"""A line of the project: absolute path and row, from 1."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One kind of event at one line; how often it was seen is kept beside it. `kind` is one of:

    - `dropped`: a call on a tensor gave a moved or cast copy, and the statement threw it away;
    - `dropped temporary`: so, and the tensor had no name by which it could be used later;
    - `unchanged`: such a statement, where the tensor was there already;
    - `kept`: a moved copy that was used;
    - `module`: a Module was moved or cast, which happens in place;
    - `other`: an object whose own method moved tensors, with the result thrown away;
    - `left`: a tensor that was made at this line was moved on before anything went wrong with it;
    - `wait`, `copy`, `hidden copy`: the host waited for the device, or data went between them;
    - `host model`: parameters and what meets them all lay on the host;
    - `device`: an operation gave a tensor on an accelerator;
    - `load`: a checkpoint was read;
    - `loose`: modules or parameters in a plain container of a Module, which does not know them;
    - `registered`: such a container, where the Module knows them all by other names;
    - `wrapped`: DataParallel was made;
    - `comparison`: a torch.device was compared with what it never equals;
    - `deprecated`: torch warned of an old name.
    """

    kind: str
    path: str
    row: int
    what: str = ""


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor that took part in a failed operation: where it lay, and the lines that put it there."""

    device: str
    made: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that raised an error about devices.

    `stack` holds the project's lines that led to it, innermost first. `held` are those rows of `stack` (by position)
    whose frame held one of the operands in a local name. `fatal` says that the program did not get over it.
    """

    error: str
    message: str
    call: str
    stack: tuple[Place, ...]
    operands: tuple[Operand, ...] = ()
    held: tuple[int, ...] = ()
    fatal: bool = False


@dataclass(frozen=True, slots=True)
class End:
    """How the run ended.

    `kind`: `finished`; `exited` (with `code`); `raised` (`error`, `message` and `stack`, innermost line first); `late`
    (stopped after --max-seconds); `died` (with `code`, negative for a signal).
    """

    kind: str = "died"
    code: int = 0
    error: str = ""
    message: str = ""
    stack: tuple[Place, ...] = ()


@dataclass(slots=True)
class Evidence:
    """All that was seen in one run. `device` says in words where it ran."""

    device: str = ""
    lines: dict[str, list[int]] = field(default_factory=dict)
    seen: list[tuple[Seen, int]] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    end: End = field(default_factory=End)

    @property
    def files(self) -> list[str]:
        """The project's files that ran."""
        return sorted(self.lines)

    def to_json(self) -> str:
        """One JSON document."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Evidence:
        """What `to_json` wrote."""
        data: dict[str, Any] = json.loads(text)
        return Evidence(
            data["device"],
            data["lines"],
            [(Seen(**seen), count) for seen, count in data["seen"]],
            [_failure(value) for value in data["failures"]],
            End(**data["end"] | {"stack": _places(data["end"]["stack"])}),
        )


def _places(value: Any) -> tuple[Place, ...]:
    return tuple((path, row) for path, row in value)


def _failure(value: dict[str, Any]) -> Failure:
    operands = tuple(Operand(item["device"], _places(item["made"])) for item in value["operands"])
    return Failure(
        **value | {"stack": _places(value["stack"]), "operands": operands, "held": tuple(value["held"])},
    )
