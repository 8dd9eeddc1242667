"""What is shipped: the wheel and the source archive hold the pages, and the installed command finds them."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from support import CHECKOUT, environment

import devlint

PAGES = sorted(path.name for path in (CHECKOUT / "rules").glob("*.md"))


def build(kind: str, source: Path, target: Path) -> Path:
    """Build one archive with the environment's own hatchling; the tree built from is left as it was."""
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(target)],
        cwd=source,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (archive,) = target.iterdir()
    return archive


@pytest.fixture(scope="module")
def sdist(tmp_path_factory) -> Path:
    return build("sdist", CHECKOUT, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory, sdist) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(folder, filter="data")
        else:
            archive.extractall(folder)
    (top,) = folder.iterdir()
    return top


@pytest.fixture(scope="module")
def wheel(tmp_path_factory, unpacked) -> Path:
    """Made from the source archive, as an installer without wheels makes it."""
    return build("wheel", unpacked, tmp_path_factory.mktemp("wheel"))


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_there_are_pages():
    assert any(name.startswith("DEV101-") for name in PAGES)


def test_the_source_archive_holds_what_the_wheel_and_the_tests_need(unpacked):
    assert sorted(path.name for path in (unpacked / "rules").glob("*.md")) == PAGES
    for name in ("LICENSE", "README.md", ".pre-commit-hooks.yaml", "tests/test_packaging.py", "devlint/py.typed"):
        assert (unpacked / name).is_file(), name
    shipped = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()}
    assert not [name for name in shipped if "__pycache__" in name or name.startswith((".git/", ".venv"))]


def test_the_wheel_holds_package_and_pages_alone(wheel):
    held = names(wheel)
    assert sorted(name.rpartition("/")[2] for name in held if name.startswith("devlint/_rules/")) == PAGES
    assert {name.split("/")[0] for name in held} == {"devlint", f"devlint-{devlint.__version__}.dist-info"}
    package = CHECKOUT / "devlint"
    ours = {
        f"devlint/{path.relative_to(package).as_posix()}"
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and "_rules" not in path.parts
    }
    assert {name for name in held if name.startswith("devlint/") and "/_rules/" not in name} == ours


def test_the_metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        info = f"devlint-{devlint.__version__}.dist-info"
        metadata = Parser().parsestr(archive.read(f"{info}/METADATA").decode())
        entry_points = archive.read(f"{info}/entry_points.txt").decode()
        assert f"{info}/licenses/LICENSE" in archive.namelist()
    assert metadata["Version"] == devlint.__version__
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == ">=3.10"
    needed = metadata.get_all("Requires-Dist")
    plain = [requirement for requirement in needed if "extra ==" not in requirement]
    assert "libcst>=1.5" in plain
    assert not [requirement for requirement in plain if requirement.startswith(("torch", "flake8", "pygls"))]
    assert {"dev", "runtime", "lsp"} <= set(metadata.get_all("Provides-Extra"))
    assert "DEV = devlint.flake8_plugin:Plugin" in entry_points
    assert "devlint = devlint.cli:main" in entry_points
    assert "[pytest11]\ndevlint = devlint.pytest_plugin" in entry_points


def test_the_unpacked_wheel_finds_its_pages(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    done = subprocess.run(
        [sys.executable, "-m", "devlint", "explain", "DEV101"],
        cwd=tmp_path,
        env=environment() | {"PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    (page,) = (CHECKOUT / "rules").glob("DEV101-*.md")
    assert done.stdout == page.read_bytes()


def test_a_checkout_finds_its_pages(devlint, tmp_path):
    done = devlint("explain", "DEV101", cwd=tmp_path)
    (page,) = (CHECKOUT / "rules").glob("DEV101-*.md")
    assert done.stdout == page.read_bytes()
