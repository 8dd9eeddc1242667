"""Pairs each expression and statement of a LibCST tree with its node of Python's own `ast`.

Both trees are walked in lockstep. So a rule sees LibCST nodes (parentheses, commas, quotes as written), while places
of values and positions come from the `ast` tree, whose rows and columns are those of the file itself: no
PositionProvider (which costs more than two parses), and nothing that LibCST normalises can shift an edit.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from devlint.syntax.lazy import cst

Pair = tuple[Any, Any]
Pairs = dict[Any, ast.AST]


class Unpaired(Exception):
    """The two trees differ in shape: a defect of this module, or Python newer than it."""


def pair(module: cst.Module, tree: ast.Module) -> Pairs:
    """All pairs below the two modules. Raises Unpaired."""
    pairs: Pairs = {}
    stack: list[Pair] = [(module, tree)]
    while stack:
        left, right = stack.pop()
        pairs[left] = right
        below = _BELOW.get(type(left).__name__)
        if below is not None:
            try:
                stack.extend((a, b) for a, b in below(left, right) if a is not None and b is not None)
            except (AttributeError, ValueError) as error:
                raise Unpaired(f"{type(left).__name__} does not match {type(right).__name__}: {error}") from error
    return pairs


def _zip(left: Sequence[Any], right: Sequence[Any]) -> Iterator[Pair]:
    return zip(left, right, strict=True)


def _same(*names: str) -> Callable[[Any, Any], Iterator[Pair]]:
    """Both trees call these children by the same names."""

    def below(left: Any, right: Any) -> Iterator[Pair]:
        for name in names:
            yield getattr(left, name), getattr(right, name)

    return below


def _block(left: Any, right: list[Any]) -> Iterator[Pair]:
    """A suite, or a module's body, against a list of statements."""
    statements: list[Any] = []
    for line in left.body:
        if isinstance(line, cst.SimpleStatementLine):
            statements.extend(line.body)
        else:
            statements.append(line)
    yield from _zip(statements, right)


def _call(left: Any, right: ast.Call) -> Iterator[Pair]:
    yield left.func, right.func
    yield from _arguments(left.args, right.args, right.keywords)


def _arguments(left: Iterable[Any], args: Sequence[ast.expr], keywords: Sequence[ast.keyword]) -> Iterator[Pair]:
    arguments = list(left)
    is_named = [argument.star == "**" or argument.keyword is not None for argument in arguments]
    for argument, keyword in _zip([a for a, named in zip(arguments, is_named, strict=True) if named], keywords):
        yield argument, keyword
        yield argument.value, keyword.value
    for argument, value in _zip([a for a, named in zip(arguments, is_named, strict=True) if not named], args):
        yield argument, value
        yield argument.value, value.value if argument.star else value


def _subscript(left: Any, right: ast.Subscript) -> Iterator[Pair]:
    yield left.value, right.value
    elements = left.slice
    several = len(elements) > 1 or isinstance(elements[0].comma, cst.Comma) or _star(elements[0])
    targets: Sequence[Any] = right.slice.elts if several else [right.slice]  # type: ignore[attr-defined]
    for element, target in _zip(elements, targets):
        yield element, target
        if isinstance(element.slice, cst.Index):
            yield element.slice.value, target.value if _star(element) else target
        else:
            for name in ("lower", "upper", "step"):
                yield getattr(element.slice, name), getattr(target, name)


def _star(element: Any) -> bool:
    return bool(getattr(element.slice, "star", None))


def _boolean(left: Any, right: ast.BoolOp) -> Iterator[Pair]:
    values = [left.right]
    node = left.left
    while isinstance(node, cst.BooleanOperation) and not node.lpar and type(node.operator) is type(left.operator):
        values.append(node.right)
        node = node.left
    values.append(node)
    yield from _zip(values[::-1], right.values)


def _comparison(left: Any, right: ast.Compare) -> Iterator[Pair]:
    yield left.left, right.left
    yield from _zip([target.comparator for target in left.comparisons], right.comparators)


def _elements(left: Any, right: Any) -> Iterator[Pair]:
    for element, value in _zip(left.elements, right.elts):
        yield element, value
        yield element.value, value.value if isinstance(element, cst.StarredElement) else value


