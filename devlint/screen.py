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

from devlint.source import Source

MAX_DEPTH = 500
"""Nesting of nodes, attribute and call chains included; far below what LibCST and the inference stand."""
MAX_OPERANDS = 2_000
"""Operands of one expression: `a and b and ...`, `a < b < ...`, the pieces of an f-string."""
MAX_BYTES = 4_000_000

MAX_TRIES = 100_000
"""How often LibCST may try a place in the patterns of `match` and the targets of `del` of a file. It goes back and
begins anew at each bracket there: `case [[[[...]]]]` takes it 2 s at a depth of 16, and twice as long at 17."""
MAX_WEIGHT = 300_000
"""The sum over all expressions of how much deeper than SHALLOW they are nested, each counted from its statement. LibCST
takes time by the square of the depth: about 30 s at this limit."""
SHALLOW = 40


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
    kept: set[str] = field(default_factory=set)
    """Attributes that are assigned an empty list or dict, and local names that an attribute is assigned."""
    filled: set[str] = field(default_factory=set)
    """Names and attributes of containers in which something may stand that is made there or nearby: written so, or put
    in by a method, by `+=` or under a key. An attribute that is assigned such a container is the name "."."""
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
class Keeps:
    """Sign: an attribute holds a plain list, tuple or dict in which something may stand that the file makes."""

    def holds(self, seen: Seen) -> bool:
        return "." in seen.filled or not seen.kept.isdisjoint(seen.filled)


@dataclass(frozen=True, slots=True)
class All:
    """Sign: all of these hold."""

    signs: tuple[Sign, ...]

    def holds(self, seen: Seen) -> bool:
        return all(sign.holds(seen) for sign in self.signs)


Sign = Calls | Discards | Mentions | Texts | Strings | Compares | Where | Comparisons | Keeps | All


_LIMITS = ("too many nested", "too many statically nested", "too many levels", "nested too deeply")
"""How Python words that a file is valid but over a limit of its own."""


