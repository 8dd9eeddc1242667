"""Nothing in this folder runs without torch (the extra `devlint[runtime]`, part of `devlint[dev]`)."""

from __future__ import annotations

import importlib.util

collect_ignore_glob = ["test_*.py"] if importlib.util.find_spec("torch") is None else []
