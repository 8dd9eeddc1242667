"""The command: exit codes, streams, options, standard input, terminals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import pytest
from support import CHECKOUT, environment

import devlint as package
from devlint.output import FORMATS

# One finding with a safe fix (DEV401), one with an unsafe one (DEV403), one of a rule that is off (DEV402).
PROGRAM = b"""\
import torch

device = torch.device("cuda:0,1")
if device == "cuda":
    print("never")
other = torch.ones(3, device="cuda:1")
"""
SAFE = PROGRAM.replace(b'"cuda:0,1"', b'"cuda:0"')
BOTH = SAFE.replace(b'device == "cuda"', b'device.type == "cuda"')
CLEAN = b"import torch\n\nx = torch.ones(3)\n"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "train.py"
    file.write_bytes(PROGRAM)
    return file


def found(done: subprocess.CompletedProcess[bytes]) -> list[tuple[str, int, int]]:
    """Code, row and column of each finding of a run with `--output-format json`."""
    return [(f["code"], f["location"]["row"], f["location"]["column"]) for f in json.loads(done.stdout)]


# --- check ------------------------------------------------------------------------------------------------------------


def test_check_shows_findings_and_counts(process, program):
    done = process("check")
    assert done.returncode == 1
    assert done.stderr == b""
    lines = done.stdout.decode().splitlines()
    assert lines[0].startswith("train.py:3:23: DEV401 invalid-device: ")
    assert lines[1:3] == ['  3 | device = torch.device("cuda:0,1")', f"    | {' ' * 22}^^^^^^^^^^"]
    assert lines[4:6] == ['  3 - device = torch.device("cuda:0,1")', '    + device = torch.device("cuda:0")']
    assert lines[-1] == ("2 findings in 1 file, 1 fixable with `devlint fix`, 1 more with `devlint fix --unsafe-fixes`")


def test_check_changes_no_file(devlint, program):
    devlint("check")
    assert program.read_bytes() == PROGRAM


def test_nothing_found_prints_nothing(devlint, tmp_path):
    (tmp_path / "a.py").write_bytes(CLEAN)
    done = devlint("check", ".")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_syntax_error_is_shown_with_its_place_and_the_other_files_are_checked(devlint, program, tmp_path):
    (tmp_path / "broken.py").write_bytes(b"import torch\nprint 'Python 2'\n")
    done = devlint("check", "--output-format", "json")
    assert done.returncode == 1
    assert found(done)[:2] == [("DEV900", 2, 1), ("DEV401", 3, 23)]
    assert [code for code, _, _ in found(done)][2:] == ["DEV403"]


@pytest.mark.skipif(sys.platform == "win32", reason="links and pipes need rights on Windows")
def test_what_is_no_file_is_a_finding_or_is_said(devlint, program, tmp_path):
    (tmp_path / "gone.py").symlink_to("nowhere.py")
    (tmp_path / "loop.py").symlink_to("loop.py")
    (tmp_path / "around").symlink_to(".")
    (tmp_path / "folder.py").mkdir()
    os.mkfifo(tmp_path / "pipe.py")
    done = devlint("check", "--output-format", "concise", "-q")
    places = sorted(line.split(": ")[0] for line in done.stdout.decode().splitlines())
    assert places[:4] == ["gone.py:1:1", "loop.py:1:1", "pipe.py:1:1", "train.py:3:23"]
    assert len(places) == 5
    assert b"devlint: around: a link to a folder is not followed\n" in devlint("check").stderr
    assert devlint("check", "gone.py", "pipe.py").returncode == 1


def test_no_python_file_is_said(devlint, tmp_path):
    done = devlint("check", tmp_path)
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr.decode() == f"devlint: no Python files under {tmp_path}\n"


@pytest.mark.parametrize(
    ("options", "codes"),
    [
        ([], ["DEV401", "DEV403"]),
        (["--select", "ALL"], ["DEV401", "DEV403", "DEV402"]),
        (["--select", "DEV402"], ["DEV402"]),
        (["--select", "portability"], ["DEV402"]),
        (["--select", "DEV4"], ["DEV401", "DEV403", "DEV402"]),
        (["--select", "invalid-device"], ["DEV401"]),
        (["--select", "DEV401,DEV402"], ["DEV401", "DEV402"]),
        (["--select", "DEV401", "--select", "DEV402"], ["DEV401", "DEV402"]),
        (["--extend-select", "DEV402"], ["DEV401", "DEV403", "DEV402"]),
        (["--ignore", "DEV401"], ["DEV403"]),
        (["--select", "ALL", "--ignore", "DEV40"], []),
        (["--per-file-ignores", "train.py:DEV401"], ["DEV403"]),
        (["--per-file-ignores", "other.py:DEV401,train.py:DEV403"], ["DEV401"]),
        (["--per-file-ignores", "tr*.py:DEV401,DEV403"], []),
        (["--exclude", "train.py", "."], []),
        (["--extend-exclude", "tr*.py", "."], []),
        (["--exclude", "train.py", "train.py"], ["DEV401", "DEV403"]),
        (["--exclude", "train.py", "--force-exclude", "train.py"], []),
    ],
)
def test_options_select(devlint, program, options, codes):
    paths = [] if options and options[-1] in (".", "train.py") else ["train.py"]
    done = devlint("check", "--isolated", "--output-format", "json", *options, *paths)
    assert sorted(code for code, _, _ in found(done)) == sorted(codes)
    assert done.returncode == (1 if codes else 0)


def test_exit_zero(devlint, program):
    done = devlint("check", "--exit-zero", "--output-format", "json")
    assert done.returncode == 0
    assert len(found(done)) == 2


def test_quiet_leaves_out_counts_and_notes(devlint, program, tmp_path):
    done = devlint("check", "-q", "--output-format", "concise")
    assert [line.split(" ")[1] for line in done.stdout.decode().splitlines()] == ["DEV401", "DEV403"]
    (tmp_path / "empty").mkdir()
    assert devlint("check", "-q", "empty").stderr == b""


def test_verbose_names_configuration_and_numbers(devlint, program, tmp_path):
    assert b"devlint: 1 file in " in devlint("check", "-v").stderr
    (tmp_path / "pyproject.toml").write_text('[tool.devlint]\nignore = ["DEV401"]\n')
    assert str(tmp_path / "pyproject.toml").encode() in devlint("check", "-v").stderr


def test_statistics_in_place_of_findings(devlint, program):
    done = devlint("check", "--statistics", "--select", "ALL")
    assert done.returncode == 1
    assert done.stdout.decode().splitlines() == [
        "1  DEV401  [*] invalid-device",
        "1  DEV402  [ ] hardcoded-device-index",
        "1  DEV403  [ ] device-comparison",
    ]


def test_machine_formats_keep_stdout_to_themselves(devlint, program):
    for name in ("json", "github"):
        done = devlint("check", "--output-format", name)
        assert b"2 findings in 1 file" in done.stderr
        assert b"2 findings" not in done.stdout


def test_output_format_of_the_configuration(devlint, program, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.devlint]\noutput-format = "github"\n')
    assert devlint("check").stdout.startswith(b"::error title=devlint (DEV401),file=train.py,line=3,col=23,")


def test_several_files_come_in_order_whatever_the_jobs(process, tmp_path):
    # Enough text that worker processes are started, in a form that costs little to parse.
    filler = b"#" + b" torch" * 20_000 + b"\n"
    for i in range(12):
        (tmp_path / f"f{i:02}.py").write_bytes(PROGRAM + filler)
    runs = [process("check", "-j", jobs, "--output-format", "concise", "-q").stdout for jobs in ("1", "2")]
    assert runs[0] == runs[1]
    assert [line[:6] for line in runs[0].decode().splitlines()] == [f"f{i:02}.py" for i in range(12) for _ in "12"]


# --- wrong use --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["chek"], "check"),
        (["check", "--selct", "DEV1"], "--select"),
        (["check", "--output-format", "jsn"], "json"),
        (["check", "--select", "DEV104x"], "DEV10"),
        (["check", "--select", "discarded-transfr"], "discarded-transfer"),
        (["check", "--ignore", "portabilty"], "portability"),
        (["check", "--per-file-ignores", "a.py:discarded-transfr"], "discarded-transfer"),
        (["explain", "DEV1O1"], "DEV101"),
        (["explain", "discarded-transfers"], "discarded-transfer"),
        (["train.py"], "devlint check train.py"),
    ],
)
def test_a_mistyped_word_names_the_nearest(devlint, program, arguments, said):
    done = devlint(*arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    assert said in done.stderr.decode()
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["check", "fix"])
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere.py"], "nowhere.py"),
        (["train.py", "nowhere/"], "nowhere/"),
        (["-", "train.py"], "stands alone"),
        (["--stdin-filename", "a.py", "train.py"], "--stdin-filename"),
        (["--config", "nowhere.toml"], "nowhere.toml"),
        (["--isolated", "--config", "train.py"], "--isolated"),
        (["-j", "0"], "-j"),
        (["-j", "many"], "-j"),
        (["--target-torch", "new"], "new"),
        (["--per-file-ignores", "DEV101"], "PATTERN:CODE"),
    ],
)
def test_wrong_use_is_2_and_says_what(devlint, program, command, arguments, said):
    done = devlint(command, *arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    assert said in done.stderr.decode()
    assert b"Traceback" not in done.stderr
    assert program.read_bytes() == PROGRAM


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('slect = ["DEV1"]', "select"),
        ('select = ["DEV104x"]', "DEV104x"),
        ('output-format = "jsn"', "json"),
        ('ignore = ["discarded-transfr"]', "discarded-transfer"),
        ("select = [", "TOML"),
    ],
)
def test_a_wrong_configuration_is_2_and_names_file_and_key(devlint, program, tmp_path, text, said):
    (tmp_path / "pyproject.toml").write_text(f"[tool.devlint]\n{text}\n")
    done = devlint("check")
    assert (done.returncode, done.stdout) == (2, b"")
    assert "pyproject.toml" in done.stderr.decode()
    assert said in done.stderr.decode()


def test_isolated_reads_no_configuration(devlint, program, tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.devlint]\nslect = 1\n")
    assert devlint("check", "--isolated").returncode == 1


def test_the_nearest_configuration_above_the_paths_counts(devlint, tmp_path):
    for name, code in (("one", "DEV401"), ("two", "DEV403")):
        folder = tmp_path / name / "src"
        folder.mkdir(parents=True)
        (folder / "a.py").write_bytes(PROGRAM)
        (tmp_path / name / "pyproject.toml").write_text(f'[tool.devlint]\nselect = ["{code}"]\n')
        for paths in (["a.py"], ["."]):
            done = devlint("check", "--output-format", "json", *paths, cwd=folder)
            assert [code for code, _, _ in found(done)] == [code]
        done = devlint("check", "--output-format", "json", f"{name}/src/a.py")
        assert [code for code, _, _ in found(done)] == [code]
    # Above both there is none.
    assert len(found(devlint("check", "--output-format", "json", "one", "two"))) == 4
    done = devlint("check", "--config", "one/pyproject.toml", "--output-format", "json", "two")
    assert [code for code, _, _ in found(done)] == ["DEV401"]


# --- fix --------------------------------------------------------------------------------------------------------------


def test_fix_applies_safe_fixes_and_counts(devlint, program):
    done = devlint("fix")
    assert done.returncode == 1
    assert program.read_bytes() == SAFE
    lines = done.stdout.decode().splitlines()
    assert lines[0].startswith("train.py:4:")
    assert "DEV403" in lines[0]
    assert lines[-1] == "1 fixed in 1 file, 1 left, 1 of them fixable with `--unsafe-fixes`"


def test_unsafe_fixes(process, program, tmp_path):
    done = process("fix", "--unsafe-fixes")
    assert (done.returncode, done.stdout.decode()) == (0, "2 fixed in 1 file, 0 left\n")
    assert program.read_bytes() == BOTH
    program.write_bytes(PROGRAM)
    (tmp_path / "pyproject.toml").write_text("[tool.devlint]\nunsafe-fixes = true\n")
    assert process("fix").returncode == 0
    assert program.read_bytes() == BOTH


def test_a_fixed_file_prints_nothing(devlint, program):
    devlint("fix", "--unsafe-fixes")
    before = program.stat()
    done = devlint("fix", "--unsafe-fixes")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (program.stat().st_mtime_ns, program.stat().st_ino) == (before.st_mtime_ns, before.st_ino)


def test_what_has_no_fix_says_why_in_one_line(devlint, tmp_path):
    (tmp_path / "a.py").write_text("import torch\n\n\ndef f(x: torch.Tensor, d):\n    x.to(d)\n")
    for command in ("check", "fix"):
        lines = devlint(command).stdout.decode().splitlines()
        assert lines[0].startswith("a.py:5:7: DEV101 ")
        assert lines[1:3] == ["  5 |     x.to(d)", "    |       ^^"]
        assert lines[3].startswith("  no fix: ") and "not read" in lines[3]
        assert lines[4] == ""


def test_diff_writes_nothing_and_applies(devlint, program, tmp_path):
    done = devlint("fix", "--diff")
    assert done.returncode == 1
    assert program.read_bytes() == PROGRAM
    assert done.stdout.decode().startswith("--- train.py\n+++ train.py\n@@ -1,6 +1,6 @@\n")
    assert done.stderr.decode() == ("1 would be fixed in 1 file, 1 left, 1 of them fixable with `--unsafe-fixes`\n")
    subprocess.run(["git", "apply", "-p0"], input=done.stdout, cwd=tmp_path, check=True)
    assert program.read_bytes() == SAFE


def test_diff_without_changes_is_clean(devlint, program):
    devlint("fix")
    done = devlint("fix", "--diff")
    assert (done.returncode, done.stdout) == (0, b"")


def test_diff_of_a_file_that_cannot_be_read_as_python_is_1(devlint, tmp_path):
    (tmp_path / "a.py").write_bytes(b"import torch\nx = (\n")
    done = devlint("fix", "--diff")
    assert done.returncode == 1
    assert b"1 left" in done.stderr


def test_json_of_what_is_left(devlint, program):
    done = devlint("fix", "--output-format", "json")
    assert [code for code, _, _ in found(done)] == ["DEV403"]
    assert b"1 fixed in 1 file, 1 left" in done.stderr


def test_exit_zero_of_fix(devlint, program):
    assert devlint("fix", "--exit-zero").returncode == 0
    assert program.read_bytes() == SAFE


# Fixes a first file as root, so that all modules are loaded: they may lie where only root can read them.
_AS_NOBODY = """
import contextlib, io, os, sys
from devlint.cli import cli, main
with contextlib.redirect_stdout(io.StringIO()):
    cli.main(["fix", "--isolated", sys.argv.pop()], standalone_mode=False)
