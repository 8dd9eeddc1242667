"""A read-only walk over a LibCST tree, and the adapter that runs a rule under LibCST's own visitor.

`node.visit()` and `.children` rebuild every node, also for a visitor that changes nothing; a walk over cached field
names costs about a twentieth of the parse.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from devlint.syntax.lazy import cst

_TRIVIA = (
    "whitespace",
    "lpar",
    "rpar",
    "lbracket",
    "rbracket",
    "lbrace",
    "rbrace",
    "semicolon",
    "comma",
    "leading_lines",
    "lines_after",
    "header",
    "footer",
    "trailing_whitespace",
    "indent",
    "newline",
    "equal",
    "colon",
    "dot",
)
_fields: dict[type, tuple[str, ...]] = {}


def _fields_of(kind: type) -> tuple[str, ...]:
    names = tuple(
        field.name
        for field in dataclasses.fields(kind)
        if not field.name.startswith(_TRIVIA) and not field.name.startswith("_")
    )
    return _fields.setdefault(kind, names)


def walk(root: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Each node below root once, root included, parents before children, in source order; whitespace and
    punctuation left out."""
    node_type = cst.CSTNode
    stack: list[Any] = [root]
    while stack:
        node = stack.pop()
        yield node
        kind = type(node)
        below: list[Any] = []
        for name in _fields.get(kind) or _fields_of(kind):
            value = getattr(node, name)
            if isinstance(value, node_type):
                below.append(value)
            elif type(value) in (list, tuple):
                below.extend(item for item in value if isinstance(item, node_type))
        stack.extend(reversed(below))


def handlers(rule: object) -> dict[str, Callable[[Any], None]]:
    """The visit methods of a rule by the name of the node class that they want."""
    return {name[6:]: getattr(rule, name) for name in dir(rule) if name.startswith("visit_")}


def as_visitor(rule: object) -> cst.CSTVisitor:
    """Wrap a rule as an ordinary LibCST visitor, to run it under `module.visit`."""
    methods = {
        f"visit_{kind}": (lambda method: lambda self, node: method(node))(method)
        for kind, method in handlers(rule).items()
    }
    return type("Visitor", (cst.CSTVisitor,), methods)()
