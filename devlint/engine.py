"""One file through all the steps, and the fix loop."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from devlint import screen
from devlint.finding import Applicability, Finding, Fix, Group, Location, RuleInfo
from devlint.source import Noqa, Source, SourceError, decode_source, encode_source
from devlint.syntax.parse import deep_recursion, on_large_stack

if TYPE_CHECKING:
    from devlint.checks.base import Rule
    from devlint.checks.context import Context
    from devlint.config import Config
    from devlint.placement.project import Module, Project

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
    return on_large_stack(lambda: _check_bytes(data, path, config, tree), min(len(data), screen.MAX_BYTES))


def check_text(source: Source, config: Config, tree: ast.Module | None = None, *, noqa: bool = True) -> Report:
    """Check a decoded file. Without `noqa`, comments silence nothing: flake8 looks for them itself."""
    return on_large_stack(lambda: _check_text(source, config, tree, noqa), min(len(source.text), screen.MAX_BYTES))


def fix_bytes(data: bytes, path: str, config: Config) -> FixResult:
    """Fix one file as far as its fixes go, at most MAX_PASSES rounds, until nothing changes.

    Safe fixes are made, unsafe ones where the configuration says so. Each round is proven. Where a proof fails, or the
    rounds do not come to an end, the file stays as it was and DEV903 says so.
    """
    if b"torch" not in data:
        return FixResult(Report(path, ()), (), data, data)
    return on_large_stack(lambda: _fix_bytes(data, path, config), min(len(data), screen.MAX_BYTES))


# --- checking, on a large stack -------------------------------------------------------------------------------------


def _check_bytes(data: bytes, path: str, config: Config, tree: ast.Module | None = None) -> Report:
    if len(data) > screen.MAX_BYTES:
        return Report(path, (_too_large(path),))
    try:
        source = decode_source(data, path)
    except SourceError as error:
        return Report(path, (_own("DEV901", error.message, path, error.row, error.column),))
    return _check_text(source, config, tree)


def _check_text(source: Source, config: Config, tree: ast.Module | None = None, noqa: bool = True) -> Report:
    findings = _findings(source, config, tree)
    if not findings:
        return Report(source.path, ())
    comments = Noqa(source) if noqa else None
    kept = {
        (finding.sort_key, finding.message): finding
        for finding in findings
        if config.enabled_in(finding.code, finding.group, source.path)
        and not (comments is not None and comments.suppresses(finding.code, finding.start.row))
    }
    return Report(source.path, tuple(kept[key] for key in sorted(kept)), source)


def _findings(source: Source, config: Config, tree: ast.Module | None) -> list[Finding]:
    from devlint.checks import rules

    path = source.path
    if len(source.text) > screen.MAX_BYTES:
        return [_too_large(path)]
    try:
        module = project_of(config).of(source, tree)
    except SyntaxError as error:
        return [_invalid(error, path)]
    except screen.TooComplex as error:
        return [_own("DEV902", f"{error}, not checked", path, error.row)]
    told = {name.rpartition(".")[2] for table in ("call", "class") for name in config.api.get(table, {})}
    every = not told.isdisjoint(module.seen.calls)  # of what a user has said, the screens know nothing
    wanted: list[type[Rule]] = []
    crashed: list[Finding] = []
    for rule in rules().values():
        if any(config.enabled(rule.info.code, group) for group in rule.info.groups):
            try:
                if every or any(sign.holds(module.seen) for sign in rule.screen):
                    wanted.append(rule)
            except Exception as error:
                crashed.append(_crash(rule.info, 1, error, path))
    if not wanted:
        return crashed
    try:
        with deep_recursion():
            return [*_run(wanted, source, module, config), *crashed]
    except (RecursionError, MemoryError) as error:
        return [_own("DEV902", f"not checked: {type(error).__name__} in the inference of its values", path), *crashed]


def _run(wanted: Sequence[type[Rule]], source: Source, module: Module, config: Config) -> list[Finding]:
    """Run rules over a file. A rule that crashes ends with a finding that says so, and the others go on.

    LibCST parses the file only if a rule, having asked the inference, still suspects something.
    """
    from devlint.syntax.pairing import Unpaired
    from devlint.syntax.parse import Refused
    from devlint.syntax.walk import handlers, walk

    context = make_context(source, module, config)
    crashed: dict[str, Finding] = {}
    running: list[Rule] = []
    for kind in wanted:
        try:
            rule = kind(context)
            if rule.suspects():
                running.append(rule)
        except Exception as error:
            crashed[kind.info.code] = _crash(kind.info, 1, error, source.path)
    if not running:
        return list(crashed.values())
    try:
        libcst_tree, pairs = context.module, context.pairs
    except Refused as error:
        words = f"LibCST cannot read this file, not checked: {error}"
        return [_own("DEV902", words, source.path, error.row), *crashed.values()]
    except Unpaired as error:
        return [_own("DEV902", f"not checked: {error}", source.path), *crashed.values()]
    table: dict[str, list[tuple[Rule, Callable[[Any], None]]]] = {}
    for rule in running:
        for kind_name, method in handlers(rule).items():
            table.setdefault(kind_name, []).append((rule, method))
    for node in walk(libcst_tree):
        for rule, method in table.get(type(node).__name__, ()):
            if rule.info.code not in crashed:
                try:
                    method(node)
                except Exception as error:
                    row = getattr(pairs.get(node), "lineno", 1)
                    crashed[rule.info.code] = _crash(rule.info, row, error, source.path)
    return [finding for rule in running for finding in rule.findings] + list(crashed.values())


def make_context(source: Source, module: Module, config: Config) -> Context:
    """What the rules can ask of one file."""
    from devlint.checks.context import TORCH_NOW, Context
    from devlint.placement.infer import Inference

    inference = Inference(module.tree, module.names, module.seen, project_of(config).facts_for(module))
    return Context(source, module.tree, module.seen, module.names, inference, config.target_torch or TORCH_NOW)


_projects: list[tuple[Config, Project]] = []


def project_of(config: Config) -> Project:
    """The files around those that are checked, and the facts: those that ship with devlint and the user's own.

    One is kept for all files that are checked under one configuration.

    Raises:
        ConfigError: `api` has a table, key, kind or place that does not exist.
    """
    from devlint.config import ConfigError
    from devlint.placement.api import facts
    from devlint.placement.project import Project

    if not _projects or _projects[0][0] != config:
        try:
            known = facts().merge(config.api) if config.api else facts()
        except ValueError as error:
            where = f"{config.source}: " if config.source is not None else ""
            raise ConfigError(f'{where}"api" in [tool.devlint]: {error}') from None
        _projects[:] = [(config, Project(config.root, known))]
    return _projects[0][1]


# --- fixing, on a large stack ---------------------------------------------------------------------------------------


def _fix_bytes(old: bytes, path: str, config: Config) -> FixResult:
    before = report = _check_bytes(old, path, config)
    data = old
    fixed: list[Finding] = []
    for _ in range(MAX_PASSES):
        wanted = _wanted(report, config)
        if not wanted or report.source is None:
            return FixResult(report, tuple(fixed), old, data)
        done, text, reason = _round(report.source.text, wanted)
        if not done and reason is None:
            return FixResult(report, tuple(fixed), old, data)
        if reason is None:
            try:
                data = encode_source(report.source, text)
            except SourceError as error:
                reason = error.message
        if reason is not None:
            return _unproven(before, f"a fix was not written, since its proof failed: {reason}", old)
        fixed += done
        report = _check_bytes(data, path, config)
    if not _wanted(report, config):
        return FixResult(report, tuple(fixed), old, data)
    codes = ", ".join(sorted({finding.code for finding in fixed}))
    return _unproven(before, f"no fix was written: those of {codes} do not come to an end in {MAX_PASSES} rounds", old)


def _unproven(before: Report, message: str, old: bytes) -> FixResult:
    report = Report(before.path, (*before.findings, _own("DEV903", message, before.path)), before.source)
    return FixResult(report, (), old, old)


def _wanted(report: Report, config: Config) -> list[tuple[Finding, Fix]]:
    applicable = (Applicability.SAFE, Applicability.UNSAFE) if config.unsafe_fixes else (Applicability.SAFE,)
    return [(f, f.fix) for f in report.findings if f.fix is not None and f.fix.applicability in applicable]


def _round(text: str, fixes: Sequence[tuple[Finding, Fix]]) -> tuple[tuple[Finding, ...], str, str | None]:
    """One round of fixes: what was fixed, the new text, and why it is not proven, if so."""
    done, new, reason = _attempt(text, fixes)
    if reason is not None and len(fixes) > 1:
        for fix in fixes:
            _, _, alone = _attempt(text, [fix])
            if alone is not None:
                reason = alone
                break
    return done, new, reason


def _attempt(text: str, fixes: Sequence[tuple[Finding, Fix]]) -> tuple[tuple[Finding, ...], str, str | None]:
    from devlint import edits

    try:
        new, made, done = edits.apply(text, fixes)
        reason = edits.prove(text, new, made) if done else None
    except ValueError as error:
        done, new, reason = (), text, str(error)
    if reason is not None and len(fixes) == 1:
        finding, fix = fixes[0]
        reason = f"{reason}, by the fix of {finding.code} in line {finding.start.row} ({fix.title!r})"
    return done, new, reason


# --- findings on the file itself ------------------------------------------------------------------------------------


def _crash(info: RuleInfo, row: int, error: Exception, path: str) -> Finding:
    words = f"rule {info.name} ({info.code}) crashed: {type(error).__name__}: {error}"
    return _own("DEV999", f"{words}; the other rules went on, please report this", path, row)


def _too_large(path: str) -> Finding:
    return _own("DEV902", f"larger than {screen.MAX_BYTES:,} bytes, not checked", path)


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
