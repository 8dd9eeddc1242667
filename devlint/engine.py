"""One file through all the steps, and the fix loop."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from devlint import screen
from devlint.finding import Applicability, Finding, Group, Location
from devlint.source import Noqa, Source, SourceError, decode_source, encode_source

if TYPE_CHECKING:
    from devlint.checks.base import Rule
    from devlint.config import Config

MAX_PASSES = 10
"""A fix can bring another finding to light; more rounds than this mean that two rules undo each other."""


@dataclass(frozen=True, slots=True)
class Report:
    """The findings in one file, sorted; `source` is there where there are any, to show its lines."""

    path: str
    findings: tuple[Finding, ...]
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class FixResult:
    """What fixing a file came to: what is left, what was fixed, the old bytes and the new."""

    report: Report
    fixed: tuple[Finding, ...]
    old: bytes
    data: bytes


def check_bytes(data: bytes, path: str, config: Config, tree: ast.Module | None = None) -> Report:
    """Check one file. `tree` is its `ast`, where the caller has it already."""
    if b"torch" not in data:
        return Report(path, ())
    if len(data) > screen.MAX_BYTES:
        return Report(path, (_own("DEV902", f"larger than {screen.MAX_BYTES:,} bytes, not checked", path),))
    try:
        source = decode_source(data, path)
    except SourceError as error:
        return Report(path, (_own("DEV901", error.message, path, error.row, error.column),))
    return check_text(source, config, tree)


def fix_bytes(data: bytes, path: str, config: Config) -> FixResult:
    """Fix one file as far as its fixes go, at most MAX_PASSES rounds, until nothing changes.

    Safe fixes are made, unsafe ones where the configuration says so. Each round is proven; where a proof fails the
    file stays as it was and DEV903 says so.
    """
    report = check_bytes(data, path, config)
    old, fixed = data, []
    for _ in range(MAX_PASSES):
        if report.source is None:
            break
        done, text, reason = _round(report, config)
        if not done:
            break
        if reason is None:
            try:
                data = encode_source(report.source, text)
            except SourceError as error:
                reason = error.message
        if reason is not None:
            unproven = _own("DEV903", f"a fix was not written, since its proof failed: {reason}", path)
            before = check_bytes(old, path, config)
            return FixResult(Report(path, (*before.findings, unproven), before.source), (), old, old)
        fixed += done
        report = check_bytes(data, path, config)
    return FixResult(report, tuple(fixed), old, data)


def _round(report: Report, config: Config) -> tuple[tuple[Finding, ...], str, str | None]:
    """One round of fixes: what was fixed, the new text, and why it is not proven, if so."""
    from devlint import edits

    assert report.source is not None
    text = report.source.text
    wanted = (Applicability.SAFE, Applicability.UNSAFE) if config.unsafe_fixes else (Applicability.SAFE,)
    fixes = [(f, f.fix) for f in report.findings if f.fix is not None and f.fix.applicability in wanted]
    if not fixes:
        return (), text, None
    new, made, done = edits.apply(text, fixes)
    return done, new, edits.prove(text, new, made) if done else None


def check_text(source: Source, config: Config, tree: ast.Module | None = None) -> Report:
    """Check a decoded file."""
    findings = _findings(source, config, tree)
    if not findings:
        return Report(source.path, ())
    noqa = Noqa(source)
    kept = {
        finding.sort_key: finding
        for finding in findings
        if config.enabled_in(finding.code, finding.group, source.path)
        and not noqa.suppresses(finding.code, finding.start.row)
    }
    return Report(source.path, tuple(kept[key] for key in sorted(kept)), source)


def _findings(source: Source, config: Config, tree: ast.Module | None) -> list[Finding]:
    from devlint.checks import rules

    path = source.path
    try:
        tree = tree or screen.parse(source.text)
        seen = screen.look(tree)
    except SyntaxError as error:
        return [_invalid(error, path)]
    except screen.TooComplex as error:
        return [_own("DEV902", f"{error}, not checked", path, error.row)]
    wanted = [
        rule
        for rule in rules().values()
        if any(config.enabled(rule.info.code, group) for group in rule.info.groups)
        and any(sign.holds(seen) for sign in rule.screen)
    ]
    if not wanted:
        return []
    from devlint.syntax.parse import on_large_stack

    whole: ast.Module = tree
    return on_large_stack(lambda: _run(wanted, source, whole, seen, config))


def _run(
    wanted: Sequence[type[Rule]], source: Source, tree: ast.Module, seen: screen.Seen, config: Config
) -> list[Finding]:
    """Run rules over a file; to be called on a large stack.

    LibCST parses the file only if a rule, having asked the inference, still suspects something.
    """
    from devlint.checks.context import TORCH_NOW, Context
    from devlint.placement.api import facts
    from devlint.placement.infer import Inference
    from devlint.syntax.names import Names
    from devlint.syntax.pairing import Unpaired
    from devlint.syntax.parse import Refused
    from devlint.syntax.walk import handlers, walk

    names = Names(tree)
    inference = Inference(tree, names, facts())
    context = Context(source, tree, seen, names, inference, config.target_torch or TORCH_NOW)
    crashed: dict[Rule, Finding] = {}
    running: list[Rule] = []
    for rule in (kind(context) for kind in wanted):
        try:
            if rule.suspects():
                running.append(rule)
        except Exception as error:
            crashed[rule] = _crash(rule, 1, error, context)
    if not running:
        return list(crashed.values())
    try:
        module, pairs = context.module, context.pairs
    except (Refused, Unpaired) as error:
        return [_own("DEV902", f"LibCST cannot read this file: {error}", source.path), *crashed.values()]
    table: dict[str, list[tuple[Rule, Callable[[Any], None]]]] = {}
    for rule in running:
        for kind_name, method in handlers(rule).items():
            table.setdefault(kind_name, []).append((rule, method))
    for node in walk(module):
        for rule, method in table.get(type(node).__name__, ()):
            if rule not in crashed:
                try:
                    method(node)
                except Exception as error:
                    crashed[rule] = _crash(rule, getattr(pairs.get(node), "lineno", 1), error, context)
    return [finding for rule in running for finding in rule.findings] + list(crashed.values())


def _crash(rule: Rule, row: int, error: Exception, context: Any) -> Finding:
    words = f"rule {rule.info.name} ({rule.info.code}) crashed: {type(error).__name__}: {error}"
    return _own("DEV999", f"{words}; the other rules went on, please report this", context.source.path, row)


def _invalid(error: SyntaxError, path: str) -> Finding:
    import sys

    running = f"read as Python {sys.version_info.major}.{sys.version_info.minor}"
    return _own("DEV900", f"not valid Python ({running}): {error.msg}", path, error.lineno or 1, error.offset or 1)


def _own(code: str, message: str, path: str, row: int = 1, column: int = 1) -> Finding:
    """What devlint says of a file itself."""
    from devlint.checks import OWN

    info = next(info for info in OWN if info.code == code)
    place = Location(max(row, 1), max(column, 1))
    return Finding(code, info.name, " ".join(message.split()), path, place, place, Group.BUG)
