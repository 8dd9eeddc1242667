"""Whether a number is the rank of a process among those of all machines, which is no number of a GPU of its machine."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devlint.checks.context import Context
from devlint.placement import values as v
from devlint.placement.evaluate import path_of
from devlint.syntax.trees import children, walk

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
RANKS = frozenset({"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"})
"""Environment variables that hold it: of torchrun, Slurm and MPI."""
_MOST = 6
"""Names, arguments and results that are followed, one behind the other."""


def is_global_rank(context: Context, node: ast.expr, steps: int = 0) -> bool:
    """Whether an expression is proven to be the global rank on each way that the file shows (or a plain number, for
    a run of one process)."""
    sources = list(_sources(context, node, steps))
    return any(source is True for source in sources) and all(source is not None for source in sources)


def _sources(context: Context, node: ast.expr, steps: int) -> Iterator[bool | None]:
    """What an expression can be: the global rank (True), a plain number (False), or not known (None)."""
    if steps > _MOST:
        yield None
    elif isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, int)):
        yield False
    elif isinstance(node, ast.IfExp):
        yield from _sources(context, node.body, steps)
        yield from _sources(context, node.orelse, steps)
    elif isinstance(node, ast.Subscript):
        yield True if "env" in ast.unparse(node.value).lower() and _names_rank(node.slice) else None
    elif isinstance(node, ast.Call):
        yield from _of_call(context, node, steps)
    elif isinstance(node, ast.Name):
        yield from _of_name(context, node, steps)
    elif isinstance(node, ast.Attribute):
        yield from _of_attribute(context, node, steps)
    else:
        yield None


def _names_rank(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in RANKS


def _of_call(context: Context, call: ast.Call, steps: int) -> Iterator[bool | None]:
    name = context.name_of(call.func)
    if name == "torch.distributed.get_rank":
        yield True if not call.args and not call.keywords else None
    elif name in ("os.getenv", "os.environ.get") and call.args:
        yield True if _names_rank(call.args[0]) else None
    elif name in ("builtins.int", "builtins.str") and len(call.args) == 1:
        yield from _sources(context, call.args[0], steps)
    else:
        function = context.value_of(call.func)
        if function.kind == v.FUNCTION and isinstance(function.node, _FUNCTIONS):
            for returned in _returned(function.node):
                yield from _sources(context, returned, steps + 1)
        else:
            yield None


def _returned(function: ast.AST) -> Iterator[ast.expr]:
    stack = list(getattr(function, "body", []))
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Return):
            yield node.value or ast.Constant(None)
        elif not isinstance(node, (*_FUNCTIONS, ast.ClassDef, ast.Lambda)):
            stack.extend(children(node))


def _of_name(context: Context, node: ast.Name, steps: int) -> Iterator[bool | None]:
    home = context.names.homes.get(node)
    scope = home.defining(node.id) if home is not None else None
    if scope is None or node.id in scope.imports:
        yield None
        return
    for binding in scope.bound[node.id]:
        if isinstance(binding, ast.arg):
            yield from _of_argument(context, binding, scope.node, steps)
        else:
            yield from _of_target(context, binding, steps)


def _of_target(context: Context, target: ast.AST, steps: int) -> Iterator[bool | None]:
    """What an assignment puts into one of its targets."""
    statement = context.inference.parents.get(target)
    position = None
    if isinstance(statement, ast.Tuple):
        position = next(i for i, one in enumerate(statement.elts) if one is target)
        statement = context.inference.parents.get(statement)
    value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
    if value is None:
        yield None
    elif position is None:
        yield from _sources(context, value, steps + 1)
    else:
        yield from _of_item(context, value, position, steps)


def _of_item(context: Context, value: ast.expr, position: int, steps: int) -> Iterator[bool | None]:
    """An item of a tuple that stands there, or that a function of the file returns."""
    if isinstance(value, ast.Tuple) and position < len(value.elts):
        yield from _sources(context, value.elts[position], steps + 1)
        return
    function = context.value_of(value.func).node if isinstance(value, ast.Call) else None
    returned = list(_returned(function)) if isinstance(function, _FUNCTIONS) else []
    if not returned or steps >= _MOST:
        yield None
    for one in returned:
        yield from _of_item(context, one, position, steps + 1)


def _of_argument(context: Context, argument: ast.arg, function: ast.AST, steps: int) -> Iterator[bool | None]:
    """What the calls of the file pass for an argument; nothing is known where others may call it, as spawn does."""
    name = getattr(function, "name", "")
    calls = context.seen.calls.get(name, []) if name not in context.seen.loose else []
    arguments = getattr(function, "args", None)
    if not calls or arguments is None or isinstance(context.inference.parents.get(function), ast.ClassDef):
        yield None
        return
    positional = [*arguments.posonlyargs, *arguments.args]
    position = positional.index(argument) if argument in positional else len(positional)
    for call in calls:
        given = [keyword.value for keyword in call.keywords if keyword.arg == argument.arg]
        if not given and position < len(call.args) and not any(isinstance(a, ast.Starred) for a in call.args):
            given = [call.args[position]]
        if given:
            yield from _sources(context, given[0], steps + 1)
        else:
            yield None


def _of_attribute(context: Context, node: ast.Attribute, steps: int) -> Iterator[bool | None]:
    """`args.rank`, `self.rank`: what the assignments of the file put into attributes of this name."""
    path = path_of(node)
    memo: dict[str, list[ast.Attribute]] | None = context.memo.get("stored attributes")
    if memo is None:
        memo = context.memo["stored attributes"] = {}
        for other in walk(context.tree):
            if isinstance(other, ast.Attribute) and isinstance(other.ctx, ast.Store):
                memo.setdefault(other.attr, []).append(other)
    stores = memo.get(node.attr, [])
    if not stores or path is None or any(path_of(store) != path for store in stores):
        yield None
    for store in stores:
        yield from _of_target(context, store, steps)


def one_machine(context: Context) -> bool:
    """Whether the file starts its processes itself or has them meet on one machine, or shows each its own GPUs."""
    if any(name in context.seen.calls for name in ("spawn", "start_processes", "Process")):
        return True
    return any(
        text in ("localhost", "127.0.0.1", "CUDA_VISIBLE_DEVICES")
        or text.startswith(("tcp://localhost", "tcp://127.0.0.1", "file://"))
        for text in context.seen.texts
    )
