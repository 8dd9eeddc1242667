"""What an expression makes anew: a module with state, one without, a parameter, or something else."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from enum import Enum

from devlint.checks.context import Context
from devlint.placement import values as v
from devlint.placement.evaluate import path_of
from devlint.syntax.trees import is_none, walk

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SAME = frozenset({"to", "cuda", "cpu", "half", "float", "double", "bfloat16", "train", "apply", "xpu", "to_empty"})
"""Methods of a module that give the module itself."""
_HIDING = frozenset({"eval", "requires_grad_"})
"""What is set to evaluation or frozen as it is made may be kept out of the parameters on purpose."""


class Made(Enum):
    """What an expression gives, if it makes it itself."""

    MODULE = "module"
    """A module with parameters or buffers."""
    STATELESS = "stateless"
    """A module that has nothing to move, train or save."""
    PARAMETER = "parameter"
    NESTED = "nested"
    """A list, tuple or dict with modules or parameters in it."""
    OTHER = "other"
    """Something that exists already, or is no module; or it is not known what."""


STATEFUL = frozenset({Made.MODULE, Made.PARAMETER, Made.NESTED})


class Maker:
    """Answers for the expressions of one file."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._classes: dict[ast.ClassDef, bool] = {}
        self._running: set[ast.FunctionDef] = set()

    def made(self, node: ast.expr, method: ast.AST) -> Made:
        """What `node`, which stands in `method`, makes."""
        if isinstance(node, ast.IfExp):
            return joined([self.made(node.body, method), self.made(node.orelse, method)])
        if isinstance(node, ast.NamedExpr):
            return self.made(node.value, method)
        if isinstance(node, ast.Name):
            return self._name(node, method)
        if isinstance(node, ast.List | ast.Tuple | ast.Set | ast.ListComp | ast.SetComp | ast.GeneratorExp):
            items = node.elts if isinstance(node, ast.List | ast.Tuple | ast.Set) else [node.elt]
            return self._nested(items, method)
        if isinstance(node, ast.Dict):
            return self._nested(node.values, method)
        if isinstance(node, ast.DictComp):
            return self._nested([node.value], method)
        return self._call(node, method) if isinstance(node, ast.Call) else Made.OTHER

    def _nested(self, items: Iterable[ast.expr], method: ast.AST) -> Made:
        return Made.NESTED if any(self.made(item, method) in STATEFUL for item in items) else Made.OTHER

    def _name(self, node: ast.Name, method: ast.AST) -> Made:
        """A local name: what all its assignments make, if the name is handed to nothing else."""
        sources: list[ast.expr] = []
        for part in walk(method):
            if isinstance(part, ast.Name) and part.id == node.id:
                if isinstance(part.ctx, ast.Store):
                    source = self._assigned(part)
                    if source is None:
                        return Made.OTHER
                    sources.append(source)
                elif part is not node and self._is_handed_on(part):
                    return Made.OTHER
        if not sources or any(node in walk(source) for source in sources):
            return Made.OTHER
        return joined(
            [self.made(source, method) for source in sources if not isinstance(source, ast.Name)] or [Made.OTHER]
        )

    def _assigned(self, target: ast.Name) -> ast.expr | None:
        above = self.context.inference.parents.get(target)
        if isinstance(above, ast.Assign) and above.targets == [target]:
            return above.value
        return above.value if isinstance(above, ast.AnnAssign | ast.NamedExpr) else None

    def _is_handed_on(self, node: ast.Name) -> bool:
        """Whether the value itself goes somewhere: to an attribute, into a call or a container."""
        above = self.context.inference.parents.get(node)
        if isinstance(above, ast.Call):
            return above.func is not node and not _initialises(above)
        return not isinstance(above, ast.Attribute | ast.Expr | ast.Compare | ast.BoolOp | ast.If | ast.UnaryOp)

    def _call(self, node: ast.Call, method: ast.AST) -> Made:
        function = node.func
        name = self.context.name_of(function)
        if name is not None:
            return self._library(node, name, method)
        value = self.context.value_of(function)
        if value.kind == v.CLASS and isinstance(value.node, ast.ClassDef):
            if not is_module_class(self.context, value.node):
                return Made.OTHER
            return Made.MODULE if self.has_state(value.node) or self._given_state(node, method) else Made.STATELESS
        if value.kind == v.FUNCTION and isinstance(value.node, ast.FunctionDef):
            return self._returned(value.node)
        if isinstance(function, ast.Attribute):
            made = self.made(function.value, method) if isinstance(function.value, ast.Call) else Made.OTHER
            if function.attr in _SAME:
                return made if made is not Made.PARAMETER else Made.OTHER  # the copy of a parameter is none
            if function.attr in _HIDING:
                return Made.OTHER
        return Made.OTHER

    def _library(self, node: ast.Call, name: str, method: ast.AST) -> Made:
        facts = self.context.inference.facts
        row = facts.cls(name)
        if row is None:
            call = facts.call(name)
            gives = call.get("returns") if call is not None else None
            if gives == "first" and node.args:
                return self.made(node.args[0], method)
            return Made.MODULE if gives in v.MODULE_KINDS else Made.OTHER
        kind, state = row.get("kind"), row.get("state", True)
        if kind == v.PARAMETER:
            return Made.PARAMETER
        if kind not in v.MODULE_KINDS:
            return Made.OTHER
        if state == "children":
            return Made.MODULE if self._given_state(node, method) else Made.STATELESS
        if isinstance(state, list):
            positions = row.get("at", {})
            given = {keyword.arg for keyword in node.keywords if not is_none(keyword.value)}
            for parameter in state:
                position = positions.get(parameter)
                placed = position is not None and len(node.args) > position and not is_none(node.args[position])
                if parameter in given or placed:
                    return Made.MODULE
            return Made.STATELESS
        return Made.MODULE if state else Made.STATELESS

    def _given_state(self, node: ast.Call, method: ast.AST) -> bool:
        """Whether a module with state is among the arguments, or may be in what `*` unpacks."""
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        for argument in given:
            if isinstance(argument, ast.Starred):
                if not isinstance(argument.value, ast.List | ast.Tuple):
                    return True
                argument = argument.value
            if self.made(argument, method) in STATEFUL or self._inside(argument, method):
                return True
        return False

    def _inside(self, node: ast.expr, method: ast.AST) -> bool:
        """A module inside of an argument: `OrderedDict([("a", nn.Linear(1, 1))])`, `block(nn.Linear(1, 1))`."""
        calls = (part for part in walk(node) if isinstance(part, ast.Call) and part is not node)
        return any(self._call(part, method) in STATEFUL for part in calls)

    def _returned(self, function: ast.FunctionDef) -> Made:
        """What a function of the file makes: all its returns, if each makes its value anew."""
        returns = [part.value for part in walk(function) if isinstance(part, ast.Return) and part.value is not None]
        if not returns or function in self._running:
            return Made.OTHER
        self._running.add(function)
        try:
            return joined([self.made(value, function) for value in returns])
        finally:
            self._running.discard(function)

    def has_state(self, node: ast.ClassDef) -> bool:
        """Whether instances of a module class of the file have parameters or buffers, as far as can be seen."""
        if node not in self._classes:
            self._classes[node] = False
            self._classes[node] = self._has_state(node)
        return self._classes[node]

    def _has_state(self, node: ast.ClassDef) -> bool:
        for base in self.context.inference.classes.lineage(node):
            if isinstance(base, ast.ClassDef):
                if any(self._adds_state(part, method) for method in methods(base) for part in walk(method)):
                    return True
            elif base is not None:
                row = self.context.inference.facts.cls(base)
                if row is not None and row.get("state") not in (None, False, "children"):
                    return True
        return False

    def _adds_state(self, part: ast.AST, method: ast.AST) -> bool:
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
            return part.func.attr in ("register_buffer", "register_parameter", "add_module", "register_module")
        if not isinstance(part, ast.Assign | ast.AnnAssign) or part.value is None:
            return False
        targets = part.targets if isinstance(part, ast.Assign) else [part.target]
        own = self_of(method)
        if not any(isinstance(t, ast.Attribute) and path_of(t.value) == own for t in targets):
            return False
        if self.made(part.value, method) in STATEFUL:
            return True
        callee = self.context.name_of(part.value.func) if isinstance(part.value, ast.Call) else None
        last = callee.rsplit(".", 1)[-1] if callee is not None else ""
        known = callee is not None and self.context.inference.facts.call(callee) is not None
        # A class of another file, made for a module's attribute: a layer, as good as always.
        return last[:1].isupper() and not known and callee is not None and "." in callee


