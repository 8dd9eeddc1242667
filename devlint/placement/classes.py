"""Classes of the file: what kind of thing their instances are, and what their attributes hold."""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from devlint.placement import values as v
from devlint.placement.effects import TRANSFERS
from devlint.placement.evaluate import path_of
from devlint.placement.values import ANYTHING, NOWHERE_KNOWN, Place, Value
from devlint.syntax.trees import last_name, walk

if TYPE_CHECKING:
    from devlint.placement.api import Row
    from devlint.placement.infer import Inference
    from devlint.placement.state import State

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_ANY_MODULE = "torch.nn.Module"
"""What an argument is annotated with that may be any layer, one without parameters, too."""


class Classes:
    """Answers about the classes of one file, worked out when they are first asked for."""

    def __init__(self, inference: Inference) -> None:
        self._inference = inference
        self._bases: dict[ast.ClassDef, tuple[str | ast.ClassDef | None, ...]] = {}
        self._lineages: dict[ast.ClassDef, list[str | ast.ClassDef | None]] = {}
        self._kinds: dict[ast.ClassDef, str] = {}
        self._placing: dict[ast.ClassDef, bool] = {}
        self._attributes: dict[tuple[ast.ClassDef, str], Value | None] = {}
        self._stateful: dict[ast.ClassDef, bool] = {}

    def bases(self, node: ast.ClassDef) -> tuple[str | ast.ClassDef | None, ...]:
        """Each base: a class of the file, a qualified name, or None where it is neither."""
        if node not in self._bases:
            self._bases[node] = tuple(self._base(base) for base in node.bases)
        return self._bases[node]

    def _base(self, node: ast.expr) -> str | ast.ClassDef | None:
        inference = self._inference
        name = inference.names.name_of(node)
        if name is not None:
            return inference.facts.canonical(name)
        made = self.of_file(node)
        if made is None and isinstance(node, ast.Name) and not inference.names.module.star_import:
            home = inference.names.homes.get(node)
            if home is None or home.defining(node.id) is None:
                return f"builtins.{node.id}"
        return made

    def of_file(self, node: ast.expr) -> ast.ClassDef | None:
        """The class of the file that a name stands for."""
        home = self._inference.names.homes.get(node)
        scope = home.defining(node.id) if home is not None and isinstance(node, ast.Name) else None
        bound = scope.bound.get(node.id, []) if scope is not None and isinstance(node, ast.Name) else []
        return bound[0] if len(bound) == 1 and isinstance(bound[0], ast.ClassDef) else None

    def lineage(self, node: ast.ClassDef) -> list[str | ast.ClassDef | None]:
        """The class and all its bases, the file's own and the others, each once.

        Those that a class of another file has in files of the project are left out, its library's bases are not.
        """
        if node not in self._lineages:
            found: dict[str | ast.ClassDef | None, None] = {}
            stack: list[str | ast.ClassDef | None] = [node]
            while stack:
                base = stack.pop()
                if base in found:
                    continue
                found[base] = None
                if isinstance(base, ast.ClassDef):
                    stack.extend(reversed(self.bases(base)))
                elif base is not None and self._inference.facts.is_own(base):
                    stack.extend(reversed(self._row(base)["bases"]))
            self._lineages[node] = list(found)
        return self._lineages[node]

    def kind(self, node: ast.ClassDef) -> str:
        """The kind of an instance: a module if a base is one, else an object."""
        if node not in self._kinds:
            self._kinds[node] = self._kind(node)
        return self._kinds[node]

    def _kind(self, node: ast.ClassDef) -> str:
        kinds = set()
        for base in self.lineage(node):
            row = self._row(base)
            if row:
                kinds.add(str(row.get("kind", v.OBJECT)))
        if kinds & v.MODULE_KINDS:
            return v.METRIC if v.METRIC in kinds else v.MODULE
        for kind in (v.DATASET, v.OPTIMIZER, v.LOADER, v.TOKENIZER, v.TENSOR):
            if kind in kinds:
                return kind
        return v.OBJECT

    def complete(self, node: ast.ClassDef) -> bool:
        """Whether all bases are known, so that what is not found here is not there."""
        return all(
            isinstance(base, ast.ClassDef) or (base is not None and (base == "builtins.object" or self._known(base)))
            for base in self.lineage(node)
        )

    def places_itself(self, node: ast.ClassDef) -> bool:
        """Whether a new instance may be elsewhere than on the CPU: its `__init__` moves something or knows of a device,
        or a base is not known."""
        if node not in self._placing:
            made = self.method(node, "__init__")
            self._placing[node] = (
                not self.complete(node)
                or (made is not None and any(map(_places, walk(made))))
                or any(self._row(base).get("call", {}).get("place") == "unknown" for base in self.lineage(node))
            )
        return self._placing[node]

    def family(self, node: ast.ClassDef) -> list[ast.ClassDef]:
        """The class and its bases in all files of the project: to look at, since only the file's own have values."""
        found = [base for base in self.lineage(node) if isinstance(base, ast.ClassDef)]
        beyond = self._inference.facts.beyond
        if beyond is not None:
            for base in self.lineage(node):
                if isinstance(base, str) and self._inference.facts.is_own(base):
                    found += [further for _, further in beyond.family(base)]
        return found

    def defines(self, node: ast.ClassDef, name: str) -> bool:
        """Whether the class or a base in the project has a method of this name."""
        return any(self.own_method(one, name) is not None for one in self.family(node))

    def _row(self, base: str | ast.ClassDef | None) -> Row:
        return (self._inference.facts.cls(base) if isinstance(base, str) else None) or {}

    def _known(self, name: str) -> bool:
        row = self._inference.facts.cls(name)
        return row is not None and not row.get("open")

    def has_state(self, node: ast.ClassDef) -> bool:
        """Whether instances of a module class have parameters or buffers, as far as can be seen."""
        if node not in self._stateful:
            self._stateful[node] = False  # a class that holds its own kind
            self._stateful[node] = any(
                self._adds_state(part)
                for base in self.lineage(node)
                for part in (walk(base) if isinstance(base, ast.ClassDef) else ())
            ) or any(
                (self._inference.facts.cls(base) or {}).get("state") is True
                for base in self.lineage(node)
                if isinstance(base, str)
            )
        return self._stateful[node]

    def _adds_state(self, part: ast.AST) -> bool:
        """Whether a call registers something, or makes a layer with parameters."""
        if not isinstance(part, ast.Call):
            return False
        name = last_name(part.func)
        if name in ("register_buffer", "register_parameter", "add_module", "register_module", "Parameter", "Buffer"):
            return True
        if not name[:1].isupper():
            return False
        made = self._base(part.func)
        if isinstance(made, ast.ClassDef):
            return self.kind(made) in v.MODULE_KINDS and self.has_state(made)
        row = self._inference.facts.cls(made) if made is not None else None
        if row is None:
            return made is not None and not made.startswith(
                "builtins."
            )  # a class of another file: a layer, most likely
        return row.get("kind") in v.MODULE_KINDS and row.get("state") is True

    def method(self, node: ast.ClassDef, name: str) -> ast.AST | None:
        """The method of this name, of the class or of a base in the file."""
        for base in self.lineage(node):
            method = self.own_method(base, name) if isinstance(base, ast.ClassDef) else None
            if method is not None:
                return method
        return None

    @staticmethod
    def own_method(node: ast.ClassDef, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The method of this name that the class itself defines."""
        for statement in node.body:
            if isinstance(statement, _FUNCTIONS) and statement.name == name:
                return statement
        return None

    def self_value(self, node: ast.ClassDef, method: ast.AST) -> Value:
        """What `self` is in a method."""
        if any(isinstance(d, ast.Name) and d.id == "classmethod" for d in getattr(method, "decorator_list", [])):
            return Value(kind=v.CLASS, node=node, ids=frozenset([("class", node)]))
        kind = self.kind(node)
        place = Place(key=("self", node), text="self") if kind in v.MODULE_KINDS else NOWHERE_KNOWN
        return Value(kind=kind, node=node, ids=frozenset([("self", node)]), place=place)

    def attribute(self, base: Value, name: str, state: State) -> Value | None:
        """What an attribute of an instance (or class) of the project holds; None where nothing is known of it."""
        node, beyond = base.node, self._inference.facts.beyond
        if isinstance(node, ast.ClassDef):
            method = self.method(node, name)
            if method is not None:
                return self._method_value(base, method)
            if (node, name) not in self._attributes:
                self._attributes[node, name] = None  # an attribute that is made from itself
                self._attributes[node, name] = self._assigned(node, name)
            value = self._attributes[node, name]
        else:
            value = beyond.attribute(base.type, name) if base.type and beyond is not None else None
        if value is None or value.kind == v.NAME:
            return value
        if (value.is_module or value.kind in (v.PARAMETER, v.BUFFER)) and base.is_module:
            if value.place.device not in ("", "cpu"):
                return value  # a child that was put on a device of its own
            if value.type == _ANY_MODULE or self._row(value.type).get("state") is False:
                return replace(value, place=NOWHERE_KNOWN)  # a Dropout or ReLU has nothing that could be anywhere
            place = state.place_of(base)
            return replace(value, place=place if place.known else NOWHERE_KNOWN)
        return value

    def _method_value(self, base: Value, method: ast.AST) -> Value | None:
        decorators = [path_of(d) or "" for d in getattr(method, "decorator_list", [])]
        if any(d.rsplit(".", 1)[-1] in ("property", "cached_property") for d in decorators):
            returns = getattr(method, "returns", None)
            value = self._inference.annotated(returns, method) if returns is not None else None
            if value is not None:
                return value
            result = v.join_all(self._inference.run(method).returned)
            if result.place.device:
                return result
            tag = "property" if result.kind in (v.DEVICE, v.TEXT, v.UNKNOWN) else "at"
            return replace(result, place=Place(key=(tag, method)), ids=frozenset([method]))
        return Value(kind=v.FUNCTION, node=method, ids=frozenset([method]))

    @cached_property
    def _stores(self) -> dict[tuple[ast.AST, str], list[tuple[ast.AST, ast.Attribute]]]:
        """For each class and attribute of self: the methods that set it, and where."""
        found: dict[tuple[ast.AST, str], list[tuple[ast.AST, ast.Attribute]]] = {}
        for store in self._inference.names.stores:
            if not (isinstance(store, ast.Attribute) and isinstance(store.ctx, ast.Store)):
                continue
            method: ast.AST = store
            for above in self._inference.ancestors(store) if isinstance(store.value, ast.Name) else ():
                if isinstance(above, ast.ClassDef):
                    if isinstance(method, _FUNCTIONS) and path_of(store.value) == _first_argument(method):
                        found.setdefault((above, store.attr), []).append((method, store))
                    break
                method = above
        for places in found.values():
            places.sort(key=lambda place: (place[1].lineno, place[1].col_offset))
        return found

    def stored(self, node: ast.ClassDef, name: str) -> list[Value]:
        """What the methods of the class itself assign to self.NAME."""
        values: list[Value] = []
        for method, target in self._stores.get((node, name), ()):
            run = self._inference.run(method)
            value = run.values.get(target)
            if value is not None:
                values.append(replace(value, place=run.state.place_of(value)) if value.is_module else value)
        return values

    def setters(self, node: ast.ClassDef, name: str) -> set[ast.AST]:
        """The methods of the class itself that assign self.NAME."""
        return {method for method, _ in self._stores.get((node, name), ())}

    def _assigned(self, node: ast.ClassDef, name: str) -> Value | None:
        """The join of what the class and its bases assign to self.NAME."""
        values: list[Value] = []
        beyond = self._inference.facts.beyond
        for base in self.lineage(node):
            if isinstance(base, ast.ClassDef):
                values += self.stored(base, name)
            elif base is not None and beyond is not None and self._inference.facts.is_own(base):
                value = beyond.attribute(base, name)
                values += [value] if value is not None else []
        known = [value for value in values if value.kind != v.NOTHING]
        if not known:
            return None
        result = v.join_all(known)
        if result.kind == v.NAME:
            return result  # a method of another file
        if result.kind == v.UNKNOWN and not result.ids:
            return None
        return replace(
            result,
            place=_outside(result.place, node, name),
            items=None,
            keys=None,
            alternatives=_outside_all(result, node, name),
        )


def _first_argument(method: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    return method.args.args[0].arg if method.args.args else ""


def _places(part: ast.AST) -> bool:
    """Whether a node moves something or speaks of a device."""
    if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in TRANSFERS:
        return True
    word = part.arg if isinstance(part, ast.arg | ast.keyword) else part.id if isinstance(part, ast.Name) else ""
    return "device" in (word or "").lower()


def _outside(place: Place, node: ast.ClassDef, name: str) -> Place:
    """A place that hangs on a name of another method is, here, whatever the attribute's place is."""
    if place.key is None:
        return place
    if isinstance(place.key, tuple) and place.key[0] == "at":
        return Place(key=("at", (node, name)))  # wherever something unknown was
    return Place(key=("attribute", node, name), text=f"self.{name}" if place.text else "")


def _outside_all(value: Value, node: ast.ClassDef, name: str) -> tuple[Value, ...]:
    return tuple(replace(other, place=_outside(other.place, node, name)) for other in value.alternatives)


__all__ = ["ANYTHING", "Classes"]
