"""The `devlint` command: arguments and exit codes. What it does stands in the modules that each command calls.

Exit codes: 0 nothing found, 1 findings (for `fix`: findings left; for `fix --diff`: there is something to fix),
2 wrong use or configuration. Each command is one function here; heavy modules are imported inside it, so that
`devlint --version` costs no more than click.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from devlint import __version__

if TYPE_CHECKING:
    from devlint.engine import Report
    from devlint.output import Display

FOUND, WRONG_USE = 1, 2
INTERRUPTED = 130
"""What a shell reports for a program that ended by Ctrl-C."""
BROKEN_PIPE = 1
"""The reader of the output went away: what click leaves with, too."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


class _Commands(click.Group):
    """A group that names the nearest command, and the whole command where a path was given in its place."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            hint = _did_you_mean(name, self.list_commands(ctx))
            if not hint and os.path.lexists(name):
                hint = f" Did you mean `devlint check {name}`?"
            raise click.UsageError(f"No such command '{name}'.{hint}", ctx)
        return super().resolve_command(ctx, args)


class _Choice(click.Choice[str]):
    """A choice that names the nearest one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value not in self.choices:
            listed = ", ".join(self.choices)
            self.fail(f"{value!r} is none of {listed}.{_did_you_mean(str(value), self.choices)}", param, ctx)
        return value


def _did_you_mean(word: str, words: Iterable[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word, list(words), n=2)
    return f" Did you mean {' or '.join(map(repr, close))}?" if close else ""


def _given(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...] | None:
    """The values of an option that may be given several times; None where it was not given, to leave the file's."""
    return value or None


def _list_option(name: str, help_text: str, metavar: str = "CODES") -> Any:
    """An option whose values are separated by commas; the configuration splits and checks them."""
    return click.option(name, multiple=True, callback=_given, metavar=metavar, help=help_text)


_FILE_OPTIONS = (
    click.argument("paths", nargs=-1, metavar="[PATHS]..."),
    _list_option("--select", "Report these: codes, prefixes of codes, names, groups, ALL."),
    _list_option("--extend-select", "Report these as well."),
    _list_option("--ignore", "Do not report these."),
    _list_option("--per-file-ignores", "Ignore codes in files.", "PATTERN:CODES"),
    _list_option("--exclude", "Leave out files and folders, in place of the configured ones.", "PATTERNS"),
    _list_option("--extend-exclude", "Leave out these files and folders as well.", "PATTERNS"),
    click.option(
        "--force-exclude/--no-force-exclude", default=None, help="Exclude files even when they are named on the line."
    ),
    click.option(
        "--respect-gitignore/--no-respect-gitignore", default=None, help="Leave out what git ignores (the default)."
    ),
    click.option("--target-torch", metavar="VERSION", help="The oldest torch that the code runs on, as in 2.4."),
    click.option(
        "--output-format", metavar="FORMAT", help="How findings are printed: text (the default), concise, json, github."
    ),
    click.option(
        "--statistics",
        is_flag=True,
        help="Print how often each rule reported, in place of the findings; [*] all of it has a safe fix, [-] some.",
    ),
    click.option("--stdin-filename", metavar="PATH", help="The name of what is read from standard input (PATHS is -)."),
    click.option(
        "--config",
        "config_file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="The pyproject.toml to use, in place of the nearest one.",
    ),
    click.option("--isolated", is_flag=True, help="Read no configuration file."),
    click.option("-j", "--jobs", type=click.IntRange(min=1), metavar="N", help="Worker processes (default: CPUs)."),
    click.option("--exit-zero", is_flag=True, help="Exit with 0 although there are findings."),
    click.option("-q", "--quiet", is_flag=True, help="Print findings only, no counts."),
    click.option("-v", "--verbose", is_flag=True, help="Say on stderr which configuration and how many files."),
)


def _file_options(function: _Function) -> _Function:
    """Add the options that `check` and `fix` share; they arrive as keywords, from which `_Run` is made."""
    for option in reversed(_FILE_OPTIONS):
        function = option(function)
    return function


_OVERRIDES = (
    "select",
    "extend_select",
    "ignore",
    "per_file_ignores",
    "exclude",
    "extend_exclude",
    "force_exclude",
    "respect_gitignore",
    "target_torch",
    "output_format",
    "unsafe_fixes",
)
"""Options that stand for the configuration key of the same name."""


class _Run:
    """What the options shared by `check` and `fix` say, and what both do alike."""

    def __init__(self, given: dict[str, Any]) -> None:
        """Settle the configuration. Wrong use, in the options or in the configuration, ends the command."""
        from devlint.config import ConfigError
        from devlint.session import MissingPath, require, settle

        self.display = _display(base=os.getcwd())

        self.paths: tuple[str, ...] = given["paths"] or (".",)
        self.stdin = "-" in self.paths
        self.name: str = given["stdin_filename"] or "-"
        self.quiet: bool = given["quiet"]
        self.verbose: bool = given["verbose"]
        self.statistics: bool = given["statistics"]
        self.exit_zero: bool = given["exit_zero"]
        self.jobs: int | None = given["jobs"]
        if self.stdin and len(self.paths) > 1:
            raise click.UsageError("'-' (standard input) stands alone, without other paths.")
        if given["stdin_filename"] and not self.stdin:
            raise click.UsageError("--stdin-filename names what is read from standard input: give '-' as the path.")
        if given["isolated"] and given["config_file"]:
            raise click.UsageError("--isolated reads no configuration file, --config names one: give one of them.")
        overrides = {key: given[key] for key in _OVERRIDES if given.get(key) is not None}
        try:
            if not self.stdin:
                require(self.paths)
            self.config, self.config_file = settle(
                [self.name] if self.stdin else self.paths,
                overrides,
                config_file=given["config_file"],
                isolated=given["isolated"],
            )
        except (ConfigError, MissingPath) as error:
            _wrong_use(str(error))
        self.started = time.monotonic()

    def show(self, reports: Sequence[Report], *, err: bool = False) -> None:
        """Print the findings in the wanted format."""
        if self.statistics:
            from devlint.output import statistics

            _echo(statistics.render(reports, self.config.output_format), err=err)
        else:
            from devlint.output import renderer

            _echo(renderer(self.config.output_format).render(reports, self.display), err=err)

    def close(self, line: str, *, err: bool = False) -> None:
        """Print the closing counts: with the findings where these are for people, else on stderr."""
        if line and not self.quiet:
            from devlint.output import FOR_PEOPLE

            _echo(line + "\n", err=err or self.config.output_format not in FOR_PEOPLE)

    def note(self, text: str) -> None:
        """Say something on stderr that is no finding."""
        if not self.quiet:
            _echo(f"devlint: {text}\n", err=True)

    def finish(self, files: int, *, silent: bool) -> None:
        """Say on stderr how many files were read: where it is asked for, where it was none, and to a person at a
        terminal who would see nothing otherwise (`silent`: nothing was printed)."""
        from devlint.output.closing import count

        number = count(files, "file")
        if not files and not self.stdin:
            self.note(f"no Python files under {', '.join(self.paths)}")
        elif self.verbose:
            seconds = time.monotonic() - self.started
            self.note(f"{number} in {seconds:.2f} s, {self.config_file or 'no configuration file'}")
        elif silent and not self.stdin and sys.stderr is not None and sys.stderr.isatty():
            self.note(f"nothing found in {number}")


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="%(prog)s %(version)s", prog_name="devlint")
def cli() -> None:
    """Find and fix device-placement bugs in PyTorch code, without running it.

    `devlint COMMAND --help` lists the options of a command.
    """


