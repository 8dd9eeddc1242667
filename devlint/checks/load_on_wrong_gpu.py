"""DEV303: every process of a distributed run loads onto one and the same GPU."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from devlint.checks import rewrite
from devlint.checks.base import Rule
from devlint.checks.context import Context
from devlint.checks.fate import Fate, Follower
from devlint.checks.loaded import (
    Choice,
    choose,
    fix_for,
    holds_tensors,
    is_left_to_tests,
    is_of_one_rank,
    rank_device_for,
)
from devlint.checks.loading import NAMES, Load, calls_of, is_nowhere
from devlint.checks.processes import is_one_process
from devlint.finding import Group, RuleInfo
from devlint.placement import values as v
from devlint.screen import All, Mentions, Texts
from devlint.syntax.lazy import cst
from devlint.syntax.trees import children, is_none, last_name, walk

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DISTRIBUTED = frozenset({"init_process_group", "DistributedDataParallel", "DDP", "FullyShardedDataParallel", "FSDP"})
_WRAPPERS = ("torch.nn.parallel.DistributedDataParallel", "torch.distributed.init_process_group")
_ONE_RANK = re.compile(r"rank|is_main|is_master|main_process|global_zero|is_primary", re.I)
_SHARES = frozenset({"broadcast", "broadcast_object_list", "broadcast_parameters", "scatter"})


class LoadOnWrongGpu(Rule):
    info = RuleInfo("DEV303", "load-on-wrong-gpu", (Group.BUG,), "every process loads onto GPU 0 or the saving GPU")
    screen = (
        All((Mentions(NAMES), Mentions(_DISTRIBUTED))),
        All((Mentions(NAMES), Texts(re.compile("LOCAL_RANK")))),
    )

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._found: dict[ast.Call, tuple[Load, Fate, str]] = {}

    def suspects(self) -> bool:
        context = self.context
        if is_one_process(context):
            return False
        follower: Follower | None = None
        for load in calls_of(context):
            where = _one_place(context, load)
            if where is None or is_of_one_rank(context, load.source):
                continue
            follower = follower or Follower(context)
            if not _in_each_process(context, load.call, follower) or _for_one_rank(context, load.call):
                continue
            fate = follower.follow(load.way)
            if holds_tensors(load, fate, context) and not is_left_to_tests(context, load, fate):
                self._found[load.call] = (load, fate, where)
                context.claims[load.call] = self.info.code
        return bool(self._found)

    def visit_Call(self, node: cst.Call) -> None:
        call = self.context.ast_of(node)
        if not isinstance(call, ast.Call) or call not in self._found:
            return
        load, fate, where = self._found[call]
        choice = choose(self.context, load, fate)
        if not choice.safe and choice.text != '"cpu"':
            device = rank_device_for(self.context, load)
            choice = Choice(device) if device else Choice(reason="no device variable of this process is set before")
        fix = fix_for(self.context, node, load, choice)
        no_fix = None if fix is not None else choice.reason or "the keyword cannot be added here"
        at = rewrite.callee_span(self.context, node)
        given = load.given
        if given is not None and any(part is given for part in walk(call)) and self.context.editable(given):
            at = self.context.span(given)
        message = f"each process loads onto {where}, whose memory fills up while the process works on another GPU"
        self.report(at, message, fix=fix, no_fix=no_fix)


def _one_place(context: Context, load: Load) -> str | None:
    """The one GPU that all processes load onto; None where each may have its own, or it is the CPU."""
    if is_nowhere(load):
        return "the GPU that the checkpoint was saved from"
    given = load.given
    assert given is not None
    if isinstance(given, ast.Lambda):
        body = given.body
        if isinstance(body, ast.Call) and isinstance(body.func, ast.Attribute) and body.func.attr == "cuda":
            if not body.args and not body.keywords:
                return _current(context)
            index = body.args[0] if body.args else None
            return f"GPU {index.value}" if isinstance(index, ast.Constant) and isinstance(index.value, int) else None
        return None
    value = context.value_of(given)
    text = value.const if isinstance(value.const, str) else ""
    place = v.named_place(text) if text else value.place
    if value.kind not in (v.TEXT, v.DEVICE) or place is None or place.key is not None or place.device != "cuda":
        return None
    if value.alternatives:
        return None
    if place.index is not None:
        return f"GPU {place.index}"
    return _current(context)


def _current(context: Context) -> str | None:
    """The current device, where no process chooses another."""
    if any(name in context.seen.calls or name in context.seen.loose for name in ("set_device", "device")):
        return None
    return "GPU 0, the current one in every process"


def _in_each_process(context: Context, call: ast.Call, follower: Follower) -> bool:
    """Whether the function, its class or a caller of it is that of a process of a distributed run."""
    return any(_distributed(context, scope) for scope in _scopes(context, call, follower))


def _scopes(context: Context, call: ast.Call, follower: Follower) -> Iterator[ast.AST]:
    owner = context.inference.owner(call)
    seen: set[ast.AST] = set()
    work = [(owner, 0)]
    while work:
        scope, depth = work.pop()
        if scope in seen:
            continue
        seen.add(scope)
        yield scope
        home = context.inference.parents.get(scope)
        if isinstance(home, ast.ClassDef):
            yield home
        if depth < 3 and isinstance(scope, _FUNCTIONS):
            work += [(context.inference.owner(caller), depth + 1) for caller in follower.callers(scope)]


def _distributed(context: Context, scope: ast.AST) -> bool:
    """Whether a scope starts or joins a process group for GPUs, or wraps a model for it."""
    for node in _own_nodes(scope):
        if isinstance(node, ast.Constant) and node.value == "LOCAL_RANK":
            return True
        if not isinstance(node, ast.Call):
            continue
        name = context.name_of(node.func)
        if name in _WRAPPERS or name == "torch.distributed.fsdp.FullyShardedDataParallel":
            texts = [part.value for part in walk(node) if isinstance(part, ast.Constant)]
            if "gloo" not in texts and "mpi" not in texts:
                return True
    return False


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope; of the module only what stands outside functions and classes."""
    if not isinstance(scope, ast.Module):
        yield from walk(scope)
        return
    stack: list[ast.AST] = [scope]
    while stack:
        node = stack.pop()
        yield node
        stack += [child for child in children(node) if not isinstance(child, (*_FUNCTIONS, ast.ClassDef))]


