"""DEV202: a tensor that a module keeps as a plain attribute, which stays behind when the module moves."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from devlint.checks import rewrite
from devlint.checks.base import Rule
from devlint.checks.context import Context
from devlint.checks.host_code import is_guarded, is_host_code
from devlint.checks.integral import is_integral
from devlint.checks.own_tensors import (
    METHODS,
    PLAIN_BASES,
    Method,
    Store,
    attribute_read,
    building_methods,
    methods,
    methods_run_by,
    module_classes,
    registered,
    self_name,
    set_elsewhere,
    stores,
)
from devlint.checks.scalars import may_be_scalar
from devlint.checks.worth_following import factory_calls
from devlint.finding import Edit, Fix, Group, RuleInfo
from devlint.placement import values as v
from devlint.placement.evaluate import path_of
from devlint.placement.mismatch import Mismatch, mismatches, table_mismatches
from devlint.screen import Mentions
from devlint.syntax.lazy import cst
from devlint.syntax.trees import children, last_name, walk

_EQUALS = re.compile(r"\s*=[ \t]*(?:\\\r?\n[ \t]*)?")
_SIZES = frozenset({"size", "shape", "numel", "len", "ndim", "dim", "nelement"})


@dataclass(frozen=True, slots=True)
class _Kept:
    """A plain attribute to report: where it is set, and where it fails; no place for a cache renewed by size."""

    class_: ast.ClassDef
    store: Store
    every: tuple[Store, ...]
    mismatch: Mismatch | None


class PlainTensorAttribute(Rule):
    info = RuleInfo(
        "DEV202",
        "plain-tensor-attribute",
        (Group.BUG,),
        "a tensor kept as a plain attribute of a module does not move with it",
    )
    screen = (Mentions(frozenset({"Module", "LightningModule", "Metric", "nn", "torch", "lightning", "torchmetrics"})),)

    def suspects(self) -> bool:
        self._found: dict[ast.AST, _Kept] = {}
        for class_ in module_classes(self.context):
            for kept in self._of_class(class_):
                self._found.setdefault(kept.store.target, kept)
        return bool(self._found)

    # --- which attributes ---------------------------------------------------------------------------------------

    def _of_class(self, class_: ast.ClassDef) -> Iterator[_Kept]:
        context = self.context
        every_store = stores(context, class_).items()
        found = {name: every for name, every in every_store if any(_may_be_made(context, one) for one in every)}
        if not found or not self._may_make(class_, found):
            return
        names = registered(context, class_)
        if names is None:
            return
        for name in names & found.keys():
            del found[name]
        failing = self._failing(class_, found)
        for name, every in found.items():
            failed = failing.get(name)
            kept = self._plain(class_, every, failed) if failed is not None else self._cached(class_, every)
            if kept is not None and not set_elsewhere(context, class_, name):
                yield kept

    def _may_make(self, class_: ast.ClassDef, found: dict[str, list[Store]]) -> bool:
        """Whether the class makes a tensor or moves one to the CPU, or a function does so that it may call."""
        context, inference = self.context, self.context.inference
        for call in [*factory_calls(context), *context.seen.calls.get("cpu", ())]:
            around = inference.parents.get(inference.owner(call))
            if class_.lineno <= call.lineno <= (class_.end_lineno or 0) or not isinstance(around, ast.ClassDef):
                return True
        beyond = inference.facts.beyond
        values = (store.value for every in found.values() for store in every if isinstance(store.value, ast.Call))
        names = (context.names.name_of(value.func) for value in values)
        return beyond is not None and any(beyond.is_function(name) for name in names if name is not None)

    def _failing(self, class_: ast.ClassDef, found: dict[str, list[Store]]) -> dict[str, Mismatch]:
        """The attributes that meet, in a method that runs after construction, what is where the module's input is."""
        context = self.context
        on_host = {name for name, every in found.items() if any(self._is_host_tensor(store) for store in every)}
        building = building_methods(class_)
        failing: dict[str, Mismatch] = {}
        for method in methods(class_):
            if method.name in building or not on_host & _read_in(method) or is_host_code(context, method):
                continue
            for mismatch in self._mismatches(method):
                read = attribute_read(context, mismatch.host[0])
                own = read is not None and read[0] is class_ and read[1] in on_host
                if own and read is not None and not is_guarded(context, mismatch.meeting.node):
                    failing.setdefault(read[1], mismatch)
        return failing

    def _mismatches(self, method: Method) -> Iterator[Mismatch]:
        """The mismatches in a method of what is made in another: what it makes itself is a matter of DEV201."""
        inference = self.context.inference
        for mismatch in mismatches(inference, method):
            origin = mismatch.host[1].origin
            made = origin.node if origin is not None else None
            if isinstance(made, ast.AST) and inference.owner(made) is not method:
                yield mismatch
        for mismatch in table_mismatches(inference, method):
            if not _is_one_item(mismatch.device[0]):
                yield mismatch

    def _is_host_tensor(self, store: Store) -> bool:
        value = self.context.inference.run(store.method).values.get(store.target)
        return value is not None and value.kind == v.TENSOR and value.place.is_cpu and value.dims != 0

    def _plain(self, class_: ast.ClassDef, every: list[Store], mismatch: Mismatch) -> _Kept | None:
        first = next((store for store in every if self._is_host_tensor(store)), None)
        if first is None or any(_moves_itself(store) for store in every):
            return None
        if len(every) > 1 and _is_empty(first.value):
            return None
        reads = _reads(class_, first.target.attr)
        if may_be_scalar(self.context, mismatch.host[1], first.value or first.target, reads):
            return None
        return _Kept(class_, first, tuple(every), mismatch)

    def _cached(self, class_: ast.ClassDef, every: list[Store]) -> _Kept | None:
        """`if self.mask is None or self.mask.size(0) != n: self.mask = torch.ones(n, device=x.device)`."""
        name = every[0].target.attr
        values = [(store, self.context.inference.run(store.method).values.get(store.target)) for store in every]
        made = [
            (store, value)
            for store, value in values
            if value is not None and value.kind == v.TENSOR and value.place.known and not value.place.is_cpu
        ]
        rest = [value for _, value in values if value is None or value.kind not in (v.TENSOR, v.NOTHING)]
        if rest or len(made) != 1 or made[0][0].method.name == "__init__":
            return None
        store, value = made[0]
        if value is None or value.dims == 0 or _moves_at_use(class_, name):
            return None
        if store.method.name not in methods_run_by(class_, "forward"):
            return None  # whoever calls it, `set_cache(device)`, does so when the module has moved
        return _Kept(class_, store, tuple(every), None) if self._renewed_by_size(store, name) else None

    def _renewed_by_size(self, store: Store, name: str) -> bool:
        """Whether what decides if the attribute is made anew is a size, and not also the device."""
        own = self_name(store.method)
        child: ast.AST = store.statement
        by_size = False
        for above in self.context.inference.ancestors(store.statement):
            if above is store.method:
                return by_size
            if isinstance(above, ast.If) and child in above.body:
                set_there = {
                    node.attr
                    for statement in above.body
                    for node in walk(statement)
                    if isinstance(node, ast.Attribute)
                    and isinstance(node.ctx, ast.Store)
                    and path_of(node.value) == own
                }
                if _asks_device(above.test):
                    return False
                by_size |= _compares_size(above.test, own, name, set_there)
            elif not isinstance(above, ast.If | ast.With):
                return False
            child = above
        return False

    # --- the report ---------------------------------------------------------------------------------------------

    def visit_Attribute(self, node: cst.Attribute) -> None:
        if not self.context.knows(node):
            return
        target = self.context.ast_of(node)
        kept = self._found.get(target)
        if kept is None or not isinstance(target, ast.Attribute):
            return
        at = rewrite.attribute_span(self.context, target)
        shown = self.context.text(target)
        if kept.mismatch is None:
            self.report(
                at,
                f"`{shown}` is kept from call to call and made anew by its size only: once the module is on another"
                " device, the old one meets tensors there and torch raises"
                ' "Expected all tensors to be on the same device"',
                no_fix="the condition that renews it has to ask for the device as well",
            )
            return
        expression, _ = kept.mismatch.device
        other = " ".join(self.context.text(expression).split())
        other = other if len(other) <= 30 else other[:27] + "..."
        fix, no_fix = self._fix(kept)
        self.report(
            at,
            f"`{shown}` is a plain tensor, so `.to()` of the module leaves it on the CPU: at line"
            f" {kept.mismatch.meeting.node.lineno} it meets `{other}`, and on an accelerator torch raises"
            ' "Expected all tensors to be on the same device"',
            fix=fix,
            no_fix=no_fix,
        )

    def _fix(self, kept: _Kept) -> tuple[Fix | None, str | None]:
        context, store = self.context, kept.store
        statement, name = store.statement, store.target.attr
        if len(kept.every) > 1:
            return None, f"`{context.text(store.target)}` is set in several places"
        if not (isinstance(statement, ast.Assign) and statement.targets == [store.target]):
            return None, "the statement does not set the attribute alone"
        if store.method.name != "__init__":
            return None, "it is not set in `__init__`"
        if any(isinstance(above, ast.For | ast.AsyncFor | ast.While) for above in self._around(store)):
            return None, "it is set in a loop"
        if not _after_super(store):
            return None, "a buffer cannot be registered before `super().__init__()`"
        if self._named_in_class(kept.class_, name):
            return None, f"the class itself has a `{name}`"
        start, end = context.span(statement)
        _, after = context.span(store.target)
        equals = _EQUALS.match(context.source.text, after, end)
        if equals is None:
            return None, "the statement is not simple"
        own = context.text(store.target.value)
        head = Edit(start, equals.end(), f'{own}.register_buffer("{name}", ')
        tail = Edit(end, end, ", persistent=False)")
        lineage = context.inference.classes.lineage(kept.class_)
        certain = (
            is_integral(context, statement.value)
            and all(isinstance(base, ast.ClassDef) or base in PLAIN_BASES for base in lineage)
            and not self._wanted_on_host(kept.class_, name)
        )
        title = "Register it as a buffer, which moves with the module and is not saved"
        return (rewrite.safe if certain else rewrite.unsafe)(title, head, tail), None

    def _around(self, store: Store) -> Iterator[ast.AST]:
        for above in self.context.inference.ancestors(store.statement):
            if above is store.method:
                return
            yield above

    def _wanted_on_host(self, class_: ast.ClassDef, name: str) -> bool:
        """Whether some read of the attribute needs it on the CPU, where a buffer does not stay."""
        for read in _reads(class_, name):
            node: ast.AST = read
            for above in self.context.inference.ancestors(read):
                if isinstance(above, ast.stmt):
                    break
                if isinstance(above, ast.Attribute) and above.attr in ("numpy", "__array__"):
                    return True
                if isinstance(above, ast.Call) and node is not above.func:
                    called = self.context.name_of(above.func)
                    row = self.context.inference.facts.call(called) if called is not None else None
                    if row is not None and (row.get("needs_host") or row.get("strict")):
                        return True
                node = above
        return False

    def _named_in_class(self, class_: ast.ClassDef, name: str) -> bool:
        """Whether the class or a base in the project has an attribute, property or method of this name."""
        for base in self.context.inference.classes.family(class_):
            for statement in base.body:
                if isinstance(statement, (*METHODS, ast.ClassDef)) and statement.name == name:
                    return True
                if isinstance(statement, ast.AnnAssign) and statement.value is None:
                    continue
                if not isinstance(statement, (*METHODS, ast.ClassDef)) and any(
                    isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
                    for node in walk(statement)
                ):
                    return True
        return False


