"""Fixtures of all tests."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support import environment

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def devlint(tmp_path: Path) -> Run:
    """Run `python -m devlint ARGUMENTS` in `tmp_path`; keywords: stdin (bytes), cwd, and environment variables."""

    def run(
        *arguments: str | Path, stdin: bytes = b"", cwd: Path = tmp_path, **extra: str
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "devlint", *map(str, arguments)],
            input=stdin,
            cwd=cwd,
            env=environment(**extra),
            capture_output=True,
            timeout=120,
            check=False,
        )

    return run
