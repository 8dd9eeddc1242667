"""DEV507: BatchNorm under DistributedDataParallel, where each process counts its own part of the batch only."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from devlint.checks import rewrite
from devlint.checks.base import Rule
from devlint.checks.processes import argument, calls_to, is_managed, process_groups
from devlint.checks.wrappers import DISTRIBUTED
from devlint.finding import Edit, Fix, Group, RuleInfo
from devlint.placement import values as v
from devlint.placement.evaluate import path_of
from devlint.placement.values import Value
from devlint.screen import Mentions
from devlint.syntax.lazy import cst
from devlint.syntax.trees import walk

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_NORMS = frozenset(f"torch.nn.{lazy}BatchNorm{n}d" for lazy in ("", "Lazy") for n in (1, 2, 3))
_WITH_NORMS = re.compile(
    r"torchvision\.models\.(?:(?:wide_)?resne[x]?t|densenet|mobilenet_|efficientnet_|googlenet|inception_|mnasnet"
    r"|regnet_|shufflenet_|vgg\d+_bn$)"
)
"""Models of torchvision that normalise over the batch."""
_FREEZES = re.compile(r"freeze\w*(?:bn|norm)|(?:bn|norm)\w*freeze|frozen", re.I)


class UnsynchronisedBatchnorm(Rule):
    info = RuleInfo(
        "DEV507",
        "unsynchronised-batchnorm",
        (Group.PERFORMANCE,),
        "BatchNorm under DistributedDataParallel counts each process's part of the batch only",
    )
    screen = (Mentions(frozenset({"DistributedDataParallel"})),)

    def suspects(self) -> bool:
        context, seen = self.context, self.context.seen
        self._found: dict[ast.AST, str] = {}
        names = seen.loose | seen.imports | seen.calls.keys()
        if "SyncBatchNorm" in names or "convert_sync_batchnorm" in names or any(map(_FREEZES.search, names)):
            return False
        groups = [group.backends for group in process_groups(context)]
        if is_managed(context) or any(backends is not None and "nccl" not in backends for backends in groups):
            return False  # gloo: SyncBatchNorm is for GPUs
        for call, _ in calls_to(context, DISTRIBUTED):
            model = argument(call, "module", 0)
            if model is None or self._is_frozen(path_of(model)):
                continue
            norm = self._norm(context.value_of(model))
            if norm is not None:
                self._found[call] = norm
        return bool(self._found)

    def _is_frozen(self, model: str | None) -> bool:
        """Whether the file may hold the model's parameters fast: `model.requires_grad_(False)`."""
        return model is not None and any(
            isinstance(call.func, ast.Attribute)
            and path_of(call.func.value) == model
            and any(isinstance(one, ast.Constant) and one.value is False for one in walk(call))
            for call in self.context.seen.calls.get("requires_grad_", ())
        )

    def _norm(self, model: Value) -> str | None:
        """A BatchNorm in a model, or the maker of one, as the file writes it; None where it shows none."""
        seen: set[object] = set()
        work: list[object] = list(model.ids) if model.is_module else []
        while work:
            made = work.pop()
            if made in seen or not isinstance(made, ast.AST):
                continue
            seen.add(made)
            for call in _calls_in(made):
                name = self.name_of(call.func) or ""
                if name in _NORMS or (
                    _WITH_NORMS.match(name) and not any(k.arg == "norm_layer" for k in call.keywords)
                ):
                    return ast.unparse(call.func)
                value = self.context.value_of(call.func)
                if value.kind in (v.CLASS, v.FUNCTION) and isinstance(value.node, (ast.ClassDef, *_FUNCTIONS)):
                    work.append(value.node)
                work += self.context.value_of(call).ids
        return None

    def visit_Call(self, node: cst.Call) -> None:
        call = self.context.ast_of(node)
        norm = self._found.get(call)
        if norm is None or not isinstance(call, ast.Call):
            return
        message = (
            f"`{norm}` in the model normalises over each process's part of the batch only, and each has its own running"
            " mean: training differs from one process with the whole batch"
        )
        fix = self._fix(call)
        no_fix = None if fix is not None else "neither `torch` nor `nn` is imported under its name"
        self.report(rewrite.callee_span(self.context, node), message, fix=fix, no_fix=no_fix)

    def _fix(self, call: ast.Call) -> Fix | None:
        context = self.context
        model, module = argument(call, "module", 0), context.names.module
        name = next(
            (n for n, full in (("nn", "torch.nn"), ("torch", "torch")) if module.imports.get(n) == {full}), None
        )
        if model is None or name is None or name in module.bound:
            return None
        start, end = context.span(model)
        prefix = "nn" if name == "nn" else "torch.nn"
        return rewrite.suggestion(
            "Convert it before wrapping",
            Edit(start, start, f"{prefix}.SyncBatchNorm.convert_sync_batchnorm("),
            Edit(end, end, ")"),
        )


def _calls_in(made: ast.AST) -> Iterator[ast.Call]:
    """The calls of a class, of a function, or of an expression that makes a model."""
    return (node for node in walk(made) if isinstance(node, ast.Call))
