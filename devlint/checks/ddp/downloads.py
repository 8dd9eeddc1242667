"""Data sets that are downloaded: by one process of a machine, while the others wait."""

from __future__ import annotations

import ast

from devlint.checks.ddp.script import Script, argument, is_true


def downloads(script: Script) -> list[ast.stmt]:
    """The statements that download, of which one may hold several calls."""
    calls = [call for call in script.calls if is_true(argument(call, "download"))]
    return list(dict.fromkeys(script.statement(call) for call in calls))


def migrate(script: Script) -> None:
    for statement in downloads(script):
        script.need("dist", "LOCAL_RANK")
        wait = f"{script.step}dist.barrier()"
        script.insert_before(statement, "if LOCAL_RANK != 0:", f"{wait}  # the first process downloads")
        script.insert_after(statement, "if LOCAL_RANK == 0:", wait)