def _is_one_item(index: ast.expr) -> bool:
    """Whether an index is an item of something, `table[ids[0][i]]`: without dimensions, it is read as a number."""
    if not isinstance(index, ast.Subscript):
        return False
    parts = index.slice.elts if isinstance(index.slice, ast.Tuple) else [index.slice]
    return not any(isinstance(part, ast.Slice) for part in parts)


_LITERALS = (ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.ListComp, ast.DictComp, ast.Lambda, ast.JoinedStr)
_OPERATORS = (ast.BinOp, ast.BoolOp, ast.UnaryOp, ast.IfExp, ast.Subscript)


def _may_be_made(context: Context, store: Store) -> bool:
    """Whether a store can keep a tensor that was made here: not a literal, a layer, or what an argument brings."""
    scope = context.names.scope_of.get(store.method)
    waiting: list[ast.AST] = [store.value or store.target]
    while waiting:
        node = waiting.pop()
        if isinstance(node, _LITERALS):
            continue
        if isinstance(node, _OPERATORS):
            waiting += children(node)
            continue
        root = node
        while isinstance(root, ast.Attribute) and isinstance(root.ctx, ast.Load):
            root = root.value
        bound = scope.bound.get(root.id, []) if isinstance(root, ast.Name) and scope is not None else []
        if len(bound) == 1 and isinstance(bound[0], ast.arg):
            continue
        called = last_name(node.func) if isinstance(node, ast.Call) else ""
        if called[:1].isupper() and not called.endswith("Tensor"):
            continue
        return True
    return False