def _dict(left: Any, right: ast.Dict) -> Iterator[Pair]:
    for element, (key, value) in zip(left.elements, zip(right.keys, right.values, strict=True), strict=True):
        yield getattr(element, "key", None), key
        yield element.value, value


def _comprehension(left: Any, right: Any) -> Iterator[Pair]:
    if isinstance(left, cst.DictComp):
        yield left.key, right.key
        yield left.value, right.value
    else:
        yield left.elt, right.elt
    loop = left.for_in
    for generator in right.generators:
        yield loop, generator
        yield loop.target, generator.target
        yield loop.iter, generator.iter
        yield from _zip([condition.test for condition in loop.ifs], generator.ifs)
        loop = loop.inner_for_in


def _yield(left: Any, right: Any) -> Iterator[Pair]:
    value = left.value
    yield value.item if isinstance(value, cst.From) else value, right.value


def _string(left: Any, right: Any) -> Iterator[Pair]:
    """The expressions inside f-strings, in their order; pieces of text have no node of their own in `ast`."""
    if isinstance(right, ast.JoinedStr):
        expressions = list(_expressions(left))
        values = [value for value in right.values if isinstance(value, ast.FormattedValue)]
        for expression, value in _zip(expressions, values):
            yield expression, value
            yield expression.expression, value.value
            if expression.format_spec and isinstance(value.format_spec, ast.JoinedStr):
                nested = [piece for piece in expression.format_spec if isinstance(piece, cst.FormattedStringExpression)]
                inner = [part for part in value.format_spec.values if isinstance(part, ast.FormattedValue)]
                for a, b in _zip(nested, inner):
                    yield a.expression, b.value


def _expressions(left: Any) -> Iterator[Any]:
    stack = [left]
    while stack:
        node = stack.pop()
        if isinstance(node, cst.ConcatenatedString):
            stack += [node.right, node.left]
        elif isinstance(node, cst.FormattedString):
            yield from (part for part in node.parts if isinstance(part, cst.FormattedStringExpression))


def _lambda(left: Any, right: ast.Lambda) -> Iterator[Pair]:
    yield from _parameters(left.params, right.args)
    yield left.body, right.body


def _parameters(left: Any, right: ast.arguments) -> Iterator[Pair]:
    positional = [*left.posonly_params, *left.params]
    arguments = [*right.posonlyargs, *right.args]
    defaults = [None] * (len(arguments) - len(right.defaults)) + list(right.defaults)
    named = list(zip(positional, arguments, defaults, strict=True))
    named += list(zip(left.kwonly_params, right.kwonlyargs, right.kw_defaults, strict=True))
    if isinstance(left.star_arg, cst.Param) and right.vararg is not None:
        named.append((left.star_arg, right.vararg, None))
    if left.star_kwarg is not None and right.kwarg is not None:
        named.append((left.star_kwarg, right.kwarg, None))
    for parameter, argument, default in named:
        yield parameter, argument
        if parameter.annotation is not None:
            yield parameter.annotation.annotation, argument.annotation
        yield parameter.default, default


def _function(left: Any, right: Any) -> Iterator[Pair]:
    yield from _decorators(left, right)
    yield from _parameters(left.params, right.args)
    if left.returns is not None:
        yield left.returns.annotation, right.returns
    yield from _block(left.body, right.body)


def _class(left: Any, right: ast.ClassDef) -> Iterator[Pair]:
    yield from _decorators(left, right)
    yield from _arguments([*left.bases, *left.keywords], right.bases, right.keywords)
    yield from _block(left.body, right.body)


def _decorators(left: Any, right: Any) -> Iterator[Pair]:
    yield from _zip([decorator.decorator for decorator in left.decorators], right.decorator_list)


def _assign(left: Any, right: ast.Assign) -> Iterator[Pair]:
    yield from _zip([target.target for target in left.targets], right.targets)
    yield left.value, right.value


def _ann_assign(left: Any, right: ast.AnnAssign) -> Iterator[Pair]:
    yield left.target, right.target
    yield left.annotation.annotation, right.annotation
    yield left.value, right.value


