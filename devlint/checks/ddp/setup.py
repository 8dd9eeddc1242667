"""The process group: the names that the edits use, where the script joins its group and where it leaves it."""

from __future__ import annotations

import ast
import re

from devlint.checks.ddp.downloads import downloads
from devlint.checks.ddp.script import ByHand, Script
from devlint.checks.ddp.wrapping import Wraps
from devlint.placement.infer import FUNCTIONS
from devlint.syntax.trees import last_name, walk

_RANKS = {
    "RANK": 'RANK = int(os.environ.get("RANK", 0))',
    "LOCAL_RANK": 'LOCAL_RANK = int(os.environ.get("LOCAL_RANK", 0))',
    "WORLD_SIZE": 'WORLD_SIZE = int(os.environ.get("WORLD_SIZE", 1))',
}
_INIT = '''\
def init_distributed():
    """Join the processes that torchrun started; without it, be a group of one."""
    if torch.cuda.is_available():
        torch.cuda.set_device(LOCAL_RANK)
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    if WORLD_SIZE > 1:
        dist.init_process_group(backend)
    else:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
'''
_QUIET = """\
    if RANK != 0:
        logging.disable(logging.INFO)
"""
_PRINT = '''\
def print_once(*values, **options):
    """Print in the first process only."""
    if RANK == 0:
        print(*values, **options)
'''
_SUM = '''\
def sum_over_processes(value):
    """The sum of a number over all processes."""
    total = torch.tensor(value, dtype=torch.double, device="cuda" if torch.cuda.is_available() else "cpu")
    dist.all_reduce(total)
    return type(value)(total.item())
'''
_MEAN = '''\
def mean_over_processes(value):
    """The mean of a number over all processes."""
    total = torch.tensor(value, dtype=torch.double, device="cuda" if torch.cuda.is_available() else "cpu")
    dist.all_reduce(total)
    return total.item() / WORLD_SIZE
'''
_MEAN_OF_SUM = '''\
def mean_over_processes(value):
    """The mean of a number over all processes."""
    return sum_over_processes(value) / WORLD_SIZE
'''
_NEW_NAMES = (*_RANKS, "init_distributed", "print_once", "sum_over_processes", "mean_over_processes")
_CUDA = frozenset({"cuda", "to"})
_EARLY = ("parse_args", "ArgumentParser", "add_argument", "parse_known_args", "basicConfig", "getLogger", "manual_seed")


def migrate(script: Script, wraps: Wraps) -> None:
    for name in _NEW_NAMES:
        if name in script.words:
            raise ByHand(f"the script has a `{name}` already")
    if "mean_over_processes" in script.needs or "print_once" in script.needs:
        script.need("WORLD_SIZE", "RANK")
    script.need("LOCAL_RANK", "WORLD_SIZE")
    _enter_and_leave(script, wraps)
    _imports(script)
    _helpers(script)


# --- where the script starts and ends ---------------------------------------------------------------------------------


def _enter_and_leave(script: Script, wraps: Wraps) -> None:
    if script.main:
        block = script.parents[script.main[0]]
        assert isinstance(block, ast.If)
        early = next((s for s in script.tree.body if s is not block and _works(script, s, wraps)), None)
        first = early or next((s for s in script.main if not _is_early(script, s)), script.main[0])
        last = script.main[-1]
        if script.tree.body[-1] is not block:
            raise ByHand("what stands behind the `if __name__` block")
    else:
        working = [s for s in script.tree.body if _works(script, s, wraps)]
        if not working:
            raise ByHand("where the script starts is not seen: join the process group there")
        first, last = working[0], script.tree.body[-1]
    for node in walk(last):
        if isinstance(node, ast.Call) and script.name(node.func) in ("sys.exit", "os._exit"):
            raise ByHand(f"the script ends by `{last_name(node.func)}` in line {node.lineno}: leave the group before")
    script.insert_before(first, "init_distributed()")
    script.edits.insert(0, script.edits.pop())  # before all that other parts put there
    script.insert_after(last, "dist.destroy_process_group()")


def _works(script: Script, statement: ast.stmt, wraps: Wraps) -> bool:
    """Whether a statement of the module needs the group or the device: it makes loaders or models, or starts it all."""
    if isinstance(statement, (*FUNCTIONS, ast.ClassDef, ast.Import, ast.ImportFrom)):
        return False
    if script.main and script.parents[script.main[0]] is statement:
        return False
    if _is_early(script, statement):
        return False
    if statement in downloads(script):
        return True
    for node in walk(statement):
        if isinstance(node, ast.Call):
            name = script.name(node.func)
            if name.endswith(".DataLoader") or any(node is wrap.call for wrap in wraps.wraps):
                return True
            if isinstance(node.func, ast.Attribute) and node.func.attr in _CUDA and not name:
                return True
            if script.called(node) is not None or any(k.arg == "device" for k in node.keywords):
                return True
    return False


