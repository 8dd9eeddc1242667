"""What is believed at one point of the flow."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from devlint.placement.values import CPU, MAPPING, NOWHERE_KNOWN, SEQUENCE, Place, Value, join


@dataclass(slots=True)
class State:
    """Values by access path (`x`, `self.pe`, `args.device`), and the places of modules by their definition.

    A module moves in place, whatever names it goes by, so its place is kept beside the names and not in the values.
    """

    names: dict[str, Value] = field(default_factory=dict)
    places: dict[Hashable, Place] = field(default_factory=dict)
    default: Place = CPU
    """Where a factory without `device=` puts its tensor."""
    dead: bool = False
    """Nothing reaches this point."""
    stems: set[str] = field(default_factory=set)
    """Paths of which an attribute was ever bound; shared by all copies. Binding another forgets only itself."""

    def copy(self) -> State:
        return State(dict(self.names), dict(self.places), self.default, self.dead, self.stems)

    def put(self, path: str, value: Value) -> None:
        """Set a path, with what is known of its attributes."""
        self.names[path] = value
        stem, dot, _ = path.rpartition(".")
        while dot and stem not in self.stems:
            self.stems.add(stem)
            stem, dot, _ = stem.rpartition(".")

    def bind(self, path: str, value: Value) -> None:
        """Bind a path; what was known of its attributes is forgotten."""
        self.forget(path)
        self.put(path, value)

    def forget(self, path: str) -> None:
        self.names.pop(path, None)
        self.forget_attributes(path)

    def forget_attributes(self, path: str) -> None:
        """Forget what is known of the attributes and items of a path."""
        if path not in self.stems:
            return
        prefix = path + "."
        for name in [name for name in self.names if name.startswith(prefix)]:
            del self.names[name]

    def changed(self, value: Value, keep: str = "") -> None:
        """Forget what a container holds, by whatever names it goes; but for the name `keep`, by which more is known."""
        if value.kind not in (SEQUENCE, MAPPING) or not value.ids:
            return
        for path, held in list(self.names.items()):
            if path != keep and held.kind == value.kind and not held.ids.isdisjoint(value.ids):
                self.bind(path, replace(held, items=None, keys=None, element=None))

    def place_of(self, value: Value) -> Place:
        """Where a value lives now."""
        if not value.is_module:
            return value.place
        found = [self.places[i] for i in value.ids if i in self.places]
        if len(found) != len(value.ids) or not found:
            return value.place if not found else NOWHERE_KNOWN
        return found[0] if all(place == found[0] for place in found) else NOWHERE_KNOWN

    def merge(self, other: State) -> list[str]:
        """Become the join of this state and another; returns the names of which the two differed.

        A name that only one branch binds is read, if at all, after that branch; an attribute path is found anew.
        """
        if other.dead:
            return []
        if self.dead:
            self.names, self.places = dict(other.names), dict(other.places)
            self.default, self.dead = other.default, False
            return list(self.names)
        names = self.names
        changed = [name for name, value in other.names.items() if names.get(name) is not value]
        for name in changed:
            value = names.get(name)
            if value is not None:
                names[name] = join(value, other.names[name])
            elif "." not in name:
                names[name] = other.names[name]
        for name in names.keys() - other.names.keys():
            if "." in name:
                del names[name]
        if self.places != other.places:
            for key in self.places.keys() | other.places.keys():
                if self.places.get(key) != other.places.get(key):
                    self.places[key] = NOWHERE_KNOWN
        if self.default != other.default:
            self.default = NOWHERE_KNOWN
        return changed
