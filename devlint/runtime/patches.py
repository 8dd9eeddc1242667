"""Attributes of torch's modules that are replaced for a while, and put back as they were."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .machine import Machine, current_machine

_MISSING = object()


class Patches:
    """A list of replaced attributes, undone last first."""

    def __init__(self) -> None:
        self._old: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Replace an attribute; one that was not there is taken away again by `undo`."""
        self._old.append((owner, name, vars(owner).get(name, _MISSING)))
        setattr(owner, name, value)

    def undo(self) -> None:
        """Put back everything."""
        while self._old:
            owner, name, value = self._old.pop()
            if value is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, value)

    def stand_in(self, owner: Any, name: str, replacement: Callable[..., Any], kind: str | None = None) -> None:
        """Replace a function by one that asks `replacement(machine, ...)` inside a simulation.

        Outside one (a thread that was there before) and on a machine of another kind the old function answers.
        """
        original = getattr(owner, name, None)

        def answer(*args: Any, **kwargs: Any) -> Any:
            machine: Machine | None = current_machine()
            if machine is None or (kind is not None and machine.kind != kind):
                if original is None:
                    raise AttributeError(f"module {owner.__name__!r} has no attribute {name!r}")
                return original(*args, **kwargs)
            return replacement(machine, *args, **kwargs)

        if original is not None and not isinstance(original, type):
            functools.update_wrapper(answer, original)
        self.set(owner, name, answer)