def parse(text: str) -> ast.Module:
    """Parse with Python's own parser. Raises SyntaxError, TooComplex."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (RecursionError, MemoryError):
            raise TooComplex("nested deeper than Python itself can parse", 1) from None
        except SyntaxError as error:
            if any(words in str(error.msg) for words in _LIMITS):
                raise TooComplex(f"{error.msg}", error.lineno or 1) from None
            raise
        except ValueError as error:  # a NUL byte, a lone surrogate
            raise SyntaxError(str(error)) from None


_children: dict[type, tuple[str, ...]] = {}
_SKIPPED = frozenset(
    {"ctx", "op", "ops", "id", "attr", "arg", "name", "names", "rest", "kwd_attrs", "asname", "module", "level", "kind"}
    | {"conversion", "is_async", "simple", "type_comment", "type_ignores"}
)
"""Fields that hold nothing to look at."""


def _fields_of(kind: type) -> tuple[str, ...]:
    fields: tuple[str, ...] = getattr(kind, "_fields", ())
    return _children.setdefault(kind, tuple(name for name in fields if name not in _SKIPPED))


def look(tree: ast.Module, source: Source) -> Seen:
    """Measure the tree of a file and note what is in it. Raises TooComplex."""
    seen = Seen()
    calls, loose, texts = seen.calls, seen.loose, seen.texts
    deep = False
    tries = 0
    stack: list[tuple[ast.AST, int]] = [(tree, 0)]
    push, pop = stack.append, stack.pop
    while stack:
        node, depth = pop()
        if depth > SHALLOW:
            deep = True
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
            if type(node.func) is ast.Attribute and node.func.attr in _FILLS:  # type: ignore[attr-defined]
                seen.filled.add(_last(node.func.value))  # type: ignore[attr-defined]
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
        elif kind is ast.Assign or kind is ast.AnnAssign or kind is ast.AugAssign:
            _note_container(node, seen)  # type: ignore[arg-type]
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
                if len(parts) > MAX_DEPTH:
                    raise TooComplex(f"a name of more than {MAX_DEPTH} parts", node.lineno)  # type: ignore[attr-defined]
                seen.imports.update(parts)
                if alias.asname:
                    loose.add(parts[-1])
            if kind is ast.ImportFrom and node.module:  # type: ignore[attr-defined]
                seen.imports.add(node.module.split(".")[0])  # type: ignore[attr-defined]
            if kind is ast.ImportFrom and (node.module or "").count(".") >= MAX_DEPTH:  # type: ignore[attr-defined]
                raise TooComplex(f"a name of more than {MAX_DEPTH} parts", node.lineno)  # type: ignore[attr-defined]
            continue
        elif kind in _MEASURED:
            if kind is ast.JoinedStr:
                if len(node.values) > MAX_OPERANDS:  # type: ignore[attr-defined]
                    raise TooComplex(f"an f-string of more than {MAX_OPERANDS} pieces", node.lineno)  # type: ignore[attr-defined]
            elif kind is ast.Match or kind is ast.Delete:
                tries += _pattern_tries(node, source) if kind is ast.Match else _target_tries(node)  # type: ignore[arg-type]
                if tries > MAX_TRIES:
                    raise TooComplex("patterns or targets of `del` in too many nested brackets", node.lineno)  # type: ignore[attr-defined]
            elif len(node.generators) > MAX_DEPTH:  # type: ignore[attr-defined]
                raise TooComplex(f"a comprehension of more than {MAX_DEPTH} loops", node.lineno)  # type: ignore[attr-defined]
        for name in _children.get(kind) or _fields_of(kind):
            child = getattr(node, name)
            if type(child) is list:
                for item in child:
                    if item is not None and type(item) is not str:
                        push((item, depth))
            elif isinstance(child, ast.AST):
                push((child, depth))
    if deep:
        _weigh(tree)
    return seen


_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_MEASURED = frozenset((ast.JoinedStr, ast.Match, ast.Delete, *_COMPREHENSIONS))


def _weigh(tree: ast.Module) -> None:
    """See that not too much is nested deep. Raises TooComplex."""
    weight = 0
    stack: list[tuple[ast.AST, int]] = [(tree, 0)]
    while stack:
        node, depth = stack.pop()
        depth = 0 if isinstance(node, ast.stmt) else depth + 1
        if depth > SHALLOW:
            weight += depth - SHALLOW
            if weight > MAX_WEIGHT:
                raise TooComplex("too many expressions nested deep", getattr(node, "lineno", 1))
        stack.extend((child, depth) for child in ast.iter_child_nodes(node))


_PIECE = re.compile(
    r"""\#[^\r\n]* | (?P<quotes>"{3}|'{3}) (?s:.*?) (?P=quotes) | "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*'
    | (?P<call>\w(?<!\bcase)\() | (?P<open>[\[({]) | (?P<close>[\])}]) | (?P<comma>,)""",
    re.VERBOSE,
)


def _pattern_tries(node: ast.Match, source: Source) -> int:
    """How often LibCST tries places in the patterns of a `match`: twice as often with each list, class or parenthesis
    around it, four times with each tuple or mapping. `ast` shows no parentheses, so the text is counted."""
    before: ast.AST = node.subject
    tries = 0
    for case in node.cases:
        first = case.body[0]
        after = case.guard or next(iter(getattr(first, "decorator_list", ())), first)
        start = source.offset(before.end_lineno, before.end_col_offset)  # type: ignore[attr-defined]
        end = source.offset(after.lineno, after.col_offset)
        factors = [1]
        for piece in _PIECE.finditer(source.text, start, end):
            kind = piece.lastgroup
            if kind == "close":
                if len(factors) > 1:
                    factors.pop()
                continue
            if kind in ("call", "open"):
                factors.append(factors[-1] * (2 if kind == "call" or piece[0] == "[" else 4))
            elif kind != "comma":
                continue
            tries += factors[-1]
            if tries > MAX_TRIES:
                return tries
        before = case.body[-1]
    return tries


def _target_tries(node: ast.Delete) -> int:
    """How often LibCST tries places in the targets of a `del`: twice as often with each tuple around them."""
    tries = 0
    stack: list[tuple[ast.expr, int]] = [(target, 1) for target in node.targets]
    while stack and tries <= MAX_TRIES:
        target, factor = stack.pop()
        tries += factor
        if isinstance(target, ast.Tuple | ast.List):
            factor *= 2 if isinstance(target, ast.Tuple) else 1
            stack.extend((item, factor) for item in target.elts)
    return tries


def _holds_text(node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(_holds_text(item) for item in node.elts)
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


_FILLS = frozenset({"append", "extend", "insert", "update"})


def _last(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _note_container(node: ast.Assign | ast.AnnAssign | ast.AugAssign, seen: Seen) -> None:
    """What an assignment says of plain containers."""
    target, value = node.targets[0] if isinstance(node, ast.Assign) else node.target, node.value
    if type(target) is ast.Subscript:
        seen.filled.add(_last(target.value))
        return
    if isinstance(target, ast.Tuple | ast.List):
        if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
            for one, given in zip(target.elts, value.elts, strict=True):
                _note_one(one, given, seen)
        return
    if type(node) is ast.AugAssign:
        seen.filled.add(_last(target))
        return
    _note_one(target, value, seen)


def _note_one(target: ast.expr, value: ast.expr | None, seen: Seen) -> None:
    """What one target is assigned."""
    if type(value) is ast.Name:
        if type(target) is ast.Attribute:
            seen.kept.add(value.id)
        return
    if type(value) is ast.BinOp:
        value = value.left
    if type(value) is ast.Call:
        inside = [*value.args, *(keyword.value for keyword in value.keywords)]
        if _last(value.func) not in ("list", "dict", "OrderedDict"):
            return
    elif isinstance(value, _DISPLAYS):
        inside = [value]
    else:
        return
    if any(_may_hold_made(item) for item in inside):
        seen.filled.add("." if type(target) is ast.Attribute else _last(target))
    elif type(target) is ast.Attribute:
        seen.kept.add(target.attr)


_NOT_MADE = (ast.Constant, ast.Attribute, ast.Lambda, ast.JoinedStr, ast.UnaryOp)
_DISPLAYS = (ast.List, ast.Tuple, ast.Dict, ast.ListComp, ast.DictComp, ast.GeneratorExp)


def _may_hold_made(node: ast.expr | None) -> bool:
    """Whether an expression may make something: a call, a name that may stand for one, a container with one in it."""
    if isinstance(node, ast.List | ast.Tuple):
        return any(_may_hold_made(item) for item in node.elts)
    if isinstance(node, ast.Dict):
        return any(_may_hold_made(item) for item in node.values)
    if isinstance(node, ast.ListComp | ast.GeneratorExp):
        return _may_hold_made(node.elt)
    if isinstance(node, ast.DictComp):
        return _may_hold_made(node.value)
    return node is not None and not isinstance(node, _NOT_MADE)
