"""The script that is migrated: where its functions are called, what its statements span, and the edits made so far."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from devlint.checks.context import Context
from devlint.checks.guards import main_block
from devlint.finding import Edit
from devlint.placement.infer import FUNCTIONS, Function
from devlint.syntax.trees import children, walk

Owner: TypeAlias = ast.AST
"""A function, or the module."""


class ByHand(Exception):
    """A part of the script that is not migrated; the text says which, and that it has to be done by hand."""


@dataclass(frozen=True, slots=True)
class Move:
    """A statement that is to stand behind another one, below a line of its own if `head` is one."""

    statement: ast.stmt
    behind: ast.stmt
    head: str = ""


class Script:
    """One file, asked for what the migration needs to know of it, and the edits that the migration makes.

    `needs` holds names of what the edits use and the script does not have: see `setup`.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self.tree = context.tree
        self.text = context.source.text
        self.newline = context.source.newline
        self.parents = context.inference.parents
        self.edits: list[Edit] = []
        self.moves: list[Move] = []
        self.needs: set[str] = set()

    # --- what is there ------------------------------------------------------------------------------------------

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(walk(self.tree))

    @cached_property
    def calls(self) -> list[ast.Call]:
        return [node for node in self.nodes if isinstance(node, ast.Call)]

    def calls_of(self, *names: str) -> list[ast.Call]:
        """The calls of these functions, by their qualified names."""
        return [call for call in self.calls if self.name(call.func) in names]

    @cached_property
    def functions(self) -> list[Function]:
        return [node for node in self.nodes if isinstance(node, FUNCTIONS)]

    @cached_property
    def words(self) -> set[str]:
        """All identifiers in the text, so that a new name is new."""
        return set(re.findall(r"\w+", self.text))

    def name(self, node: ast.AST) -> str:
        """The qualified name of a library's function or class, empty for anything else."""
        return self.context.name_of(node) or ""

    def is_builtin(self, node: ast.AST, name: str) -> bool:
        """Whether node is this name, bound nowhere in the file."""
        if not (isinstance(node, ast.Name) and node.id == name):
            return False
        home = self.context.names.homes.get(node)
        return home is not None and home.defining(name) is None

    def owner(self, node: ast.AST) -> Owner:
        return self.context.inference.owner(node)

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        """The class whose body holds the method that node stands in."""
        owner = self.owner(node) if not isinstance(node, FUNCTIONS) else node
        above = self.parents.get(owner)
        return above if isinstance(above, ast.ClassDef) else None

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        return self.context.inference.ancestors(node)

    def own_nodes(self, owner: Owner) -> Iterator[ast.AST]:
        """The nodes of a function's own body, in source order; those of functions and classes in it left out."""
        stack: list[ast.AST] = list(getattr(owner, "body", []))[::-1]
        while stack:
            node = stack.pop()
            yield node
            if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                stack += children(node)[::-1]

    def called(self, call: ast.Call) -> Function | None:
        """The function of this file that a call runs: by its name, as a method of self or of an object, or `__init__`.

        Of an object the class has to be seen where it is made.
        """
        function = call.func
        if isinstance(function, ast.Name):
            home = self.context.names.homes.get(function)
            scope = home.defining(function.id) if home is not None else None
            bound = scope.bound.get(function.id, []) if scope is not None else []
            if len(bound) == 1 and isinstance(bound[0], FUNCTIONS):
                return bound[0]
            if len(bound) == 1 and isinstance(bound[0], ast.ClassDef):
                return method(bound[0], "__init__")
            return None
        if isinstance(function, ast.Attribute):
            if isinstance(function.value, ast.Name) and function.value.id == "self":
                class_ = self.class_of(call)
                return method(class_, function.attr) if class_ is not None else None
            class_ = self._class_made(function.value)
            return method(class_, function.attr) if class_ is not None else None
        return None

    def _class_made(self, node: ast.expr) -> ast.ClassDef | None:
        """The class of this file of which node is an instance, as it is written: `C(...)`, a name assigned from it."""
        if isinstance(node, ast.Call):
            return next((c for c in self._classes if isinstance(node.func, ast.Name) and c.name == node.func.id), None)
        if isinstance(node, ast.Name):
            made = {self._class_made(value) for value in self._made.get(node.id, ()) if isinstance(value, ast.Call)}
            return made.pop() if len(made) == 1 else None
        return None

    @cached_property
    def _classes(self) -> list[ast.ClassDef]:
        return [node for node in self.nodes if isinstance(node, ast.ClassDef)]

    @cached_property
    def _made(self) -> dict[str, list[ast.expr]]:
        """What is assigned to each name, wherever that is."""
        found: dict[str, list[ast.expr]] = {}
        for node in self.nodes:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                found.setdefault(node.targets[0].id, []).append(node.value)
        return found

    @cached_property
    def _callers(self) -> dict[Function, list[ast.Call]]:
        found: dict[Function, list[ast.Call]] = {}
        for call in self.calls:
            target = self.called(call)
            if target is not None:
                found.setdefault(target, []).append(call)
        return found

    def callers(self, function: Function) -> list[ast.Call]:
        """The calls of a function in this file."""
        return self._callers.get(function, [])

    def passed(self, call: ast.Call, function: Function) -> Iterator[tuple[ast.arg, ast.expr]]:
        """The arguments of a call with the parameters that they are given to; those behind stars are left out."""
        parameters = [*function.args.posonlyargs, *function.args.args]
        if self.class_of(function) is not None and parameters:
            parameters = parameters[1:]
        for parameter, value in zip(parameters, call.args, strict=False):
            if isinstance(value, ast.Starred):
                return
            yield parameter, value
        named = {p.arg: p for p in (*parameters, *function.args.kwonlyargs)}
        for keyword in call.keywords:
            if keyword.arg in named:
                yield named[keyword.arg], keyword.value

    @cached_property
    def main(self) -> list[ast.stmt]:
        """The statements of `if __name__ == "__main__"`; none where the file has no such block."""
        block = main_block(self.tree)
        return block.body if block is not None else []

    # --- statements and their text ------------------------------------------------------------------------------

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement around node, or node itself."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements among which this one stands."""
        above = self.parents[statement]
        for name in ("body", "orelse", "finalbody"):
            block = getattr(above, name, None)
            if isinstance(block, list) and statement in block:
                return block
        raise ByHand(f"the statement in line {statement.lineno} stands in a block that is not read")

    def span(self, node: ast.AST) -> tuple[int, int]:
        """The characters of node; within an f-string by its text, where Python gives no positions."""
        if self.context.editable(node):
            return self.context.span(node)
        start, end = self.context.span(node)  # of the f-string around it
        wanted = ast.unparse(node)
        if self.text.count(wanted, start, end) != 1:
            raise ByHand(f"`{wanted}` in the f-string of line {getattr(node, 'lineno', '?')} is to be reduced")
        begin = self.text.index(wanted, start, end)
        return begin, begin + len(wanted)

    def source(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.text[start:end]

    def lines(self, statement: ast.stmt) -> tuple[int, int]:
        """The whole lines of a statement, decorators and the last line end included."""
        first: ast.AST = (getattr(statement, "decorator_list", None) or [statement])[0]
        start = self.context.source.line_starts[first.lineno - 1]  # type: ignore[attr-defined]
        _, end = self.context.span(statement)
        while end < len(self.text) and self.text[end] not in "\r\n":
            end += 1
        if self.text.startswith("\r\n", end):
            return start, end + 2
        return start, min(end + 1, len(self.text))

    def alone(self, statement: ast.stmt) -> bool:
        """Whether nothing but comments shares the lines of a statement."""
        start, end = self.lines(statement)
        first, last = self.context.span(statement)
        return not self.text[start:first].strip() and re.fullmatch(r"\s*(#.*)?\s*", self.text[last:end]) is not None

    def indent(self, statement: ast.stmt) -> str:
        start, _ = self.lines(statement)
        match = re.compile(r"[ \t]*").match(self.text, start)
        assert match is not None
        return match[0]

    def fits(self, node: ast.AST, more: int) -> bool:
        """Whether the line of a node may grow by so many characters; a node over several lines may always."""
        start, end = self.lines(self.statement(node))
        return getattr(node, "end_lineno", 0) != getattr(node, "lineno", 0) or end - start + more <= self.width

    @cached_property
    def width(self) -> int:
        """How long lines may be: as long as the file's own, and 100 in any case, but no more than 120."""
        return min(max(100, *map(len, self.text.splitlines())), 120)

    @cached_property
    def step(self) -> str:
        """One level of indentation, as the file has it."""
        for node in self.nodes:
            if isinstance(node, (*FUNCTIONS, ast.For, ast.If, ast.ClassDef)) and self.alone(node.body[0]):
                inner, outer = self.indent(node.body[0]), self.indent(node)
                if inner.startswith(outer) and len(inner) > len(outer):
                    return inner[len(outer) :]
        return "    "

    # --- edits --------------------------------------------------------------------------------------------------

    def replace(self, node: ast.AST, text: str) -> None:
        self.edits.append(Edit(*self.span(node), text))

    def insert(self, position: int, text: str) -> None:
        self.edits.append(Edit(position, position, text))

    def insert_before(self, statement: ast.stmt, *lines: str) -> None:
        """Put lines before a statement, indented as it is."""
        self._require_alone(statement)
        indent = self.indent(statement)
        self.insert(self.lines(statement)[0], "".join(f"{indent}{line}{self.newline}" for line in lines))

    def insert_first(self, block: list[ast.stmt], line: str) -> None:
        """Put a line at the top of a block, before the comments of its first statement."""
        self._require_alone(block[0])
        source = self.context.source
        row = block[0].lineno
        while re.match(r"\s*(#|$)", source.line(row - 1)):
            row -= 1
        self.insert(source.line_starts[row - 1], f"{self.indent(block[0])}{line}{self.newline}")

    def insert_after(self, statement: ast.stmt, *lines: str) -> None:
        """Put lines behind a statement, indented as it is."""
        self._require_alone(statement)
        indent = self.indent(statement)
        _, end = self.lines(statement)
        text = "".join(f"{indent}{line}{self.newline}" for line in lines)
        if not self.text[:end].endswith(("\n", "\r")):
            text = self.newline + text
        self.insert(end, text)

    def need(self, *names: str) -> None:
        self.needs.update(names)

    def fresh(self, *wanted: str) -> str:
        """The first of these names that the script does not have."""
        for name in wanted:
            if name not in self.words:
                self.words.add(name)
                return name
        raise ByHand(f"a new name is needed, and `{wanted[0]}` is taken")

    def _require_alone(self, statement: ast.stmt) -> None:
        if not self.alone(statement):
            raise ByHand(f"line {statement.lineno} holds several statements")


def method(class_: ast.ClassDef, name: str) -> Function | None:
    """The method of this name in the class's own body."""
    return next((node for node in class_.body if isinstance(node, FUNCTIONS) and node.name == name), None)


def argument(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """What a call passes as this argument, by name or by place."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if position is not None and position < len(call.args) and not _starred(call.args[: position + 1]):
        return call.args[position]
    return None


def has_stars(call: ast.Call) -> bool:
    return _starred(call.args) or any(keyword.arg is None for keyword in call.keywords)


def _starred(values: Iterable[ast.expr]) -> bool:
    return any(isinstance(value, ast.Starred) for value in values)


def is_true(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def is_false(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is False
