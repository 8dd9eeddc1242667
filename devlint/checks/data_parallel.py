"""DEV501: a model is wrapped in `DataParallel` for training, where DistributedDataParallel would do."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from pathlib import PurePath

from devlint.checks import rewrite
from devlint.checks.base import Rule
from devlint.checks.ddp.migration import migration
from devlint.finding import Fix, Group, RuleInfo
from devlint.placement import values as v
from devlint.placement.evaluate import path_of
from devlint.screen import Mentions
from devlint.syntax.lazy import cst
from devlint.syntax.trees import children, last_name, walk

_WRAPPER = "torch.nn.DataParallel"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_CHECKS = frozenset({"isinstance", "issubclass", "type", "hasattr"})
_SHARDED = frozenset({"DDP", "FSDP", "FullyShardedDataParallel", "fully_shard", "init_process_group", "deepspeed"})
_RANKS = frozenset({"RANK", "LOCAL_RANK", "WORLD_SIZE", "local_rank", "--local_rank", "--local-rank"})
_STEPPERS = ("opt", "optim", "optimizer", "scaler")
_LOADING = frozenset({"load_state_dict", "module", "to", "cuda", "eval", "state_dict"})
_MESSAGE = (
    "`DataParallel` trains in one process, copies the model to every GPU at each step and gathers on the first; "
    "PyTorch recommends DistributedDataParallel, on one machine as well"
)
_BY_HAND = "the migration to DistributedDataParallel and torchrun is left to you"


class DataParallel(Rule):
    info = RuleInfo(
        "DEV501",
        "data-parallel",
        (Group.BUG,),
        "DataParallel wraps a model for training; DistributedDataParallel would do",
    )
    screen = (Mentions(frozenset({"DataParallel"})),)

    def suspects(self) -> bool:
        calls = (node for node in walk(self.context.tree) if isinstance(node, ast.Call))
        return any(self.name_of(call.func) == _WRAPPER for call in calls)

    def visit_Call(self, node: cst.Call) -> None:
        if self.name_of(node.func) != _WRAPPER or not node.args:
            return
        call = self.context.ast_of(node)
        assert isinstance(call, ast.Call)
        if self._names_one_gpu(call) or self._has_other_branch or self._is_deliberate(call) or not self._trains(call):
            return
        found = migration(self.context)
        span = rewrite.callee_span(self.context, node)
        if isinstance(found, Fix):
            self.report(span, _MESSAGE, fix=found)
        else:
            self.report(span, _MESSAGE, no_fix=f"{_BY_HAND}: {found}")

    # --- what makes it right ------------------------------------------------------------------------------------

    def _names_one_gpu(self, call: ast.Call) -> bool:
        """With a single device id the wrapper only passes on, and there is nothing to distribute."""
        ids: ast.expr | None = call.args[1] if len(call.args) > 1 else None
        for keyword in call.keywords:
            ids = keyword.value if keyword.arg == "device_ids" else ids
        return isinstance(ids, ast.List | ast.Tuple) and len(ids.elts) == 1 and not isinstance(ids.elts[0], ast.Starred)

    @cached_property
    def _has_other_branch(self) -> bool:
        """Whether the file can run one process per device already, by torch or by a library."""
        launchers = self.context.inference.facts.packages["launches_processes"]
        stack: list[ast.AST] = [self.context.tree]
        while stack:
            node = stack.pop()
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CHECKS:
                continue
            if isinstance(node, ast.Import | ast.ImportFrom):
                if any(_is_launcher(name, launchers) for name in _imported(node)):
                    return True
            elif isinstance(node, ast.Constant):
                if isinstance(node.value, str) and (
                    node.value in _RANKS or node.value.lower() in ("ddp", "--ddp", "--distributed")
                ):
                    return True
            elif any(_is_distributed(name) for name in _identifiers(node)):
                return True
            stack.extend(children(node))
        return False

    def _is_deliberate(self, call: ast.Call) -> bool:
        """Wrapped to match `module.` keys, put back after unwrapping, a part of a library's own module, a test."""
        *folders, file = PurePath(self.context.source.path).parts[-3:]
        if not {"test", "tests"}.isdisjoint(folders) or file.startswith("test_"):
            return True
        child: ast.AST = call
        for above in self.context.ancestors(call):
            if (
                isinstance(above, ast.If)
                and child is not above.test
                and _asks_for_wrapping(above.test)
                and not (_is_negated(above.test) and child in above.body)
            ):
                return True
            if isinstance(above, _FUNCTIONS) and above.name.startswith("test"):
                return True
            if isinstance(above, ast.ClassDef) and self._is_library_class(above):
                return True
            child = above
        target = self._target(call)
        return target is not None and self._is_unwrapped(call, target)

    def _is_library_class(self, node: ast.ClassDef) -> bool:
        classes = self.context.inference.classes
        return classes.kind(node) in v.MODULE_KINDS or any("TestCase" in (path_of(base) or "") for base in node.bases)

    def _target(self, call: ast.Call) -> str | None:
        """The name or attribute that the wrapped model is bound to."""
        statement = next((above for above in self.context.ancestors(call) if isinstance(above, ast.stmt)), None)
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            return path_of(statement.targets[0])
        if isinstance(statement, ast.AnnAssign):
            return path_of(statement.target)
        return None

    def _is_unwrapped(self, call: ast.Call, target: str) -> bool:
        """`model = model.module` or `return model.module` after nothing but loading: only the keys were wanted."""
        owner = self.context.inference.owner(call)
        for node in _own(owner):
            if (
                isinstance(node, ast.Assign | ast.Return)
                and node.value is not None
                and path_of(node.value) == f"{target}.module"
                and node.lineno > call.lineno
                and (isinstance(node, ast.Return) or any(path_of(t) == target for t in node.targets))
            ):
                parents = self.context.inference.parents
                uses = [
                    parents[use]
                    for use in _own(owner)
                    if isinstance(use, ast.Name | ast.Attribute)
                    and path_of(use) == target
                    and call.end_lineno is not None
                    and call.end_lineno < use.lineno < node.lineno
                ]
                return all(isinstance(use, ast.Attribute) and use.attr in _LOADING for use in uses)
        return False

    # --- training -----------------------------------------------------------------------------------------------

    def _trains(self, call: ast.Call) -> bool:
        """Whether what is wrapped is trained: seen in this function, in its class, or in a function beside it."""
        owner = self.context.inference.owner(call)
        target = self._target(call)
        names = {name for name in (target, path_of(call.args[0]) if call.args else None) if name}
        scopes = [owner, *(above for above in self.context.ancestors(call) if isinstance(above, _FUNCTIONS))]
        class_ = next((above for above in self.context.ancestors(call) if isinstance(above, ast.ClassDef)), None)
        around = [node for scope in [*scopes, *([class_] if class_ else [])] for node in _all(scope)]
        if self._only_evaluated(call, names, around):
            return False
        if any(self._is_training(node) for scope in scopes for node in _all(scope)):
            return True
        if class_ is not None and any(self._is_training(node) and self._is_reached(node) for node in _all(class_)):
            return True
        return any(self._function_trains(function) for function in self._beside(owner))

    def _is_reached(self, node: ast.AST) -> bool:
        """Whether an optimizer that a method of the class makes is used: one that nothing asks for trains nothing."""
        if not isinstance(node, ast.Call) or self.context.inference.facts.cls(self.name_of(node.func) or "") is None:
            return True
        name = getattr(self.context.inference.owner(node), "name", "")
        return name in self.context.seen.calls or name == "configure_optimizers"

    def _only_evaluated(self, call: ast.Call, names: set[str], around: list[ast.AST]) -> bool:
        """Set to evaluation, and neither set to training nor given to an optimizer."""
        evaluated = any(
            isinstance(above, ast.Attribute) and above.attr == "eval" for above in self.context.ancestors(call)
        )
        frozen = {loop.iter for loop in around if isinstance(loop, ast.For) and _freezes(loop)}
        for node in around:
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if node in frozen:
                evaluated |= path_of(node.func.value) in names
                continue
            receiver = path_of(node.func.value) or ""
            asks = node.func.attr in ("parameters", "named_parameters")
            if asks and any(receiver.startswith(f"{name}.") for name in names):  # a part of it is trained
                return False
            if receiver not in names:
                continue
            if asks or (node.func.attr == "train" and _is_on(node)):
                return False
            evaluated |= node.func.attr == "eval" or _is_off(node)
        return evaluated

    def _beside(self, owner: ast.AST) -> Iterator[ast.AST]:
        """Functions of the file that the wrapping one calls, and those that call it."""
        called = {last_name(node.func) for node in _own(owner) if isinstance(node, ast.Call)} - {""}
        for function in self._functions:
            if function is not owner and function.name in called:
                yield function
        name = getattr(owner, "name", None)
        if name is None:
            return
        for caller in [*self._functions, self.context.tree]:
            if caller is owner:
                continue
            calls = [node for node in _own(caller) if isinstance(node, ast.Call)]
            results = [call for call in calls if last_name(call.func) == name]
            if results:
                yield caller
                yield from self._given(calls, {self._target(call) for call in results} - {None})

    def _given(self, calls: list[ast.Call], names: set[str | None]) -> Iterator[ast.AST]:
        """Functions of the file to which one of the calls hands what has one of these names."""
        given = {last_name(call.func) for call in calls if names & {path_of(argument) for argument in call.args}}
        yield from (function for function in self._functions if function.name in given)

    @cached_property
    def _functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        return [node for node in walk(self.context.tree) if isinstance(node, _FUNCTIONS)]

    def _function_trains(self, function: ast.AST) -> bool:
        return any(self._is_training(node) for node in _own(function))

    def _is_training(self, node: ast.AST) -> bool:
        if not isinstance(node, ast.Call):
            return False
        if isinstance(node.func, ast.Attribute):
            name = node.func.attr
            if name == "backward" or (name == "train" and _is_on(node)):
                return True
            if name == "step":
                receiver = last_name(node.func.value).lower().lstrip("_")
                return receiver.startswith(_STEPPERS) or receiver.endswith(_STEPPERS)
        callee = self.name_of(node.func)
        row = self.context.inference.facts.cls(callee) if callee is not None else None
        return row is not None and row.get("kind") == v.OPTIMIZER


