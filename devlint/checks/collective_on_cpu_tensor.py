"""DEV505: a tensor on the CPU goes into a collective of NCCL, which knows those on GPUs only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from devlint.checks import rewrite
from devlint.checks.base import Rule
from devlint.checks.chosen import is_chosen
from devlint.checks.context import Context
from devlint.checks.guards import conditions, expects_error
from devlint.checks.host_code import is_guarded
from devlint.checks.placing import device_expression, repeatable
from devlint.checks.processes import argument, calls_to, process_groups
from devlint.checks.uses import wanted_on_host
from devlint.finding import Fix, Group, RuleInfo
from devlint.placement import values as v
from devlint.placement.values import Place, Value
from devlint.screen import Mentions
from devlint.syntax.lazy import cst
from devlint.syntax.trees import is_none, last_name

COLLECTIVES = {
    "all_reduce": 2, "all_reduce_coalesced": 2, "broadcast": 2, "reduce": 3, "all_gather": 2, "all_gather_coalesced": 2,
    "all_gather_into_tensor": 2, "gather": 3, "scatter": 3, "reduce_scatter": 3, "reduce_scatter_tensor": 3,
    "all_to_all": 2, "all_to_all_single": 4, "send": 2, "recv": 2, "isend": 2, "irecv": 2,
    "nn.all_reduce": 2, "nn.broadcast": 2, "nn.reduce": 3, "nn.all_gather": 1, "nn.gather": 2,
}  # fmt: skip
"""The functions of torch.distributed that send tensors, with the 0-based position of the process group."""
_DISTRIBUTED = "torch.distributed."
_NAMES = tuple(_DISTRIBUTED + name for name in COLLECTIVES)
_RAISES = 'NCCL has none there, torch raises "No backend type associated with device type cpu"'


@dataclass(frozen=True, slots=True)
class _Defect:
    given: ast.expr
    """The argument that is, or holds, a tensor on the CPU."""
    value: Value
    beside: ast.expr | None
    """Another tensor of the same call that is on a device of the program's choice."""


