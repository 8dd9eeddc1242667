"""What a file shows of process groups: which backends they have, and where its processes are set up."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from devlint.checks.context import Context
from devlint.syntax.trees import last_name, walk

INIT = "torch.distributed.init_process_group"
DDP = "torch.nn.parallel.DistributedDataParallel"
_TRAINERS = ("transformers.Trainer", "transformers.TrainingArguments", "transformers.Seq2SeqTrainer")


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """A call that sets up the default process group."""

    call: ast.Call
    owner: ast.AST
    """The function that calls it, or the module."""
    backends: frozenset[str] | None
    """The backends that it may ask for, in small letters; None where that cannot be seen, or torch chooses them."""


def argument(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """The argument of a call by its name or its position (from 0); None where it is not given or cannot be seen."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if position is None or any(isinstance(one, ast.Starred) for one in call.args[: position + 1]):
        return None
    return call.args[position] if position < len(call.args) else None


def calls_to(context: Context, *names: str) -> Iterator[tuple[ast.Call, str]]:
    """The calls of a file to functions of these qualified names, with the name of each, in no order."""
    lasts = {name.rpartition(".")[2] for name in names}
    if not lasts.isdisjoint(context.seen.loose):
        lasts |= _other_names(context, lasts)
    for last in lasts & context.seen.calls.keys():
        for call in context.seen.calls[last]:
            name = context.name_of(call.func)
            if name in names:
                yield call, name


def _other_names(context: Context, lasts: set[str]) -> set[str]:
    """What the file calls these by: `import ... as`, and names and attributes that are assigned them."""
    found = {
        name
        for scope in context.names.scope_of.values()
        for name, imported in scope.imports.items()
        if any(one.rpartition(".")[2] in lasts for one in imported)
    }
    for node in walk(context.tree):
        if isinstance(node, ast.Assign) and any(last_name(part) in lasts for part in walk(node.value)):
            found |= {last_name(target) for target in node.targets}
    return found


def is_managed(context: Context) -> bool:
    """Whether the file works with a library that sets up the processes of a distributed run itself."""
    inference = context.inference
    imported = {name for scope in context.names.scope_of.values() for names in scope.imports.values() for name in names}
    managed = inference.facts.packages["manages_processes"]
    return not inference.packages.isdisjoint(managed) or not imported.isdisjoint(_TRAINERS)


def is_one_process(context: Context) -> bool:
    """Whether all groups that the file sets up are of one process, `world_size=1`: a wrapper runs on its GPU alone."""
    sizes = [argument(group.call, "world_size", 3) for group in process_groups(context)]
    return bool(sizes) and all(isinstance(size, ast.Constant) and size.value == 1 for size in sizes)


def process_groups(context: Context) -> list[ProcessGroup]:
    """The calls of a file that set up a default process group."""
    memo: list[ProcessGroup] | None = context.memo.get("process groups")
    if memo is None:
        memo = context.memo["process groups"] = [
            ProcessGroup(call, context.inference.owner(call), _backends(context, argument(call, "backend", 0)))
            for call, _ in calls_to(context, INIT)
        ]
    return memo


def _backends(context: Context, expression: ast.expr | None) -> frozenset[str] | None:
    if expression is None:
        return None
    possible = context.value_of(expression).possibilities()
    names = [one.const.lower() for one in possible if isinstance(one.const, str)]
    return frozenset(names) if len(names) == len(possible) else None