@cli.command()
@_file_options
def check(**given: Any) -> None:
    """Report device-placement bugs in PATHS.

    PATHS are files and folders, by default the current folder; - is standard input. Exit code 1 says that something
    was found, 2 that devlint was used or configured wrongly.
    """
    from devlint import session
    from devlint.output.closing import check_line

    run = _Run(given)
    if run.stdin:
        reports, files = session.check_stdin(_read_stdin(), run.name, run.config), 1
    else:
        reports, files = session.check_paths(run.paths, run.config, run.jobs, run.note, progress=not run.quiet)
    run.show(reports)
    run.close("" if run.statistics else check_line(reports))
    run.finish(files, silent=not reports)
    _exit(FOUND if reports and not run.exit_zero else 0)


@cli.command()
@_file_options
@click.option("--diff", is_flag=True, help="Print what would change as a unified diff, and write nothing.")
@click.option(
    "--unsafe-fixes/--no-unsafe-fixes",
    default=None,
    help="Apply also fixes that are right only if devlint reads the code rightly.",
)
def fix(diff: bool, **given: Any) -> None:
    """Rewrite the bugs in PATHS whose right form is certain.

    The others are reported, as `check` does.

    PATHS are files and folders, by default the current folder; - takes standard input and prints it fixed. Exit code 1
    says that findings are left; with --diff, that something would change.
    """
    from devlint import session
    from devlint.output.closing import fix_line

    run = _Run(given)
    if run.stdin:
        results, files = [session.fix_stdin(_read_stdin(), run.name, run.config)], 1
    else:
        results, files = session.fix_paths(
            run.paths, run.config, run.jobs, run.note, write=not diff, progress=not run.quiet
        )
    fixed = [finding for result in results for finding in result.fixed]
    left = [result.report for result in results if result.report.findings]
    changed = [result for result in results if result.data != result.old]
    counts = fix_line(
        fixed,
        [finding for report in left for finding in report.findings],
        unsafe=run.config.unsafe_fixes,
        written=not diff,
    )
    if diff:
        from devlint.output.unified import unified

        for result in changed:
            path = run.display.path(result.report.path)
            _write(unified(path, result.old, result.data, colour=run.display.colour))
        run.close(counts, err=True)
        own = any(finding.code.startswith("DEV9") for report in left for finding in report.findings)
        failed = bool(changed) or own
    else:
        if run.stdin:
            _write(results[0].data)
        run.show(left, err=run.stdin)
        run.close(counts, err=run.stdin)
        failed = bool(left)
    run.finish(files, silent=not results)
    _exit(FOUND if failed and not run.exit_zero else 0)


