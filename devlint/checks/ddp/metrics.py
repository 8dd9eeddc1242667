"""Numbers of the training batches: each process has those of its part, and what is said of them is to be of all.

The function with the training loop is followed statement by statement. Each value that comes from a batch has a kind;
where one leaves the loop (is printed, logged, kept, returned, or decides something) it is reduced over the processes.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from enum import Enum

from devlint.checks.ddp.loaders import Loop
from devlint.checks.ddp.losses import Losses
from devlint.checks.ddp.output import Output
from devlint.checks.ddp.script import ByHand, Script
from devlint.finding import Edit
from devlint.placement.infer import Function
from devlint.syntax.trees import children, last_name, walk


class Kind(Enum):
    """What the value of one process is to that of all."""

    DATA = "tensors of the part"
    MEAN = "a mean over the part: the mean over the processes is that of the batch"
    SUM = "a sum over the part: the sum over the processes is that of the batch"
    SIZE = "the number of samples in the part"
    SHARE = "a number divided by that of samples: a sum times it is a mean"


_NUMBERS = frozenset({"item", "size", "tolist"})
_STEPPING = frozenset(
    {"backward", "step", "zero_grad", "update", "unscale_", "clip_grad_norm_", "clip_grad_value_", "requires_grad_"}
)
_KEEPING = frozenset({"item", "detach", "cpu", "double", "float", "clone", "mean", "squeeze", "to"})


@dataclass(eq=False)
class Total:
    """A variable to which each batch adds."""

    kind: Kind
    additions: list[ast.AugAssign]
    is_number: bool
    read_within: bool = False


class Metrics:
    def __init__(self, script: Script, losses: Losses, loop: Loop, output: Output) -> None:
        self._script = script
        self._losses = losses
        self._output = output
        self._loop = loop.node
        self._owner = script.owner(loop.node)
        self._state: dict[str, Kind] = {}
        self._totals: dict[str, Total] = {}
        self._reduced: dict[ast.expr, Kind] = {}
        """The expressions to reduce where they stand."""
        self._inside = False
        self._results: dict[Function, Kind] = {}
        self._calls: dict[ast.Call, Function] = {}
        """Calls of the file's functions with something of a batch."""
        self._kinds_of: dict[ast.expr, Kind] = {}
        """The kinds of their arguments."""
        self._in_helper = False

    def migrate(self) -> None:
        self._find_totals()
        self._block(getattr(self._owner, "body", []))
        self._follow_calls()
        for expression, kind in self._reduced.items():
            self._reduce(expression, kind)
        after = [
            f"{name} = {self._helper(total.kind)}({name})"
            for name, total in self._totals.items()
            if self._is_reduced_after(name)
        ]
        if after:
            self._script.insert_after(self._loop, *after)

    def _follow_calls(self) -> None:
        """Follow the functions that are called with something of a batch: what leaves them but by their results."""
        self._in_helper = True
        done: set[ast.Call] = set()
        while left := [call for call in self._calls if call not in done]:
            for call in left:
                done.add(call)
                function, kinds = self._calls[call], {}
                for parameter, value in self._script.passed(call, function):
                    # A step's state is over here; what its arguments are was noted with the call.
                    kinds[parameter.arg] = self._kinds_of.get(value)
                self._state = {name: kind for name, kind in kinds.items() if kind is not None}
                self._block(function.body)

    # --- totals -------------------------------------------------------------------------------------------------

    def _find_totals(self) -> None:
        """The variables that the batches add to; those that are read meanwhile are made of reduced numbers."""
        self._inside = True
        self._bind_batch()
        self._walk_silently(self._loop.body)
        self._walk_silently(self._loop.body)
        for statement in walk(self._loop):
            if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
                name = ast.unparse(statement.target)
                kind = self._kind(statement.value)
                if kind in (Kind.MEAN, Kind.SUM, Kind.SIZE) and not self._is_loss(statement.target):
                    kind = Kind.SUM if kind is Kind.SIZE else kind
                    number = self._is_number(statement.value)
                    total = self._totals.setdefault(name, Total(kind, [], number))
                    if total.kind is not kind or total.is_number != number:
                        raise ByHand(f"`{name}` adds up different things, in line {statement.lineno} too")
                    total.additions.append(statement)
        for node in walk(self._loop):
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                name = ast.unparse(node)
                if name in self._totals:
                    self._totals[name].read_within = True
        self._state, self._inside = {}, False

    def _is_loss(self, node: ast.AST) -> bool:
        """Whether gradients are taken of a variable: what is added to it is a part of the loss, and no record."""
        return isinstance(node, ast.Name) and any(
            isinstance(part, ast.Attribute) and part.attr == "backward" and node.id in ast.unparse(part.value)
            for part in walk(self._loop)
        )

    def _is_reduced_after(self, name: str) -> bool:
        """Whether a total can be reduced once, behind the loop: it starts anew before it, and is not read within it."""
        total = self._totals[name]
        return total.is_number and not total.read_within and self._starts_before(name) and not self._loop.orelse

    def _starts_before(self, name: str) -> bool:
        block = self._script.block(self._loop)
        for statement in block[: block.index(self._loop)][::-1]:
            if isinstance(statement, ast.Assign):
                for target in statement.targets:
                    parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
                    if any(ast.unparse(part) == name for part in parts):
                        return all(isinstance(n, ast.Constant | ast.Tuple) for n in _values(statement.value))
        return False

    # --- following ----------------------------------------------------------------------------------------------

    def _bind_batch(self) -> None:
        target = self._loop.target
        if (
            isinstance(target, ast.Tuple)
            and isinstance(self._loop.iter, ast.Call)
            and last_name(self._loop.iter.func) == "enumerate"
        ):
            self._set(target.elts[0], None)
            target = target.elts[1]
        self._set(target, Kind.DATA)

    def _walk_silently(self, body: list[ast.stmt]) -> None:
        """Only the kinds of variables: a first pass, which finds what later statements of the loop make."""
        for statement in body:
            for node in walk(statement):
                if isinstance(node, ast.Assign):
                    for target in node.targets:
                        self._assign(target, node.value)

    def _block(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self._visit(statement)

    def _visit(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Subscript | ast.Attribute) and self._kind(node.value):
                    self._leaves(node.value, f"line {node.lineno} keeps")
                self._assign(target, node.value)
        elif isinstance(node, ast.AugAssign):
            self._add(node)
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                self._assign(node.target, node.value)
        elif isinstance(node, ast.Expr):
            self._expression(node.value)
        elif isinstance(node, ast.Return):
            if node.value is not None and self._in_helper:
                self._kind(node.value)
            elif node.value is not None:
                self._leaves(node.value, f"line {node.lineno} returns")
        elif isinstance(node, ast.If | ast.While):
            self._leaves(node.test, f"line {node.lineno} decides by")
            before = dict(self._state)
            self._block(node.body)
            after, self._state = self._state, before
            self._block(node.orelse)
            self._state = {**self._state, **after}
        elif isinstance(node, ast.For):
            self._for(node)
        elif isinstance(node, ast.With):
            self._block(node.body)
        elif isinstance(node, ast.Try):
            for block in (node.body, *(h.body for h in node.handlers), node.orelse, node.finalbody):
                self._block(block)
        elif isinstance(node, ast.Assert | ast.Delete | ast.Raise | ast.Match):
            for part in children(node):
                if isinstance(part, ast.expr) and not isinstance(node, ast.Delete):
                    self._leaves(part, f"line {node.lineno} decides by")

    def _for(self, node: ast.For) -> None:
        if node is self._loop:
            self._inside = True
            for _ in range(2):
                self._bind_batch()
                self._block(node.body)
            self._inside = False
            for name in self._totals:
                if self._is_reduced_after(name):
                    self._state.pop(name, None)
            return
        self._set(node.target, self._kind(node.iter))
        for _ in range(2):
            self._block(node.body)
        self._block(node.orelse)

    def _add(self, node: ast.AugAssign) -> None:
        name = ast.unparse(node.target)
        total = self._totals.get(name)
        kind = self._kind(node.value)
        if total is not None and node in total.additions:
            if self._is_reduced_after(name):
                return
            if total.is_number:
                self._reduced[node.value] = self._kind(node.value) or total.kind
            else:
                self._state[name] = total.kind
            return
        if kind is not None:
            if not isinstance(node.target, ast.Name) or (self._inside and not self._is_loss(node.target)):
                raise ByHand(f"what line {node.lineno} adds up is of one process only: reduce it")
            self._state[name] = Kind.DATA

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            same = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
            for index, part in enumerate(target.elts):
                if same:
                    assert isinstance(value, ast.Tuple | ast.List)
                    self._assign(part, value.elts[index])
                else:
                    self._set(part, self._part_kind(value))
            return
        self._set(target, self._kind(value))

    def _part_kind(self, value: ast.expr) -> Kind | None:
        """The kind of one of several things that an expression gives, all of one kind where a function says so."""
        kind = self._kind(value)
        target = self._script.called(value) if isinstance(value, ast.Call) else None
        shares = target is not None and self._results.get(target) is kind
        return kind if shares else Kind.DATA if kind else None

    def _set(self, target: ast.expr, kind: Kind | None) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            for part in target.elts:
                self._set(part, kind)
        elif isinstance(target, ast.Starred):
            self._set(target.value, kind)
        elif isinstance(target, ast.Name | ast.Attribute):
            name = ast.unparse(target)
            if kind is None:
                self._state.pop(name, None)
            else:
                self._state[name] = kind

    # --- leaving the loop ---------------------------------------------------------------------------------------

    def _expression(self, node: ast.expr) -> None:
        """A statement that is an expression: a step of training, or a call that takes numbers of the batch out."""
        if self._kind(node) is None:
            return
        if isinstance(node, ast.Call) and last_name(node.func) in _STEPPING:
            receiver = node.func.value if isinstance(node.func, ast.Attribute) else node
            if last_name(node.func) != "update" or self._kind(receiver) is not None or not self._kind_of_any(node):
                return
        function = node.func if isinstance(node, ast.Call) and node.args else None
        if self._in_helper and isinstance(function, ast.Attribute) and function.attr == "append":
            assert isinstance(node, ast.Call)
            if isinstance(function.value, ast.Name):
                self._set(function.value, self._kind(node.args[0]))
                return
        if isinstance(node, ast.Call):
            for value in [*node.args, *(keyword.value for keyword in node.keywords)]:
                self._leaves(value, f"line {node.lineno} takes", shown=_prints(self._script, node))
            return
        self._leaves(node, f"line {node.lineno} takes")

    def _kind_of_any(self, node: ast.Call) -> bool:
        return any(self._kind(value) for value in [*node.args, *(k.value for k in node.keywords)])

    def _leaves(self, node: ast.expr, what: str, shown: bool = False) -> None:
        """A value leaves the loop: reduce the largest parts of it that can be."""
        kind = self._kind(node)
        if kind is None:
            return
        if kind is not Kind.DATA and self._is_number(node):
            self._reduced[node] = kind
            return
        parts = [part for part in children(node) if isinstance(part, ast.expr | ast.keyword | ast.FormattedValue)]
        splits = isinstance(
            node,
            ast.JoinedStr
            | ast.FormattedValue
            | ast.BinOp
            | ast.Tuple
            | ast.List
            | ast.Dict
            | ast.Call
            | ast.Compare
            | ast.BoolOp
            | ast.IfExp
            | ast.UnaryOp
            | ast.keyword,
        )
        if not splits or (isinstance(node, ast.Call) and not self._is_formatting(node)):
            if shown and kind is Kind.DATA:
                return  # printed by the first process, of its own part
            raise ByHand(f"what {what} is of the batches of one process only (`{_short(node)}`): reduce it over all")
        for part in parts:
            inner = part.value if isinstance(part, ast.keyword) else part
            self._leaves(inner, what, shown)

    def _is_formatting(self, node: ast.Call) -> bool:
        """`"...".format(...)`, `round(...)`, `str(...)`: what is put into them can be reduced by itself."""
        function = node.func
        if isinstance(function, ast.Attribute):
            return function.attr == "format"
        return isinstance(function, ast.Name) and function.id in ("round", "str", "int", "dict", "min", "max", "format")

    def _reduce(self, node: ast.expr, kind: Kind) -> None:
        script = self._script
        start, end = script.span(node)
        if kind is Kind.SIZE:
            script.need("WORLD_SIZE")
            script.insert(end, " * WORLD_SIZE")
            return
        group = self._output.group_of(node)
        if group is not None:
            # All processes take part in a reduction, so it cannot stand where only the first one goes.
            name = script.fresh(*(f"{kind.name.lower()}_{word}" for word in (_word(node), "value", "of_all")))
            script.insert_before(group[0], f"{name} = {self._helper(kind)}({script.source(node)})")
            script.edits.append(Edit(start, end, name))
            return
        script.insert(start, f"{self._helper(kind)}(")
        script.insert(end, ")")

    def _helper(self, kind: Kind) -> str:
        name = "mean_over_processes" if kind is Kind.MEAN else "sum_over_processes"
        self._script.need(name)
        return name

    # --- kinds --------------------------------------------------------------------------------------------------

    def _kind(self, node: ast.AST) -> Kind | None:
        """The kind of an expression; None if nothing of the batch is in it."""
        if isinstance(node, ast.Name | ast.Attribute):
            found = self._state.get(ast.unparse(node))
            if found is not None or isinstance(node, ast.Name):
                return found
            inner = self._kind(node.value)
            return inner if inner is None or node.attr == "data" else Kind.DATA
        if isinstance(node, ast.Constant):
            return None
        kinds = [self._kind(part) for part in children(node)]
        if not any(kinds):
            return None
        if isinstance(node, ast.keyword):
            return self._kind(node.value)
        if self._losses.is_size(node):
            return Kind.SIZE
        if isinstance(node, ast.Call):
            return self._call_kind(node)
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Call)
            and isinstance(node.slice, ast.Constant)
        ):
            return self._part_kind(node.value)
        if isinstance(node, ast.BinOp):
            return _combined(self._kind(node.left), node.op, self._kind(node.right))
        return Kind.DATA

    def _call_kind(self, node: ast.Call) -> Kind:
        function, name = node.func, last_name(node.func)
        if isinstance(function, ast.Attribute):
            inner = self._kind(function.value)
            if inner is not None and name in _KEEPING and inner is not Kind.DATA:
                return inner
            if inner is not None and name == "sum" and (not (node.args or node.keywords) or _is_flat(function.value)):
                return Kind.SUM
            if inner is not None and name in ("mul", "mul_", "div", "div_") and len(node.args) == 1:
                operation = ast.Mult() if name.startswith("mul") else ast.Div()
                return _combined(inner, operation, self._kind(node.args[0]))
        if isinstance(function, ast.Name) and function.id in ("float", "int") and len(node.args) == 1:
            return self._kind(node.args[0]) or Kind.DATA
        if self._script.name(function) == "torch.sum" and len(node.args) == 1:
            return Kind.SUM
        target = self._script.called(node)
        if target is not None and target.name != "__init__" and not self._hands_on(node):
            self._calls[node] = target
            for _, value in self._script.passed(node, target):
                if (kind := self._kind(value)) is not None:
                    self._kinds_of[value] = kind
        if self._losses.is_mean(node):
            return Kind.MEAN
        return self._result(target) if target is not None else Kind.DATA

    def _hands_on(self, node: ast.Call) -> bool:
        """Whether a call is a statement of its own: the numbers that it is given are reduced before."""
        return isinstance(self._script.parents.get(node), ast.Expr)

    def _result(self, function: Function) -> Kind:
        """The kind of what a function of this file makes of tensors of the part: of each thing that it returns."""
        if function in self._results:
            return self._results[function]
        self._results[function] = Kind.DATA
        state, self._state = self._state, {}
        for parameter in function.args.args:
            if not function.args.defaults or parameter in function.args.args[: -len(function.args.defaults)]:
                self._state[parameter.arg] = Kind.DATA
        kinds: set[Kind | None] = set()
        for node in self._script.own_nodes(function):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._assign(target, node.value)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
                self._set(node.func.value, self._kind(node.args[0]) if node.args else None)
        for node in self._script.own_nodes(function):
            if isinstance(node, ast.Return) and node.value is not None:
                values = node.value.elts if isinstance(node.value, ast.Tuple | ast.List) else [node.value]
                kinds |= {self._kind(value) for value in values}
        self._state = state
        if len(kinds) == 1 and (kind := kinds.pop()) in (Kind.MEAN, Kind.SUM):
            self._results[function] = kind
        return self._results[function]

    def _is_number(self, node: ast.AST) -> bool:
        """Whether an expression is a number of Python, not a tensor."""
        if isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in self._totals:
            return self._totals[ast.unparse(node)].is_number
        if isinstance(node, ast.Name):
            values = self._losses.assigned(node)
            return bool(values) and all(self._is_number(value) for value in values)
        if isinstance(node, ast.Constant):
            return isinstance(node.value, int | float)
        if isinstance(node, ast.BinOp):
            sides = [side for side in (node.left, node.right) if self._kind(side) is not None]
            return bool(sides) and all(self._is_number(side) for side in sides)
        if isinstance(node, ast.Call):
            target = self._script.called(node)
            if target is not None:
                returned = [part.value for part in self._script.own_nodes(target) if isinstance(part, ast.Return)]
                return bool(returned) and all(value is not None and self._is_number(value) for value in returned)
            return last_name(node.func) in _NUMBERS or (
                isinstance(node.func, ast.Name) and node.func.id in ("float", "int", "len")
            )
        return self._losses.is_size(node)


