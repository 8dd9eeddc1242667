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
    "trailing_comma",
    "leading_whitespace",
    "leading_lines",
    "lines_after",
    "header",
    "footer",
    "trailing_whitespace",
    "indent",
    "newline",
    "equal",
    "colon",
    "first_colon",
    "second_colon",
    "dot",
    "relative",
)
_PLAIN = frozenset({"encoding", "default_indent", "default_newline", "has_trailing_newline", "star", "conversion"})
"""Fields that never hold a node."""

_ORDER = {
    "Arg": ("keyword", "value"),
    "ClassDef": ("decorators", "name", "type_parameters", "bases", "keywords", "body"),
    "CompFor": ("asynchronous", "target", "iter", "ifs", "inner_for_in"),
    "ExceptHandler": ("type", "name", "body"),
    "ExceptStarHandler": ("type", "name", "body"),
    "For": ("asynchronous", "target", "iter", "body", "orelse"),
    "FunctionDef": ("decorators", "asynchronous", "name", "type_parameters", "params", "returns", "body"),
    "IfExp": ("body", "test", "orelse"),
    "MatchCase": ("pattern", "guard", "body"),
    "Parameters": ("posonly_params", "posonly_ind", "params", "star_arg", "kwonly_params", "star_kwarg"),
    "TypeAlias": ("name", "type_parameters", "value"),
    "With": ("asynchronous", "items", "body"),
}
"""Children in the order in which LibCST's own visitor meets them, where that is not the order of the fields."""

_fields: dict[type, tuple[str, ...]] = {}


def _fields_of(kind: type) -> tuple[str, ...]:
    """The names of the fields that can hold children, in the order of LibCST's own visitor."""
    names = [
        field.name
        for field in dataclasses.fields(kind)
        if not field.name.startswith(_TRIVIA) and not field.name.startswith("_") and field.name not in _PLAIN
    ]
    order = _ORDER.get(kind.__name__, ())
    names.sort(key=lambda name: order.index(name) if name in order else len(order))
    return _fields.setdefault(kind, tuple(names))


def walk(root: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Each node below root once, root included, in the order of LibCST's own visitor.

    Left out is what stands for white space and punctuation, and what is below that.
    """
    node_type = cst.CSTNode
    fields = _fields
    stack: list[Any] = [root]
    push, pop = stack.append, stack.pop
    while stack:
        node = pop()
        yield node
        kind = type(node)
        names = fields.get(kind)
        if names is None:
            names = _fields_of(kind)
        below: list[Any] = []
        for name in names:
            value = getattr(node, name)
            if isinstance(value, node_type):
                below.append(value)
            elif type(value) in (list, tuple):
                below.extend(item for item in value if isinstance(item, node_type))
        if len(below) == 1:
            push(below[0])
        elif below:
            stack.extend(reversed(below))


def handlers(rule: object) -> dict[str, Callable[[Any], None]]:
    """The visit methods of a rule by the name of the node class that they want."""
    return {name[6:]: getattr(rule, name) for name in dir(type(rule)) if name.startswith("visit_")}


def as_visitor(rule: object) -> cst.CSTVisitor:
    """Wrap a rule as an ordinary LibCST visitor, to run it under `module.visit`."""

    def adapt(method: Callable[[Any], None]) -> Callable[[Any, Any], None]:
        def visit(_: Any, node: Any) -> None:
            method(node)  # its answer is not LibCST's, which would leave the children out for False

        return visit

    methods = {f"visit_{kind}": adapt(method) for kind, method in handlers(rule).items()}
    visitor: cst.CSTVisitor = type("Visitor", (cst.CSTVisitor,), methods)()
    return visitor