@cli.command()
@click.argument("rules_wanted", nargs=-1, required=True, metavar="CODE|NAME...")
def explain(rules_wanted: tuple[str, ...]) -> None:
    """Print the page of a rule: what it reports, and why that is bad.

    Then examples, how safe the fix is, and when not to use the rule.
    """
    from devlint.output import pages
    from devlint.rulebook import UnknownRule, find_page

    try:
        found = [find_page(wanted) for wanted in rules_wanted]
    except UnknownRule as error:
        _wrong_use(str(error))
    display = _display()
    _echo("\n".join(pages.render(page, display) for page in found))


@cli.command()
@click.option(
    "--output-format",
    type=_Choice(("text", "json", "markdown")),
    default="text",
    metavar="FORMAT",
    help="text (the default), json or markdown.",
)
def rules(output_format: str) -> None:
    """List all rules: code, name, groups, what they report.

    Rules marked with + are on by default, those with - are off until they are selected.
    """
    from devlint.checks import catalogue
    from devlint.output import rules as listing

    _echo(listing.render(list(catalogue().values()), output_format, _display()))


@cli.command()
@click.argument("place", metavar="FILE[:LINE]")
def trace(place: str) -> None:
    """Print what devlint believes of each value in a file, and why.

    For each assignment and argument, and with FILE:LINE for all that the line reads: what the value is, where it lives,
    and how it came there. It shows why there is a finding, or none.
    """
    from devlint.config import ConfigError
    from devlint.output import beliefs
    from devlint.session import Untraceable, trace_file

    path, colon, line = place.rpartition(":")
    row = int(line) if colon and line.isdecimal() else None
    path = path if row is not None else place
    try:
        _echo(beliefs.render(trace_file(Path(path), row), path, row, _display()))
    except (ConfigError, Untraceable) as error:
        _wrong_use(str(error))