def _reads(class_: ast.ClassDef, name: str) -> list[ast.expr]:
    """The reads of an attribute of self in the methods of a class."""
    return [
        node
        for method in methods(class_)
        for node in walk(method)
        if isinstance(node, ast.Attribute)
        and node.attr == name
        and isinstance(node.ctx, ast.Load)
        and path_of(node.value) == self_name(method)
    ]


def _read_in(method: Method) -> set[str]:
    own = self_name(method)
    return {
        node.attr
        for node in walk(method)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and path_of(node.value) == own
    }


def _moves_at_use(class_: ast.ClassDef, name: str) -> bool:
    """Whether the attribute is moved where it is read: `self.mask.to(x.device)`."""
    moves = {"to", "cuda", "cpu", "type_as", "device"}
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in moves
        and isinstance(node.value, ast.Attribute | ast.Subscript)
        and any(isinstance(part, ast.Attribute) and part.attr == name for part in walk(node.value))
        for node in walk(class_)
    )


def _is_empty(value: ast.expr | None) -> bool:
    """`torch.tensor([])`, `torch.Tensor()`: what holds the place of a tensor until there is one."""
    if not isinstance(value, ast.Call) or len(value.args) > 1 or value.keywords:
        return False
    return all(isinstance(argument, ast.List | ast.Tuple) and not argument.elts for argument in value.args)


