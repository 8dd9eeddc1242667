"""Checkpoints that are loaded: onto the CPU, by every process, after the first one has written them."""

from __future__ import annotations

import ast

from devlint.checks.ddp.loaders import Loaders
from devlint.checks.ddp.output import append_argument
from devlint.checks.ddp.script import Script, argument, has_stars


def migrate(script: Script, loaders: Loaders) -> None:
    saves = script.calls_of("torch.save")
    for call in script.calls_of("torch.load"):
        if argument(call, "map_location", 1) is None and not has_stars(call):
            append_argument(script, call, 'map_location="cpu"')
        trained = [place for place in loaders.places if script.owner(place) is script.owner(call)]
        before = any(call.lineno < getattr(place, "lineno", 0) for place in trained)
        if (trained or any(_same_file(call, save) for save in saves)) and not before and saves:
            script.need("dist")
            script.insert_before(
                script.statement(call), "dist.barrier()  # until the first process has written the file"
            )


def _same_file(load: ast.Call, save: ast.Call) -> bool:
    """Whether both name the file by the same text."""
    read, written = argument(load, "f", 0), argument(save, "f", 1)
    return read is not None and written is not None and ast.unparse(read) == ast.unparse(written)