@cli.command(context_settings={"allow_interspersed_args": False})
@click.argument("target", required=False, metavar="[SCRIPT]")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS]...")
@click.option("-m", "kind", flag_value="module", help="SCRIPT is the name of a module, as in `python -m`.")
@click.option(
    "--pytest",
    "kind",
    flag_value="pytest",
    help="Run pytest; SCRIPT and ARGUMENTS are what it is given, its own options after --.",
)
@click.option(
    "--fixes",
    multiple=True,
    metavar="PATH",
    help="Run SCRIPT, or each file under PATH that devlint would fix, before and after its fixes.",
)
@click.option("--unsafe-fixes/--no-unsafe-fixes", default=None, help="With --fixes: the unsafe ones, too.")
@click.option(
    "--rules",
    "rule",
    is_flag=False,
    flag_value="all",
    metavar="[CODE]",
    help="Run the blocks of the rule book, of one page or all: the bad ones show their fault, the others do not.",
)
@click.option(
    "--device",
    default="auto",
    metavar="DEVICE",
    help="auto (the default: the real ones, else simulated ones), cuda, mps, xpu, simulated or simulated:NUMBER.",
)
@click.option(
    "--max-seconds",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Stop the program after this time.",
)
@click.option("--write-noqa", is_flag=True, help="Write refuted findings into the files, as `# noqa` with the reason.")
@click.option(
    "--output-format",
    type=_Choice(("text", "json")),
    default="text",
    metavar="FORMAT",
    help="text (the default) or json.",
)
def verify(
    target: str | None,
    arguments: tuple[str, ...],
    kind: str | None,
    fixes: tuple[str, ...],
    unsafe_fixes: bool | None,
    rule: str | None,
    device: str,
    max_seconds: float | None,
    write_noqa: bool,
    output_format: str,
) -> None:
    """Run SCRIPT, and say which findings on it the run confirms.

    It runs on the accelerators of this machine, or on simulated ones. OPTIONS stand before SCRIPT: what follows is
    handed to it. Exit code 1 says that a finding stands that the run did not refute, or that the run showed a fault;
    2 that the program failed for another cause.
    """
    from devlint.config import ConfigError
    from devlint.rulebook import UnknownRule
    from devlint.runtime.torch_import import TorchMissing
    from devlint.session import MissingPath
    from devlint.verifying import fixes as proving
    from devlint.verifying import report, script

    if not _DEVICE.fullmatch(device):
        raise click.UsageError(f"--device is auto, cuda, mps, xpu, simulated or simulated:NUMBER, not {device!r}.")
    if (rule is not None or fixes) and (write_noqa or output_format == "json"):
        raise click.UsageError(
            "--write-noqa and --output-format are for the run of a program, without --fixes and --rules."
        )
    given = target is not None or kind == "pytest"
    if rule is None and not fixes and not given:
        raise click.UsageError("name a script to run, a module with -m, --pytest, --fixes or --rules.")
    try:
        if rule is not None:
            from devlint.verifying import pages

            results, where = pages.verify_pages(pages.chosen(rule), device, max_seconds)
            _echo(report.pages_text(results, where, _display()))
            _exit(FOUND if any(result.outcome == pages.WRONG for result in results) else 0)
        order = script.order_for(kind or "script", target, arguments, device, max_seconds) if given else None
        if fixes:
            proofs = proving.proofs(fixes, unsafe_fixes, order, device, max_seconds)
            _echo(report.proofs_text(proofs, _display(base=os.getcwd())))
            _exit(FOUND if any(proof.faults for proof in proofs) else 0)
        assert order is not None
        outcome = script.verify(order, aside=output_format == "json")
    except (ConfigError, MissingPath, TorchMissing, UnknownRule, script.CannotRun) as error:
        _wrong_use(str(error))
    _echo(report.as_json(outcome) if output_format == "json" else report.text(outcome, _display(base=os.getcwd())))
    if write_noqa:
        number = script.silence(outcome.judged, lambda words: click.echo(f"devlint: {words}", err=True))
        click.echo(f"devlint: {number} refuted finding{'' if number == 1 else 's'} silenced", err=True)
    _exit(WRONG_USE if outcome.failed else FOUND if outcome.found else 0)


_DEVICE = re.compile(r"auto|cuda|mps|xpu|simulated(:\d+)?")


@cli.command()
def devices() -> None:
    """Say which devices torch sees here, and which can be simulated."""
    from devlint.runtime.devices import TorchMissing, describe

    try:
        _echo(describe().rstrip("\n") + "\n")
    except TorchMissing as error:
        _wrong_use(str(error))


def main() -> NoReturn:
    """Run the command and leave with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a name or a line that the terminal's encoding lacks must not end the run
            stream.reconfigure(errors="backslashreplace")
    try:
        code = cli.main(prog_name="devlint", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        code = WRONG_USE
    except (click.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        code = BROKEN_PIPE
    except OSError as error:
        if error.filename is not None:  # a file's, not that of the output: a defect of devlint, to be seen whole
            raise
        _drop_output()
        click.echo(f"Error: the output cannot be written: {error.strerror}", err=True)
        code = WRONG_USE
    sys.exit(code)


def _drop_output() -> None:
    """Python flushes stdout once more while it ends, and would complain there of what was said already."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _exit(code: int) -> NoReturn:
    raise click.exceptions.Exit(code)


class _WrongUse(click.ClickException):
    """Wrong use that no list of options helps with."""

    exit_code = WRONG_USE


def _wrong_use(message: str) -> NoReturn:
    raise _WrongUse(message)


def _read_stdin() -> bytes:
    return sys.stdin.buffer.read()


def _echo(text: str, *, err: bool = False) -> None:
    """Print text that holds its own line ends and, where wanted, colours."""
    if text:
        click.echo(text, nl=False, err=err, color=True)


def _write(data: bytes) -> None:
    """Print bytes as they are."""
    click.echo(data, nl=False, color=True)


def _display(base: str = "") -> Display:
    from devlint.output import Display

    return Display(colour=_colour(sys.stdout), base=base)


def _colour(stream: IO[str] | None) -> bool:
    """Whether to print in colour: NO_COLOR and FORCE_COLOR decide, else whether it is a terminal that can."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"
