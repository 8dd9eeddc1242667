"""Files that a run has written itself before it reads them: what they hold comes back to where it was."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devlint.checks.context import Context
from devlint.checks.loading import Load
from devlint.checks.uses import definitions
from devlint.placement.evaluate import path_of
from devlint.syntax.trees import last_name, walk

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_OF_TRAINERS = frozenset({"best_model_path", "last_model_path", "best_model_checkpoint"})
"""Where a trainer (Lightning's ModelCheckpoint, Hugging Face's TrainerState) says what it has written in this run."""
_WIDE = frozenset({"self", "args", "opt", "opts", "config", "cfg", "hparams", "params"})
"""Names that stand for all of a program's settings, and not for a file."""


def is_round_trip(context: Context, load: Load) -> bool:
    """Whether what is read was written before, in this function or in one that it has called."""
    if load.source is None:
        return False
    if any(isinstance(part, ast.Attribute) and part.attr in _OF_TRAINERS for part in walk(load.source)):
        return True
    wanted = {ast.dump(load.source)}
    if isinstance(load.source, ast.Name):
        wanted |= {ast.dump(definition) for definition in definitions(context, load.source)}
    owner = context.inference.owner(load.call)
    for node in walk(owner):
        if not isinstance(node, ast.Call) or node is load.call:
            continue
        if _saves(node):
            same = any(_is_one_of(context, argument, wanted) for argument in _arguments(node))
            if same and (node.lineno < load.call.lineno or _in_other_branch(context, node, load.call)):
                return True
        before = node.lineno < load.call.lineno and context.inference.owner(node) is owner
        if before and _runs_before(context, node, load.call) and _writes(context, node, wanted, frozenset(), set()):
            return True
    return _is_own_buffer(context, load.source) or _is_told_in_training(context, load, owner)


def _saves(call: ast.Call) -> bool:
    return last_name(call.func).lower().lstrip("_").startswith("save")


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *[keyword.value for keyword in call.keywords]]


def _is_one_of(context: Context, node: ast.expr, wanted: set[str]) -> bool:
    """Whether an expression reads as one of those that are wanted, or is a name of one."""
    if ast.dump(node) in wanted:
        return True
    return isinstance(node, ast.Name) and any(ast.dump(found) in wanted for found in definitions(context, node))


_Seen = set[tuple[ast.AST, frozenset[str]]]


def _writes(context: Context, call: ast.Call, wanted: set[str], names: frozenset[str], seen: _Seen) -> bool:
    """Whether a function or class of the file that is called saves to what is wanted.

    It is told where, by an argument that is wanted or speaks of one of `names`, or it says so itself. `seen` has the
    functions that were looked into, with those of their parameters that tell.
    """
    callee = context.value_of(call.func).node
    if isinstance(callee, ast.ClassDef):
        told = any(ast.dump(argument) in wanted for argument in _arguments(call))
        saves = any(isinstance(node, ast.Call) and _is_save(context, node) for node in walk(callee))
        return saves and (told or _mentions(context, callee, wanted, frozenset()))
    if not isinstance(callee, _FUNCTIONS):
        return False
    own = frozenset(
        parameter
        for parameter, argument in _handed(callee, call)
        if ast.dump(argument) in wanted or _mentions(context, argument, set(), names)
    )
    if (callee, own) in seen:
        return False
    seen.add((callee, own))
    for node in walk(callee):
        if not isinstance(node, ast.Call):
            continue
        if _is_save(context, node):
            if any(_mentions(context, argument, wanted, own, 1) for argument in _arguments(node)[1:]):
                return True
        elif _writes(context, node, wanted, own, seen):
            return True
    return False


def _is_save(context: Context, call: ast.Call) -> bool:
    return context.name_of(call.func) == "torch.save"


