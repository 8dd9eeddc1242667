"""The first look at a file, with `ast` alone: is it valid, is it too deep, which rules could find anything at all?

No text reaches LibCST before it went through here: LibCST's native parser kills the process, or hangs, on nesting that
no person writes. One walk measures the tree and notes what the rules' signs ask for.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

MAX_DEPTH = 500
"""Nesting of nodes, attribute and call chains included; far below what LibCST and the inference stand."""
MAX_OPERANDS = 2_000
"""Operands of one expression: `a and b and ...`, `a < b < ...`."""
MAX_BYTES = 4_000_000


class TooComplex(Exception):
    """The tree is over a limit; `args[0]` says which, `row` where."""

    def __init__(self, message: str, row: int) -> None:
        super().__init__(message)
        self.row = row


@dataclass(slots=True)
class Seen:
    """What one walk over a tree saw, by the last part of each name."""

    calls: dict[str, list[ast.Call]] = field(default_factory=dict)
    discards: dict[str, list[ast.Attribute]] = field(default_factory=dict)
    """Attributes that a statement calls and whose value it throws away, and those that are named and not called where
    a value is wanted: as a statement, returned, as an argument."""
    loose: set[str] = field(default_factory=set)
    """Names, attributes and renamed imports that stand elsewhere than before a call's parentheses."""
    imports: set[str] = field(default_factory=set)
    texts: list[str] = field(default_factory=list)
    compared: bool = False
    """Whether anything is compared with a string, or with a call."""
    comparisons: list[ast.Compare] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Calls:
    """Sign: a call of one of these names, without any of these keywords (`**` may hold any and counts as none).

    A name that stands elsewhere than before parentheses can be called by another name, and is a sign as well.
    """

    names: frozenset[str]
    without: frozenset[str] = frozenset()

    def holds(self, seen: Seen) -> bool:
        return not self.names.isdisjoint(seen.loose) or any(
            not any(keyword.arg in self.without for keyword in call.keywords)
            for name in self.names & seen.calls.keys()
            for call in seen.calls[name]
        )


@dataclass(frozen=True, slots=True)
class Discards:
    """Sign: a statement that throws away what one of these methods gives."""

    names: frozenset[str]

    def holds(self, seen: Seen) -> bool:
        return not self.names.isdisjoint(seen.discards)


@dataclass(frozen=True, slots=True)
class Mentions:
    """Sign: one of these names stands anywhere, as a name, an attribute or in an import."""

    names: frozenset[str]

    def holds(self, seen: Seen) -> bool:
        return any(not self.names.isdisjoint(where) for where in (seen.loose, seen.calls, seen.imports))


@dataclass(frozen=True, slots=True)
class Texts:
    """Sign: a string, or a piece of an f-string, that this pattern finds."""

    pattern: re.Pattern[str]

    def holds(self, seen: Seen) -> bool:
        return any(self.pattern.search(text) for text in seen.texts)


@dataclass(frozen=True, slots=True)
class Compares:
    """Sign: something is compared with a string or with what a call gives."""

    def holds(self, seen: Seen) -> bool:
        return seen.compared


@dataclass(frozen=True, slots=True)
class Strings:
    """Sign: a string, or a piece of an f-string, that passes this test."""

    test: Callable[[str], bool]

    def holds(self, seen: Seen) -> bool:
        return any(map(self.test, seen.texts))


@dataclass(frozen=True, slots=True)
class Where:
    """Sign: a call, as it stands, that passes this test; of any name, or of these only."""

    test: Callable[[ast.Call], bool]
    names: frozenset[str] = frozenset()

    def holds(self, seen: Seen) -> bool:
        names = self.names & seen.calls.keys() if self.names else seen.calls.keys()
        return any(self.test(call) for name in names for call in seen.calls[name])


@dataclass(frozen=True, slots=True)
class Comparisons:
    """Sign: a comparison that passes this test."""

    test: Callable[[ast.Compare], bool]

    def holds(self, seen: Seen) -> bool:
        return any(map(self.test, seen.comparisons))


@dataclass(frozen=True, slots=True)
class All:
    """Sign: all of these hold."""

    signs: tuple[Sign, ...]

    def holds(self, seen: Seen) -> bool:
        return all(sign.holds(seen) for sign in self.signs)


Sign = Calls | Discards | Mentions | Texts | Strings | Compares | Where | Comparisons | All