def _combined(left: Kind | None, operation: ast.operator, right: Kind | None) -> Kind:
    """The kind of an operation, where it keeps the relation between one process and all."""
    kinds = {left, right}
    if isinstance(operation, ast.Add | ast.Sub):
        if left is right and left is not None:
            return left
        if kinds == {Kind.MEAN, None}:
            return Kind.MEAN
    if isinstance(operation, ast.Mult):
        if kinds == {Kind.MEAN, Kind.SIZE}:
            return Kind.SUM
        if kinds == {Kind.SUM, Kind.SHARE}:
            return Kind.MEAN
        if None in kinds:
            return _plain(left or right)
    if isinstance(operation, ast.Div):
        if right is Kind.SIZE:
            return {Kind.SUM: Kind.MEAN, None: Kind.SHARE}.get(left, Kind.DATA)
        if right is None:
            return _plain(left)
    return Kind.DATA


def _is_flat(node: ast.expr) -> bool:
    """`x.view(-1)`, `x.flatten()`, also with a cast behind: what has one dimension."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in ("view", "reshape"):
            return len(node.args) == 1 and ast.unparse(node.args[0]) == "-1"
        if node.func.attr == "flatten":
            return not node.args
        if node.func.attr not in ("float", "double", "long", "int"):
            return False
        node = node.func.value
    return False


def _plain(kind: Kind | None) -> Kind:
    """What a multiple of a kind is: a multiple of a size is a sum."""
    return Kind.SUM if kind is Kind.SIZE else kind or Kind.DATA


def _values(node: ast.expr) -> list[ast.expr]:
    return [node, *(node.elts if isinstance(node, ast.Tuple | ast.List) else [])]


def _prints(script: Script, node: ast.Call) -> bool:
    return script.is_builtin(node.func, "print")


def _word(node: ast.AST) -> str:
    return next((part.id for part in walk(node) if isinstance(part, ast.Name)), "value")


def _short(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 40 else text[:37] + "..."