def joined(kinds: list[Made]) -> Made:
    """What one of several branches makes: state if all that make modules agree, else something else."""
    rest = {kind for kind in kinds if kind is not Made.STATELESS}
    if not rest:
        return Made.STATELESS
    return next(iter(rest)) if len(rest) == 1 else Made.OTHER


def is_module_class(context: Context, node: ast.ClassDef) -> bool:
    """Whether a class of the file is a module, by a base that is known to be one (a container as well)."""
    for base in context.inference.classes.lineage(node):
        row = context.inference.facts.cls(base) if isinstance(base, str) else None
        if row is not None and row.get("kind") in v.MODULE_KINDS:
            return True
    return False


def methods(node: ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The methods that a class body defines, not the static ones."""
    for statement in node.body:
        if isinstance(statement, FUNCTIONS) and self_of(statement) is not None:
            yield statement


def self_of(method: ast.AST) -> str | None:
    """How a method calls its instance."""
    if not isinstance(method, FUNCTIONS):
        return None
    if any(path_of(d) in ("staticmethod", "classmethod") for d in method.decorator_list):
        return None
    first = [*method.args.posonlyargs, *method.args.args][:1]
    return first[0].arg if first else None


def _initialises(call: ast.Call) -> bool:
    """`init.xavier_(layer)` and its like read a module and keep nothing."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else path_of(call.func) or ""
    return name.endswith("_") or "init" in name or name in ("print", "len", "isinstance", "type", "id", "repr", "str")
