"""What a rule can ask of the file that it looks at."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from devlint.placement.infer import Inference
from devlint.placement.values import ANYTHING, NAME, Value
from devlint.screen import Seen
from devlint.source.text import Source
from devlint.syntax.lazy import cst
from devlint.syntax.names import Names
from devlint.syntax.pairing import Pairs, pair
from devlint.syntax.parse import parse

_POSITIONS_IN_F_STRINGS = sys.version_info >= (3, 12)
"""Before 3.12, what stands in an f-string has positions of its own that are not those of the file."""

TORCH_NOW = (2, 13)
"""The version that rules assume where `target-torch` is not set: the newest that the fact tables know."""


@dataclass(eq=False)
class Context:
    """One file, in both its trees, with what is known of its values."""

    source: Source
    tree: ast.Module
    seen: Seen
    names: Names
    inference: Inference
    target_torch: tuple[int, int] = TORCH_NOW
    memo: dict[str, Any] = field(default_factory=dict)
    """What one rule found out and another asks for again."""
    claims: dict[ast.AST, str] = field(default_factory=dict)
    """Nodes at which a rule speaks before a more general one, with its code. A rule enters them in `suspects`."""

    @cached_property
    def module(self) -> cst.Module:
        """LibCST's tree, parsed when it is first asked for. Raises Refused."""
        return parse(self.source.text)

    @cached_property
    def pairs(self) -> Pairs:
        """The `ast` node of each LibCST expression and statement. Raises Refused, Unpaired."""
        return pair(self.module, self.tree)

    @cached_property
    def classes(self) -> list[ast.ClassDef]:
        """The classes of the file, nested ones as well, in its order."""
        found = (node for node in self.names.scope_of if isinstance(node, ast.ClassDef))
        return sorted(found, key=lambda node: (node.lineno, node.col_offset))

    def ast_of(self, node: cst.CSTNode | ast.AST) -> ast.AST:
        """The `ast` node of a LibCST expression, statement, argument or parameter."""
        return node if isinstance(node, ast.AST) else self.pairs[node]

    def knows(self, node: cst.CSTNode) -> bool:
        return node in self.pairs

    def name_of(self, node: cst.CSTNode | ast.AST) -> str | None:
        """The canonical qualified name of the library's function or class that node stands for, or None."""
        target = self.ast_of(node)
        found = self.names.qualified(target)
        if len(found) == 1:
            return self.inference.facts.canonical(next(iter(found)))
        if found:
            return None
        if isinstance(target, ast.Name) and self.names.is_free(target):
            value = self.inference.outer_value(target, self.tree)  # a builtin: no function need be followed
        elif self.names.may_rename(target):
            value = self.inference.value(target)
        else:
            return None
        return value.type if value.kind == NAME else None

    def value_of(self, node: cst.CSTNode | ast.AST) -> Value:
        """What the value of an expression is, as far as it is known."""
        return self.inference.value(self.ast_of(node)) if isinstance(node, ast.AST) or node in self.pairs else ANYTHING

    def ancestors(self, node: cst.CSTNode | ast.AST) -> Iterator[ast.AST]:
        """The `ast` nodes around node, the nearest first."""
        return self.inference.ancestors(self.ast_of(node))

    def span(self, node: cst.CSTNode | ast.AST) -> tuple[int, int]:
        """The characters [start, end) that node takes in the text, without parentheses around it."""
        target: Any = self.ast_of(node)
        outer = self._f_string(target)
        if outer is not None:
            target = outer
        if isinstance(target, ast.Module):
            return 0, len(self.source.text)
        return (
            self.source.offset(target.lineno, target.col_offset),
            self.source.offset(target.end_lineno, target.end_col_offset),
        )

    def editable(self, node: cst.CSTNode | ast.AST) -> bool:
        """Whether the positions in and of node are those of the file."""
        return self._f_string(self.ast_of(node)) is None

    def _f_string(self, node: ast.AST) -> ast.AST | None:
        if _POSITIONS_IN_F_STRINGS:
            return None
        around = [above for above in self.inference.ancestors(node) if isinstance(above, ast.JoinedStr)]
        return around[-1] if around else None

    def text(self, node: cst.CSTNode | ast.AST) -> str:
        """The text of a node as it stands in the file."""
        start, end = self.span(node)
        return self.source.text[start:end]
