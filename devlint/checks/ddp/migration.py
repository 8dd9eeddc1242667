"""The whole migration: every part reads what it needs, and one fix holds the edits of all."""

from __future__ import annotations

import ast

from devlint.checks.context import Context
from devlint.checks.ddp import checkpoints, devices, downloads, randomness, setup, unseen, unused
from devlint.checks.ddp.flows import Flows
from devlint.checks.ddp.loaders import Loaders
from devlint.checks.ddp.losses import Losses
from devlint.checks.ddp.metrics import Metrics
from devlint.checks.ddp.output import Output
from devlint.checks.ddp.script import ByHand, Script
from devlint.checks.ddp.wrapping import Wraps
from devlint.finding import Applicability, Edit, Fix

_KEY = "migration to DistributedDataParallel"


def migration(context: Context) -> Fix | str:
    """The fix that migrates the file, or what has to be done by hand."""
    found: Fix | str | None = context.memo.get(_KEY)
    if found is None:
        try:
            found = _migrate(Script(context))
        except ByHand as reason:
            found = str(reason)
        context.memo[_KEY] = found
    return found


def _migrate(script: Script) -> Fix:
    flows = Flows(script)
    wraps = Wraps(script, flows)
    loaders = Loaders(script, flows)
    losses = Losses(script, flows, wraps)
    _check_loss(script, losses)
    randomness.check(script, loaders.training)
    unused.check(script, wraps)
    checkpoints.check(script, flows, wraps)
    wraps.migrate()
    devices.migrate(script, wraps)
    output = Output(script, flows, wraps)
    unseen.check(script, wraps, loaders.training, output)
    downloads.migrate(script)
    loaders.migrate()
    Metrics(script, losses, loaders.training, output).migrate()
    checkpoints.migrate(script, loaders)
    output.migrate()
    setup.migrate(script, wraps)
    return Fix(_title(script), tuple(_joined(script)), Applicability.UNSAFE)


def _check_loss(script: Script, losses: Losses) -> None:
    """Raises ByHand if what is differentiated is not a mean over the batch, or models are trained in turns."""
    for call in script.calls:
        if not (isinstance(call.func, ast.Attribute) and call.func.attr == "backward"):
            if script.name(call.func) == "torch.autograd.grad":
                raise ByHand(f"line {call.lineno} takes gradients by itself")
            continue
        if call.args or call.keywords:
            raise ByHand(f"the arguments of `backward` in line {call.lineno}")
        loss = call.func.value
        if isinstance(loss, ast.Call) and isinstance(loss.func, ast.Attribute) and loss.func.attr == "scale":
            loss = loss.args[0]
        losses.require_mean(loss)


def _title(script: Script) -> str:
    """What the fix does, and what makes the numbers differ from those of DataParallel."""
    made = {script.name(call.func).rpartition(".")[2] for call in script.calls}
    imported = {name.split(".")[0] for names in script.context.names.module.imports.values() for name in names}
    remarks = []
    if any(name.startswith("BatchNorm") for name in made) or imported & {"torchvision", "timm"}:
        remarks.append("BatchNorm sees the part of one process, see DEV507")
    if any("ropout" in name for name in made):
        remarks.append("dropout draws other masks")
    remarks.append("samples are repeated where the last batch does not divide")
    return f"Migrate the script to DistributedDataParallel and torchrun ({'; '.join(remarks)})"


def _joined(script: Script) -> list[Edit]:
    """The edits in order of place, moved statements with theirs, and what is inserted at one place as one edit."""
    edits = list(script.edits)
    for move in script.moves:
        start, end = script.lines(move.statement)
        inner = [edit for edit in edits if start < edit.start and edit.end < end]
        edits = [edit for edit in edits if edit not in inner]
        text = script.text[start:end]
        for edit in sorted(inner, key=lambda e: (e.start, e.end), reverse=True):
            text = text[: edit.start - start] + edit.text + text[edit.end - start :]
        text = move.head + text
        place = script.lines(move.behind)[1]
        if not script.text[:place].endswith(("\n", "\r")):
            text = script.newline + text
        between = script.text[end : end + 1]
        if between in "\r\n" and script.text[:start].endswith(("\n\n", "\r\n\r\n")):
            end += len(script.newline)  # of the empty lines around it one is enough
        edits += [Edit(start, end, ""), Edit(place, place, text)]
    inserted: dict[int, str] = {}
    for edit in edits:
        if edit.start == edit.end:
            inserted[edit.start] = inserted.get(edit.start, "") + edit.text
    replaced = [edit for edit in edits if edit.start != edit.end]
    return [*(Edit(at, at, text) for at, text in inserted.items()), *dict.fromkeys(replaced)]
