"""DEV502: a model is run by `DataParallel` that is not on the first of its GPUs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devlint.checks import rewrite
from devlint.checks.base import Rule
from devlint.checks.guards import expects_error
from devlint.checks.processes import calls_to
from devlint.checks.training_loops import target_of
from devlint.checks.wrappers import DATA_PARALLEL, MOVERS, accelerators, first_device, may_be_moved
from devlint.finding import Group, RuleInfo
from devlint.placement.evaluate import path_of
from devlint.placement.values import CPU, Place
from devlint.screen import Mentions
from devlint.syntax.lazy import cst

_CHOOSING = frozenset({"set_device", "set_device_index", "set_device_idx", "device_index"})


class DataParallelSourceDevice(Rule):
    info = RuleInfo(
        "DEV502",
        "data-parallel-source-device",
        (Group.BUG,),
        "a model that `DataParallel` runs is not on the first of its GPUs",
    )
    screen = (Mentions(frozenset({"DataParallel"})),)

    def suspects(self) -> bool:
        self._found: dict[ast.AST, tuple[Place, Place]] = {}
        for call, _ in calls_to(self.context, DATA_PARALLEL):
            first = first_device(self.context, call)
            if first is None or expects_error(self.context, call):
                continue
            where = next((place for place in self._places(call) if self._is_elsewhere(place, first)), None)
            if where is not None:
                self._found[call] = (where, first)
        return bool(self._found)

    def _places(self, call: ast.Call) -> Iterator[Place]:
        """Where the wrapped model is when the wrapper runs, and where it is wrapped if nothing moves it later."""
        inference = self.context.inference
        target = target_of(self.context, call)
        if target is not None and may_be_moved(self.context, target, call):
            return
        run = inference.run(inference.owner(call))
        for node, place in inference.module_places.items():
            module = run.values.get(node.func)
            if module is not None and module.ids == {call} and not expects_error(self.context, node):
                yield from accelerators(self.context, place)
        if target is not None and not self._is_moved_later(call, target):
            wrapped = self.context.value_of(call).place
            if not wrapped.known and call.args:  # of an argument that this function moved, nothing but that is known
                wrapped = self.context.value_of(call.args[0]).place
            yield from (place for place in accelerators(self.context, wrapped) if place.index is not None)

    def _is_moved_later(self, call: ast.Call, target: str) -> bool:
        """Whether something in the file moves what goes by the wrapper's name."""
        return any(
            isinstance(mover.func, ast.Attribute) and path_of(mover.func.value) == target and mover.lineno > call.lineno
            for name in MOVERS
            for mover in self.context.seen.calls.get(name, ())
        )

    def _is_elsewhere(self, place: Place, first: Place) -> bool:
        if place.same(CPU):
            return True
        if place.device != "cuda":
            return False
        if place.index is not None:
            return place.index != first.index
        seen = self.context.seen  # the current device, which is the first one if nothing chooses another
        return first.index != 0 and _CHOOSING.isdisjoint(seen.calls) and _CHOOSING.isdisjoint(seen.loose)

    def visit_Call(self, node: cst.Call) -> None:
        found = self._found.get(self.context.ast_of(node))
        if found is None:
            return
        where, first = (
            f"{place.device}:{place.index or 0}" if place.device == "cuda" else place.device for place in found
        )
        message = (
            f'the model is on {where}: torch raises "module must have its parameters and buffers on device {first}'
            f' (device_ids[0]) but found one of them on device: {where}"'
        )
        no_fix = "which GPUs to use, and where the model is to be, is yours to say"
        self.report(rewrite.callee_span(self.context, node), message, no_fix=no_fix)
