"""DEV301: tensors are loaded without `map_location`, back onto the device that they were saved from."""

from __future__ import annotations

import ast

from devlint.checks import rewrite
from devlint.checks.base import Rule
from devlint.checks.context import Context
from devlint.checks.fate import Follower
from devlint.checks.loaded import Choice, choose, holds_tensors, is_left_alone
from devlint.checks.loading import NAMES, Load, is_nowhere, load_of
from devlint.finding import Edit, Fix, Group, RuleInfo
from devlint.screen import Mentions
from devlint.syntax.lazy import cst

_ERROR = "where that is missing: `RuntimeError: Attempting to deserialize object on a CUDA device`"


class LoadWithoutMapLocation(Rule):
    info = RuleInfo(
        "DEV301",
        "load-without-map-location",
        (Group.BUG,),
        "tensors are loaded back onto the device they were saved from",
    )
    screen = (Mentions(NAMES),)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._follower: Follower | None = None

    def visit_Call(self, node: cst.Call) -> None:
        call = self.context.ast_of(node)
        if not isinstance(call, ast.Call):
            return
        load = load_of(self.context, call)
        if load is None or not is_nowhere(load):
            return
        if self._follower is None:
            self._follower = Follower(self.context)
        fate = self._follower.follow(call)
        if not holds_tensors(load, fate, self.context) or is_left_alone(self.context, load, fate):
            return
        choice = choose(self.context, load, fate, self._follower)
        fix = fix_for(self.context, node, load, choice)
        no_fix = None if fix is not None else choice.reason or "the keyword cannot be added here"
        self.report(rewrite.callee_span(self.context, node), _message(load), fix=fix, no_fix=no_fix)


def _message(load: Load) -> str:
    called = f"`{load.short}` without `map_location`"
    if load.is_lightning:
        return (
            f"{called} leaves the module on the device it was saved from, and fails where that one's index is missing"
        )
    return f"{called} puts tensors back on the device they were saved from; {_ERROR}"


def fix_for(context: Context, node: cst.Call, load: Load, choice: Choice) -> Fix | None:
    """Say `map_location` in a call, in place of what is said of it there."""
    if not choice.text:
        return None
    edit: Edit | None
    if load.given is None:
        edit = rewrite.add_keyword(context, node, load.keyword, choice.text)
    elif any(part is load.given for part in ast.walk(load.call)) and context.editable(load.given):
        edit = rewrite.replace(context, load.given, choice.text)
    else:
        edit = rewrite.add_keyword(context, node, load.keyword, choice.text)
    if edit is None:
        return None
    title = f"Load onto {choice.text}" if choice.text != '"cpu"' else "Load onto the CPU, from where it is copied on"
    return rewrite.safe(title, edit) if choice.safe else rewrite.unsafe(title, edit)