def _moves_itself(store: Store) -> bool:
    """`self.scale = self.scale.type_as(x)` after construction: the class moves its attribute by hand."""
    call = store.value
    return (
        store.method.name != "__init__"
        and isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in ("to", "cuda", "type_as")
        and path_of(call.func.value) == path_of(store.target)
    )


def _asks_device(test: ast.expr) -> bool:
    return any(
        "device" in word or "cuda" in word
        for node in walk(test)
        for word in (getattr(node, "attr", ""), getattr(node, "id", ""))
    )


def _compares_size(test: ast.expr, own: str, name: str, set_there: set[str]) -> bool:
    """Whether a comparison looks at the size of the attribute, or at an attribute that is set beside it."""
    for node in walk(test):
        if not isinstance(node, ast.Compare) or isinstance(node.ops[0], ast.Is | ast.IsNot | ast.In | ast.NotIn):
            continue
        for part in walk(node):
            if isinstance(part, ast.Attribute) and path_of(part.value) == own:
                words = {getattr(other, "attr", getattr(other, "id", "")) for other in walk(node)}
                sized = part.attr == name and bool(words & _SIZES)
                if sized or (part.attr != name and part.attr in set_there):
                    return True
    return False


def _after_super(store: Store) -> bool:
    """Whether `super().__init__()`, or a base's `__init__(self)`, runs before the statement."""
    for statement in store.method.body:
        if statement.lineno >= store.statement.lineno:
            return False
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "__init__":
            return True
    return False
