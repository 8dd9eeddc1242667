"""What is believed at one point of the flow."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from devlint.placement.values import CPU, NOWHERE_KNOWN, Place, Value, join


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

    def copy(self) -> State:
        return State(dict(self.names), dict(self.places), self.default, self.dead)

    def bind(self, path: str, value: Value) -> None:
        """Bind a path; what was known of its attributes is forgotten."""
        self.forget(path)
        self.names[path] = value

    def forget(self, path: str) -> None:
        self.names.pop(path, None)
        prefix = path + "."
        for name in [name for name in self.names if name.startswith(prefix)]:
            del self.names[name]

    def place_of(self, value: Value) -> Place:
        """Where a value lives now."""
        if not value.is_module:
            return value.place
        found = [self.places[i] for i in value.ids if i in self.places]
        if len(found) != len(value.ids) or not found:
            return value.place if not found else NOWHERE_KNOWN
        return found[0] if all(place == found[0] for place in found) else NOWHERE_KNOWN

    def merge(self, other: State) -> None:
        """Become the join of this state and another."""
        if other.dead:
            return
        if self.dead:
            self.names, self.places = dict(other.names), dict(other.places)
            self.default, self.dead = other.default, False
            return
        names = {}
        for name, value in self.names.items():
            second = other.names.get(name)
            if second is not None:
                names[name] = value if value is second else join(value, second)
        # A name that only one branch binds is read, if at all, after that branch.
        for name, value in self.names.items():
            if name not in other.names and "." not in name:
                names[name] = value
        for name, value in other.names.items():
            if name not in self.names and "." not in name:
                names[name] = value
        self.names = names
        self.places = {
            key: place if place == other.places.get(key) else NOWHERE_KNOWN for key, place in self.places.items()
        } | {key: NOWHERE_KNOWN for key in other.places if key not in self.places}
        if self.default != other.default:
            self.default = NOWHERE_KNOWN