def _delete(left: Any, right: ast.Delete) -> Iterator[Pair]:
    if isinstance(left.target, cst.Tuple) and not left.target.lpar:
        yield from _zip([element.value for element in left.target.elements], right.targets)
    else:
        yield left.target, right.targets[0]


def _raise(left: Any, right: ast.Raise) -> Iterator[Pair]:
    yield left.exc, right.exc
    if left.cause is not None:
        yield left.cause.item, right.cause


def _import(left: Any, right: Any) -> Iterator[Pair]:
    if not isinstance(left.names, cst.ImportStar):
        yield from _zip(left.names, right.names)


def _if(left: Any, right: ast.If) -> Iterator[Pair]:
    yield left.test, right.test
    yield from _block(left.body, right.body)
    if isinstance(left.orelse, cst.If):
        yield left.orelse, right.orelse[0]
    else:
        yield from _else(left.orelse, right.orelse)


def _else(left: Any, right: list[Any]) -> Iterator[Pair]:
    if left is not None:
        yield from _block(left.body, right)
    elif right:
        raise ValueError("a branch is missing")


def _for(left: Any, right: Any) -> Iterator[Pair]:
    yield left.target, right.target
    yield left.iter, right.iter
    yield from _block(left.body, right.body)
    yield from _else(left.orelse, right.orelse)


def _while(left: Any, right: ast.While) -> Iterator[Pair]:
    yield left.test, right.test
    yield from _block(left.body, right.body)
    yield from _else(left.orelse, right.orelse)


def _with(left: Any, right: Any) -> Iterator[Pair]:
    for item, other in _zip(left.items, right.items):
        yield item.item, other.context_expr
        if item.asname is not None:
            yield item.asname.name, other.optional_vars
    yield from _block(left.body, right.body)


def _try(left: Any, right: Any) -> Iterator[Pair]:
    yield from _block(left.body, right.body)
    for handler, other in _zip(left.handlers, right.handlers):
        yield handler, other
        yield handler.type, other.type
        yield from _block(handler.body, other.body)
    yield from _else(left.orelse, right.orelse)
    yield from _else(left.finalbody, right.finalbody)


def _match(left: Any, right: ast.Match) -> Iterator[Pair]:
    """Patterns hold no calls and no tensors: only the subject, the guards and the bodies are paired."""
    yield left.subject, right.subject
    for case, other in _zip(left.cases, right.cases):
        yield case.guard, other.guard
        yield from _block(case.body, other.body)


def _module(left: Any, right: ast.Module) -> Iterator[Pair]:
    yield from _block(left, right.body)


_BELOW: dict[str, Callable[[Any, Any], Iterable[Pair]]] = {
    "Module": _module,
    "Expr": _same("value"),
    "Attribute": _same("value"),
    "BinaryOperation": _same("left", "right"),
    "UnaryOperation": lambda left, right: [(left.expression, right.operand)],
    "BooleanOperation": _boolean,
    "Comparison": _comparison,
    "Call": _call,
    "Subscript": _subscript,
    "IfExp": _same("test", "body", "orelse"),
    "Lambda": _lambda,
    "Tuple": _elements,
    "List": _elements,
    "Set": _elements,
    "Dict": _dict,
    "ListComp": _comprehension,
    "SetComp": _comprehension,
    "GeneratorExp": _comprehension,
    "DictComp": _comprehension,
    "NamedExpr": _same("target", "value"),
    "Await": lambda left, right: [(left.expression, right.value)],
    "Yield": _yield,
    "FormattedString": _string,
    "ConcatenatedString": _string,
    "FunctionDef": _function,
    "ClassDef": _class,
    "Assign": _assign,
    "AnnAssign": _ann_assign,
    "AugAssign": _same("target", "value"),
    "Return": _same("value"),
    "Del": _delete,
    "Raise": _raise,
    "Assert": _same("test", "msg"),
    "Import": _import,
    "ImportFrom": _import,
    "If": _if,
    "For": _for,
    "While": _while,
    "With": _with,
    "Try": _try,
    "TryStar": _try,
    "Match": _match,
    "TypeAlias": _same("value"),
}
