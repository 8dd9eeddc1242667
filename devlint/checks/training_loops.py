"""Where a file trains: loops that go through a loader and compute gradients, and the loops of epochs around them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from devlint.checks.context import Context
from devlint.placement.evaluate import path_of
from devlint.syntax.trees import last_name, walk

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


@dataclass(frozen=True, slots=True)
class Training:
    """A loop over a loader in which gradients are computed."""

    loop: ast.For | ast.AsyncFor
    epochs: ast.For | ast.AsyncFor | ast.While | None
    """The loop around it, or around the call of its function; None where the file shows none."""
    direct: bool
    """Whether the loop of epochs stands in the function in which the loader has its name."""


def target_of(context: Context, node: ast.AST) -> str | None:
    """The name, or the chain of attributes, that the value of an expression is assigned to."""
    above = context.inference.parents.get(node)
    if isinstance(above, ast.IfExp) and node is not above.test:
        return target_of(context, above)
    if isinstance(above, ast.Assign) and len(above.targets) == 1:
        return path_of(above.targets[0])
    return path_of(above.target) if isinstance(above, ast.AnnAssign) else None


def homes_of(context: Context, loader: str, owner: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """The names of a loader with their functions: its own, and those of functions that are given it by a call."""
    yield loader, owner
    if not isinstance(owner, _FUNCTIONS) or owner.name in context.seen.loose:
        return
    returned = [node.value for node in walk(owner) if isinstance(node, ast.Return) and node.value is not None]
    for call in context.seen.calls.get(owner.name, ()):
        above = context.inference.parents.get(call)
        if (
            not isinstance(above, ast.Assign)
            or len(above.targets) != 1
            or context.value_of(call.func).node is not owner
        ):
            continue
        target = above.targets[0]
        for value in returned:
            pairs = [(target, value)]
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
                pairs = list(zip(target.elts, value.elts, strict=True))
            for given, one in pairs:
                name = path_of(given)
                if path_of(one) == loader and name is not None:
                    yield name, context.inference.owner(call)


def trainings(context: Context, loader: str, owner: ast.AST) -> Iterator[Training]:
    """The loops that train on the loader that goes by the name `loader` in the function `owner`."""
    home = context.inference.parents.get(owner)
    if loader.startswith("self.") and isinstance(home, ast.ClassDef):
        for method in home.body:
            if isinstance(method, _FUNCTIONS):
                yield from _loops_in(context, loader, method, _around_calls(context, method.name, home))
    else:
        yield from _loops_in(context, loader, owner, None)


def _loops_in(
    context: Context, loader: str, owner: ast.AST, outer: ast.For | ast.AsyncFor | ast.While | None
) -> Iterator[Training]:
    for node in walk(owner):
        if (
            isinstance(node, ast.For | ast.AsyncFor)
            and _names(node.iter, loader)
            and _computes_gradients(context, node)
        ):
            around = _loop_around(context, node, owner)
            yield Training(node, around or outer, around is not None)
        elif isinstance(node, ast.Call):
            function = context.value_of(node.func).node if isinstance(node.func, ast.Name) else None
            if not isinstance(function, _FUNCTIONS) or function is owner:
                continue
            argument = _passed_as(node, function, loader)
            if argument is not None:
                around = _loop_around(context, node, owner)
                for inner in walk(function):
                    if (
                        isinstance(inner, ast.For | ast.AsyncFor)
                        and _names(inner.iter, argument)
                        and _computes_gradients(context, inner)
                    ):
                        inside = _loop_around(context, inner, function)
                        yield Training(inner, inside or around or outer, inside is None and around is not None)


def _names(node: ast.AST, path: str) -> bool:
    return any(isinstance(one, ast.Name | ast.Attribute) and path_of(one) == path for one in walk(node))


def _computes_gradients(context: Context, node: ast.AST) -> bool:
    """Whether a loop calls `backward`, itself or in a function of the file that it calls."""
    called = [last_name(one.func) for one in walk(node) if isinstance(one, ast.Call)]
    return "backward" in called or not _training_functions(context).isdisjoint(called)


def _training_functions(context: Context) -> frozenset[str]:
    memo: frozenset[str] | None = context.memo.get("training functions")
    if memo is None:
        owners = (context.inference.owner(call) for call in context.seen.calls.get("backward", ()))
        memo = context.memo["training functions"] = frozenset(one.name for one in owners if isinstance(one, _FUNCTIONS))
    return memo


def _loop_around(context: Context, node: ast.AST, owner: ast.AST) -> ast.For | ast.AsyncFor | ast.While | None:
    for above in context.inference.ancestors(node):
        if above is owner or isinstance(above, _FUNCTIONS):
            return None
        if isinstance(above, _LOOPS):
            return above
    return None


def _around_calls(context: Context, name: str, class_: ast.ClassDef) -> ast.For | ast.AsyncFor | ast.While | None:
    """The loop around a call of a method in its class."""
    for call in context.seen.calls.get(name, ()):
        around = list(context.inference.ancestors(call))
        loop = next((above for above in around if isinstance(above, _LOOPS)), None)
        if loop is not None and class_ in around:
            return loop
    return None


def _passed_as(call: ast.Call, function: ast.FunctionDef | ast.AsyncFunctionDef, path: str) -> str | None:
    """The name of the argument as which a call passes what goes by the name `path`."""
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    for name, given in zip(names, call.args, strict=False):
        if path_of(given) == path:
            return name
    return next((k.arg for k in call.keywords if k.arg is not None and path_of(k.value) == path), None)