def _own(owner: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function's or the module's own body, without those of functions and classes in it."""
    stack: list[ast.AST] = list(getattr(owner, "body", []))
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            stack.extend(children(node))


def _all(scope: ast.AST) -> Iterator[ast.AST]:
    """All nodes of a function or class; of the module its own only."""
    return _own(scope) if isinstance(scope, ast.Module) else walk(scope)


def _is_on(call: ast.Call) -> bool:
    """`.train()`, `.train(True)`, `.train(mode=True)`."""
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    return not values or (isinstance(values[0], ast.Constant) and values[0].value is True)


def _is_off(call: ast.Call) -> bool:
    assert isinstance(call.func, ast.Attribute)
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    off = bool(values) and isinstance(values[0], ast.Constant) and values[0].value is False
    return off and call.func.attr in ("train", "requires_grad_")


def _freezes(loop: ast.For) -> bool:
    """`for p in model.parameters(): p.requires_grad = False`."""
    return any(
        isinstance(part, ast.Assign)
        and isinstance(part.targets[0], ast.Attribute)
        and part.targets[0].attr == "requires_grad"
        and isinstance(part.value, ast.Constant)
        and part.value.value is False
        for part in loop.body
    )


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""] if not node.level else []
    return [alias.name for alias in node.names]


def _is_launcher(module: str, launchers: frozenset[str]) -> bool:
    return module.split(".")[0] in launchers or module.startswith("torch.distributed")


def _identifiers(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, ast.arg | ast.keyword):
        return [node.arg or ""]
    if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
        return [node.name]
    return []


def _is_distributed(name: str) -> bool:
    lower = name.lower()
    return name in _SHARDED or "distributed" in lower or "ddp" in lower or lower in ("local_rank", "world_size")


def _is_negated(test: ast.expr) -> bool:
    """`if not isinstance(model, DataParallel)`: what is wrapped then was not wrapped before."""
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)


def _asks_for_wrapping(test: ast.expr) -> bool:
    """`if "module." in keys`, `if isinstance(model, DataParallel)`, `if hasattr(model, "module")`."""
    for node in walk(test):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("module"):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            return any(last_name(part) == "DataParallel" for argument in node.args[1:] for part in walk(argument))
    return False


__all__ = ["DataParallel"]
