"""The wrap itself: DistributedDataParallel around a model that lies on its device, in every process."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from devlint.checks.ddp.flows import SAME, Flows, Variable
from devlint.checks.ddp.script import ByHand, Move, Script, argument
from devlint.finding import Edit
from devlint.syntax.trees import walk

OLD = "torch.nn.DataParallel"
_NEW = "DistributedDataParallel"
_DEVICES = "device_ids=[LOCAL_RANK] if torch.cuda.is_available() else None"
_MOVES = frozenset({"to", "cuda"})
_KEYWORDS = frozenset({"module", "device_ids", "output_device", "dim"})


@dataclass(frozen=True, slots=True)
class Wrap:
    """One `target = DataParallel(model)`, with the calls behind it: `.cuda()`, `.to(device)`."""

    call: ast.Call
    outer: ast.expr
    """The call with those behind it."""
    statement: ast.Assign
    target: ast.expr
    model: ast.expr
    variable: Variable


class Wraps:
    """All wraps of a script."""

    def __init__(self, script: Script, flows: Flows) -> None:
        self._script = script
        self._flows = flows
        self.wraps = [self._read(call) for call in script.calls_of(OLD)]
        """In the order of the file."""
        self._dropped: set[ast.AST] = set()
        self._variables = {wrap.variable for wrap in self.wraps}

    def holds(self, node: ast.AST) -> bool:
        """Whether node is a variable that holds a wrapped model."""
        return bool(self._flows.sources(self._flows.variable(node)) & self._variables)

    def migrate(self) -> None:
        for wrap in self.wraps:
            self._migrate(wrap)
        self._rename()

    # --- reading ------------------------------------------------------------------------------------------------

    def _read(self, call: ast.Call) -> Wrap:
        script = self._script
        model = argument(call, "module", 0)
        dim = argument(call, "dim", 3)
        if model is None or any(keyword.arg not in _KEYWORDS for keyword in call.keywords):
            raise ByHand(f"the arguments of the wrapper in line {call.lineno}")
        if dim is not None and not (isinstance(dim, ast.Constant) and dim.value == 0):
            raise ByHand(f"the wrapper in line {call.lineno} splits the batch along another dimension than the first")
        outer: ast.expr = call
        while True:
            above = script.parents[outer]
            around = script.parents[above]
            if not (isinstance(above, ast.Attribute) and above.attr in SAME and isinstance(around, ast.Call)):
                break
            outer = around
        statement = script.parents[outer]
        if not (isinstance(statement, ast.Assign) and len(statement.targets) == 1):
            raise ByHand(f"the wrapped model of line {call.lineno} is not simply assigned to a variable")
        variable = self._flows.variable(statement.targets[0])
        if variable is None:
            raise ByHand(f"the wrapped model of line {call.lineno} is not simply assigned to a variable")
        return Wrap(call, outer, statement, statement.targets[0], model, variable)

    # --- moving before wrapping ---------------------------------------------------------------------------------

    def _migrate(self, wrap: Wrap) -> None:
        script = self._script
        script.need("LOCAL_RANK", "torch")
        guard = self._guard(wrap)
        top = wrap.statement if guard is None else guard
        behind = script.text[script.span(wrap.call)[1] : script.span(wrap.outer)[1]]
        start, end = script.span(wrap.model)[1], script.span(wrap.outer)[1]
        if "#" in script.text[start:end]:
            raise ByHand(f"the comment within the wrapper of line {wrap.call.lineno}")
        if guard is not None and behind:
            self._move_only(wrap, guard)
            return
        later = None
        if not behind and not self._moved_before(wrap):
            later = self._moved_behind(wrap, top)
            if script.source(wrap.model) != script.source(wrap.target):
                behind = self._moved_by(wrap, top, later)
                script.edits.append(Edit(*script.lines(later), ""))
                later = None
        if guard is not None and len(guard.body) > 1:
            self._require_alone(wrap.statement, guard, later or guard)
            head = f"{script.indent(guard)}{self._condition(guard)}{script.newline}"
            script.moves.append(Move(wrap.statement, later or guard, head))
        else:
            if guard is not None:
                self._widen(guard)
            if later is not None:
                self._require_alone(top, later)
                script.moves.append(Move(top, later))
        self._arguments(wrap, behind, start, end)

    def _move_only(self, wrap: Wrap, guard: ast.If) -> None:
        """Under its condition the model is moved only; it is wrapped behind, where there are several processes too."""
        script = self._script
        self._require_alone(wrap.statement, guard)
        model, call = script.span(wrap.model), script.span(wrap.call)
        script.edits += [Edit(call[0], model[0], ""), Edit(model[1], call[1], "")]
        self._dropped.update(walk(wrap.call.func))
        target, step = script.source(wrap.target), script.step
        lines = [f"{step}{target} = {self._callee(wrap.call.func)}({target}, {_DEVICES})"]
        if len(script.indent(guard) + lines[0]) > script.width:
            lines = [f"{step}{target} = {self._callee(wrap.call.func)}(", f"{step * 2}{target}, {_DEVICES}", f"{step})"]
        script.insert_after(guard, self._condition(guard), *lines)

    def _moved_by(self, wrap: Wrap, top: ast.stmt, later: ast.stmt) -> str:
        """The `.to(device)` of a later statement that does nothing else, so that it can come into the wrap."""
        script = self._script
        value = later.value if isinstance(later, ast.Expr | ast.Assign) else None
        receiver = value.func.value if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) else None
        plain = receiver is not None and script.source(receiver) == script.source(wrap.target) and script.alone(later)
        if value is None or receiver is None or not plain or top is not wrap.statement:
            raise ByHand(f"the model that is wrapped in line {wrap.call.lineno} is moved in line {later.lineno} only")
        block = script.block(top)
        used = {ast.unparse(node) for node in walk(value) if isinstance(node, ast.Name | ast.Attribute)}
        for between in block[block.index(top) + 1 : block.index(later)]:
            for node in walk(between):
                bound = isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store)
                if bound and ast.unparse(node) in used:
                    raise ByHand(f"the model is moved in line {later.lineno}, to what line {between.lineno} makes")
        return script.text[script.span(receiver)[1] : script.span(value)[1]]

    def _arguments(self, wrap: Wrap, behind: str, start: int, end: int) -> None:
        """The arguments of the new wrapper, in a line of their own where they would not fit."""
        script = self._script
        first, opening, closing = script.span(wrap.model)[0], "", ""
        if not script.fits(wrap.outer, len(_NEW) + len(_DEVICES)):
            indent = script.newline + script.indent(wrap.statement)
            opening, closing = indent + script.step, indent
        if opening:
            script.insert(first, opening)
        script.edits.append(Edit(start, end, f"{behind}, {_DEVICES}{closing})"))

    def _moved_before(self, wrap: Wrap) -> bool:
        """Whether what is wrapped has been moved: in the wrap, or by an earlier line of the same function."""
        script, flows = self._script, self._flows
        if any(isinstance(n, ast.Attribute) and n.attr in _MOVES for n in walk(wrap.model)):
            return True
        variable = flows.variable(wrap.model)
        if variable is None:
            return False
        sources = flows.sources(variable)
        for node in script.calls:
            before = node.lineno < wrap.call.lineno and script.owner(node) is script.owner(wrap.call)
            if before and _is_move(node) and flows.variable(node) in sources:
                return True
        # What a caller passes on, moved when it was made.
        wrapped = {one.outer for one in self.wraps}
        outside = [value for one in sources for value in flows.values.get(one, ()) if value not in wrapped]
        return bool(outside) and all(isinstance(v, ast.Call) and _chain_moves(v) for v in outside)

    def _moved_behind(self, wrap: Wrap, top: ast.stmt) -> ast.stmt:
        """The later statement of the same block that moves the wrapped model."""
        script, flows = self._script, self._flows
        block = script.block(top)
        for statement in block[block.index(top) + 1 :]:
            for node in walk(statement):
                if _is_move(node) and flows.variable(node) == wrap.variable:
                    return statement
            if any(self._reads_wrapper(node, wrap) for node in walk(statement)):
                raise ByHand(f"the model is used in line {statement.lineno} before it is moved to its device")
        raise ByHand(f"where the model that is wrapped in line {wrap.call.lineno} is moved to its device")

    def _reads_wrapper(self, node: ast.AST, wrap: Wrap) -> bool:
        if self._flows.variable(node) != wrap.variable or isinstance(node, ast.Call):
            return False
        above = self._script.parents[node]
        return not (isinstance(above, ast.Attribute) and above.attr in ("parameters", "train", "named_parameters"))

    def _require_alone(self, *statements: ast.stmt) -> None:
        for statement in statements:
            if not self._script.alone(statement):
                raise ByHand(f"line {statement.lineno} holds several statements")

    # --- the condition ------------------------------------------------------------------------------------------

    def _guard(self, wrap: Wrap) -> ast.If | None:
        """The one condition under which the model is wrapped, other than that it is not wrapped yet."""
        script = self._script
        above = script.parents[wrap.statement]
        if not isinstance(above, ast.If) or _asks_whether_wrapped(above.test) or wrap.statement in script.main:
            return None
        if wrap.statement in above.body and _leaves(above.orelse):
            return None
        nested = isinstance(script.parents[above], ast.If) and above not in script.main
        if wrap.statement not in above.body or above.orelse or nested:
            raise ByHand(f"the conditions under which line {wrap.call.lineno} wraps the model")
        script.need("WORLD_SIZE")
        for node in script.nodes:  # where the same is asked for the sake of `.module`
            same = isinstance(node, ast.If | ast.IfExp) and ast.dump(node.test) == ast.dump(above.test)
            if same and node is not above and any(getattr(part, "attr", "") == "module" for part in walk(node)):
                assert isinstance(node, ast.If | ast.IfExp)
                self._widen(node)
        return above

    def _widen(self, node: ast.If | ast.IfExp) -> None:
        """Make a condition true for every process of several as well."""
        script = self._script
        start, end = script.span(node.test)
        simple = _is_simple(node.test)
        if not simple:
            script.insert(start, "(")
        script.insert(end, " or WORLD_SIZE > 1" if simple else ") or WORLD_SIZE > 1")

    def _condition(self, guard: ast.If) -> str:
        text = self._script.source(guard.test)
        return f"if {text if _is_simple(guard.test) else f'({text})'} or WORLD_SIZE > 1:"

    # --- names --------------------------------------------------------------------------------------------------

    def _rename(self) -> None:
        """Every mention of the old class, in imports and `isinstance` too."""
        script = self._script
        for node in script.nodes:
            if node in self._dropped:
                continue
            named = isinstance(node, ast.Attribute) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
            if named and script.name(node) == OLD:
                script.replace(node, self._callee(node))
            elif isinstance(node, ast.ImportFrom) and node.module in ("torch.nn", "torch.nn.parallel"):
                self._rename_import(node)

    def _callee(self, node: ast.AST) -> str:
        """The new class, named as the old one is in node."""
        if not isinstance(node, ast.Attribute):
            return _NEW
        text = self._script.source(node.value)
        return f"{text}.parallel.{_NEW}" if self._script.name(node.value) == "torch.nn" else f"{text}.{_NEW}"

    def _rename_import(self, node: ast.ImportFrom) -> None:
        script = self._script
        alias = next((alias for alias in node.names if alias.name == "DataParallel"), None)
        if alias is None:
            return
        if node.module == "torch.nn.parallel":
            script.replace(alias, _NEW)
        elif len(node.names) == 1:
            script.replace(node, f"from torch.nn.parallel import {_NEW}")
        else:
            raise ByHand(f"the import of DataParallel in line {node.lineno}")


def _is_move(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _MOVES


def _chain_moves(node: ast.AST) -> bool:
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in _MOVES:
            return True
        node = node.func.value
    return False


def _leaves(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Return | ast.Raise)


def _is_simple(test: ast.expr) -> bool:
    return isinstance(test, ast.Name | ast.Attribute | ast.Call | ast.Compare)


def _asks_whether_wrapped(test: ast.expr) -> bool:
    return isinstance(test, ast.UnaryOp) and "isinstance" in ast.unparse(test)
