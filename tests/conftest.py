"""Fixtures of all tests."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support import environment

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def devlint(tmp_path: Path) -> Run:
    """Run the command in this process, which spares each call the start of Python and the import of LibCST.

    It runs in `tmp_path`; keywords: `stdin` (bytes), `cwd`, and environment variables.
    """
    from devlint.cli import main

    def run(
        *arguments: str | Path, stdin: bytes = b"", cwd: Path = tmp_path, **extra: str
    ) -> subprocess.CompletedProcess[bytes]:
        streams = [io.TextIOWrapper(io.BytesIO(data), encoding="utf-8") for data in (stdin, b"", b"")]
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(cwd)
            for variable in ("NO_COLOR", "FORCE_COLOR"):
                patch.delenv(variable, raising=False)
            for variable, value in extra.items():
                patch.setenv(variable, value)
            for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
                patch.setattr(sys, name, stream)
            patch.setattr(sys, "argv", ["devlint", *map(str, arguments)])
            with pytest.raises(SystemExit) as end:
                main()
        for stream in streams[1:]:
            stream.flush()
        code = end.value.code
        assert isinstance(code, int | None)
        outputs = [stream.buffer.getvalue() for stream in streams[1:]]  # type: ignore[attr-defined]
        return subprocess.CompletedProcess(arguments, code or 0, *outputs)

    return run


@pytest.fixture
def process(tmp_path: Path) -> Run:
    """Run `python -m devlint` as a process of its own, with the keywords of `devlint`."""

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
