"""The inference: asks of values in one file, answered lazily, one function at a time."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TypeAlias

from devlint.placement import values as v
from devlint.placement.api import Facts
from devlint.placement.calls import Arguments, Operand, Row, is_told_where
from devlint.placement.carried import carried
from devlint.placement.classes import Classes
from devlint.placement.effects import Effects, happened, is_as_written
from devlint.placement.evaluate import Evaluator, Meeting, path_of
from devlint.placement.evidence import Evidence
from devlint.placement.flow import Flow, Loop
from devlint.placement.state import State
from devlint.placement.summary import Call, seen_from_outside
from devlint.placement.values import ANYTHING, CPU, NOWHERE_KNOWN, Origin, Place, Value
from devlint.screen import Mentions, Seen
from devlint.syntax.names import Names
from devlint.syntax.trees import children, is_none, last_name, walk

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_CHECKED = {
    "torch.Tensor": v.TENSOR,
    "builtins.list": v.SEQUENCE,
    "builtins.tuple": v.SEQUENCE,
    "builtins.dict": v.MAPPING,
    "builtins.str": v.TEXT,
    "builtins.int": v.NUMBER,
    "builtins.float": v.NUMBER,
    "numpy.ndarray": v.ARRAY,
}
"""What a check by `isinstance` proves."""
_NUMBERS = frozenset(f"{module}.{name}" for module in ("math", "numpy") for name in ("pi", "e", "inf", "nan", "tau"))
_BUILTINS = frozenset(dir(builtins))
_SETS_DEFAULT = Mentions(frozenset({"set_default_device", "set_default_tensor_type"}))


_PASSES = 3
"""One pass sees that a model is called, the next that what goes in is a tensor, the last what that means before."""


_DEEPEST = 100
"""Of a function that so many others lead to, each called by the one before, nothing is known."""


class Inference:
    """What devlint believes of the values of one file.

    `value(node)` infers the function that node stands in when it is first asked, and nothing else.
    """

    def __init__(self, tree: ast.Module, names: Names, seen: Seen, facts: Facts) -> None:
        self.tree = tree
        self.names = names
        self.seen = seen
        self.facts = facts
        self.classes = Classes(self)
        self.module_places: dict[ast.Call, Place] = {}
        """Where a module was when it was called."""
        self._named: dict[str, Value] = {}
        self._carried: dict[ast.AST, frozenset[str]] = {}
        self._runs: dict[ast.AST, Evaluator] = {}
        self._provisional: dict[ast.AST, Evaluator] = {}
        self._running: dict[ast.AST, Flow] = {}

    # --- asked by rules ---------------------------------------------------------------------------------------

    def value(self, node: ast.AST) -> Value:
        """What the expression `node` is; unknown where nothing reaches it."""
        return self.run(self.owner(node)).values.get(node, ANYTHING)

    def place(self, node: ast.AST) -> Place:
        """Where the value of `node` lives."""
        return self.value(node).place

    def owner(self, node: ast.AST) -> ast.AST:
        """The function in which node is evaluated, or the module; decorators, defaults, annotations belong outside."""
        parents = self.names.parents
        above = parents.get(node)
        while above is not None:
            if isinstance(above, FUNCTIONS) and isinstance(node, ast.stmt):
                return above
            node, above = above, parents.get(above)
        return self.tree

    @property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """Each node's parent."""
        return self.names.parents

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around node, from the nearest to the module."""
        above = self.parents.get(node)
        while above is not None:
            yield above
            above = self.parents.get(above)

    def run(self, owner: ast.AST) -> Evaluator:
        """Infer one function, or the module's own body, anew as long as the uses of values prove more of them."""
        done = self._runs.get(owner) or self._provisional.get(owner)
        if done is not None:
            return done
        if owner in self._running:
            return self._running[owner].evaluator  # asked from within: what is known so far
        # A function that the scope around it calls while that is still being followed sees only what is bound by then.
        provisional = self._is_around(owner)
        evidence = Evidence(self.facts, bool(self.packages & self.facts.packages["tensor_like_objects"]))
        if len(self._running) >= _DEEPEST:
            return Evaluator(self, owner, evidence)
        body: Sequence[ast.stmt] = owner.body  # type: ignore[attr-defined]
        try:
            for _ in range(_PASSES):
                known = evidence.amount
                self._running[owner] = Flow(self, owner, evidence)
                result = self._running[owner].run(body, self._entry(owner))
                if evidence.amount == known:
                    break
        finally:
            del self._running[owner]
            if not self._running:
                self._provisional.clear()
        (self._provisional if provisional else self._runs)[owner] = result
        return result

    def _is_around(self, owner: ast.AST) -> bool:
        """Whether a scope around owner is being followed right now."""
        scope = self.names.scope_of.get(owner)
        while scope is not None and scope.parent is not None:
            scope = scope.parent
            if scope.node in self._running:
                return True
        return False

    def arguments(self, owner: ast.AST) -> Iterator[tuple[ast.arg, Value]]:
        """The arguments of a function with what is believed of them on entry, its uses taken into account."""
        if isinstance(owner, FUNCTIONS):
            run, entry = self.run(owner), self._entry(owner)
            for argument in walk(owner.args):
                if isinstance(argument, ast.arg) and argument.arg in entry.names:
                    yield argument, run.resolved(entry.names[argument.arg])

    # --- asked by the evaluator -------------------------------------------------------------------------------

    @cached_property
    def default(self) -> Place:
        """Where factories put tensors in this file: the CPU, unless it sets a default device somewhere."""
        return NOWHERE_KNOWN if _SETS_DEFAULT.holds(self.seen) else CPU

    def _entry(self, owner: ast.AST) -> State:
        state = State(default=self.default)
        if not isinstance(owner, FUNCTIONS):
            return state
        arguments = owner.args
        positional = [*arguments.posonlyargs, *arguments.args]
        home = self.parents.get(owner)
        bound = self.is_bound(owner)
        for position, argument in enumerate([*positional, *arguments.kwonlyargs]):
            if position == 0 and bound and isinstance(home, ast.ClassDef):
                state.names[argument.arg] = self.classes.self_value(home, owner)
                continue
            value = self.annotated(argument.annotation, argument) if argument.annotation else None
            if value is None and "pytest" in self.packages:
                value = self._fixture(argument, home)
            state.names[argument.arg] = value or Value(
                ids=frozenset([argument]),
                place=Place(key=("at", argument), text=argument.arg),
                origin=Origin(f"the argument {argument.arg}"),
            )
        if arguments.vararg is not None:
            state.names[arguments.vararg.arg] = Value(kind=v.SEQUENCE, ids=frozenset([arguments.vararg]))
        if arguments.kwarg is not None:
            state.names[arguments.kwarg.arg] = Value(kind=v.MAPPING, ids=frozenset([arguments.kwarg]))
        return state

    def _fixture(self, argument: ast.arg, home: ast.AST | None) -> Value | None:
        """In a test, an argument is what the pytest fixture of its name gives, of the class or of the file."""
        for place in (home, self.tree):
            for statement in getattr(place, "body", ()):
                if isinstance(statement, FUNCTIONS) and statement.name == argument.arg and _is_fixture(statement):
                    result = v.join_all(self.run(statement).returned)
                    return seen_from_outside(result, argument) if result.kind != v.UNKNOWN else None
        return None

    def outer_value(self, node: ast.Name, owner: ast.AST) -> Value:
        """A name that the function itself has not bound: of an enclosing function, of the module, or a builtin."""
        home = self.names.homes.get(node)
        scope = home.defining(node.id) if home is not None else None
        if scope is None:
            if node.id in _BUILTINS:
                return self.named(f"builtins.{node.id}")
            return Value(ids=frozenset([("global", node.id)]))
        if node.id not in scope.bound:
            imported = scope.imports[node.id]
            return self.named(*imported) if len(imported) == 1 else v.join_all(map(self.named, sorted(imported)))
        if scope.node is owner:
            return Value(ids=frozenset([("global", node.id)]))  # read before it is bound
        bound = scope.bound[node.id]
        if len(bound) == 1 and isinstance(bound[0], (*FUNCTIONS, ast.ClassDef)) and node.id not in scope.imports:
            kind = v.CLASS if isinstance(bound[0], ast.ClassDef) else v.FUNCTION
            return Value(kind=kind, node=bound[0], ids=frozenset([bound[0]]))
        if any(isinstance(b, ast.Global) for b in bound):
            return Value(ids=frozenset([("global", node.id)]))
        if isinstance(scope.node, (ast.Module, *FUNCTIONS)):
            found = self.run(scope.node).state.names.get(node.id)
            if found is not None:
                return self._settled(found, scope.node)
        return Value(ids=frozenset([("global", node.id)]))

    def set_around(self, owner: ast.AST) -> frozenset[str | None]:
        """The attributes that a function around owner sets: what they hold hangs on when owner is called."""
        around = [above for above in self.ancestors(owner) if isinstance(above, FUNCTIONS)]
        stores = (store for store in self.names.stores if around and isinstance(store, ast.Attribute))
        return frozenset(path_of(store) for store in stores if self.owner(store) in around)

    def shared(self, owner: ast.AST) -> frozenset[str]:
        """The names of owner that a function inside it binds, too: what they hold hangs on when that is called."""
        return self._shared.get(owner, frozenset())

    @cached_property
    def _shared(self) -> dict[ast.AST, frozenset[str]]:
        found: dict[ast.AST, set[str]] = {}
        for scope in self.names.scope_of.values():
            for name in scope.outer.keys() & scope.bound.keys():
                home = scope.defining(name)
                if home is not None and home is not scope:
                    found.setdefault(home.node, set()).add(name)
        return {node: frozenset(names) for node, names in found.items()}

    def _settled(self, value: Value, owner: ast.AST) -> Value:
        """A module of an outer scope is where that scope left it."""
        return replace(value, place=self.run(owner).state.place_of(value)) if value.is_module else value

    def named(self, name: str) -> Value:
        """An imported name, or an attribute of one."""
        known = self._named.get(name)
        if known is None:
            known = self._named[name] = self._look_up(name)
        return known

    def _look_up(self, name: str) -> Value:
        if name in self.patched:
            return Value(ids=frozenset([("global", name)]))
        canonical = self.facts.canonical(name)
        constant = self.facts.constant(canonical)
        if constant == v.NUMBER or canonical in _NUMBERS:
            return Value(kind=v.NUMBER, type=canonical)
        last = canonical.rpartition(".")[2]
        if self.facts.beyond is not None and (last.isupper() or "device" in last):
            value = self.facts.beyond.constant(canonical)
            if value is not None:
                return value
        return Value(kind=v.NAME, type=canonical, ids=frozenset([canonical]))

    def annotated(self, annotation: ast.expr, target: ast.AST) -> Value | None:
        """What an annotation says; None where it says nothing that matters."""
        node: ast.expr = annotation
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                node = ast.parse(node.value, mode="eval").body
            except (SyntaxError, ValueError):
                return None
            return self._annotation(node, target, annotation)
        return self._annotation(node, target, annotation)

    def _annotation(self, node: ast.expr, target: ast.AST, home: ast.expr) -> Value | None:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            sides = [side for side in (node.left, node.right) if not is_none(side)]
            return self._annotation(sides[0], target, home) if len(sides) == 1 else None
        if isinstance(node, ast.Subscript):
            outer = last_name(node.value)
            if outer == "Optional":
                return self._annotation(node.slice, target, home)
            if outer in ("List", "list", "Sequence", "Iterable", "Tuple", "tuple") and not isinstance(
                node.slice, ast.Tuple
            ):
                element = self._annotation(node.slice, ("element of", target), home)  # type: ignore[arg-type]
                return Value(kind=v.SEQUENCE, element=element, ids=frozenset([target])) if element else None
            return None
        name = self._annotation_name(node, home)
        if name is None:
            plain = {"int": v.NUMBER, "float": v.NUMBER, "bool": v.NUMBER, "str": v.TEXT}.get(last_name(node))
            if plain is None:
                return None
            place = Place(key=("named by", frozenset([target])), text=getattr(target, "arg", ""))
            return Value(kind=plain, ids=frozenset([target]), place=place if plain == v.TEXT else NOWHERE_KNOWN)
        name = self.facts.canonical(name)
        row = self.facts.cls(name)
        kind = "device" if name == "torch.device" else str(row.get("kind")) if row else None
        if name == "torch.Tensor":
            kind = v.TENSOR
        if kind is None:
            return None
        text = target.arg if isinstance(target, ast.arg) else ""
        origin = Origin(f"the argument {text}") if text else None
        return Value(
            kind=kind, type=name, ids=frozenset([target]), place=Place(key=("at", target), text=text), origin=origin
        )

    def _annotation_name(self, node: ast.expr, home: ast.expr) -> str | None:
        name = self.names.name_of(node)
        if name is None and node is not home and isinstance(node, ast.Name | ast.Attribute):
            # A quoted annotation was parsed on its own, so its names belong to the module's scope.
            path = path_of(node)
            if path is not None:
                root, _, rest = path.partition(".")
                imported = self.names.module.imports.get(root, set())
                if len(imported) == 1 and root not in self.names.module.bound:
                    return ".".join(filter(None, [next(iter(imported)), rest]))
        return name

    def attribute(self, base: Value, name: str, state: State) -> Value | None:
        return self.classes.attribute(base, name, state)

    def instance(self, callee: Value, node: ast.Call, state: State) -> Value:
        """What calling a class of the same file gives."""
        if not isinstance(callee.node, ast.ClassDef):
            return Value(ids=frozenset([node]))
        kind = self.classes.kind(callee.node)
        place = CPU if kind in v.MODULE_KINDS and state.default.is_cpu else NOWHERE_KNOWN
        elsewhere = self.classes.places_itself(callee.node) or is_told_where(node)
        if place.is_cpu and (elsewhere or not self.classes.has_state(callee.node)):
            place = NOWHERE_KNOWN
        origin = Origin(f"made by {callee.node.name}", node.lineno, node, node)
        return Value(kind=kind, node=callee.node, ids=frozenset([node]), place=place, origin=origin)

    def passed(self, argument: ast.arg, function: Function) -> list[Value]:
        """What the calls in this file pass for an argument of a function or method of the file."""
        if function.name in ("forward", "__call__"):
            return []  # every module has one: whose is called cannot be seen
        method = self.is_bound(function)
        positional = [*function.args.posonlyargs, *function.args.args]
        position = positional.index(argument) if argument in positional else None
        found = []
        for call in self.seen.calls.get(function.name, ()):
            offset = 1 if method and isinstance(call.func, ast.Attribute) else 0
            named = [keyword.value for keyword in call.keywords if keyword.arg == argument.arg]
            if named:
                found.append(self.value(named[0]))
            elif position is not None and 0 <= position - offset < len(call.args):
                given = call.args[: position - offset + 1]
                if not any(isinstance(one, ast.Starred) for one in given):
                    found.append(self.value(given[-1]))
        return found

    def function_result(
        self, callee: Value, arguments: Arguments, receiver: Value | None, evaluator: Evaluator
    ) -> Value:
        """What calling a function of the same file gives: what it returns, or what its annotation says of that."""
        node = arguments.node
        function = callee.node
        if not isinstance(function, ast.FunctionDef) or not is_as_written(function):
            return evaluator.unknown(node)
        scope = self.names.scope_of[function]
        if scope.yields:
            return evaluator.unknown(node)
        said = self.annotated(function.returns, function) if function.returns is not None else None
        result = said or ANYTHING
        # Following the function is worth its time only where it can say more.
        if scope.returns and result.kind != v.NUMBER and function not in self._running:
            found = v.join_all(self.run(function).returned)
            result = found if found.kind != v.UNKNOWN else result
        if result.kind == v.UNKNOWN:
            return evaluator.unknown(node)
        bound = receiver if self.is_bound(function) else None
        call = Call(function, arguments, evaluator.state, bound, lambda node: self.owner(node) is self.tree)
        return seen_from_outside(result, node, call.place)

    @cached_property
    def effects(self) -> Effects:
        """What the functions of the file do to what they are given."""
        return Effects(self)

    def called(self, evaluator: Evaluator, function: object, node: ast.Call) -> None:
        """A function of this file was called at `node` of this file."""
        if isinstance(function, (*FUNCTIONS, ast.Lambda)):
            happened(evaluator, self.effects, function, node, lambda name: True)

    def is_bound(self, function: Function | ast.Lambda) -> bool:
        """Whether a function is a method that is passed its instance."""
        if isinstance(function, ast.Lambda):
            return False
        static = any(last_name(decorator) == "staticmethod" for decorator in function.decorator_list)
        return isinstance(self.parents.get(function), ast.ClassDef) and not static

    @cached_property
    def patched(self) -> frozenset[str]:
        """The names of other files that this file gives another value, as in `settings.DEVICE = "cuda"`."""
        stored = (node for node in self.names.stores if isinstance(node, ast.Attribute))
        return frozenset(name for node in stored if (name := self.names.name_of(node)) is not None)

    def carried(self, loop: Loop) -> frozenset[str]:
        """The names of which a turn of a loop may read what an earlier one has left."""
        if loop not in self._carried:
            self._carried[loop] = carried(loop)
        return self._carried[loop]

    def narrow(self, evaluator: Evaluator, test: ast.expr, truth: bool) -> None:
        """What a condition says of the names that it asks about."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self.narrow(evaluator, test.operand, not truth)
        elif isinstance(test, ast.BoolOp):
            if isinstance(test.op, ast.And) == truth:
                for part in test.values:
                    self.narrow(evaluator, part, truth)
            else:
                for part in test.values:
                    self._forget_kind(evaluator, part, truth)
        elif isinstance(test, ast.Call) and test.args:
            path = path_of(test.args[0])
            name = evaluator.values.get(test.func, ANYTHING).type
            if path is None or path not in evaluator.state.names:
                return
            value = evaluator.state.names[path]
            if name == "torch.is_tensor" and truth:
                evaluator.state.bind(path, replace(value, kind=v.TENSOR, ids=frozenset([("narrowed", test)])))
            elif name == "builtins.isinstance" and truth and len(test.args) == 2:
                kind = self._checked_kind(evaluator, test.args[1])
                narrowed = Value(kind=kind, place=value.place, ids=frozenset([("narrowed", test)]), origin=value.origin)
                if value.kind in (v.UNKNOWN, v.NOTHING) or kind != v.UNKNOWN:
                    evaluator.state.bind(path, narrowed)
            else:
                self._forget_kind(evaluator, test, truth)
        elif isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Is | ast.IsNot):
            path = path_of(test.left)
            if path is not None and is_none(test.comparators[0]) and path in evaluator.state.names:
                asked = isinstance(test.ops[0], ast.Is) == truth
                value = evaluator.state.names[path]
                if asked and value.kind == v.UNKNOWN:
                    evaluator.state.names[path] = Value(kind=v.NOTHING)
                elif not asked and value.alternatives:
                    rest = [other for other in value.alternatives if other.kind != v.NOTHING]
                    evaluator.state.names[path] = v.join_all(rest) if rest else value

    def _forget_kind(self, evaluator: Evaluator, test: ast.expr, truth: bool) -> None:
        """`if isinstance(x, A)`: what x is used as on one side says nothing of the other."""
        if not (isinstance(test, ast.Call) and test.args):
            return
        path = path_of(test.args[0])
        name = evaluator.values.get(test.func, ANYTHING).type
        asks = name in ("builtins.isinstance", "builtins.hasattr", "builtins.callable", "torch.is_tensor")
        if path is not None and asks and path in evaluator.state.names:
            value = evaluator.state.names[path]
            if value.kind == v.UNKNOWN:
                evaluator.state.bind(path, replace(value, ids=frozenset([("narrowed", test, truth)])))

    def _checked_kind(self, evaluator: Evaluator, node: ast.expr) -> str:
        value = evaluator.values.get(node, ANYTHING)
        if value.kind == v.CLASS and isinstance(value.node, ast.ClassDef):
            return self.classes.kind(value.node)
        if value.kind != v.NAME:
            return v.UNKNOWN
        if value.type in _CHECKED:
            return _CHECKED[value.type]
        row = self.facts.cls(value.type)
        return str(row.get("kind", v.UNKNOWN)) if row else v.UNKNOWN

    def meet(self, evaluator: Evaluator, node: ast.expr, tensors: Sequence[Operand], row: Row) -> Place:
        """Tensors come together in one operation: note it, and say where the result lives."""
        if not tensors or (all(value.dims == 0 for _, value in tensors) and _more_may_meet(evaluator, node)):
            return NOWHERE_KNOWN
        if len(tensors) > 1:
            evaluator.meetings[node] = Meeting(node, tuple(tensors), row)
        places = [value.place for _, value in tensors if value.dims != 0] or [value.place for _, value in tensors]
        known = [place for place in places if place.known]
        return next((place for place in known if not place.is_cpu), known[0]) if known else NOWHERE_KNOWN

    def fed(self, evaluator: Evaluator, node: ast.Call, module: Value, arguments: Arguments) -> None:
        """A module is called: what came unpacked from a loop and goes into it whole is a tensor."""
        self.module_places[node] = evaluator.state.place_of(module)
        if self.batches_are_objects:
            return
        for expression, value in arguments.positional:
            if not isinstance(expression, ast.Starred) and value.kind == v.UNKNOWN and is_unpacked(value):
                evaluator.prove(value, v.TENSOR)

    def sibling_is_tensor(self, evaluator: Evaluator, value: Value) -> bool:
        """Whether value was unpacked in one statement with what is proven a tensor."""
        for identity in value.ids:
            target = identity[1] if isinstance(identity, tuple) and identity[0] == "unpacked" else None
            above = self.parents.get(target) if isinstance(target, ast.AST) else None
            if not isinstance(above, ast.Tuple | ast.List):
                return False
            others = [("unpacked", item) for item in above.elts if item is not target]
            if not any(evaluator.evidence.kind([other]) == v.TENSOR for other in others):
                return False
        return bool(value.ids)

    @cached_property
    def batches_are_objects(self) -> bool:
        """Whether the file works with a library whose loaders give objects that move in place."""
        return bool(self.packages & self.facts.packages["object_batches"])

    @cached_property
    def packages(self) -> frozenset[str]:
        """The top-level packages that the file imports."""
        scopes = self.names.scope_of.values()
        return frozenset(name.split(".")[0] for scope in scopes for found in scope.imports.values() for name in found)


def _more_may_meet(evaluator: Evaluator, node: ast.expr) -> bool:
    """Whether an operand of unknown kind, which may be a tensor elsewhere, decides where an operation's result is."""
    if isinstance(node, ast.Call):
        parts: list[ast.expr] = [*node.args, *(keyword.value for keyword in node.keywords)]
        parts += [node.func.value] if isinstance(node.func, ast.Attribute) else []
    else:
        parts = [child for child in children(node) if isinstance(child, ast.expr)]
    return any(evaluator.values.get(part, ANYTHING).kind == v.UNKNOWN for part in parts)


def is_unpacked(value: Value) -> bool:
    """Whether a value is one part of what a loop gives, taken apart in the loop's head or in its body."""
    return bool(value.ids) and all(isinstance(i, tuple) and i[0] == "unpacked" for i in value.ids)


def _is_fixture(function: Function) -> bool:
    calls = [d.func if isinstance(d, ast.Call) else d for d in function.decorator_list]
    return any(last_name(call) == "fixture" for call in calls)