def _has_no_gpu_of_its_own(choice: ast.If | ast.IfExp, branch: ast.AST) -> bool:
    """Whether a branch is that of `gpu is None`: of one process for all GPUs, or of none."""
    test = choice.test
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and is_none(test.comparators[0])):
        return False
    body = choice.body if isinstance(choice.body, list) else [choice.body]
    chosen = branch in body if isinstance(test.ops[0], ast.Is) else branch is not test and branch not in body
    return chosen and isinstance(test.ops[0], ast.Is | ast.IsNot) and "gpu" in last_name(test.left).lower()


def _for_one_rank(context: Context, call: ast.Call) -> bool:
    """Whether only one process loads, or what one loads is handed to the others."""
    child: ast.AST = call
    for above in context.ancestors(call):
        if (
            isinstance(above, ast.If | ast.IfExp)
            and child is not above.test
            and _ONE_RANK.search(ast.unparse(above.test))
        ):
            return True
        if isinstance(above, ast.If | ast.IfExp) and _has_no_gpu_of_its_own(above, child):
            return True
        for name in ("body", "orelse"):
            block = getattr(above, name, None)
            if isinstance(block, list) and child in block:
                for earlier in block[: block.index(child)]:
                    leaves = isinstance(earlier, ast.If) and isinstance(earlier.body[-1], ast.Return | ast.Continue)
                    if leaves and _ONE_RANK.search(ast.unparse(earlier.test)):
                        return True
        if isinstance(above, _FUNCTIONS):
            return any(
                isinstance(node, ast.Attribute | ast.Name)
                and (node.attr if isinstance(node, ast.Attribute) else node.id) in _SHARES
                for node in walk(above)
            )
        child = above
    return False
