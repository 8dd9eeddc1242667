"""DEV506: the processes of a distributed run do not share out the samples, or do it alike in each epoch."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

from devlint.checks import rewrite
from devlint.checks.base import Rule
from devlint.checks.guards import conditions
from devlint.checks.processes import DDP, INIT, argument, calls_to, is_managed, is_one_process
from devlint.checks.training_loops import Training, homes_of, target_of, trainings
from devlint.finding import Edit, Fix, Group, RuleInfo
from devlint.placement.evaluate import path_of
from devlint.screen import All, Mentions
from devlint.syntax.lazy import cst
from devlint.syntax.trees import is_none, last_name, walk

_LOADER = "torch.utils.data.DataLoader"
_SAMPLER = "torch.utils.data.DistributedSampler"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SHARING = re.compile(r"sampler|shard|partition|split_|world_size|num_replicas|rank|node", re.I)
"""Words of a data set, or of what makes it, that may give each process a part of its own."""
_BRANCH = re.compile(r"dist|ddp|world|rank|multi|gpu|parallel|sampler", re.I)
_ANYWHERE = re.compile(r"Distributed\w*Sampler|split_\w*by_\w*node|partition_dataset|\bfully_shard|FullySharded|FSDP")
_NOT_TRAINING = re.compile(r"val|test|eval|dev|infer|calib", re.I)
_WHOLE = (
    "each process goes through the whole data set, in an order of its own: no DistributedSampler shares out the "
    "samples, and the epoch is no shorter with more processes"
)
_SAME_ORDER = "`set_epoch` is never called: the processes get the same samples in the same order in every epoch"


class DdpWithoutSampler(Rule):
    info = RuleInfo(
        "DEV506",
        "ddp-without-sampler",
        (Group.BUG,),
        "the samples are not shared out to the processes, or always alike",
    )
    screen = (
        All((Mentions(frozenset({"DistributedDataParallel"})), Mentions(frozenset({"DataLoader"})))),
        Mentions(frozenset({"DistributedSampler"})),
    )

    def suspects(self) -> bool:
        self._whole: dict[ast.AST, list[Training]] = {}
        self._alike: dict[ast.AST, tuple[str, list[Training]]] = {}
        if is_managed(self.context) or is_one_process(self.context):
            return False
        if not self._shares_somehow:
            wrapped = [self.context.inference.owner(call) for call, _ in calls_to(self.context, DDP)]
            for call, _ in calls_to(self.context, _LOADER) if wrapped else ():
                found = self._sees_all(call, wrapped)
                if found:
                    self._whole[call] = found
        if "set_epoch" not in self.context.seen.calls and "set_epoch" not in self.context.seen.loose:
            for call, _ in calls_to(self.context, _SAMPLER):
                self._look_at_sampler(call)
        return bool(self._whole or self._alike)

    @cached_property
    def _shares_somehow(self) -> bool:
        """Whether anything in the file shares out samples."""
        names = self.context.seen.loose | self.context.seen.imports | self.context.seen.calls.keys()
        return any(_ANYWHERE.search(name) for name in names)

    # --- no sampler -----------------------------------------------------------------------------------------------

    def _sees_all(self, call: ast.Call, wrapped: list[ast.AST]) -> list[Training]:
        """The loops that train on a loader which shuffles the whole data set in a process of a distributed run."""
        context = self.context
        shuffle, data = argument(call, "shuffle", 2), argument(call, "dataset", 0)
        if not (isinstance(shuffle, ast.Constant) and shuffle.value is True) or data is None:
            return []
        if any(keyword.arg is None for keyword in call.keywords) or any(
            (given := argument(call, name, position)) is not None and not is_none(given)
            for name, position in (("sampler", 3), ("batch_sampler", 4))
        ):
            return []
        owner = context.inference.owner(call)
        target = target_of(context, call)
        if target is None or _NOT_TRAINING.search(target):
            return []
        if any(_BRANCH.search(text) for text in conditions(context, call)) or self._is_part(data, owner):
            return []
        for name, home in homes_of(context, target, owner):
            found = list(trainings(context, name, home)) if home in wrapped else []
            if found:
                return found if home is owner else [replace(one, direct=False) for one in found]
        return []

    def _is_part(self, data: ast.expr, owner: ast.AST) -> bool:
        """Whether a data set may be made for one process: of its rank, by a slice, by a split."""
        texts = [ast.unparse(data)]
        path = path_of(data)
        for node in walk(owner):
            if isinstance(node, ast.Assign) and path is not None:
                names = {path_of(one) for target in node.targets for one in walk(target)}
                texts += [ast.unparse(node.value)] if path in names else []
        return any(_SHARING.search(text) for text in texts)

    # --- the same order -------------------------------------------------------------------------------------------

    def _look_at_sampler(self, call: ast.Call) -> None:
        shuffle = argument(call, "shuffle", 3)
        if (shuffle is not None and not (isinstance(shuffle, ast.Constant) and shuffle.value is True)) or any(
            keyword.arg is None for keyword in call.keywords
        ):
            return
        owner = self.context.inference.owner(call)
        for loader in self._loaders(call, owner):
            target = target_of(self.context, loader)
            if target is None:
                continue
            for name, home in homes_of(self.context, target, owner):
                found = [one for one in trainings(self.context, name, home) if one.epochs is not None]
                if found:
                    found = found if home is owner else [replace(one, direct=False) for one in found]
                    self._alike[call] = (target, found)
                    break

    def _loaders(self, call: ast.Call, owner: ast.AST) -> Iterator[ast.Call]:
        """The loaders of a function that a sampler is handed to, by its name or as it is made."""
        name = target_of(self.context, call)
        for loader, _ in calls_to(self.context, _LOADER):
            given = argument(loader, "sampler", 3)
            if given is None or self.context.inference.owner(loader) is not owner:
                continue
            if any(one is call or (name is not None and path_of(one) == name) for one in walk(given)):
                yield loader

    # --- findings -------------------------------------------------------------------------------------------------

    def visit_Call(self, node: cst.Call) -> None:
        context = self.context
        call = context.ast_of(node)
        if not isinstance(call, ast.Call):
            return
        if call in self._whole:
            fix, no_fix = self._share_out(call, self._whole[call])
            self.report(rewrite.callee_span(context, node), _WHOLE, fix=fix, no_fix=no_fix)
        elif call in self._alike:
            loader, found = self._alike[call]
            name = target_of(context, call)
            plain = name is not None and not isinstance(context.inference.parents.get(call), ast.IfExp)
            edits = self._set_epoch(found, name if plain else f"{loader}.sampler") if plain or name is None else None
            if edits is None:
                self.report(
                    rewrite.callee_span(context, node),
                    _SAME_ORDER,
                    no_fix="the loop of epochs does not count them where the sampler has its name",
                )
            else:
                fix = rewrite.unsafe("Tell the sampler the epoch", *edits)
                self.report(rewrite.callee_span(context, node), _SAME_ORDER, fix=fix)

    def _set_epoch(self, found: list[Training], sampler: str | None) -> list[Edit] | None:
        """Call `set_epoch` at the top of the loop of epochs; None where that loop does not number them."""
        context = self.context
        loop = found[0].epochs
        if len({one.epochs for one in found}) != 1 or not all(one.direct for one in found):
            return None
        if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name):
            return None
        if last_name(loop.iter.func if isinstance(loop.iter, ast.Call) else loop.iter) not in (
            "range",
            "trange",
            "tqdm",
        ):
            return None
        counter, edits = loop.target.id, []
        if counter == "_":
            scope = context.names.scope_of.get(context.inference.owner(loop))
            read = any(isinstance(n, ast.Name) and n.id == "_" and isinstance(n.ctx, ast.Load) for n in walk(loop))
            if scope is None or "epoch" in scope.bound or "epoch" in scope.imports or read:
                return None
            counter = "epoch"
            edits.append(rewrite.replace(context, loop.target, counter))
        first = loop.body[0]
        start, _ = context.span(first)
        line = context.source.text.rfind("\n", 0, start) + 1
        indent = context.source.text[line:start]
        if indent.strip():
            return None
        return [*edits, Edit(start, start, f"{sampler}.set_epoch({counter}){context.source.newline}{indent}")]

    def _share_out(self, call: ast.Call, found: list[Training]) -> tuple[Fix | None, str | None]:
        """Hand the loader a DistributedSampler, which shuffles in its place."""
        context = self.context
        keyword = next((one for one in call.keywords if one.arg == "shuffle"), None)
        data, target = argument(call, "dataset", 0), target_of(context, call)
        if keyword is None or data is None or path_of(data) is None:
            return None, "the data set has no name here"
        if argument(call, "sampler", 3) is not None:
            return None, "it says `sampler=None`"
        if not self._is_started_before(call):
            return None, "the process group is not seen to be set up before, on every way"
        module = context.text(call.func).rpartition(".")[0]
        imports = context.names.module.imports
        if not module:
            module = "torch.utils.data" if imports.get("torch") == {"torch"} else ""
        edits = self._set_epoch(found, f"{target}.sampler") if module else None
        if edits is None:
            return None, "the loop of epochs does not count them in this function"
        sampler = f"sampler={module}.DistributedSampler({context.text(data)})"
        return rewrite.unsafe("Share out the samples", rewrite.replace(context, keyword, sampler), *edits), None

    def _is_started_before(self, call: ast.Call) -> bool:
        """Whether the function set up the process group, or wrapped a model for it, before, and not in a branch."""
        context = self.context
        owner = context.inference.owner(call)
        body = getattr(owner, "body", [])
        for statement in body:
            if statement.lineno >= call.lineno:
                return False
            if isinstance(statement, ast.Expr | ast.Assign | ast.AnnAssign) and any(
                isinstance(node, ast.Call) and self._starts(node) for node in walk(statement)
            ):
                return True
        return False

    def _starts(self, call: ast.Call) -> bool:
        if self.name_of(call.func) in (INIT, DDP):
            return True
        function = self.context.value_of(call.func).node if isinstance(call.func, ast.Name) else None
        return isinstance(function, _FUNCTIONS) and any(
            isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Call)
            and self.name_of(statement.value.func) == INIT
            for statement in function.body
        )
