"""Each process its part of the data: a DistributedSampler in the training loader, and its epoch."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from devlint.checks.ddp.flows import Flows
from devlint.checks.ddp.script import ByHand, Script, argument, has_stars, is_false, is_true
from devlint.finding import Edit
from devlint.placement.infer import FUNCTIONS
from devlint.syntax.trees import is_none, last_name, walk

LOADER = "torch.utils.data.DataLoader"
_ORDER = ("dataset", "batch_size", "shuffle", "sampler", "batch_sampler")
_AROUND = frozenset({"enumerate", "tqdm", "trange", "islice", "track"})


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop over batches, with the expression in it that is the loader."""

    node: ast.For
    loader: ast.expr
    made: tuple[ast.Call, ...]
    """The calls of DataLoader that may have made it."""


class Loaders:
    """The loops over batches of a script, told apart by whether they train."""

    def __init__(self, script: Script, flows: Flows) -> None:
        self._script = script
        self._flows = flows
        self.loops = [loop for node in script.nodes if isinstance(node, ast.For) and (loop := self._loop(node))]
        self.training = self._training_loop()
        self._check_other_uses()

    def _loop(self, node: ast.For) -> Loop | None:
        script = self._script
        if any(isinstance(part, ast.Yield) for part in walk(node)):
            return None  # it hands the batches on
        for part in walk(node.iter):
            if not isinstance(part, ast.Name | ast.Attribute | ast.Call):
                continue
            made = [part] if self._makes(part) else [o for o in self._flows.origins(part) if self._makes(o)]
            if made:
                outer: ast.AST = part
                while outer is not node.iter:
                    outer = script.parents[outer]
                    known = isinstance(outer, ast.Call) and (
                        last_name(outer.func) in _AROUND or script.called(outer) is not None
                    )
                    if not known:
                        raise ByHand(f"the loop in line {node.lineno} does not run over a loader alone")
                return Loop(node, part, tuple(c for c in made if isinstance(c, ast.Call)))
        return None

    def _makes(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and self._script.name(node.func) == LOADER

    # --- which of them trains -----------------------------------------------------------------------------------

    def _training_loop(self) -> Loop:
        script = self._script
        backwards = [c for c in script.calls if isinstance(c.func, ast.Attribute) and c.func.attr == "backward"]
        if not backwards:
            raise ByHand("where the loss is differentiated is not seen in this file")
        found = {id(loop): loop for call in backwards for loop in [self._around(call)]}
        if len(found) > 1:
            raise ByHand("there are several training loops")
        return next(iter(found.values()))

    def _around(self, call: ast.Call) -> Loop:
        """The loop over batches around a call, or around the one call of the function that it stands in."""
        loops = {loop.node: loop for loop in self.loops}
        place: ast.AST = call
        for _ in range(3):
            for above in self._script.ancestors(place):
                if isinstance(above, FUNCTIONS):
                    break
                if isinstance(above, ast.For) and above in loops:
                    return loops[above]
            owner = self._script.owner(place)
            calls = self._script.callers(owner) if isinstance(owner, FUNCTIONS) else []
            if len(calls) != 1:
                break
            place = calls[0]
        raise ByHand(f"the loop around `backward()` in line {call.lineno} runs over no DataLoader made in this file")

    def _check_other_uses(self) -> None:
        """The training loaders are read nowhere else: a part of the data would be taken for the whole."""
        for loop in self.loops:
            if loop is not self.training and set(loop.made) & set(self.training.made):
                raise ByHand(
                    f"the loader that trains is also the one of the loop in line {loop.node.lineno}, "
                    "or made in the same place"
                )
        for call in self._script.calls:
            if last_name(call.func) in ("iter", "next", "cycle", "zip") and any(
                set(self.training.made) & set(self._flows.origins(part)) for part in call.args
            ):
                raise ByHand(f"batches are taken by `{last_name(call.func)}` in line {call.lineno}")

    # --- the loader ---------------------------------------------------------------------------------------------

    def migrate(self) -> None:
        for call in self.training.made:
            self._migrate(call)
        if any(self._shuffles(call) for call in self.training.made):
            self._set_epoch()

    def _shuffles(self, call: ast.Call) -> bool:
        shuffle = argument(call, "shuffle", 2)
        return shuffle is not None and not is_false(shuffle) and not is_none(shuffle)

    def _migrate(self, call: ast.Call) -> None:
        script = self._script
        line = call.lineno
        dataset, size = argument(call, "dataset", 0), argument(call, "batch_size", 1)
        shuffle, drop = argument(call, "shuffle", 2), argument(call, "drop_last", 8)
        if has_stars(call) or dataset is None or len(call.args) > 3:
            raise ByHand(f"the arguments of the DataLoader in line {line}")
        if argument(call, "sampler") is not None or argument(call, "batch_sampler") is not None:
            raise ByHand(f"the DataLoader in line {line} has a sampler of its own")
        if argument(call, "collate_fn") is not None:
            raise ByHand(f"the DataLoader in line {line} has a collate_fn, which may pad each batch to another length")
        if size is None or is_none(size) or (isinstance(size, ast.Constant) and size.value == 1):
            raise ByHand(f"the DataLoader in line {line} has batches of one sample, which processes cannot share")
        script.need("WORLD_SIZE")
        self._require_items(dataset)
        self._check_size(size)
        name = self._named(call, dataset)
        sampler = f"{self._sampler(call)}({name}"
        if not is_true(shuffle):
            sampler += f", shuffle={'False' if shuffle is None else script.source(shuffle)}"
        if drop is not None and not is_false(drop):
            sampler += f", drop_last={script.source(drop)}"
        self._divide(size)
        replaced: ast.AST | None = next((keyword for keyword in call.keywords if keyword.value is shuffle), shuffle)
        less = len(script.source(dataset)) - len(name) + (len(script.source(replaced)) if replaced else 0)
        sampler = self._placed(call, f"{sampler})", less)
        if replaced is None:
            script.insert(script.span(self._last(call))[1], f", {sampler}")
        else:
            script.replace(replaced, sampler)

    def _placed(self, call: ast.Call, sampler: str, less: int) -> str:
        """The argument that gives the loader its sampler, made in a line before where this one would be too long."""
        script = self._script
        statement = script.statement(call)
        if script.fits(call, len(f"sampler={sampler} // WORLD_SIZE") - less):
            return f"sampler={sampler}"
        name = script.fresh(_renamed(statement, "sampler"), "train_sampler", "training_sampler")
        script.insert_before(statement, f"{name} = {sampler}")
        return f"sampler={name}"

    def _last(self, call: ast.Call) -> ast.AST:
        """What stands last of dataset and batch size: the sampler goes behind it, as far as names allow."""
        nodes: list[ast.AST] = [*call.args, *(k for k in call.keywords if k.arg in _ORDER)]
        return max(nodes, key=lambda node: self._script.span(node)[1])

    def _divide(self, size: ast.expr) -> None:
        script = self._script
        start, end = script.span(size)
        if isinstance(size, ast.Name | ast.Attribute | ast.Constant | ast.Call | ast.Subscript) or (
            isinstance(size, ast.BinOp) and isinstance(size.op, ast.Mult | ast.FloorDiv)
        ):
            script.insert(end, " // WORLD_SIZE")
        else:
            script.insert(start, "(")
            script.insert(end, ") // WORLD_SIZE")

    def _sampler(self, call: ast.Call) -> str:
        """The name of DistributedSampler, from where the file has DataLoader."""
        script = self._script
        if isinstance(call.func, ast.Attribute):
            return f"{script.source(call.func.value)}.DistributedSampler"
        script.need("DistributedSampler")
        return "DistributedSampler"

    def _require_items(self, dataset: ast.expr) -> None:
        """An iterable dataset has no length and no items: nothing to sample from."""
        for node in [dataset, *self._flows.origins(dataset)]:
            home = self._script.context.names.homes.get(node.func) if isinstance(node, ast.Call) else None
            name = last_name(node.func) if isinstance(node, ast.Call) else ""
            for bound in home.module.bound.get(name, []) if home is not None else []:
                if isinstance(bound, ast.ClassDef) and any(last_name(b) == "IterableDataset" for b in bound.bases):
                    raise ByHand(f"`{name}` is an iterable dataset: split it between the processes in its `__iter__`")

    def _check_size(self, size: ast.expr) -> None:
        """The training loop makes no tensors of the size of the whole batch."""
        if isinstance(size, ast.Constant):
            return
        text = ast.unparse(size)
        for node in walk(self.training.node):
            counts = isinstance(node, ast.Call) and last_name(node.func) not in ("print", "format", "append")
            if counts and any(ast.unparse(part) == text for part in getattr(node, "args", ())):
                line = getattr(node, "lineno", "?")
                raise ByHand(f"line {line} uses the batch size, which is that of all processes together")

    def _named(self, call: ast.Call, dataset: ast.expr) -> str:
        """A name for the dataset, which is given one where it has none."""
        script = self._script
        text = script.source(dataset)
        if isinstance(dataset, ast.Name | ast.Attribute):
            return text
        statement = script.statement(call)
        if not isinstance(statement, ast.Assign | ast.Return):
            raise ByHand(f"the DataLoader in line {call.lineno} is not assigned to a variable")
        wanted = _renamed(statement, "set")
        name = script.fresh("dataset" if wanted == "set" else wanted, "dataset", "train_dataset", "data_set")
        if isinstance(script.parents.get(statement), ast.ClassDef):
            raise ByHand(f"the DataLoader in line {call.lineno} is made in a class body")
        script.insert_before(statement, f"{name} = {text}")
        script.replace(dataset, name)
        return name

    # --- the epoch ----------------------------------------------------------------------------------------------

    def _set_epoch(self) -> None:
        """`loader.sampler.set_epoch(epoch)` at the top of the loop over epochs; nothing where there is none."""
        script = self._script
        loader = self.training.loader
        for place in self.places:
            around = [n for n in script.ancestors(place) if isinstance(n, (ast.For, ast.While, *FUNCTIONS))]
            if around and not isinstance(around[0], FUNCTIONS):
                loop = around[0]
                assert isinstance(loop, ast.For | ast.While)
                line = f"{script.source(loader)}.sampler.set_epoch({self._epoch(loop)})"
                made = [s for s in map(script.statement, self.training.made) if loop in set(script.ancestors(s))]
                if made:  # anew in each epoch
                    script.insert_after(made[0], line)
                else:
                    script.insert_first(loop.body, line)
                return
            if not around:
                return
            function = around[0]
            assert isinstance(function, FUNCTIONS)
            calls = script.callers(function)
            if len(calls) > 1:
                raise ByHand(f"`{function.name}` is called in several places: which of them is an epoch")
            if calls:
                loader = self._outside(loader, function, calls[0])

    @property
    def places(self) -> list[ast.AST]:
        """The training loop, the call of the function that it stands in, the call of the function of that one ..."""
        found: list[ast.AST] = [self.training.node]
        for _ in range(4):
            owner = self._script.owner(found[-1])
            calls = self._script.callers(owner) if isinstance(owner, FUNCTIONS) else []
            if not calls:
                break
            found.append(calls[0])
        return found

    def _outside(self, loader: ast.expr, function: ast.AST, call: ast.Call) -> ast.expr:
        """The loader as the caller of the function has it."""
        script = self._script
        variable = self._flows.variable(loader)
        assert isinstance(function, FUNCTIONS)
        if variable is not None and variable[0] is function:
            for parameter, value in script.passed(call, function):
                if parameter.arg == variable[1] and isinstance(value, ast.Name | ast.Attribute):
                    return value
        elif isinstance(loader, ast.Name):
            if variable is not None and isinstance(variable[0], ast.Module):
                return loader
        elif isinstance(loader, ast.Attribute) and script.class_of(call) is script.class_of(function):
            return loader
        raise ByHand("the loop over the epochs does not see the training loader: call its sampler's set_epoch there")

    def _epoch(self, loop: ast.For | ast.While) -> str:
        """The number of the epoch in a loop."""
        script = self._script
        if isinstance(loop, ast.While):
            left = loop.test.left if isinstance(loop.test, ast.Compare) else loop.test
            counted = isinstance(left, ast.Name) and any(
                isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name) and n.target.id == left.id
                for n in walk(loop)
            )
            if isinstance(left, ast.Name) and counted:
                return left.id
            raise ByHand(f"the number of the epoch in the loop of line {loop.lineno}")
        target = loop.target
        if (
            isinstance(target, ast.Tuple)
            and isinstance(loop.iter, ast.Call)
            and last_name(loop.iter.func) == "enumerate"
        ):
            target = target.elts[0]
        if not isinstance(target, ast.Name):
            raise ByHand(f"the number of the epoch in the loop of line {loop.lineno}")
        if target.id.strip("_"):
            return target.id
        name = script.fresh("epoch", "epoch_index")
        script.edits.append(Edit(*script.span(target), name))
        return name


def _renamed(statement: ast.stmt, part: str) -> str:
    """The name of a loader's part, by that of the loader: `train_sampler` of `train_loader`, `sampler` of `loader`."""
    name = last_name(statement.targets[0]) if isinstance(statement, ast.Assign) else "loader"
    base = (name or "loader").lower().replace("dataloader", "loader")
    return base.replace("loader", part) if "loader" in base else f"{base}_{part}"
