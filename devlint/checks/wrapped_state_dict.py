"""DEV304: the state of a wrapper is saved, whose keys all start with `module.`."""

from __future__ import annotations

import ast

from devlint.checks import rewrite
from devlint.checks.base import Rule
from devlint.checks.guards import conditions
from devlint.checks.processes import calls_to
from devlint.checks.wrappers import WRAPPERS, wrapping
from devlint.finding import Edit, Group, RuleInfo
from devlint.placement.evaluate import path_of
from devlint.screen import All, Mentions
from devlint.syntax.lazy import cst
from devlint.syntax.trees import walk

_SAVE = "torch.save"


class WrappedStateDict(Rule):
    info = RuleInfo("DEV304", "wrapped-state-dict", (Group.STYLE,), "the state of a wrapper is saved, with its keys")
    screen = (
        All(
            (
                Mentions(frozenset({"DataParallel", "DistributedDataParallel"})),
                Mentions(frozenset({"state_dict"})),
                Mentions(frozenset({"save"})),
            )
        ),
    )

    def suspects(self) -> bool:
        self._found: dict[ast.AST, str] = {}
        if self._knows_the_keys():
            return False
        for call in self.context.seen.calls.get("state_dict", ()):
            if isinstance(call.func, ast.Attribute) and self._is_saved(call):
                kind = self.context.value_of(call.func.value).type
                if kind in WRAPPERS and not any("module" in text for text in conditions(self.context, call)):
                    self._found[call] = kind.rpartition(".")[2]
        return bool(self._found)

    def _knows_the_keys(self) -> bool:
        """Whether the file loads into a wrapper, or speaks of the keys' first part."""
        if any(text.startswith("module.") for text in self.context.seen.texts):
            return True
        return any(
            isinstance(call.func, ast.Attribute) and wrapping(self.context, self.context.value_of(call.func.value))
            for call in self.context.seen.calls.get("load_state_dict", ())
        )

    def _is_saved(self, call: ast.Call) -> bool:
        """Whether a state goes into `torch.save`, as it is or as a part of what is saved in its function."""
        owner = self.context.inference.owner(call)
        saves = [save for save, _ in calls_to(self.context, _SAVE) if self.context.inference.owner(save) is owner]
        above = list(self.context.ancestors(call))
        if any(save in above for save in saves):
            return True
        statement = next((one for one in above if isinstance(one, ast.stmt)), None)
        if not isinstance(statement, ast.Assign) or not _is_part(call, statement.value):
            return False
        names = {path_of(one.value if isinstance(one, ast.Subscript) else one) for one in statement.targets} - {None}
        saved = [node for save in saves if save.lineno > call.lineno for node in walk(save) if path_of(node) in names]
        return bool(saved)

    def visit_Call(self, node: cst.Call) -> None:
        context = self.context
        call = context.ast_of(node)
        wrapper = self._found.get(call)
        if wrapper is None or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            return
        start, end = rewrite.attribute_span(context, call.func)
        message = (
            f"the keys of a `{wrapper}` start with `module.`: a model that is not wrapped refuses them,"
            ' "Missing key(s) in state_dict"'
        )
        fix = rewrite.suggestion("Save the state of the wrapped model", Edit(start, start, "module."))
        self.report((start, end), message, fix=fix)


def _is_part(call: ast.Call, value: ast.expr) -> bool:
    """Whether an assigned value is a state itself, or a dict that holds it."""
    if value is call:
        return True
    if isinstance(value, ast.Dict):
        return any(one is call for one in value.values)
    return isinstance(value, ast.Call) and any(keyword.value is call for keyword in value.keywords)