os.setgid(65534)
os.setuid(65534)
main()
"""


def test_a_file_that_may_not_be_written_keeps_its_findings(devlint, program):
    first = program
    with tempfile.TemporaryDirectory() as folder:  # unlike tmp_path, below a folder that every user may enter
        program = Path(folder, "train.py")
        program.write_bytes(PROGRAM)
        program.chmod(0o444)
        if os.access(program, os.W_OK):  # root is bound by no mode: the process gives root up
            os.chmod(folder, 0o755)
            run = [sys.executable, "-c", _AS_NOBODY, "fix", "train.py", str(first)]
            done = subprocess.run(run, cwd=folder, env=environment(), capture_output=True)
        else:
            done = devlint("fix", "train.py", cwd=Path(folder))
        assert program.read_bytes() == PROGRAM
        assert os.listdir(folder) == ["train.py"]
    assert done.returncode == 1, done.stderr
    shown = done.stdout.decode()
    assert shown.startswith("train.py:1:1: DEV901 unreadable-file: cannot be written, its fixes were left out: "), (
        done.stderr
    )
    assert "DEV401" in shown
    assert shown.splitlines()[-1].startswith("0 fixed, 3 left")


# --- standard input ---------------------------------------------------------------------------------------------------


def test_check_reads_standard_input(process):
    done = process("check", "-", "--output-format", "concise", "-q", stdin=PROGRAM)
    assert done.returncode == 1
    assert done.stdout.decode().startswith("-:3:23: DEV401 ")
    done = process("check", "--stdin-filename", "src/model.py", "--output-format", "concise", "-", stdin=PROGRAM)
    assert done.stdout.decode().startswith("src/model.py:3:23: DEV401 ")


def test_the_name_of_standard_input_finds_configuration_and_per_file_ignores(devlint, tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "pyproject.toml").write_text(
        '[tool.devlint]\nper-file-ignores = { "model.py" = ["DEV401"] }\nexclude = ["gone.py"]\n'
    )
    arguments = ("check", "-", "--output-format", "json", "--stdin-filename")
    assert [code for code, _, _ in found(devlint(*arguments, "src/model.py", stdin=PROGRAM))] == ["DEV403"]
    assert len(found(devlint(*arguments, "src/other.py", stdin=PROGRAM))) == 2
    assert len(found(devlint(*arguments, "src/gone.py", stdin=PROGRAM))) == 2
    assert found(devlint(*arguments, "src/gone.py", "--force-exclude", stdin=PROGRAM)) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (PROGRAM, SAFE),
        (PROGRAM.replace(b"\n", b"\r\n"), SAFE.replace(b"\n", b"\r\n")),
        (b"\xef\xbb\xbf" + PROGRAM, b"\xef\xbb\xbf" + SAFE),
        (b"# coding: latin-1\n# \xe9\n" + PROGRAM, b"# coding: latin-1\n# \xe9\n" + SAFE),
        (PROGRAM.rstrip(b"\n"), SAFE.rstrip(b"\n")),
        (CLEAN, CLEAN),
        (b"", b""),
        (b"import torch\nx = (\n", b"import torch\nx = (\n"),
        (b"import torch\n\xff\n", b"import torch\n\xff\n"),
    ],
)
def test_fix_prints_standard_input_fixed_byte_by_byte(devlint, old, new):
    done = devlint("fix", "-", "--stdin-filename", "a.py", "--output-format", "concise", stdin=old)
    assert done.stdout == new
    if old == new == CLEAN or not old:
        assert (done.returncode, done.stderr) == (0, b"")
    else:
        assert done.returncode == 1
        assert b"a.py:" in done.stderr


def test_fix_diff_of_standard_input(devlint):
    done = devlint("fix", "--diff", "-", "--stdin-filename", "a.py", stdin=PROGRAM)
    assert done.returncode == 1
    assert done.stdout.startswith(b"--- a.py\n+++ a.py\n")


def test_an_excluded_name_comes_back_unchanged(devlint):
    done = devlint("fix", "-", "--stdin-filename", "a.py", "--exclude", "a.py", "--force-exclude", stdin=PROGRAM)
    assert (done.returncode, done.stdout, done.stderr) == (0, PROGRAM, b"")


# --- explain, rules, version ------------------------------------------------------------------------------------------


def test_explain_prints_the_page(devlint):
    (page,) = (CHECKOUT / "rules").glob("DEV101-*.md")
    for wanted in ("DEV101", "dev101", "discarded-transfer"):
        done = devlint("explain", wanted)
        assert (done.returncode, done.stdout) == (0, page.read_bytes())


def test_explain_in_colour_only_adds_codes(devlint):
    import click

    coloured = devlint("explain", "DEV101", FORCE_COLOR="1").stdout.decode()
    assert "\x1b[" in coloured
    assert click.unstyle(coloured) == devlint("explain", "DEV101").stdout.decode()


def test_rules_lists_each_rule_with_its_state(devlint):
    lines = devlint("rules").stdout.decode().splitlines()
    state = {line.split()[1]: line[0] for line in lines}
    assert (state["DEV101"], state["DEV402"], state["DEV804"]) == ("+", "-", "+")
    assert list(state) == sorted(state)
    listed = {rule["code"]: rule for rule in json.loads(devlint("rules", "--output-format", "json").stdout)}
    assert list(listed) == list(state)
    assert (listed["DEV101"]["name"], listed["DEV101"]["groups"]) == ("discarded-transfer", ["bug"])
    assert listed["DEV402"]["on_by_default"] is False


def test_help_lists_the_formats(devlint):
    assert ", ".join(FORMATS).replace("text", "text (the default)") in " ".join(
        devlint("check", "--help").stdout.decode().split()
    )


def test_version_and_help(process):
    assert process("--version").stdout.decode() == f"devlint {package.__version__}\n"
    for arguments in (["-h"], ["check", "--help"], ["fix", "-h"]):
        done = process(*arguments)
        assert done.returncode == 0
        assert b"Usage: devlint" in done.stdout


# --- streams ----------------------------------------------------------------------------------------------------------


def test_colour_follows_the_environment(devlint, program):
    assert b"\x1b[" not in devlint("check").stdout
    assert b"\x1b[" in devlint("check", FORCE_COLOR="1").stdout
    assert b"\x1b[" not in devlint("check", FORCE_COLOR="1", NO_COLOR="1").stdout
    assert b"\x1b[" in devlint("fix", "--diff", FORCE_COLOR="1").stdout


def on_a_terminal(folder: Path, code: int, **extra: str) -> str:
    """What `devlint check` shows where stdout and stderr are a terminal; `code` is how it must exit."""
    import pty

    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "devlint", "check"],
        cwd=folder,
        env=environment(**{"TERM": "xterm", **extra}),
        stdout=theirs,
        stderr=theirs,
        stdin=subprocess.DEVNULL,
    )
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 65536):
            shown += chunk
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(ours)
    assert process.wait() == code
    return shown.decode()


NO_TERMINALS = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals")


@NO_TERMINALS
def test_colour_on_a_terminal(program):
    assert "\x1b[31m" in on_a_terminal(program.parent, 1)
    assert "\x1b[" not in on_a_terminal(program.parent, 1, NO_COLOR="1")
    assert "\x1b[" not in on_a_terminal(program.parent, 1, TERM="dumb")


@NO_TERMINALS
def test_a_person_at_a_terminal_is_told_that_nothing_was_found(tmp_path):
    (tmp_path / "a.py").write_bytes(CLEAN)
    assert on_a_terminal(tmp_path, 0).endswith("devlint: nothing found in 1 file\r\n")


def test_an_encoding_that_lacks_a_character_does_not_end_the_run(process, tmp_path):
    (tmp_path / "é.py").write_bytes(PROGRAM.replace(b'0,1")', b'0,1")  # \xe6\xb7\xb1'))
    done = process("check", PYTHONIOENCODING="latin-1")
    assert done.returncode == 1
    assert done.stdout.startswith(b"\xe9.py:3:23: DEV401")
    assert rb'0,1")  # \u6df1' in done.stdout
    assert b"Traceback" not in done.stderr


def test_a_closed_pipe_is_quiet(tmp_path):
    for i in range(200):
        (tmp_path / f"f{i}.py").write_bytes(PROGRAM)
    process = subprocess.Popen(
        [sys.executable, "-m", "devlint", "check", "-j", "1"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 1


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no SIGINT to one process")
def test_ctrl_c_is_quiet(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "devlint", "check", "-"],
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A shell that starts the tests in the background has them ignore Ctrl-C, and so would this process.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdin is not None
    with pytest.raises(subprocess.TimeoutExpired):  # it waits for its input
        process.wait(timeout=1.0)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err.strip()) == (130, b"", b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_a_full_disk_is_said(program):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "devlint", "check"],
            cwd=program.parent,
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
        )
    assert done.returncode == 2
    assert b"No space left on device" in done.stderr
    assert b"Traceback" not in done.stderr


def test_trace_tells_of_a_wrong_configuration(devlint, tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.devlint]\nselct = []\n")
    (tmp_path / "a.py").write_bytes(CLEAN)
    result = devlint("trace", "a.py")
    assert result.returncode == 2
    assert b"selct" in result.stderr and b"Traceback" not in result.stderr
