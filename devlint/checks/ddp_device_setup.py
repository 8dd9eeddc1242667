"""DEV504: a process of a distributed run works on the wrong GPU, or all of them on the same one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from devlint.checks import rewrite
from devlint.checks.base import Rule
from devlint.checks.guards import expects_error
from devlint.checks.placing import repeatable
from devlint.checks.processes import DDP, argument, calls_to, is_managed, is_one_process, process_groups
from devlint.checks.ranks import RANKS, is_global_rank, one_machine
from devlint.checks.wrappers import may_be_moved
from devlint.finding import Edit, Fix, Group, RuleInfo
from devlint.placement import values as v
from devlint.placement.evaluate import path_of
from devlint.placement.values import CPU, Place
from devlint.screen import Mentions
from devlint.syntax.lazy import cst
from devlint.syntax.trees import is_none, walk

_SETTERS = {
    "torch.cuda.set_device": "device",
    "torch.accelerator.set_device_index": "device",
    "torch.accelerator.set_device_idx": "device",
}
_CHOOSING = frozenset({"set_device", "set_device_index", "set_device_idx", "device_index"})
_MOVERS = frozenset({"cuda", "to"})
_GLOBAL = (
    "this is the rank among the processes of all machines: on the second machine there is no such GPU, torch raises"
    ' "CUDA error: invalid device ordinal"'
)
_TAKE_LOCAL = (
    "what this process is on its own machine is in LOCAL_RANK where torchrun starts it; elsewhere only you know"
)
_ONE_GPU = (
    'every process moves its model to GPU 0: no `set_device` gives each its own, NCCL raises "Duplicate GPU detected"'
)
_ON_HOST = (
    "the model is on the CPU and `device_ids` names a GPU: torch raises"
    ' "DistributedDataParallel device_ids and output_device arguments only work with single-device/multiple-device GPU'
    ' modules or CPU modules"'
)
_SEVERAL = (
    "a process of DistributedDataParallel works on one GPU: torch raises"
    ' "device_ids can only be None or contain a single element"'
)


class DdpDeviceSetup(Rule):
    info = RuleInfo(
        "DEV504", "ddp-device-setup", (Group.BUG,), "a process of a distributed run works on another process's GPU"
    )
    screen = (Mentions(frozenset({"DistributedDataParallel", "init_process_group", "get_rank"})),)

    def suspects(self) -> bool:
        self._found: dict[ast.AST, str] = {}
        if is_managed(self.context) or is_one_process(self.context):
            return False
        for call, _ in calls_to(self.context, DDP):
            message = self._wrapped_wrong(call)
            if message and not expects_error(self.context, call):
                self._found[call] = message
        if not one_machine(self.context):
            self._found |= dict.fromkeys(self._by_global_rank(), _GLOBAL)
        return bool(self._found)

    # --- a rank for a number ------------------------------------------------------------------------------------

    def _by_global_rank(self) -> Iterator[ast.AST]:
        """The call that makes the GPU of the global rank's number the current one; else what names it first."""
        context = self.context
        setters = [
            call
            for call, name in calls_to(context, *_SETTERS)
            if (given := argument(call, _SETTERS[name], 0)) is not None and self._is_rank(given)
        ]
        if setters:
            yield from setters
            return
        if not process_groups(context) and RANKS.isdisjoint(context.seen.texts):
            return  # the processes are started by another file, maybe on one machine only
        seen: set[ast.AST] = set()
        for call in sorted(self._naming(), key=lambda one: (one.lineno, one.col_offset)):
            owner = context.inference.owner(call)
            if owner not in seen:
                seen.add(owner)
                yield call

    def _is_rank(self, given: ast.expr) -> bool:
        context = self.context
        if isinstance(given, ast.Name | ast.Attribute):
            value = context.value_of(given)
            made = next(iter(value.ids)) if value.kind == v.DEVICE and len(value.ids) == 1 else None
            given = made if isinstance(made, ast.Call) else given
        if isinstance(given, ast.Call) and self.name_of(given.func) == "torch.device":
            index = argument(given, "index", 1) or argument(given, "device", 0)
            return index is not None and self._is_rank(index)
        if (
            isinstance(given, ast.JoinedStr)
            and len(given.values) == 2
            and isinstance(given.values[1], ast.FormattedValue)
        ):
            text = given.values[0]
            return isinstance(text, ast.Constant) and text.value == "cuda:" and self._is_rank(given.values[1].value)
        if isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute) and given.func.attr == "format":
            text = given.func.value
            named = isinstance(text, ast.Constant) and text.value in ("cuda:{}", "cuda:{:d}")
            return named and len(given.args) == 1 and self._is_rank(given.args[0])
        if isinstance(given, ast.BinOp) and isinstance(given.op, ast.Add) and isinstance(given.left, ast.Constant):
            return given.left.value == "cuda:" and self._is_rank(given.right)
        return is_global_rank(context, given)

    def _naming(self) -> Iterator[ast.Call]:
        """Calls that take the global rank for the number of a GPU."""
        context = self.context
        for call, _ in calls_to(context, "torch.device"):
            if self._is_rank(call):
                yield call
        for call, _ in calls_to(context, DDP):
            ids = argument(call, "device_ids", 1)
            if isinstance(ids, ast.List) and len(ids.elts) == 1 and self._is_rank(ids.elts[0]):
                yield call
        for name in _MOVERS & context.seen.calls.keys():
            for call in context.seen.calls[name]:
                if len(call.args) == 1 and not isinstance(call.args[0], ast.Constant) and self._is_rank(call.args[0]):
                    yield call

    # --- what is wrapped ----------------------------------------------------------------------------------------

    def _wrapped_wrong(self, call: ast.Call) -> str:
        context = self.context
        model, ids = argument(call, "module", 0), argument(call, "device_ids", 1)
        if model is None or any(keyword.arg is None for keyword in call.keywords):
            return ""
        if isinstance(ids, ast.List | ast.Tuple) and len(ids.elts) > 1:
            return _SEVERAL
        given = ids.elts[0] if isinstance(ids, ast.List | ast.Tuple) and len(ids.elts) == 1 else None
        if given is None and ids is not None and not is_none(ids):
            return ""
        path = path_of(model)
        if not context.value_of(model).is_module or (path is not None and may_be_moved(context, path, call)):
            return ""
        # The wrapper is where the model is by then.
        return self._placed_wrong(context.value_of(call).place, given)

    def _placed_wrong(self, place: Place, given: ast.expr | None) -> str:
        """What is wrong with a model at `place` that is wrapped for the GPU `given` (None: for the one it is on)."""
        if place.same(CPU) and given is not None and not is_none(given):
            return _ON_HOST
        if place.device != "cuda" or isinstance(given, ast.Constant):
            return ""
        if place.index is None and self._chooses_device:
            return ""
        if place.index not in (None, 0) or (place.index == 0 and given is None):
            return ""
        return _ONE_GPU if self._is_set_up_here(given is not None) else ""

    @cached_property
    def _chooses_device(self) -> bool:
        """Whether something in the file may give each process a current device of its own."""
        context, seen = self.context, self.context.seen
        if not _CHOOSING.isdisjoint(seen.calls) or not _CHOOSING.isdisjoint(seen.loose):
            return True
        if "CUDA_VISIBLE_DEVICES" in seen.texts or any(calls_to(context, "torch.cuda.device")):
            return True
        if any(argument(group.call, "device_id") is not None for group in process_groups(context)):
            return True
        return any("device" in name.lower() or "gpu" in name.lower() for name in self._foreign_calls())

    def _foreign_calls(self) -> Iterator[str]:
        """The names of called functions that are neither torch's nor this file's."""
        for name, calls in self.context.seen.calls.items():
            if any((self.name_of(call.func) or "torch.").split(".")[0] not in ("torch", "builtins") for call in calls):
                yield name

    def _is_set_up_here(self, named: bool) -> bool:
        """Whether the file sets up a group for GPUs, and is not started with one GPU for each process to see."""
        groups = process_groups(self.context)
        if not groups or any(group.backends is not None and "nccl" not in group.backends for group in groups):
            return False
        return named or not any(text.startswith("SLURM_") for text in self.context.seen.texts)

    # --- findings -----------------------------------------------------------------------------------------------

    def visit_Call(self, node: cst.Call) -> None:
        context = self.context
        call = context.ast_of(node)
        message = self._found.get(call)
        if message is None or not isinstance(call, ast.Call):
            return
        fix, no_fix = self._fix(call, message)
        self.report(rewrite.callee_span(context, node), message, fix=fix, no_fix=no_fix)

    def _fix(self, call: ast.Call, message: str) -> tuple[Fix | None, str | None]:
        if message == _GLOBAL:
            return None, _TAKE_LOCAL
        ids, model = argument(call, "device_ids", 1), argument(call, "module", 0)
        given = ids.elts[0] if isinstance(ids, ast.List | ast.Tuple) and len(ids.elts) == 1 else None
        if given is None or model is None:
            return None, "which GPU each process is to take is yours to say"
        text = self.context.text(given)
        if message == _ON_HOST:
            if not isinstance(model, ast.Name | ast.Attribute | ast.Call) or not _is_path(given):
                return None, "the model or its device is not a plain expression"
            _, end = self.context.span(model)
            return rewrite.unsafe(f"Move it to `{text}`", Edit(end, end, f".to({text})")), None
        return self._choose(call, given, text)

    def _choose(self, call: ast.Call, given: ast.expr, text: str) -> tuple[Fix | None, str | None]:
        """Make `given` the current device before the function uses one."""
        context = self.context
        owner = context.inference.owner(call)
        first = next((one for one in getattr(owner, "body", ()) if _uses_gpu(one)), None)
        if first is None or not _is_path(given) or not repeatable(context, given, first):
            return None, "the number of the GPU is not set before the first use of one"
        if context.names.module.imports.get("torch") != {"torch"} or "torch" in context.names.module.bound:
            return None, "`torch` is not imported under its name"
        start, _ = context.span(first)
        line = context.source.text.rfind("\n", 0, start) + 1
        indent = context.source.text[line:start]
        if indent.strip():
            return None, "the statement that moves the model shares its line"
        edit = Edit(start, start, f"torch.cuda.set_device({text}){context.source.newline}{indent}")
        return rewrite.unsafe(f"Make `{text}` the current GPU before", edit), None


def _is_path(node: ast.expr) -> bool:
    return isinstance(node, ast.Name | ast.Attribute)


def _uses_gpu(statement: ast.stmt) -> bool:
    """Whether a statement moves something to a GPU, or makes it there."""
    for node in walk(statement):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "cuda":
            return True
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("cuda"):
            return True
    return False