class CollectiveOnCpuTensor(Rule):
    info = RuleInfo(
        "DEV505", "collective-on-cpu-tensor", (Group.BUG,), "a tensor on the CPU goes into a collective of NCCL"
    )
    screen = (Mentions(frozenset(name.rpartition(".")[2] for name in COLLECTIVES)),)

    def suspects(self) -> bool:
        self._found: dict[ast.AST, _Defect] = {}
        for call, name in calls_to(self.context, *_NAMES):
            if self._is_for_all(call, COLLECTIVES[name.removeprefix(_DISTRIBUTED)]) and not self._is_deliberate(call):
                on_host = next(self._on_host(call), None)
                if on_host is not None:
                    beside = self._beside(call)
                    if beside is not None or self._uses_nccl:
                        self._found[call] = _Defect(*on_host, beside)
        return bool(self._found)

    def _is_for_all(self, call: ast.Call, position: int) -> bool:
        """Whether the collective is one of the default process group."""
        if any(isinstance(one, ast.Starred) for one in call.args) or any(k.arg is None for k in call.keywords):
            return False
        group = argument(call, "group", position)
        return group is None or is_none(group) or last_name(group) == "WORLD"

    @cached_property
    def _uses_nccl(self) -> bool:
        """Whether the file shows how the default group is set up: with NCCL, or with it where there are GPUs."""
        groups = process_groups(self.context)
        if any(one.backends is None for one in groups):
            return False
        of_nccl = {one.owner for one in groups if one.backends and "nccl" in one.backends}
        return bool(of_nccl) and all(one.owner in of_nccl for one in groups)

    def _beside(self, call: ast.Call) -> ast.expr | None:
        """An argument that this function put on a device which a variable names."""
        for given in call.args:
            value = self.context.value_of(given)
            maker = value.origin.node if value.origin is not None else None
            told = isinstance(maker, ast.Call) and any(keyword.arg == "device" for keyword in maker.keywords)
            if (
                value.place.known
                and value.place.device not in ("cpu", "meta")
                and (is_chosen(self.context, value) or (told and value.is_tensor))
            ):
                return given
        return None

    def _on_host(self, call: ast.Call) -> Iterator[tuple[ast.expr, Value]]:
        """The arguments that are proven to be, or to hold, tensors on the CPU, with such a tensor."""
        for given in (*call.args, *(keyword.value for keyword in call.keywords)):
            for value in self._tensors(given):
                possible = [one for one in value.possibilities() if one.kind != v.NOTHING]
                if possible and all(one.is_tensor and one.place.is_cpu for one in possible):
                    yield given, possible[0]

    def _tensors(self, given: ast.expr) -> Iterator[Value]:
        """What an argument is, and what it holds if it is a list."""
        value = self.context.value_of(given)
        yield value
        yield from value.items or ()
        if value.element is not None:
            yield value.element

    def _is_deliberate(self, call: ast.Call) -> bool:
        context = self.context
        if is_guarded(context, call) or expects_error(context, call):
            return True
        return any(word in text for text in conditions(context, call) for word in ("backend", "nccl", "gloo"))

    def visit_Call(self, node: cst.Call) -> None:
        call = self.context.ast_of(node)
        found = self._found.get(call)
        if found is None or not isinstance(call, ast.Call):
            return
        context = self.context
        fix, no_fix = self._fix(call, found.value)
        origin = f" ({found.value.origin})" if found.value.origin is not None else ""
        why = "the process group is one of NCCL" if found.beside is None else f"{_short(context, found.beside)} is not"
        message = f"{_short(context, found.given)}{origin} is on the CPU, and {why}: {_RAISES}"
        self.report(rewrite.callee_span(context, node), message, fix=fix, no_fix=no_fix)

    def _fix(self, call: ast.Call, value: Value) -> tuple[Fix | None, str | None]:
        """Make the tensor where the function computes."""
        context = self.context
        maker = value.origin.node if value.origin is not None else None
        if not isinstance(maker, ast.Call) or context.inference.owner(maker) is not context.inference.owner(call):
            return None, "it is not made in this function"
        row = context.inference.facts.call(self.name_of(maker.func) or "") or {}
        if row.get("place") not in ("factory", "like") or row.get("legacy"):
            return None, "what puts it on the CPU is not a factory of torch that takes a device"
        if wanted_on_host(context, maker):
            return None, "it is used as only a tensor on the CPU can be"
        device = self._device(call, maker)
        if device is None:
            return None, "no variable in reach names the device of this process"
        factory = next((key for key, other in context.pairs.items() if other is maker), None)
        edit = rewrite.add_keyword(context, factory, "device", device) if isinstance(factory, cst.Call) else None
        if edit is None:
            return None, "the keyword cannot be added to what makes it"
        return rewrite.unsafe(f"Make it on `{device}`", edit), None

    def _device(self, call: ast.Call, maker: ast.Call) -> str | None:
        """The device of the other tensors of the collective, else the one on which the function computes."""
        context = self.context
        others = [context.value_of(one) for one in call.args]
        for value in others:
            other = value.origin.node if value.origin is not None else None
            told = argument(other, "device") if isinstance(other, ast.Call) else None
            if told is not None and not isinstance(told, ast.Constant) and repeatable(context, told, maker):
                return context.text(told)
        run = context.inference.run(context.inference.owner(call))
        moved = [
            one
            for one in run.values.values()
            if one.is_tensor or one.is_module or (one.kind == v.UNKNOWN and one.origin is not None)
        ]
        for values in (others, moved):
            known = _distinct(one.place for one in values if is_chosen(context, one) and not one.place.is_cpu)
            named = device_expression(context, known[0], maker) if len(known) == 1 else None
            if named is not None:
                return named.text
        return None


def _short(context: Context, node: ast.expr) -> str:
    return f"`{rewrite.shortened(' '.join(context.text(node).split()))}`"


def _distinct(places: Iterator[Place]) -> list[Place]:
    found: list[Place] = []
    for place in places:
        if not any(place.same(other) for other in found):
            found.append(place)
    return found
