"""What README.md shows is what devlint prints, and its settings work in the tools that they are for."""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support import CHECKOUT, environment

import devlint as package
from devlint.checks import catalogue
from devlint.config import load_config
from devlint.finding import Group

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TEXT = (CHECKOUT / "README.md").read_text(encoding="utf-8")
BLOCKS = [(match[1], match[2]) for match in re.finditer(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)]
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FAULTY = 'import torch\n\ndevice = torch.device("cuda:0,1")\nother = torch.ones(3, device="cuda:1")\n'


def block(language: str, holding: str = "") -> str:
    """The one block of this language that holds these words."""
    (found,) = [text for name, text in BLOCKS if name == language and holding in text]
    return found


def run(*command: str, cwd: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=cwd,
        env=environment(**extra),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


# --- what is shown ----------------------------------------------------------------------------------------------------


@pytest.fixture
def shown(tmp_path: Path) -> Path:
    """The program at the head of the README, in its file."""
    file = tmp_path / "predict.py"
    file.write_text(block("python", "batch = torch.rand"))
    return file


def test_the_shown_findings(devlint, shown):
    done = devlint("check", shown.name, "--isolated")
    assert done.stdout.decode() == block("text", "fixable")
    assert done.returncode == 1


def test_the_shown_diff(devlint, shown):
    before = shown.read_text()
    done = devlint("fix", "--diff", shown.name, "--isolated")
    assert done.stdout.decode() == block("diff")
    assert (done.returncode, shown.read_text()) == (1, before)
    assert devlint("fix", shown.name, "--isolated").returncode == 0
    assert shown.read_text() == before.replace('\nbatch.to("cuda")', '\nbatch = batch.to("cuda")')
    assert devlint("check", shown.name, "--isolated").returncode == 0


def test_the_shown_program_is_as_it_is_said(shown, capsys):
    """On the CPU it works, on a GPU it stops, and the fixed one works."""
    import torch

    from devlint.runtime import simulate

    fixed = shown.with_name("fixed.py")
    fixed.write_text(shown.read_text().replace("\nbatch.to", "\nbatch = batch.to"))
    on_cpu = shown.with_name("on_cpu.py")
    on_cpu.write_text(shown.read_text().replace('"cuda"', '"cpu"'))
    runpy.run_path(str(on_cpu))
    with simulate(devices=1):
        with pytest.raises(RuntimeError, match="on the same device"):
            runpy.run_path(str(shown))
        runpy.run_path(str(fixed))
    assert "cuda" not in str(torch.zeros(1).device)
    assert "device='cuda:0'" in capsys.readouterr().out


def test_the_shown_verdict(process, shown):
    done = process("verify", "--device", "simulated", shown.name)
    assert done.stdout.decode() == block("text", "confirmed")
    assert b"on the same device" in done.stderr
    assert done.returncode == 1


def test_the_shown_test_fails_until_the_table_is_a_buffer(tmp_path):
    model = block("python", "class Positions")
    (tmp_path / "test_model.py").write_text(block("python", "pytest.mark.devices"))
    assigned = "self.table = torch.randn(length, size)"
    assert assigned in model
    fixed = model.replace(assigned, 'self.register_buffer("table", torch.randn(length, size))')
    for text, outcomes in ((model, "1 failed, 1 passed"), (fixed, "2 passed")):
        (tmp_path / "model.py").write_text(text)
        plugin = ("-p", "devlint.pytest_plugin", "-p", "no:cacheprovider")
        done = run("pytest", *plugin, cwd=tmp_path, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", CUDA_VISIBLE_DEVICES="")
        assert outcomes in done.stdout
        assert ("test_output_lies_with_the_input[simulated]" in done.stdout) == (text is model)


def test_the_shown_functions(capsys):
    exec(block("python", "fix_source"), {})
    found, *fixed = capsys.readouterr().out.splitlines()
    assert found.startswith("3 DEV101 `.cuda()`")
    assert fixed == ["import torch", "x = torch.rand(3)", "x = x.cuda()", "print(x)", ""]


def test_the_table_of_rules_is_current(devlint):
    listed = devlint("rules", "--output-format", "markdown").stdout.decode()
    between = re.search(r"<!-- rules: .* -->\n\n(.*?)\n<!-- end of rules -->\n", TEXT, re.DOTALL)
    assert between is not None
    assert between[1] == listed, "run: python scripts/update_readme.py"


def test_the_script_writes_the_table():
    update = runpy.run_path(str(CHECKOUT / "scripts/update_readme.py"))["update"]
    emptied = re.sub(r"(<!-- rules: .* -->\n).*(<!-- end of rules -->)", r"\1\2", TEXT, flags=re.DOTALL)
    table = "| code |\n| --- |\n| DEV101 |\n"
    once = update(emptied, table)
    assert f"-->\n\n{table}\n<!-- end" in once
    assert update(once, table) == once
    with pytest.raises(ValueError, match="end of rules"):
        update(TEXT.replace("<!-- end of rules -->", ""), table)


# --- commands ---------------------------------------------------------------------------------------------------------


def commands() -> list[list[str]]:
    """The command lines of all `console` blocks, as words."""
    lines = [line for name, text in BLOCKS if name == "console" for line in text.splitlines()]
    return [shlex.split(part) for line in lines for part in line.split(" && ")]


def test_the_bundled_example_has_a_finding(devlint):
    (example,) = [words for words in commands() if words[0] == ".venv/bin/devlint"]
    done = devlint(*example[1:], cwd=CHECKOUT)
    assert (done.returncode, b"DEV101" in done.stdout) == (1, True)
    assert (CHECKOUT / example[-1]).is_file()


def test_the_commands_exist(devlint, shown):
    """Each `devlint` line runs, over the shown program in place of a project's folder."""
    ours = [words[1:] for words in commands() if words[0] == "devlint"]
    assert {words[0] for words in ours} == {"check", "fix", "explain"}
    for words in ours:
        done = devlint(*[shown.name if word == "src/" else word for word in words])
        assert done.returncode in (0, 1), done.stderr


def test_the_commands_that_install():
    installs = [words for words in commands() if "install" in words]
    assert [words[-1] for words in installs] == [".", ".[dev]"]
    assert "dev" in PROJECT["optional-dependencies"]
    assert commands()[-1] == [".venv/bin/python", "-m", "pytest"]


def test_links_lead_to_files():
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", TEXT):
        assert (CHECKOUT / target).exists(), target


@pytest.mark.parametrize(
    ("code", "arguments", "text"),
    [
        (0, ["check"], "import torch\n"),
        (1, ["check"], FAULTY),
        (1, ["fix", "--diff"], FAULTY),
        (0, ["fix"], FAULTY),
        (2, ["check", "--selekt", "DEV101"], FAULTY),
        (2, ["check", "--select", "DEV777"], FAULTY),
        (1, ["check"], "import torch\ndef\n"),
    ],
)
def test_exit_codes(devlint, tmp_path, code, arguments, text):
    (tmp_path / "a.py").write_text(text)
    assert devlint(*arguments, "a.py", "--isolated").returncode == code
    assert re.search(rf"^\| {code} \| ", TEXT, re.MULTILINE)


# --- settings ---------------------------------------------------------------------------------------------------------


def test_devlints_settings(tmp_path):
    file = tmp_path / "pyproject.toml"
    file.write_text(block("toml", "[tool.devlint]"))
    config = load_config(file, {}, catalogue())
    assert config.enabled("DEV402", Group.PORTABILITY)
    assert not config.enabled("DEV501", Group.BUG)
    assert not config.enabled("DEV702", Group.PERFORMANCE)
    assert not config.enabled_in("DEV301", Group.BUG, str(tmp_path / "tests/test_a.py"))
    assert config.enabled_in("DEV301", Group.BUG, str(tmp_path / "src/a.py"))
    assert config.target_torch == (2, 4)


def test_all_keys_are_named():
    from devlint.config import _KEYS

    settings = TEXT[TEXT.index("## Settings") : TEXT.index("### flake8")]
    assert [key for key in _KEYS if key not in settings] == []


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> dict[str, str]:
    """The environment in which flake8 sees the checkout as installed, with the entry points of pyproject.toml."""
    folder = tmp_path_factory.mktemp("installed")
    info = folder / f"devlint-{package.__version__}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: devlint\nVersion: {package.__version__}\n")
    entries = PROJECT["entry-points"]["flake8.extension"]
    lines = ["[flake8.extension]", *(f"{name} = {target}" for name, target in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return {"PYTHONPATH": f"{folder}:{CHECKOUT}"}


@pytest.mark.parametrize(
    ("settings", "codes"),
    [
        ("[flake8]\n", ["DEV401"]),
        (block("ini"), ["DEV401"]),
        (block("ini").replace("extend-select = DEV\n", ""), []),
        ("[flake8]\nselect = E,F\n", []),
        ("[flake8]\nselect = E,F,DEV\n", ["DEV401"]),
        ("[flake8]\nextend-select = DEV4\n", ["DEV401", "DEV402"]),
        ("[flake8]\nextend-select = DEV402\n", ["DEV401", "DEV402"]),
    ],
)
def test_flake8s_settings(tmp_path, installed, settings, codes):
    (tmp_path / ".flake8").write_text(settings)
    (tmp_path / "a.py").write_text(FAULTY)
    done = run("flake8", "a.py", cwd=tmp_path, **installed)
    assert re.findall(r" (DEV\d+) ", done.stdout) == codes, done.stdout + done.stderr


def test_flake8_takes_devlints_settings(tmp_path, installed):
    (tmp_path / "pyproject.toml").write_text('[tool.devlint]\nextend-select = ["DEV402"]\n')
    (tmp_path / "a.py").write_text(FAULTY)
    done = run("flake8", "a.py", cwd=tmp_path, **installed)
    assert re.findall(r" (DEV\d+) ", done.stdout) == ["DEV401", "DEV402"], done.stdout + done.stderr


def test_ruffs_setting(tmp_path):
    (tmp_path / "a.py").write_text('import torch\n\ndevice = torch.device("cuda:0,1")  # noqa: DEV401\n')
    arguments = ("ruff", "check", "--no-cache", "--output-format", "concise", "--select", "F,RUF", "a.py")
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\n")
    assert re.search("RUF10[02]", run(*arguments, cwd=tmp_path).stdout)
    (tmp_path / "pyproject.toml").write_text(block("toml", "[tool.ruff]"))
    done = run(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr


def test_pre_commits_settings(tmp_path):
    file = tmp_path / ".pre-commit-config.yaml"
    file.write_text(block("yaml"))
    done = run("pre_commit", "validate-config", file.name, cwd=tmp_path)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    offered = (CHECKOUT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    used = re.findall(r"id: ([\w-]+)", block("yaml"))
    assert f"rev: v{package.__version__} " in block("yaml")
    assert sorted(used) == sorted(re.findall(r"^- id: ([\w-]+)", offered, re.MULTILINE))
