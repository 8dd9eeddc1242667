"""The hooks in a real pre-commit: a commit is stopped, a file is fixed.

pre-commit installs the hooks' repository with its dependencies, so this needs the package index that pip uses.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import copy_shipped

FAULTY = 'import torch\n\ndevice = torch.device("cuda:0,1")\n'
FIXED = FAULTY.replace("0,1", "0")
UNFIXABLE = 'import torch\n\ndevice = torch.device("cuda")\nif device == "cuda":\n    print("never")\n'


class Repository:
    """A git repository with its own identity, out of reach of the user's settings and of an outer hook's variables."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder = folder
        self.environment = {
            key: value for key, value in os.environ.items() if not key.startswith("GIT_") and key != "PYTHONPATH"
        } | {
            "PRE_COMMIT_HOME": str(cache),
            "PRE_COMMIT_COLOR": "never",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            **{
                f"GIT_{who}_{what}": value
                for who in ("AUTHOR", "COMMITTER")
                for what, value in (("NAME", "Tester"), ("EMAIL", "tester@example.org"))
            },
        }

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def git(self, *arguments: str) -> str:
        done = self.run("git", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def pre_commit(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, "-m", "pre_commit", *arguments)

    def write(self, name: str, text: str) -> None:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def read(self, name: str) -> str:
        return (self.folder / name).read_text()

    def commits(self) -> int:
        return int(self.git("rev-list", "--all", "--count"))


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def hooks(tmp_path_factory, cache) -> Repository:
    """A repository of what this checkout ships, as it stands now, whether or not it is committed."""
    folder = tmp_path_factory.mktemp("hooks")
    copy_shipped(folder)
    repository = Repository(folder, cache)
    repository.git("init", "-q")
    repository.git("add", "-A")
    repository.git("commit", "-q", "-m", "hooks")
    return repository


@pytest.fixture
def project(tmp_path, cache) -> Repository:
    folder = tmp_path / "project"
    folder.mkdir()
    repository = Repository(folder, cache)
    repository.git("init", "-q")
    return repository


def test_hooks(hooks, project, tmp_path, cache):
    """One test, so that workers side by side do not install the hooks twice."""
    try_repo(hooks, project)
    (tmp_path / "second").mkdir()
    second = Repository(tmp_path / "second", cache)
    second.git("init", "-q")
    stops_commits(hooks, second)


def try_repo(hooks: Repository, project: Repository) -> None:
    """`pre-commit try-repo`: what is excluded or no Python stays unread, the other files are reported, then fixed."""
    project.write("train.py", FAULTY)
    project.write("stub.pyi", FAULTY)
    project.write("generated/out.py", FAULTY)
    project.write("notes.md", FAULTY)
    project.write("pyproject.toml", '[tool.devlint]\nextend-exclude = ["generated"]\n')
    project.git("add", "-A")
    done = project.pre_commit("try-repo", str(hooks.folder), "devlint", "--all-files", "--verbose")
    assert done.returncode == 1, done.stdout + done.stderr
    for name in ("train.py", "stub.pyi"):
        assert f"{name}:3:23: DEV401" in done.stdout
    assert "2 findings in 2 files" in done.stdout  # neither the excluded file, though pre-commit names it, nor the .md
    assert project.read("train.py") == FAULTY

    done = project.pre_commit("try-repo", str(hooks.folder), "devlint-fix", "--all-files", "--verbose")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "files were modified by this hook" in done.stdout
    assert (project.read("train.py"), project.read("stub.pyi")) == (FIXED, FIXED)
    assert project.read("generated/out.py") == FAULTY


def stops_commits(hooks: Repository, project: Repository) -> None:
    """Installed hooks: a commit is stopped until nothing is found."""
    revision = hooks.git("rev-parse", "HEAD").strip()
    project.write(
        ".pre-commit-config.yaml",
        f"repos:\n- repo: {hooks.folder}\n  rev: {revision}\n  hooks:\n  - id: devlint-fix\n  - id: devlint\n",
    )
    installed = project.pre_commit("install")
    assert installed.returncode == 0, installed.stdout + installed.stderr

    project.git("add", ".pre-commit-config.yaml")
    done = project.run("git", "commit", "-m", "no Python file is staged")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no files to check" in done.stdout + done.stderr

    project.write("train.py", FAULTY)
    project.git("add", "train.py")
    assert project.run("git", "commit", "-m", "faulty").returncode == 1
    assert (project.commits(), project.read("train.py")) == (1, FIXED)

    project.git("add", "train.py")
    project.git("commit", "-m", "fixed")
    assert project.commits() == 2

    project.write("train.py", UNFIXABLE)
    project.git("add", "train.py")
    done = project.run("git", "commit", "-m", "not fixable without --unsafe-fixes")
    assert done.returncode == 1
    assert "train.py:4:" in done.stdout + done.stderr
    assert "DEV403" in done.stdout + done.stderr
    assert (project.commits(), project.read("train.py")) == (2, UNFIXABLE)