def parse(text: str) -> ast.Module:
    """Parse with Python's own parser. Raises SyntaxError, TooComplex."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (RecursionError, MemoryError):
            raise TooComplex("nested deeper than Python itself can parse", 1) from None
        except SyntaxError as error:
            if "too many nested" in str(error.msg) or "too many statically nested" in str(error.msg):
                raise TooComplex(f"{error.msg}", error.lineno or 1) from None
            raise
        except ValueError as error:  # a NUL byte, a lone surrogate
            raise SyntaxError(str(error)) from None


_LEAVES = (ast.expr_context, ast.operator, ast.boolop, ast.unaryop, ast.cmpop)
_children: dict[type, tuple[str, ...]] = {}


def _fields_of(kind: type) -> tuple[str, ...]:
    skipped = ("ctx", "op", "ops", "id", "attr", "arg", "name", "names", "value" if kind is ast.Constant else "")
    skipped += ("type_comment", "lineno", "kind", "level", "module", "conversion", "is_async", "simple", "asname")
    fields: tuple[str, ...] = getattr(kind, "_fields", ())
    return _children.setdefault(kind, tuple(name for name in fields if name not in skipped))


def look(tree: ast.Module) -> Seen:
    """Measure a tree and note what is in it. Raises TooComplex."""
    seen = Seen()
    calls, loose, texts = seen.calls, seen.loose, seen.texts
    stack: list[tuple[ast.AST, int]] = [(tree, 0)]
    push, pop = stack.append, stack.pop
    while stack:
        node, depth = pop()
        if depth > MAX_DEPTH:
            raise TooComplex(f"nested deeper than {MAX_DEPTH} levels", getattr(node, "lineno", 1))
        depth += 1
        kind = type(node)
        if kind is ast.Name:
            loose.add(node.id)  # type: ignore[attr-defined]
            continue
        if kind is ast.Constant:
            if type(node.value) is str:  # type: ignore[attr-defined]
                texts.append(node.value)  # type: ignore[attr-defined]
            continue
        if kind is ast.Attribute:
            loose.add(node.attr)  # type: ignore[attr-defined]
            push((node.value, depth))  # type: ignore[attr-defined]
            continue
        if kind is ast.Call:
            function = node.func  # type: ignore[attr-defined]
            while type(function) is ast.Attribute:
                if function is node.func:  # type: ignore[attr-defined]
                    calls.setdefault(function.attr, []).append(node)  # type: ignore[arg-type]
                else:
                    loose.add(function.attr)
                function, depth = function.value, depth + 1
            if type(function) is ast.Name and function is node.func:  # type: ignore[attr-defined]
                calls.setdefault(function.id, []).append(node)  # type: ignore[arg-type]
            else:
                push((function, depth))
            for argument in node.args:  # type: ignore[attr-defined]
                if type(argument) is ast.Attribute:
                    seen.discards.setdefault(argument.attr, []).append(argument)
                push((argument, depth))
            for keyword in node.keywords:  # type: ignore[attr-defined]
                if type(keyword.value) is ast.Attribute:
                    seen.discards.setdefault(keyword.value.attr, []).append(keyword.value)
                push((keyword.value, depth))
            continue
        elif kind is ast.Expr or kind is ast.Return:
            value = node.value  # type: ignore[attr-defined]
            if kind is ast.Expr and type(value) is ast.Call:
                value = value.func
            if type(value) is ast.Attribute:
                seen.discards.setdefault(value.attr, []).append(value)
        elif kind is ast.Compare:
            operands = [node.left, *node.comparators]  # type: ignore[attr-defined]
            if len(operands) > MAX_OPERANDS:
                raise TooComplex(f"an expression of more than {MAX_OPERANDS} operands", node.lineno)  # type: ignore[attr-defined]
            seen.comparisons.append(node)  # type: ignore[arg-type]
            seen.compared |= any(type(o) is ast.Call or _holds_text(o) for o in operands)
        elif kind is ast.BoolOp:
            if len(node.values) > MAX_OPERANDS:  # type: ignore[attr-defined]
                raise TooComplex(f"an expression of more than {MAX_OPERANDS} operands", node.lineno)  # type: ignore[attr-defined]
        elif kind is ast.Import or kind is ast.ImportFrom:
            for alias in node.names:  # type: ignore[attr-defined]
                parts = alias.name.split(".")
                seen.imports.update(parts)
                if alias.asname:
                    loose.add(parts[-1])
            continue
        for name in _children.get(kind) or _fields_of(kind):
            child = getattr(node, name)
            if type(child) is list:
                for item in child:
                    if item is not None and type(item) is not str:
                        push((item, depth))
            elif isinstance(child, ast.AST):
                push((child, depth))
    return seen


def _holds_text(node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(_holds_text(item) for item in node.elts)
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
