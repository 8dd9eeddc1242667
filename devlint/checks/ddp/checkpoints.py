"""Files that are written and read: checkpoints load onto the CPU, after the first process has written them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from devlint.checks.ddp.flows import Flows
from devlint.checks.ddp.loaders import Loaders
from devlint.checks.ddp.output import append_argument
from devlint.checks.ddp.script import ByHand, Script, argument, has_stars
from devlint.checks.ddp.wrapping import Wraps
from devlint.placement.infer import Function
from devlint.syntax.trees import last_name, walk

_PICKLES = ("torch.save", "pickle.dump", "pickle.dumps", "joblib.dump")
_WRITES = frozenset({"save", "savez", "savez_compressed", "savetxt", "dump", "to_csv", "copy", "copyfile", "move"})
_READS = frozenset({"load", "loadtxt", "read_csv", "open", "genfromtxt", "read_image", "read_text", "read_bytes"})


def check(script: Script, flows: Flows, wraps: Wraps) -> None:
    """Raises ByHand for a wrapper that is pickled whole, and for files written and read other than by torch."""
    for call in script.calls_of(*_PICKLES):
        if any(wraps.holds(part) or ast.unparse(part) == "self" for part in _pickled(flows, call.args[:1])):
            raise ByHand(f"line {call.lineno} saves the whole wrapper, which loads only where there is a group")
    written = {text: call for call in script.calls if _is_write(call) for text in _paths(call)}
    for call in script.calls:
        if last_name(call.func) in _READS and script.name(call.func) != "torch.load" and not _is_write(call):
            for text in _paths(call):
                if text in written:
                    line = written[text].lineno
                    raise ByHand(f"line {call.lineno} reads what line {line} writes: let the processes wait for it")


def migrate(script: Script, loaders: Loaders) -> None:
    saves = script.calls_of("torch.save")
    waiting: set[ast.stmt] = set()
    for call in script.calls_of("torch.load"):
        if argument(call, "map_location", 1) is None and not has_stars(call):
            append_argument(script, call, 'map_location="cpu"')
        trained = [place for place in loaders.places if script.owner(place) is script.owner(call)]
        before = any(call.lineno < getattr(place, "lineno", 0) for place in trained)
        saved = _saved_before(script, call, saves)
        if saved is not None:
            waiting.add(saved)
        elif (trained or any(_same_file(call, save) for save in saves)) and not before and saves:
            waiting.add(script.statement(call))
    for statement in waiting:
        script.need("dist")
        script.insert_before(statement, "dist.barrier()  # until the first process has written the file")


def _pickled(flows: Flows, values: Iterable[ast.expr | None], depth: int = 3) -> Iterator[ast.expr]:
    """The variables that are pickled as they are, those in dictionaries and lists too; `model.module` is none, and
    neither is a choice between that and a model without wrapper."""
    for value in values:
        if isinstance(value, ast.Name | ast.Attribute):
            yield value
            if depth:
                yield from _pickled(flows, flows.origins(value), depth - 1)
        elif isinstance(value, ast.Dict):
            yield from _pickled(flows, value.values, depth)
        elif isinstance(value, ast.Tuple | ast.List):
            yield from _pickled(flows, value.elts, depth)
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "dict":
            yield from _pickled(flows, [keyword.value for keyword in value.keywords], depth)


def _saved_before(script: Script, load: ast.Call, saves: list[ast.Call]) -> ast.stmt | None:
    """The statement with the load before which an earlier one of the same block may have saved; all processes come
    there, also where it loads only on a condition, such as that the file exists."""
    around = [load, *script.ancestors(load)]
    for call in script.calls:
        if (
            script.owner(call) is not script.owner(load)
            or call.lineno >= load.lineno
            or not _saves(script, call, saves)
        ):
            continue
        above = [call, *script.ancestors(call)]
        common = next(node for node in around if node in above)
        statement = around[around.index(common) - 1]
        other = above[above.index(common) - 1]
        if isinstance(statement, ast.stmt) and isinstance(other, ast.stmt):
            if other in script.block(statement):
                return statement
            if not (isinstance(common, ast.If) and statement in common.orelse):
                raise ByHand(f"line {load.lineno} loads what line {call.lineno} may have written")
    return None


def _saves(script: Script, call: ast.Call, saves: list[ast.Call], seen: frozenset[Function] = frozenset()) -> bool:
    """Whether a call saves, by itself or in a function of this file."""
    function = script.called(call)
    if call in saves:
        return True
    if function is None or function in seen:
        return False
    return any(isinstance(n, ast.Call) and _saves(script, n, saves, seen | {function}) for n in walk(function))


def _same_file(load: ast.Call, save: ast.Call) -> bool:
    """Whether both name the file by the same text."""
    read, written = argument(load, "f", 0), argument(save, "f", 1)
    return read is not None and written is not None and ast.unparse(read) == ast.unparse(written)


def _is_write(call: ast.Call) -> bool:
    if last_name(call.func) == "open":
        mode = argument(call, "mode", 1 if isinstance(call.func, ast.Name) else 0)
        return isinstance(mode, ast.Constant) and bool(set(str(mode.value)) & set("wax"))
    return last_name(call.func) in _WRITES or last_name(call.func) in ("write_text", "write_bytes")


def _paths(call: ast.Call) -> Iterator[str]:
    """The texts of what may be the path: for methods of a path the path itself."""
    of_path = isinstance(call.func, ast.Attribute) and call.func.attr in (
        "write_text",
        "write_bytes",
        "read_text",
        "open",
    )
    if of_path and isinstance(call.func, ast.Attribute):
        yield ast.unparse(call.func.value)
    for value in call.args[:2]:
        text = isinstance(value, ast.Constant) and isinstance(value.value, str) and len(value.value) > 3
        if text or isinstance(value, ast.Name | ast.Attribute | ast.JoinedStr | ast.BinOp):
            yield ast.unparse(value)
