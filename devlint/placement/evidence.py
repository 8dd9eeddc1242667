"""What the uses of a value say of it: only a tensor has `.unsqueeze`, only a module has `.parameters`."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable

from devlint.placement import values as v
from devlint.placement.api import Facts

_OTHERS_HAVE = frozenset({"apply", "compile", "children", "load_state_dict", "state_dict", "zero_grad"})
"""Methods of modules that optimizers, schedulers, data frames and parsers have, too."""


class Evidence:
    """Uses by definition. Contradicting uses prove nothing."""

    def __init__(self, facts: Facts, objects: bool) -> None:
        """`objects`: the file works with a library whose objects have many methods of a tensor."""
        self._facts = facts
        self._objects = objects
        self._kinds: dict[Hashable, set[str]] = {}
        self._not_tensors: set[Hashable] = set()
        self._called: set[Hashable] = set()
        self._moved: set[Hashable] = set()

    def attribute(self, ids: Iterable[Hashable], name: str, called: bool) -> None:
        """An attribute was read, or called as a method: what is a method must be called to prove anything."""
        facts = self._facts
        if facts.method(v.TENSOR, name) is None and not name.startswith("_"):
            self._not_tensors.update(ids)  # no tensor has it, whatever else is read of it
        if name in facts.only_module and name not in _OTHERS_HAVE:
            kind = v.MODULE
        elif name in facts.only_tensor or (name in facts.tensor_like and not self._objects):
            kind = v.TENSOR
        else:
            return
        row = facts.method(kind, name) or {}
        if bool(row.get("attribute")) != called:
            self.proves(ids, kind)

    def called(self, ids: Iterable[Hashable]) -> None:
        """The value itself was called."""
        self._called.update(ids)

    def moved(self, ids: Iterable[Hashable]) -> None:
        """A transfer as `.to()` or `.cuda()` was called on it."""
        self._moved.update(ids)

    def proves(self, ids: Iterable[Hashable], kind: str) -> None:
        """A use that only a value of this kind stands."""
        for identity in ids:
            self._kinds.setdefault(identity, set()).add(kind)

    @property
    def amount(self) -> int:
        """How much the uses have proven; it grows where one proves something new."""
        return sum(map(len, self._kinds.values())) + len(self._called & self._moved)

    def kind(self, ids: Collection[Hashable]) -> str:
        """What the uses of these definitions prove, or unknown."""
        if not self._kinds and not self._moved:
            return v.UNKNOWN
        kinds: set[str] = set()
        for identity in ids:
            kinds |= self._kinds.get(identity, set())
            if identity in self._called and identity in self._moved:
                kinds.add(v.MODULE)  # it can be moved and it can be called
        if len(kinds) != 1 or (v.TENSOR in kinds and not self._not_tensors.isdisjoint(ids)):
            return v.UNKNOWN
        return next(iter(kinds))
