"""The plugin in real flake8 processes: same findings as the command, and who may switch a rule on or off."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support import CHECKOUT, environment

import devlint as package
from devlint import flake8_plugin, screen

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROGRAM = """\
import torch

device = torch.device("cuda:0,1")
if device == "cuda":
    print("never")
other = torch.ones(3, device="cuda:1")
"""
ON, OFF = ["DEV401", "DEV403"], ["DEV402"]

Flake8 = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture(scope="session")
def metadata(tmp_path_factory) -> Path:
    """A folder that makes the checkout look installed, with the entry points that pyproject.toml declares."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    folder = tmp_path_factory.mktemp("installed")
    info = folder / f"devlint-{package.__version__}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: devlint\nVersion: {package.__version__}\n")
    entries = project["entry-points"]["flake8.extension"]
    lines = ["[flake8.extension]", *(f"{name} = {target}" for name, target in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def flake8(tmp_path: Path, metadata: Path) -> Flake8:
    """Run `python -m flake8 ARGUMENTS` in `tmp_path`."""

    def run(*arguments: str, stdin: bytes = b"", cwd: Path = tmp_path) -> subprocess.CompletedProcess[bytes]:
        variables = environment()
        variables["PYTHONPATH"] = f"{metadata}:{variables['PYTHONPATH']}"
        return subprocess.run(
            [sys.executable, "-m", "flake8", *arguments],
            input=stdin,
            cwd=cwd,
            env=variables,
            capture_output=True,
            timeout=120,
            check=False,
        )

    return run


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "train.py"
    file.write_text(PROGRAM)
    return file


def ours(done: subprocess.CompletedProcess[bytes]) -> list[str]:
    """The plugin's lines in flake8's output, sorted."""
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return sorted(line for line in done.stdout.decode().splitlines() if " DEV" in line)


def codes(done: subprocess.CompletedProcess[bytes]) -> list[str]:
    return sorted(line.split(" ")[1] for line in ours(done))


def commands(done: subprocess.CompletedProcess[bytes], path: str) -> list[str]:
    """The findings of the command in JSON, in the form in which flake8 prints its own."""
    return sorted(
        f"{path}:{found['location']['row']}:{found['location']['column']}: {found['code']} {found['message']}"
        for found in json.loads(done.stdout)
    )


# --- the same findings ------------------------------------------------------------------------------------------------

FORMS = {
    "plain": PROGRAM.encode(),
    "crlf": PROGRAM.replace("\n", "\r\n").encode(),
    "lone cr": PROGRAM.replace("\n", "\r").encode(),
    "mixed line ends": PROGRAM.replace("\n", "\r\n", 3).encode(),
    "bom": b"\xef\xbb\xbf" + PROGRAM.encode(),
    "bom and crlf": b"\xef\xbb\xbf" + PROGRAM.replace("\n", "\r\n").encode(),
    "latin-1": b"# -*- coding: latin-1 -*-\n" + PROGRAM.replace("never", "jamais \xe9").encode("latin-1"),
    "wide characters before a finding": PROGRAM.replace("device = torch", '深 = "層"; device = torch').encode(),
    "tabs": PROGRAM.replace("    ", "\t").encode(),
    "form feeds": PROGRAM.replace("\nif", "\n\x0c\nif").replace("other", "\x0cother").encode(),
    "no final newline": PROGRAM.rstrip().encode(),
    "too many operands": PROGRAM.encode() + b"x = " + b" and ".join([b"other"] * 2_500) + b"\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_same_codes_rows_columns_and_messages_as_the_command(flake8, devlint, tmp_path, form):
    (tmp_path / "train.py").write_bytes(FORMS[form])
    expected = commands(devlint("check", "train.py", "--output-format", "json"), "train.py")
    assert len(expected) == (1 if form == "too many operands" else 2)
    assert ours(flake8("train.py")) == expected


@pytest.mark.parametrize("form", ["plain", "crlf", "bom", "latin-1", "wide characters before a finding"])
def test_standard_input_as_editors_call_it(flake8, devlint, form):
    expected = commands(
        devlint("check", "-", "--stdin-filename", "src/a.py", "--output-format", "json", stdin=FORMS[form]), "src/a.py"
    )
    assert len(expected) == 2
    assert ours(flake8("--stdin-display-name", "src/a.py", "-", stdin=FORMS[form])) == expected


def test_several_processes(flake8, tmp_path):
    (tmp_path / "tox.ini").write_text("[flake8]\nextend-select = DEV402\n")
    for i in range(6):
        (tmp_path / f"f{i}.py").write_text(PROGRAM)
    one, two = flake8("-j", "1", "."), flake8("-j", "2", ".")
    assert ours(one) == ours(two)
    assert len(ours(two)) == 18


NOQA = {
    "bare": 'x = torch.device("cuda:0,1")  # noqa',
    "upper": 'x = torch.device("cuda:0,1")  # NOQA',
    "code": 'x = torch.device("cuda:0,1")  # noqa: DEV401',
    "prefix": 'x = torch.device("cuda:0,1")  # noqa: DEV4',
    "other code": 'x = torch.device("cuda:0,1")  # noqa: DEV402',
    "several": 'x = torch.device("cuda:0,1")  # noqa:E501,DEV401 the reason',
    "no digit": 'x = torch.device("cuda:0,1")  # noqa: DEV',
    "space before colon": 'x = torch.device("cuda:0,1")  # noqa : E501',
    "lower code": 'x = torch.device("cuda:0,1")  # noqa: dev401',
    "next line": 'x = torch.device(\n    "cuda:0,1"\n)  # noqa: DEV401',
    "its own line": 'x = torch.device(\n    "cuda:0,1"  # noqa: DEV401\n)',
    "backslash": 'x = \\\n    torch.device("cuda:0,1"); \\\n    y = 1  # noqa: DEV401',
    "string": 'x = [torch.device("cuda:0,1"), """\n"""]  # noqa: DEV401',
    "whole file": '# flake8: noqa\nx = torch.device("cuda:0,1")',
}
REPORTED = {"other code", "lower code", "next line"}


def test_noqa_is_what_it_is_for_the_command(flake8, devlint, tmp_path):
    for name, text in NOQA.items():
        (tmp_path / f"noqa {name}.py").write_text(f"import torch\n{text}\n")
    by_flake8 = {line.split(":")[0].removeprefix("./") for line in ours(flake8("."))}
    found = json.loads(devlint("check", "--output-format", "json").stdout)
    assert by_flake8 == {Path(finding["filename"]).name for finding in found}
    assert by_flake8 == {f"noqa {name}.py" for name in REPORTED}


def test_disable_noqa_shows_what_noqa_hides(flake8, tmp_path):
    (tmp_path / "a.py").write_text(f"import torch\n{NOQA['code']}\n")
    assert codes(flake8("--disable-noqa", "a.py")) == ["DEV401"]


def test_invalid_python_is_left_to_flake8(flake8, tmp_path):
    (tmp_path / "a.py").write_text("import torch\nx = (\n")
    done = flake8("a.py")
    assert b"E999" in done.stdout or b"E902" in done.stdout
    assert ours(done) == []


def test_the_tree_of_flake8_is_used(monkeypatch, tmp_path):
    """Parsing is the dearest step of a file without findings, and flake8 has done it already."""
    tree = ast.parse(PROGRAM)
    parsed = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(screen, "parse", parsed.append)
    plugin = flake8_plugin.Plugin(tree, "train.py", PROGRAM.splitlines(keepends=True))
    assert sorted(text.split()[0] for _, _, text, _ in plugin.run()) == ON
    assert parsed == []


# --- which rules ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flake8_settings", "expected"),
    [
        ("", ON),
        ("ignore = E501", ON),
        ("extend-ignore = E203", ON),
        ("select = E,F,W", []),
        ("select = E,F\nextend-select = DEV", ON),
        ("select = DEV", ON),
        ("select = D", ON),
        ("select = E,F,DEV", ON),
        ("extend-select = DEV", ON),
        ("extend-select = DEV4", ON + OFF),
        ("extend-select = DEV402", ON + OFF),
        ("extend-select = DEV402\nignore = E501", ON + OFF),
        ("select = DEV402", OFF),
        ("select = DEV4", ON + OFF),
        ("select = E,F\nextend-select = DEV4", ON + OFF),
        ("extend-select = DEV1", ON),
        ("extend-select = DEV7777", ON),
        ("extend-select = DEV402\nextend-ignore = DEV40", ["DEV402"]),
        ("ignore = D", []),
        ("ignore = D\nextend-select = DEV", ON),
        ("ignore = DEV401", ["DEV403"]),
        ("extend-ignore = DEV4", []),
        ("per-file-ignores =\n    train.py: DEV401", ["DEV403"]),
        ("per-file-ignores =\n    other.py: DEV401", ON),
    ],
)
def test_settings_of_flake8(flake8, program, tmp_path, flake8_settings, expected):
    (tmp_path / ".flake8").write_text(f"[flake8]\n{flake8_settings}\n")
    assert codes(flake8("train.py")) == sorted(expected)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--extend-select", "DEV4"], ON + OFF),
        (["--select", "DEV402"], OFF),
        (["--select", "E,F"], []),
        (["--ignore", "E501"], ON),
    ],
)
def test_options_of_flake8(flake8, program, arguments, expected):
    assert codes(flake8(*arguments, "train.py")) == sorted(expected)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ('select = ["DEV402"]', OFF),
        ('select = ["ALL"]', ON + OFF),
        ('extend-select = ["portability"]', ON + OFF),
        ('ignore = ["DEV401"]', ["DEV403"]),
        ('per-file-ignores = { "train.py" = ["DEV401"] }', ["DEV403"]),
        ('extend-exclude = ["train.py"]', []),
    ],
)
def test_settings_of_devlint(flake8, devlint, program, tmp_path, table, expected):
    (tmp_path / "pyproject.toml").write_text(f"[tool.devlint]\n{table}\n")
    assert codes(flake8(".")) == sorted(expected)
    assert sorted(found["code"] for found in json.loads(devlint("check", "--output-format", "json").stdout)) == sorted(
        expected
    )


