"""The rules: one module each, found by looking into this folder."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from devlint.finding import Group, RuleInfo

if TYPE_CHECKING:
    from devlint.checks.base import Rule

OWN = (
    RuleInfo("DEV900", "invalid-syntax", (Group.BUG,), "the file is not valid Python"),
    RuleInfo("DEV901", "unreadable-file", (Group.BUG,), "the file cannot be read or decoded"),
    RuleInfo("DEV902", "too-complex", (Group.BUG,), "nested too deep, too large, or refused by LibCST"),
    RuleInfo("DEV903", "unproven-fix", (Group.BUG,), "a fix was made and did not stand its proof"),
    RuleInfo("DEV999", "rule-crashed", (Group.BUG,), "a rule crashed on this file: a defect of devlint"),
)
"""What devlint says of a file itself; always reported."""


@cache
def rules() -> Mapping[str, type[Rule]]:
    """The rule classes by code."""
    from devlint.checks.base import Rule

    found: dict[str, type[Rule]] = {}
    for entry in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{entry.name}")
        for thing in vars(module).values():
            if isinstance(thing, type) and issubclass(thing, Rule) and "info" in vars(thing):
                found[thing.info.code] = thing
    return dict(sorted(found.items()))


def catalogue() -> Mapping[str, RuleInfo]:
    """All rules of this build by code, those on devlint itself included."""
    infos = [rule.info for rule in rules().values()] + list(OWN)
    return {info.code: info for info in infos}