def _is_early(script: Script, statement: ast.stmt) -> bool:
    """Whether a statement reads arguments, or sets seeds, logging or the environment, also by a function for that."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return True
    if isinstance(statement, ast.Assign) and not any(isinstance(n, ast.Call) for n in walk(statement.value)):
        return True
    texts = [script.source(statement)]
    for node in walk(statement):
        if isinstance(node, ast.Call) and (function := script.called(node)) is not None:
            if function.name == "main" or len(function.body) > 30:
                return False
            texts.append(script.source(function))
    early = any(word in text for text in texts for word in (*_EARLY, "os.environ"))
    return early and not any(re.search(r"\.backward\(|DataLoader\(|DataParallel\(", text) for text in texts)


# --- imports ----------------------------------------------------------------------------------------------------------


def _imports(script: Script) -> None:
    imported = script.context.names.module.imports
    head = [s for s in script.tree.body if isinstance(s, ast.Import | ast.ImportFrom) and not _is_future(s)]
    if not head:
        raise ByHand("the script imports nothing at its top")
    plain = {alias.name: s for s in head if isinstance(s, ast.Import) for alias in s.names if alias.asname is None}
    if imported.get("dist", {"torch.distributed"}) != {"torch.distributed"} or "dist" in script.words:
        raise ByHand("the script has a `dist` already")
    lines = ["import torch.distributed as dist"]
    if imported.get("torch") != {"torch"}:
        lines.insert(0, "import torch")
    anchor = plain.get("torch")
    if anchor is not None:
        script.insert_after(anchor, *lines)
    else:
        script.insert_before(_first_of_torch(head), *lines)
    if imported.get("os") != {"os"}:
        _import_standard(script, head, "os")
    if "logging" in script.needs and imported.get("logging") != {"logging"}:
        _import_standard(script, head, "logging")
    if "DistributedSampler" in script.needs:
        _import_sampler(script, head)


def _first_of_torch(head: list[ast.Import | ast.ImportFrom]) -> ast.stmt:
    for statement in head:
        module = statement.module or "" if isinstance(statement, ast.ImportFrom) else statement.names[0].name
        if module.split(".")[0] == "torch":
            return statement
    return head[0]


def _import_standard(script: Script, head: list[ast.Import | ast.ImportFrom], name: str) -> None:
    """`import NAME` among the first imports, in their order; a block of its own before those of torch."""
    first: list[ast.Import | ast.ImportFrom] = []
    for statement in head:
        if first and statement.lineno > (first[-1].end_lineno or 0) + 1:
            break
        first.append(statement)
    for statement in first:
        module = statement.module or "" if isinstance(statement, ast.ImportFrom) else statement.names[0].name
        if module.split(".")[0] == "torch":
            if statement is first[0]:
                script.insert(script.lines(statement)[0], f"import {name}{script.newline}{script.newline}")
            else:
                script.insert_before(statement, f"import {name}")
            return
        if isinstance(statement, ast.ImportFrom) or module > name:
            script.insert_before(statement, f"import {name}")
            return
    script.insert_after(first[-1], f"import {name}")


def _import_sampler(script: Script, head: list[ast.Import | ast.ImportFrom]) -> None:
    name = "DistributedSampler"
    for statement in head:
        if isinstance(statement, ast.ImportFrom) and statement.module == "torch.utils.data":
            if any(alias.name == name for alias in statement.names):
                return
            for alias in statement.names:
                if alias.name > name:
                    script.insert(script.span(alias)[0], f"{name}, ")
                    return
            script.insert(script.span(statement.names[-1])[1], f", {name}")
            return
    raise ByHand("where DataLoader is imported")


def _is_future(statement: ast.Import | ast.ImportFrom) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


# --- names ------------------------------------------------------------------------------------------------------------


def _helpers(script: Script) -> None:
    """The ranks and the functions, behind the imports."""
    last = _last_import(script)
    needs = script.needs
    parts = ["".join(f"{line}\n" for name, line in _RANKS.items() if name in needs)]
    parts.append(_INIT + (_QUIET if "logging" in needs else ""))
    if "print_once" in needs:
        parts.append(_PRINT)
    if "sum_over_processes" in needs:
        parts.append(_SUM)
    if "mean_over_processes" in needs:
        parts.append(_MEAN_OF_SUM if "sum_over_processes" in needs else _MEAN)
    text = "\n" + "\n\n".join(parts)
    _, end = script.lines(last)
    blank = re.compile(r"\s*?(?=^\S|\Z)", re.MULTILINE).match(script.text, end)
    lines = blank[0].count("\n") if blank is not None else 0
    text += "\n" * max(0, 2 - lines)
    script.insert(end, text.replace("    ", script.step).replace("\n", script.newline))


def _last_import(script: Script) -> ast.stmt:
    """The last of the imports at the top."""
    last: ast.stmt | None = None
    for statement in script.tree.body:
        first = statement.body[0] if isinstance(statement, ast.Try) else statement
        if isinstance(first, ast.Import | ast.ImportFrom):
            last = statement
        elif isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            break
    assert last is not None
    return last