def _handed(function: ast.FunctionDef | ast.AsyncFunctionDef, call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """The arguments of a call by the names of the parameters, as far as they are plain."""
    positional = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    if positional[:1] in (["self"], ["cls"]):
        positional = positional[1:]
    yield from zip(positional, call.args, strict=False)
    for keyword in call.keywords:
        if keyword.arg is not None:
            yield keyword.arg, keyword.value


def _mentions(context: Context, node: ast.AST, wanted: set[str], names: frozenset[str], steps: int = 0) -> bool:
    """Whether something that is wanted, or one of the names, stands in a node, or in what its names are bound to."""
    for part in walk(node):
        if isinstance(part, ast.expr) and ast.dump(part) in wanted and _is_shared(context, part):
            return True
        if isinstance(part, ast.Name):
            if part.id in names:
                return True
            found = definitions(context, part) if steps else ()
            bound = [definition for definition in found if definition.lineno <= part.lineno]
            if any(_mentions(context, definition, wanted, names, steps - 1) for definition in bound):
                return True
    return False


def _is_shared(context: Context, node: ast.expr) -> bool:
    """Whether an expression may mean the same in two functions: anything but a name of their own."""
    if not isinstance(node, ast.Name):
        return True
    return context.names.homes[node].defining(node.id) is context.names.module


def _runs_before(context: Context, earlier: ast.AST, later: ast.AST) -> bool:
    """Whether the one node runs whenever the other does, or in a loop before it, if only when something is new."""
    around = set(context.ancestors(later))
    alone = []
    for above in context.ancestors(earlier):
        if above in around:
            break
        alone.append(above)
    outside = [node for node in alone if isinstance(node, ast.For | ast.AsyncFor | ast.While)]
    return not any(isinstance(node, ast.If | ast.IfExp) for node in alone[alone.index(outside[-1]) if outside else 0 :])


def _is_own_buffer(context: Context, source: ast.expr) -> bool:
    """`self.buffer`, which its class makes as an empty BytesIO and saves to."""
    home = next((above for above in context.ancestors(source) if isinstance(above, ast.ClassDef)), None)
    if home is None or not isinstance(source, ast.Attribute):
        return False
    text = ast.dump(source)
    made = saved = False
    for node in walk(home):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            is_empty = context.name_of(node.value.func) == "io.BytesIO" and not node.value.args
            made |= is_empty and any(ast.unparse(target) == ast.unparse(source) for target in node.targets)
        elif isinstance(node, ast.Call) and context.name_of(node.func) == "torch.save":
            saved |= any(ast.dump(argument) == text for argument in node.args)
    return made and saved


def _is_told_in_training(context: Context, load: Load, owner: ast.AST) -> bool:
    """Whether a loop that trains, before the load, hands the file's name or folder to something from another file.

    `early_stopping(loss, model, path)` in the loop writes what `torch.load(path + "/checkpoint.pth")` reads after it.
    """
    assert load.source is not None
    paths = _paths_in(load.source)
    for part in walk(load.source):
        for definition in definitions(context, part) if isinstance(part, ast.Name) else ():
            paths |= _paths_in(definition)
    for loop in walk(owner):
        if not isinstance(loop, ast.For | ast.While) or (loop.end_lineno or 0) >= load.call.lineno:
            continue
        calls = [node for node in walk(loop) if isinstance(node, ast.Call)]
        if not any(last_name(call.func) == "backward" for call in calls):
            continue
        if _runs_before(context, loop, load.call) and any(_is_told(context, call, paths) for call in calls):
            return True
    return False


def _paths_in(node: ast.expr) -> set[str]:
    """The names, and the chains of attributes, of which an expression is made."""
    return {path for part in walk(node) if isinstance(part, ast.expr) and (path := path_of(part)) is not None}


def _is_told(context: Context, call: ast.Call, paths: set[str]) -> bool:
    """Whether a call that may write a file, no function of Python's own, is given one of the names."""
    name = context.name_of(call.func) or ""
    if name.startswith(("builtins.", "os.", "logging.", "torch.", "numpy.")):
        return False
    return any(path_of(argument) in paths - _WIDE for argument in _arguments(call))


def _in_other_branch(context: Context, first: ast.AST, second: ast.AST) -> bool:
    """Whether two nodes stand in different branches of one `if`."""
    above = {id(node) for node in context.ancestors(first)}
    child: ast.AST = second
    for node in context.ancestors(second):
        if id(node) in above:
            if not isinstance(node, ast.If):
                return False
            other = node.orelse if child in node.body else node.body
            return any(first is part for statement in other for part in walk(statement))
        child = node
    return False
