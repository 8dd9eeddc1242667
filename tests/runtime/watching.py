"""Programs run under the tracer in this process, which spares each test the start of Python and torch."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from devlint.runtime import simulate
from devlint.runtime.verify.child import observe
from devlint.runtime.verify.evidence import Evidence
from devlint.runtime.verify.launch import Order

Watch = Callable[..., Evidence]


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Run the text of a script on simulated devices (None: as the machine is); what was seen.

    Further keywords are other files, by stem.
    """

    def run(text: str, *, devices: int | None = 2, **others: str) -> Evidence:
        for name, content in {"script": text, **others}.items():
            (tmp_path / f"{name}.py").write_text(content)
        monkeypatch.setattr(sys, "argv", ["x"])
        monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
        monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
        before, traced = set(sys.modules), sys.gettrace()
        script, out = str(tmp_path / "script.py"), str(tmp_path / "seen.json")
        try:
            with nullcontext() if devices is None else simulate(devices=devices):
                observe(Order("script", script, str(tmp_path), out=out), "here")
        finally:
            assert sys.gettrace() is traced
            for name in set(sys.modules) - before:
                if str(getattr(sys.modules[name], "__file__", None)).startswith(str(tmp_path)):
                    del sys.modules[name]
        assert threading.current_thread() is threading.main_thread()
        return Evidence.from_json(Path(out).read_text())

    return run
