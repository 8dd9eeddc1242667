"""One run of a door: which configuration applies to some paths, and the reports on these paths or on standard input."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from devlint.finding import Finding, Group, Location

if TYPE_CHECKING:
    from devlint.config import Config
    from devlint.engine import FixResult, Report
    from devlint.placement.trace import Belief

_Result = TypeVar("_Result")


class MissingPath(Exception):
    """Paths were named that do not exist; the message names them."""


def settle(
    paths: Sequence[str],
    overrides: Mapping[str, object],
    *,
    config_file: Path | None = None,
    isolated: bool = False,
) -> tuple[Config, Path | None]:
    """The configuration for these paths, and the file it comes from.

    That is `config_file`, or the nearest one above all paths; `overrides` win over it.

    Raises:
        ConfigError: a key, a code or a name is unknown, in the file or in `overrides`.
    """
    from devlint.checks import catalogue
    from devlint.config import find_config, load_config

    if config_file is None and not isolated:
        config_file = find_config(common_folder(paths))
    config = load_config(config_file, overrides, catalogue())
    if config.api:
        from devlint.engine import project_of

        project_of(config)  # what is wrong in it is said now, and not in the middle of a run
    return config, config_file


def common_folder(paths: Sequence[str]) -> Path:
    """The deepest folder that holds all paths, as an absolute path; the current one for no path.

    Where the paths share no folder (other drives), the current one.
    """
    folders = [path if os.path.isdir(path) else os.path.dirname(path) for path in map(os.path.abspath, paths)]
    try:
        return Path(os.path.commonpath(folders) if folders else os.getcwd())
    except ValueError:
        return Path.cwd()


def require(paths: Sequence[str]) -> None:
    """See that each path exists; a broken link does, and is reported as unreadable later.

    Raises:
        MissingPath: one or more do not.
    """
    missing = [path for path in paths if not os.path.lexists(path)]
    if missing:
        raise MissingPath(f"no such file or directory: {', '.join(missing)}")


Say = Callable[[str], None]
"""Where a word that is no finding goes."""


def check_paths(
    paths: Sequence[str], config: Config, jobs: int | None, say: Say, *, progress: bool
) -> tuple[list[Report], int]:
    """The reports with findings on all files under `paths`, in order, and how many files there were."""
    from devlint.engine import Report

    action = partial(_check_file, config=config)
    reports = []
    files = 0
    for result in _each_file(paths, config, jobs, say, action, progress):
        files += 1
        report = Report(result.path, (result,)) if isinstance(result, Finding) else result
        if report.findings:
            reports.append(report)
    return reports, files


def check_stdin(data: bytes, name: str, config: Config) -> list[Report]:
    """The report on what came from standard input under this name, if it has findings."""
    from devlint.engine import Report, check_bytes
    from devlint.files import crashed

    if _left_out(name, config):
        return []
    try:
        report = check_bytes(data, name, config)
    except Exception as error:
        report = Report(name, (crashed(name, error),))
    return [report] if report.findings else []


def fix_paths(
    paths: Sequence[str], config: Config, jobs: int | None, say: Say, *, write: bool, progress: bool
) -> tuple[list[FixResult], int]:
    """Fix all files under `paths`, on disk if `write`: the results that fixed or left something, and the files' number.

    A file that cannot be written, or that changed meanwhile, keeps its findings and gets one more that says so.
    """
    from devlint.engine import FixResult, Report

    action = partial(_fix_file, config=config, write=write)
    results = []
    files = 0
    for result in _each_file(paths, config, jobs, say, action, progress):
        files += 1
        if isinstance(result, Finding):
            result = FixResult(Report(result.path, (result,)), (), old=b"", data=b"")
        if result.fixed or result.report.findings:
            results.append(result)
    return results, files


def fix_stdin(data: bytes, name: str, config: Config) -> FixResult:
    """What came from standard input under this name, fixed."""
    from devlint.engine import FixResult, Report, fix_bytes
    from devlint.files import crashed

    if _left_out(name, config):
        return FixResult(Report(name, ()), (), old=data, data=data)
    try:
        return fix_bytes(data, name, config)
    except Exception as error:
        return FixResult(Report(name, (crashed(name, error),)), (), old=data, data=data)


def _each_file(
    paths: Sequence[str],
    config: Config,
    jobs: int | None,
    say: Say,
    action: Callable[[Path, bytes], _Result],
    progress: bool,
) -> Iterator[_Result | Finding]:
    from devlint.files import discover, run_on
    from devlint.output.progress import progress as shown

    found = list(discover(paths, config, say))
    return shown(run_on(found, jobs, action), len(found), wanted=progress)


def _left_out(name: str, config: Config) -> bool:
    from devlint.files import is_excluded

    return config.force_exclude and is_excluded(name, config)


# The two actions run in worker processes. What has no findings goes back without its text.


def _check_file(path: Path, data: bytes, config: Config) -> Report:
    from devlint.engine import check_bytes

    report = check_bytes(data, str(path), config)
    return report if report.findings else replace(report, source=None)


def _fix_file(path: Path, data: bytes, config: Config, write: bool) -> FixResult:
    from devlint.engine import check_bytes, fix_bytes
    from devlint.files import ChangedMeanwhile, write_atomically

    result = fix_bytes(data, str(path), config)
    if result.data == data:
        return replace(result, data=b"", old=b"")
    if write:
        try:
            write_atomically(path, data, result.data)
        except (ChangedMeanwhile, OSError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            report = check_bytes(data, str(path), config)
            report = replace(report, findings=(_unwritten(str(path), why), *report.findings))
            return replace(result, report=report, fixed=(), data=b"", old=b"")
    return result


def _unwritten(path: str, why: str) -> Finding:
    start = Location(1, 1)
    message = f"cannot be written, its fixes were left out: {why}"
    return Finding("DEV901", "unreadable-file", message, path, start, start, Group.BUG)


class Untraceable(Exception):
    """A file whose values cannot be followed; the message says why."""


def trace_file(path: Path, row: int | None = None) -> list[Belief]:
    """What devlint believes of each assignment in a file, or of all in one row. Raises Untraceable, ConfigError."""
    from devlint import screen
    from devlint.engine import make_context, project_of
    from devlint.files import read_file
    from devlint.placement.trace import beliefs
    from devlint.source import SourceError, decode_source
    from devlint.syntax.parse import on_large_stack

    config, _ = settle([str(path)], {})

    def follow() -> list[Belief]:
        source = decode_source(read_file(path), str(path))
        return list(beliefs(make_context(source, project_of(config).of(source), config).inference, row))

    try:
        return on_large_stack(follow)
    except OSError as error:
        raise Untraceable(f"{path}: {error.strerror or error}") from None
    except SourceError as error:
        raise Untraceable(f"{path}:{error.row}: {error.message}") from None
    except SyntaxError as error:
        raise Untraceable(f"{path}:{error.lineno}: not valid Python: {error.msg}") from None
    except screen.TooComplex as error:
        raise Untraceable(f"{path}:{error.row}: {error}") from None