def test_settings_of_both(flake8, program, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.devlint]\nextend-select = ["DEV402"]\n')
    (tmp_path / ".flake8").write_text("[flake8]\nextend-ignore = DEV403\n")
    assert codes(flake8("train.py")) == ["DEV401", "DEV402"]


def test_the_configuration_is_found_from_other_folders(flake8, program, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.devlint]\nselect = ["DEV402"]\n')
    (tmp_path / "below").mkdir()
    assert codes(flake8("../train.py", cwd=tmp_path / "below")) == OFF
    assert codes(flake8("--stdin-display-name", str(program), "-", stdin=PROGRAM.encode(), cwd=Path("/"))) == OFF


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_wrong_configuration_is_said_in_one_line(flake8, program, tmp_path, jobs):
    (tmp_path / "pyproject.toml").write_text('[tool.devlint]\nslect = ["DEV1"]\n')
    (tmp_path / "second.py").write_text(PROGRAM)
    done = flake8("-j", jobs, "train.py", "second.py")
    assert done.returncode == 1
    shown = (done.stdout + done.stderr).decode()
    assert "pyproject.toml" in shown
    assert '"select"' in shown
    assert "Traceback" not in shown


def test_flake8_names_the_plugin_and_its_version(flake8):
    assert f"devlint: {package.__version__}" in flake8("--version").stdout.decode()
