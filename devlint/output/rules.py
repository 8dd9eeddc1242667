"""The list of all rules."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from devlint.finding import RuleInfo
    from devlint.output import Display


def render(rules: Sequence[RuleInfo], output_format: str, display: Display) -> str:
    """A line per rule, sorted by code; as `json` a list of objects, as `markdown` a table for a README."""
    ordered = sorted(rules, key=lambda rule: rule.code)
    if output_format == "markdown":
        rows = (f"| {rule.code} | {rule.name} | {_groups(rule)} | {_cell(rule.summary)} |\n" for rule in ordered)
        return "| code | name | group | reports |\n| --- | --- | --- | --- |\n" + "".join(rows)
    if output_format == "json":
        return json.dumps([_object(rule) for rule in ordered], indent=2) + "\n"
    names = max((len(rule.name) for rule in ordered), default=0)
    groups = max((len(_groups(rule)) for rule in ordered), default=0)
    return "".join(
        f"{'+' if rule.on_by_default else '-'} {display.paint(rule.code, bold=True)}  {rule.name:<{names}}  "
        f"{_groups(rule):<{groups}}  {rule.summary}\n"
        for rule in ordered
    )


def _object(rule: RuleInfo) -> dict[str, object]:
    return {
        "code": rule.code,
        "name": rule.name,
        "groups": [group.value for group in rule.groups],
        "on_by_default": rule.on_by_default,
        "summary": rule.summary,
    }


def _cell(text: str) -> str:
    """Text that stays in its cell of a Markdown table."""
    return text.replace("|", "\\|")


def _groups(rule: RuleInfo) -> str:
    return ", ".join(group.value for group in rule.groups)
