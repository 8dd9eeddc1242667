"""DEV301: tensors are loaded without `map_location`, back onto the device that they were saved from."""

from __future__ import annotations

import ast

from devlint.checks import rewrite
from devlint.checks.base import Rule
from devlint.checks.context import Context
from devlint.checks.fate import Fate, Follower
from devlint.checks.loaded import choose, fix_for, holds_tensors, is_left_alone
from devlint.checks.loading import NAMES, Load, calls_of, is_nowhere
from devlint.finding import Group, RuleInfo
from devlint.screen import Mentions
from devlint.syntax.lazy import cst

_ERROR = "where that is missing: `RuntimeError: Attempting to deserialize object on a CUDA device`"


class LoadWithoutMapLocation(Rule):
    info = RuleInfo(
        "DEV301", "load-without-map-location", (Group.BUG,), "tensors are loaded onto the device they were saved from"
    )
    screen = (Mentions(NAMES),)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._found: dict[ast.Call, tuple[Load, Fate]] = {}

    def suspects(self) -> bool:
        context = self.context
        loads = [load for load in calls_of(context) if is_nowhere(load)]
        follower = Follower(context) if loads else None
        for load in loads:
            assert follower is not None
            fate = follower.follow(load.way)
            if holds_tensors(load, fate, context) and not is_left_alone(context, load, fate):
                self._found[load.call] = (load, fate)
        return bool(self._found)

    def visit_Call(self, node: cst.Call) -> None:
        call = self.context.ast_of(node)
        if not isinstance(call, ast.Call) or call not in self._found or call in self.context.claims:
            return
        load, fate = self._found[call]
        choice = choose(self.context, load, fate)
        fix = fix_for(self.context, node, load, choice)
        no_fix = None if fix is not None else choice.reason or "the keyword cannot be added here"
        self.report(rewrite.callee_span(self.context, node), _message(load), fix=fix, no_fix=no_fix)


def _message(load: Load) -> str:
    called = f"`{load.short}` without `map_location`"
    if load.is_lightning:
        return f"{called} leaves the module on the GPU it was saved from, and fails on a machine without that index"
    return f"{called} puts tensors back on the device they were saved from; {_ERROR}"
