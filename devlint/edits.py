"""Fixes into text: which of them fit together, the new text, and the proof that nothing else changed.

Offsets count characters of the text as it stands in the file. The proof rests on `ast` alone, not on what made the fix.
"""

from __future__ import annotations

import ast
import re
import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, TypeVar

from devlint.finding import Edit, Fix
from devlint.source import Source

K = TypeVar("K")

_Span = tuple[int, int]

# --- applying ---------------------------------------------------------------------------------------------------------


def apply(text: str, fixes: Iterable[tuple[K, Fix]]) -> tuple[str, tuple[Edit, ...], tuple[K, ...]]:
    """The text with the fixes in it that fit together, the edits made (in order of place), and the keys of these fixes.

    A fix is made whole or not at all. In the order given, one that meets an edit of an earlier one is left out: both
    would change the same characters, or one inserts where the other begins or ends, so that their order would be a
    guess. Equal edits are one (two fixes that need the same import). A fix that changes nothing is left out too.

    Raises ValueError for a fix whose edits overlap each other or lie outside of the text.
    """
    chosen: dict[Edit, None] = {}
    done: list[K] = []
    for key, fix in fixes:
        edits = _in_order(fix, len(text))
        if all(text[edit.start : edit.end] == edit.text for edit in edits):
            continue
        added = [edit for edit in edits if edit not in chosen]
        if any(_conflict(edit, other) for edit in added for other in chosen):
            continue
        chosen.update(dict.fromkeys(added))
        done.append(key)
    # Sorting is stable: insertions of one fix at one place stay in its order, and stand before what replaces text
    # there.
    ordered = sorted(chosen, key=lambda edit: (edit.start, edit.end))
    return splice(text, ordered), tuple(ordered), tuple(done)


def splice(text: str, edits: Iterable[Edit]) -> str:
    """The text with edits made that are in order of place and do not overlap."""
    parts: list[str] = []
    position = 0
    for edit in edits:
        parts += (text[position : edit.start], edit.text)
        position = edit.end
    return "".join((*parts, text[position:]))


def _in_order(fix: Fix, length: int) -> list[Edit]:
    edits = sorted(dict.fromkeys(fix.edits), key=lambda edit: (edit.start, edit.end))
    position = 0
    for edit in edits:
        if not position <= edit.start <= edit.end <= length:
            raise ValueError(f"the edits of the fix {fix.title!r} overlap or leave the text at {edit}")
        position = edit.end
    return edits


def _conflict(one: Edit, other: Edit) -> bool:
    if one.start == one.end or other.start == other.end:
        return one.start <= other.end and other.start <= one.end
    return one.start < other.end and other.start < one.end


# --- proving ----------------------------------------------------------------------------------------------------------


def prove(old: str, new: str, edits: Sequence[Edit]) -> str | None:
    """None if `new` is `old` with these edits made and means the same outside of them, else the reason in one line.

    Shown are: every character outside of the edits is the same; the new text parses, and compiles if the old one does;
    each statement without an edit is the same, in the same block and in the same order; in the others, each expression
    without an edit in it is still there, and each node around an edit is the same unless the edit touches more of it
    than one of its parts (so `a * b` whose `b` became `b + c` is refused). What is inserted between the end of an
    operation and the end of its last operand may be meant for either: a fix that means `a + b` as a whole has to write
    the brackets.
    """
    ordered = sorted(edits, key=lambda edit: (edit.start, edit.end))
    reason = _differs(old, new, ordered)
    if reason is not None:
        return reason
    trees: list[ast.Module] = []
    try:
        trees += (_parse(text) for text in (old, new))
        return _Proof(old, new, ordered, trees[1]).compare(trees[0]) or _compiles(*trees)
    except SyntaxError as error:
        return f"the {'new' if trees else 'old'} text is not valid Python: {error.msg} (line {error.lineno})"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"the text cannot be parsed: {type(error).__name__}: {error}"


def _differs(old: str, new: str, edits: Sequence[Edit]) -> str | None:
    """Whether the new text is anything but the old one with the edits made, compared piece by piece."""
    in_old = in_new = 0
    for edit in edits:
        if not in_old <= edit.start <= edit.end <= len(old):
            return "the edits overlap or leave the text"
        untouched = edit.start - in_old
        if old[in_old : edit.start] != new[in_new : in_new + untouched]:
            return "a character outside of the edits changed"
        in_new += untouched
        if not new.startswith(edit.text, in_new):
            return "an edit is not in the new text"
        in_old, in_new = edit.end, in_new + len(edit.text)
    return None if old[in_old:] == new[in_new:] else "a character outside of the edits changed"


def _parse(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def _compiles(old: ast.Module, new: ast.Module) -> str | None:
    """Why the new tree does not compile where the old one does. A keyword given twice is found here, not in parsing."""
    reason = _compile_error(new)
    return None if reason is None or _compile_error(old) is not None else f"the new text does not compile: {reason}"


def _compile_error(tree: ast.Module) -> str | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(tree, "<devlint>", "exec", dont_inherit=True)
        except SyntaxError as error:
            return f"{error.msg} (line {error.lineno})"
        except (ValueError, RecursionError, MemoryError) as error:
            return type(error).__name__
    return None


# Before Python 3.12 the parts of an f-string have no true positions: it is taken as one piece.
_ATOMS = tuple(getattr(ast, name) for name in ("JoinedStr", "TemplateStr") if hasattr(ast, name))

# Nodes with parts between commas: where a part is replaced as a whole, others may have come beside it.
_LISTS = (
    ast.Call,
    ast.List,
    ast.Tuple,
    ast.Set,
    ast.Dict,
    ast.Import,
    ast.ImportFrom,
    ast.Delete,
    ast.With,
    ast.AsyncWith,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.Lambda,
    ast.ClassDef,
)


# Nodes whose parts stand beside a sign that binds them.
_OPERATIONS = (ast.BinOp, ast.BoolOp, ast.UnaryOp, ast.Compare, ast.IfExp, ast.Attribute, ast.NamedExpr)

_REST_OF_LINE = re.compile(r"[ \t\f]*(?:#[^\r\n]*)?(?:\r\n?|\n|\Z)")


class _Side:
    """One of the two texts, with the places in it that were edited."""

    def __init__(self, text: str, places: Sequence[_Span]) -> None:
        self._source = Source("", text)
        self._places = places
        self._ends = [end for _, end in places]

    def row(self, node: ast.AST) -> int:
        return self._source.location(self.span(node)[0]).row

    def span(self, node: ast.AST) -> _Span:
        """The characters of a node; of a function or class from its first decorator on."""
        if isinstance(node, ast.Module):
            return (0, len(self._source.text))
        # Any: that a node has a place is no matter of its class, see _has_place.
        last: Any = node
        first: Any = (getattr(node, "decorator_list", None) or [node])[0]
        return (
            self._source.offset(first.lineno, first.col_offset),
            self._source.offset(last.end_lineno, last.end_col_offset),
        )

    def touching(self, span: _Span) -> Iterator[_Span]:
        """The edited places that overlap the span or stand at one of its ends."""
        for index in range(bisect_left(self._ends, span[0]), len(self._places)):
            place = self._places[index]
            if place[0] > span[1]:
                return
            yield place

    def reach(self, node: ast.AST) -> _Span:
        """The span of a node; of a statement with the white space before it, and with the rest of its last line.

        The white space says in which block a statement is, and what follows its last line may belong to its block.
        """
        start, end = self.span(node)
        if isinstance(node, ast.stmt):
            text = self._source.text
            while start > 0 and text[start - 1] in " \t\f":
                start -= 1
            rest = _REST_OF_LINE.match(text, end)
            end = rest.end() if rest else end
        return (start, end)

    def is_touched(self, node: ast.AST) -> bool:
        return next(self.touching(self.reach(node)), None) is not None

    def is_edited(self, node: ast.AST) -> bool:
        """Whether a character of the node changed, or something was inserted between two of them."""
        start, end = self.span(node)
        return any(place[0] < end and start < place[1] for place in self.touching((start, end)))


class _Proof:
    """Compares two trees in parallel; recursion is on stacks of its own, so that no depth of nesting ends it."""

    def __init__(self, old: str, new: str, edits: Sequence[Edit], new_tree: ast.Module) -> None:
        shifts = [0, *accumulate(len(edit.text) - (edit.end - edit.start) for edit in edits)]
        self._edits = edits
        self._shifts = shifts
        self._old = _Side(old, [(edit.start, edit.end) for edit in edits])
        self._new = _Side(
            new,
            [
                (edit.start + shift, edit.start + shift + len(edit.text))
                for edit, shift in zip(edits, shifts, strict=False)
            ],
        )
        self._new_tree = new_tree
        self._pairs: list[tuple[ast.AST, ast.AST, bool, ast.AST]] = []
        # The node in hand, or the one that it is part of where it has no place.
        self._owner: ast.AST = new_tree

    def compare(self, old_tree: ast.Module) -> str | None:
        """The first difference that no edit accounts for, as a reason; None if there is none."""
        self._pairs = [(old_tree, self._new_tree, True, old_tree)]
        while self._pairs:
            old, new, free, owner = self._pairs.pop()
            self._owner = old if _has_place(old) else owner
            fault = self._compare_pair(old, new, free)
            if fault is not None:
                return f"line {self._old.row(fault)} changed outside of the edits"
        return None

    def _compare_pair(self, old: ast.AST, new: ast.AST, free: bool) -> ast.AST | None:
        """The old node at which the two differ wrongly. `free`: an edit touches the parent itself, not just its parts.

        Nodes without a place of their own (operators, `arguments`, `withitem`) are as free as their parent.
        """
        if _has_place(old):
            if not self._old.is_touched(old):
                # Around it a new level may have come, as in `f(a).to(d)` for `f(a, d)`.
                return None if _same(old, new) or (free and self._is_kept(old)) else old
            if not self._old.is_edited(old) and (_same(old, new) or self._is_kept(old)):
                return None
            if isinstance(old, _ATOMS):
                return None if self._old.is_edited(old) else old
            free = self._is_free(old)
        if type(old) is not type(new):
            return self._first_lost(old) if free else self._owner
        for name in old._fields:
            if name in ("ctx", "type_ignores"):
                continue
            one, other = getattr(old, name), getattr(new, name)
            if isinstance(one, list):
                fault = self._compare_lists(one, other, free)
            elif isinstance(one, ast.AST) and isinstance(other, ast.AST):
                self._pair(one, other, free)
                continue
            elif isinstance(one, ast.AST):
                fault = self._first_lost(one) if free else self._owner
            else:
                fault = None if free or _same_value(one, other) else self._owner
            if fault is not None:
                return fault
        return None

    def _compare_lists(self, old: list[object], new: list[object], free: bool) -> ast.AST | None:
        if not all(isinstance(item, ast.AST) and _has_place(item) for item in (*old, *new)):
            return self._compare_bare_lists(old, new, free)
        ones = [item for item in old if isinstance(item, ast.AST)]
        others = [item for item in new if isinstance(item, ast.AST)]
        runs, kept = _runs(ones, self._old)
        new_runs, new_kept = _runs(others, self._new)
        fits = len(kept) == len(new_kept) and all(map(_same, kept, new_kept))
        if not fits:
            is_block = any(isinstance(item, ast.stmt) for item in ones)
            if is_block or not free:
                # Untouched statements may not come, go, or move to another block.
                return next((one for one, other in zip(kept, new_kept, strict=False) if not _same(one, other)), ones[0])
            return next((lost for one in ones if (lost := self._lost(one)) is not None), None)
        for run, new_run in zip(runs, new_runs, strict=True):
            if len(run) == len(new_run) and (not free or self._is_aligned(run, new_run)):
                for one, other in zip(run, new_run, strict=True):
                    self._pair(one, other, free)
            elif not free:
                return run[0] if run else self._owner
            elif (lost := self._pair_up(run, new_run, free)) is not None:
                return lost
        return None

    def _is_aligned(self, run: Sequence[ast.AST], new_run: Sequence[ast.AST]) -> bool:
        """Whether each statement holds the text of the other, or shares an end with it; else as many came as went."""
        for old, new in zip(run, new_run, strict=True):
            if not isinstance(old, ast.stmt):
                return True
            if self._is_gone(old):
                return False
            start, end = self._moved(self._old.span(old))
            new_start, new_end = self._new.span(new)
            if start != new_start and end != new_end and not (new_start <= start and end <= new_end):
                return False
        return True

    def _is_gone(self, node: ast.AST) -> bool:
        """Whether one edit takes out all of a node's text, so that what stands there now is something else."""
        start, end = self._old.span(node)
        return any(edit.start <= start and end <= edit.end and not edit.text for edit in self._edits)

    def _pair_up(self, run: Sequence[ast.AST], new_run: Sequence[ast.AST], free: bool) -> ast.AST | None:
        """Pair touched nodes of which some came or went, by where they start or end; the rest must have been edited."""
        spans = {self._new.span(node): node for node in new_run}
        by_start = {start: node for (start, _), node in spans.items()}
        by_end = {end: node for (_, end), node in spans.items()}
        for old in run:
            start, end = self._moved(self._old.span(old))
            other = None if self._is_gone(old) else by_end.get(end) or by_start.get(start)
            if other is not None:
                self._pair(old, other, free)
            elif (lost := self._lost(old)) is not None:
                return lost
        return None

    def _compare_bare_lists(self, old: list[object], new: list[object], free: bool) -> ast.AST | None:
        """Lists of names, operators, or of nodes with gaps (`None` for the key of `**d`)."""
        if len(old) != len(new):
            if not free:
                return self._owner
            nodes = (item for item in old if isinstance(item, ast.AST))
            return next((lost for node in nodes if (lost := self._lost(node)) is not None), None)
        for one, other in zip(old, new, strict=True):
            if isinstance(one, ast.AST) and isinstance(other, ast.AST):
                self._pair(one, other, free)
            elif not free and not _same_value(one, other):
                return self._owner
            elif isinstance(one, ast.AST) and (lost := self._lost(one)) is not None:
                return lost
        return None

    def _pair(self, one: ast.AST, other: ast.AST, free: bool) -> None:
        self._pairs.append((one, other, free, self._owner))

    def _is_free(self, node: ast.AST) -> bool:
        """Whether an edit touches more of the node than one of its parts, so that the node itself may change."""
        spans = sorted(self._old.span(part) for part in _parts(node))
        starts = [start for start, _ in spans]
        whole = self._old.span(node)
        for start, end in self._old.touching(self._old.reach(node)):
            index = bisect_right(starts, start) - 1
            if start == end and isinstance(node, _OPERATIONS) and whole[0] < start < whole[1]:
                # Between operands: what is inserted at one of them belongs to it, not to the operation.
                if index >= 0 and start <= spans[index][1]:
                    continue
                return True
            if index < 0:
                return True
            part_start, part_end = spans[index]
            inside = end <= part_end if start < end else part_start < start < part_end
            if not inside or ((start, end) == spans[index] and isinstance(node, _LISTS)):
                return True
        return False

    def _first_lost(self, node: ast.AST) -> ast.AST | None:
        """What is lost of a node that became another: a part without an edit in it that is not in the new tree."""
        if isinstance(node, ast.stmt) and not isinstance(node, ast.Expr) and not self._old.is_edited(node):
            return None if self._is_kept(node) else node
        return next((lost for part in _parts(node) if (lost := self._lost(part)) is not None), None)

    def _lost(self, node: ast.AST) -> ast.AST | None:
        """The first node in this one without an edit in it that is nowhere in the new tree.

        An expression with an insertion at its end is there in its parts: in `-x` with `.to(d)` behind it, `x` alone is.
        """
        nodes = [node] if _has_place(node) else list(_parts(node))
        while nodes:
            node = nodes.pop()
            if self._old.is_edited(node):
                nodes.extend(_parts(node))
            elif not self._is_kept(node):
                parts = list(_parts(node)) if self._old.is_touched(node) and isinstance(node, ast.expr) else []
                if not parts:
                    return node
                nodes.extend(parts)
        return None

    def _is_kept(self, node: ast.AST) -> bool:
        """Whether the new tree has the same node in the place to which the old one's text moved."""
        start, end = self._moved(self._old.span(node))
        candidate: ast.AST | None = self._new_tree
        while candidate is not None:
            if self._new.span(candidate) == (start, end) and _same(node, candidate):
                return True
            candidate = next((part for part in _parts(candidate) if self._covers(part, start, end)), None)
        return False

    def _covers(self, node: ast.AST, start: int, end: int) -> bool:
        span = self._new.span(node)
        return span[0] <= start and end <= span[1]

    def _moved(self, span: _Span) -> _Span:
        """Where the text of a span stands in the new text; what was inserted at its ends is not part of it."""
        start, end = span
        before = sum(1 for edit in self._edits if edit.end <= start)
        until = sum(1 for edit in self._edits if edit.end <= end and not edit.start == edit.end == end)
        return (start + self._shifts[before], end + self._shifts[until])


def _runs(nodes: Sequence[ast.AST], side: _Side) -> tuple[list[list[ast.AST]], list[ast.AST]]:
    """The untouched nodes, and the runs of touched ones before, between and behind them."""
    runs: list[list[ast.AST]] = [[]]
    kept: list[ast.AST] = []
    for node in nodes:
        if side.is_touched(node):
            runs[-1].append(node)
        else:
            kept.append(node)
            runs.append([])
    return runs, kept


def _has_place(node: ast.AST) -> bool:
    return isinstance(node, ast.Module) or hasattr(node, "lineno")


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """The nearest nodes in this one that have a place."""
    if isinstance(node, _ATOMS):
        return
    nodes = [node]
    while nodes:
        for part in ast.iter_child_nodes(nodes.pop()):
            if _has_place(part):
                yield part
            else:
                nodes.append(part)


def _same(one: ast.AST, other: ast.AST) -> bool:
    """Whether two trees are equal but for places; whether a name is read or set follows from what is around it."""
    pairs: list[tuple[object, object]] = [(one, other)]
    while pairs:
        a, b = pairs.pop()
        if isinstance(a, ast.AST):
            if type(a) is not type(b):
                return False
            pairs.extend((getattr(a, name), getattr(b, name)) for name in a._fields if name != "ctx")
        elif isinstance(a, list):
            if not isinstance(b, list) or len(a) != len(b):
                return False
            pairs.extend(zip(a, b, strict=True))
        elif not _same_value(a, b):
            return False
    return True


def _same_value(one: object, other: object) -> bool:
    """Equal as constants: 1 is not True."""
    return type(one) is type(other) and one == other
