"""Values of expressions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from devlint.placement import calls, effects
from devlint.placement import values as v
from devlint.placement.state import State
from devlint.placement.values import ANYTHING, NOWHERE_KNOWN, Origin, Place, Value
from devlint.syntax.trees import children, walk

if TYPE_CHECKING:
    from devlint.placement.evidence import Evidence
    from devlint.placement.infer import Inference


def path_of(node: ast.AST) -> str | None:
    """The access path of a name or a chain of attributes on one: `x`, `self.pe`."""
    tail: list[str] = []
    while isinstance(node, ast.Attribute):
        tail.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(tail)])


@dataclass(frozen=True, slots=True)
class Meeting:
    """Tensors, or a layer and its input, that one operation brings together."""

    node: ast.expr
    operands: tuple[calls.Operand, ...]
    row: calls.Row
    """The facts of the operation; empty for operators."""


class Evaluator:
    """Evaluates the expressions of one function (or of the module's own body) in the state that its flow keeps.

    `values` receives what each expression was found to be; `meetings` each operation in which tensors meet.
    """

    def __init__(self, inference: Inference, owner: ast.AST, evidence: Evidence) -> None:
        self.inference = inference
        self.facts = inference.facts
        self.owner = owner
        self.evidence = evidence
        self.state = State()
        self.values: dict[ast.AST, Value] = {}
        self.returned: list[Value] = []
        self.meetings: dict[ast.AST, Meeting] = {}
        self.indexings: dict[ast.AST, Meeting] = {}
        """Tensors indexed by tensors: a CPU index is legal anywhere, a device index into a CPU table is not."""
        self.feedings: dict[ast.Call, Meeting] = {}
        """Calls of modules that are no layers of torch, with the tensors that go in; the module comes first."""
        self.on_host: set[Hashable] = set()
        """Places of which a use says that they are the CPU: `.numpy()` was called there."""
        self.losses: dict[ast.Call, tuple[calls.Operand, ...]] = {}
        """Calls that may be a loss of a model's output, with what they are given."""
        self._set_around = inference.set_around(owner)
        self.outputs: set[Hashable] = set()
        """Definitions of what modules gave back."""

    # --- the way in -------------------------------------------------------------------------------------------

    def value(self, node: ast.expr | None) -> Value:
        """Evaluate an expression; unknown for None."""
        if node is None:
            return ANYTHING
        method = _DISPATCH.get(type(node))
        if method is None:
            for child in children(node):
                if isinstance(child, ast.expr):
                    self.value(child)
            result = self.unknown(node)
        else:
            result = method(self, node)
        known = self.values.get(node)
        if result.kind == v.UNKNOWN:
            result = self.resolved(result)
        self.values[node] = result if known is None or known is result or known == result else v.join(known, result)
        return result

    def unknown(self, *key: Hashable, place: Place | None = None, origin: Origin | None = None) -> Value:
        """A value of which only its definition is known; it lives wherever that lives."""
        identity: Hashable = key[0] if len(key) == 1 else key
        return self.resolved(
            Value(ids=frozenset([identity]), place=place or Place(key=("at", identity)), origin=origin)
        )

    def resolved(self, value: Value) -> Value:
        """Add what later uses say of a value of unknown kind."""
        if value.kind == v.UNKNOWN and value.ids:
            kind = self.evidence.kind(value.ids)
            if kind != v.UNKNOWN:
                return replace(value, kind=kind, alternatives=tuple(map(self.resolved, value.alternatives)))
        return value

    def feed(self, node: ast.Call, operands: Sequence[calls.Operand]) -> None:
        """A module that is no layer of torch is called; the module comes first."""
        self.feedings[node] = Meeting(node, tuple(operands), {})

    def is_loss(self, value: Value) -> None:
        """`.backward()` was called on a value: where a call made it, what that call was given met there."""
        for identity in value.ids:
            if isinstance(identity, ast.Call) and identity in self.losses:
                self.meetings[identity] = Meeting(identity, self.losses[identity], {})

    def prove(self, value: Value, kind: str) -> None:
        """A use of value that only this kind stands."""
        if value.kind == v.UNKNOWN:
            self.evidence.proves(value.ids, kind)

    # --- names ------------------------------------------------------------------------------------------------

    def _name(self, node: ast.Name) -> Value:
        if node.id in self.state.names:
            return self.state.names[node.id]
        return self.inference.outer_value(node, self.owner)

    def _attribute(self, node: ast.Attribute) -> Value:
        base = self.value(node.value)
        path = path_of(node)
        if path is not None and path in self.state.names:
            return self.state.names[path]
        if base.is_module and node.attr in effects.TRANSFERS:
            effects.moved_somewhere(self, base)  # `move = net.cuda` is called somewhere
        if path is not None and path in self._set_around:
            return self.unknown("set around", path, self.owner)
        result = self.attribute_of(base, node)
        if path is not None and result.kind != v.NAME and result.ids:
            self.state.put(path, result)
        return result

    def set_anew(self, node: ast.Attribute) -> Value | None:
        """What the function itself has put in an attribute: `helpers.make = other`."""
        path = path_of(node)
        return self.state.names.get(path) if path is not None else None

    def attribute_of(self, base: Value, node: ast.Attribute) -> Value:
        name = node.attr
        if base.kind == v.NAME:
            return self.inference.named(f"{base.type}.{name}")
        if base.kind in (v.OBJECT, v.MODULE, v.CLASS):
            found = self.inference.attribute(base, name, self.state)
            if found is not None:
                return found
        if base.is_tensor:
            return self._tensor_attribute(base, name, node)
        if base.kind == v.DEVICE:
            return Value(kind=v.TEXT, type="device.type") if name == "type" else Value(kind=v.NUMBER)
        if base.is_module and name in _LAYER_PARAMETERS and base.type.startswith("torch.nn."):
            # It moves with its layer, so that one on the CPU may not stay there.
            place = self.state.place_of(base)
            place = NOWHERE_KNOWN if place.is_cpu else place
            return Value(kind=v.PARAMETER, place=place, ids=frozenset([("attribute", base.ids or node, name)]))
        if base.is_module:
            return self.unknown("attribute", base.ids or node, name, place=Place(key=("of", base.ids or node, name)))
        if base.kind in (v.BATCH, v.TENSORS) and not name.startswith("_") and name not in ("count", "index"):
            return Value(kind=v.TENSOR, place=base.place, ids=frozenset([("item", node)]), origin=base.origin)
        if base.kind == v.UNKNOWN:
            self.evidence.attribute(base.ids, name, called=False)
            return self.unknown("attribute", base.ids or node, name)
        return self.unknown(node)

    def _tensor_attribute(self, base: Value, name: str, node: ast.Attribute) -> Value:
        if name == "device":
            return Value(kind=v.DEVICE, place=base.place, ids=frozenset([("device of", base.place.key or node)]))
        if name in ("values", "indices"):  # of what `x.max(0)` gives
            return Value(kind=v.TENSOR, place=base.place, ids=frozenset([(name, node)]), origin=base.origin)
        row = self.facts.method(v.TENSOR, name)
        if row is None:
            self.evidence.attribute(base.ids, name, called=False)  # what was taken for a tensor so far may be none
        if row is None or not row.get("attribute"):
            return self.unknown(node)
        returns = str(row.get("returns", v.UNKNOWN))
        if returns == v.TENSOR:
            return replace(base, kind=v.TENSOR, ids=frozenset([(name, node)]), dims=None)
        if returns == v.NUMBER:
            return Value(kind=v.NUMBER, ids=frozenset([node]))
        return Value(kind=returns, ids=frozenset([node]))

    # --- literals ---------------------------------------------------------------------------------------------

    def _constant(self, node: ast.Constant) -> Value:
        constant = node.value
        if constant is None:
            return Value(kind=v.NOTHING)
        if isinstance(constant, str):
            return Value(kind=v.TEXT, const=constant, ids=frozenset([node]))
        if isinstance(constant, bool | int | float):
            return Value(kind=v.NUMBER, const=constant)
        return Value(kind=v.NUMBER) if isinstance(constant, complex) else Value(kind=v.OBJECT, type="builtins.bytes")

    def _joined(self, node: ast.JoinedStr) -> Value:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.value(part.value)
        return Value(kind=v.TEXT, ids=frozenset([node]), place=Place(key=("text", node)))

    def _sequence(self, node: ast.Tuple | ast.List | ast.Set) -> Value:
        items = tuple(self.value(item) for item in node.elts)
        starred = any(isinstance(item, ast.Starred) for item in node.elts)
        if len(items) > _LONG:
            return Value(kind=v.SEQUENCE, ids=frozenset([node]))
        fixed = None if starred or isinstance(node, ast.Set) else items
        return Value(kind=v.SEQUENCE, items=fixed, element=v.join_all(items), ids=frozenset([node]))

    def _dict(self, node: ast.Dict) -> Value:
        keys: dict[str, Value] = {}
        complete = True
        for key, item in zip(node.keys, node.values, strict=True):
            value = self.value(item)
            name = self.value(key).const if key is not None else None
            if isinstance(name, str):
                keys[name] = value
            else:
                complete = False
        return Value(kind=v.MAPPING, keys=keys if complete else None, ids=frozenset([node]))

    def _starred(self, node: ast.Starred) -> Value:
        value = self.value(node.value)
        return value.element or self.unknown(node)

    # --- operators --------------------------------------------------------------------------------------------

    def _binary(self, node: ast.BinOp) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        return calls.operate(self, node, [(node.left, left), (node.right, right)])

    def _unary(self, node: ast.UnaryOp) -> Value:
        value = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            return Value(kind=v.NUMBER)
        if value.is_tensor:
            return replace(value, kind=v.TENSOR, ids=frozenset([node]))
        if value.kind == v.NUMBER:
            negative = isinstance(node.op, ast.USub) and isinstance(value.const, int | float)
            return Value(kind=v.NUMBER, const=-value.const if negative else None)  # type: ignore[operator]
        return self.unknown(node)

    def _compare(self, node: ast.Compare) -> Value:
        operands = [(operand, self.value(operand)) for operand in [node.left, *node.comparators]]
        if all(isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE | ast.Eq | ast.NotEq) for op in node.ops):
            result = calls.operate(self, node, operands)
            if result.is_tensor:
                return result
            if any(value.kind == v.UNKNOWN for _, value in operands):
                return self.unknown(node)
        return Value(kind=v.NUMBER)

    def _bool(self, node: ast.BoolOp) -> Value:
        return v.join_all([self.value(operand) for operand in node.values])

    def _if(self, node: ast.IfExp) -> Value:
        self.value(node.test)
        before = self.state
        self.state = before.copy()
        self.inference.narrow(self, node.test, True)
        body = self.value(node.body)
        after = self.state
        self.state = before
        self.inference.narrow(self, node.test, False)
        orelse = self.value(node.orelse)
        self.state.merge(after)
        joined = v.join(body, orelse)
        if joined.kind in (v.TEXT, v.DEVICE) and joined.alternatives:
            return replace(joined, ids=frozenset([node]), place=Place(key=("choice", node)))
        return joined

    def _subscript(self, node: ast.Subscript) -> Value:
        base, index = self.value(node.value), self._index(node.slice)
        path = path_of(node.value)
        if path is not None and isinstance(index.const, str | int):
            known = self.state.names.get(f"{path}.[{index.const!r}]")
            if known is not None:
                return known
        return self.item(base, index, node)

    def _index(self, node: ast.expr) -> Value:
        if isinstance(node, ast.Slice):
            for part in (node.lower, node.upper, node.step):
                self.value(part)
            return Value(kind=v.OBJECT, type="builtins.slice")
        return self.value(node)

    def item(self, base: Value, index: Value, node: ast.AST) -> Value:
        """What `base[index]` is."""
        if base.is_tensor and index.kind in (v.UNKNOWN, *v.TENSOR_KINDS) and isinstance(node, ast.Subscript):
            self.indexings[node] = Meeting(node, ((node.value, base), (node.slice, index)), {})
        sliced = index.type == "builtins.slice"
        if base.kind == v.ARRAY and index.is_tensor and index.place.key is not None:
            self.on_host.add(index.place.key)  # NumPy reads its indices, which it can on the CPU only
        if base.is_tensor:
            return replace(base, kind=v.TENSOR, ids=frozenset([("item", node)]), dims=self._item_dims(base, node))
        if base.kind == v.SEQUENCE:
            if sliced:
                return replace(base, items=None, ids=frozenset([node]))
            if (
                base.items is not None
                and isinstance(index.const, int)
                and -len(base.items) <= index.const < len(base.items)
            ):
                return base.items[index.const]
            return base.element or self.unknown(node)
        if base.kind == v.MAPPING and base.keys is not None and isinstance(index.const, str):
            return base.keys.get(index.const) or self.unknown(node)
        if base.kind == v.MAPPING and base.keys and index.const is None:
            found = v.any_of(base)
            return found if found is not None and found.is_module else self.unknown(node)
        if base.kind == v.TENSORS:
            return Value(kind=v.TENSOR, place=base.place, ids=frozenset([("item", node)]), origin=base.origin)
        if base.kind == v.BATCH and isinstance(index.const, str):
            return Value(kind=v.TENSOR, place=base.place, ids=frozenset([("item", node)]), origin=base.origin)
        if base.kind == v.CHECKPOINT:
            return replace(base, ids=frozenset([("item", node)]))
        if base.kind == v.CONTAINER:
            return Value(kind=v.MODULE, place=base.place, ids=frozenset([("item", node)]))
        key: Hashable = ("item", base.ids, index.const) if base.ids and index.const is not None else ("item", node)
        return self.unknown(key)

    def _item_dims(self, base: Value, node: ast.AST) -> int | None:
        """How many dimensions `base[...]` has: each number in the index takes one away."""
        index = node.slice if isinstance(node, ast.Subscript) else None
        taken, added, exact, shaped = 0, 0, base.dims is not None and base.dims >= 0, False
        for part in index.elts if isinstance(index, ast.Tuple) else [index]:
            value = self.values.get(part, ANYTHING) if part is not None else ANYTHING
            if isinstance(part, ast.Slice) or (isinstance(part, ast.Constant) and part.value is ...):
                shaped = True
            elif value.kind == v.NOTHING:
                added, shaped = added + 1, True
            elif value.kind == v.NUMBER:
                taken += 1
            else:
                exact = False
                shaped |= value.kind == v.SEQUENCE or (value.is_tensor and value.dims not in (0, v.MAYBE_NONE))
        if exact and base.dims is not None:
            return max(base.dims - taken + added, 0)
        return None if shaped else v.MAYBE_NONE

    # --- comprehensions, lambdas, others ----------------------------------------------------------------------

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
        outer = self.state
        self.state = outer.copy()
        for generator in node.generators:
            self.bind(generator.target, self.element_of(self.value(generator.iter), generator.iter))
            for condition in generator.ifs:
                self.value(condition)
                self.inference.narrow(self, condition, True)
        if isinstance(node, ast.DictComp):
            self.value(node.key)
            element = self.value(node.value)
            kind = v.MAPPING
        else:
            element = self.value(node.elt)
            kind = v.SEQUENCE
        outer.places = self.state.places
        for part in walk(node):
            if isinstance(part, ast.NamedExpr):
                outer.bind(part.target.id, self.values.get(part.target, ANYTHING))
        self.state = outer
        return Value(kind=kind, element=element, ids=frozenset([node]))

    def _lambda(self, node: ast.Lambda) -> Value:
        outer = self.state
        self.state = outer.copy()
        # The body runs later: of a name that is bound more than once, it may see another value.
        home = self.inference.names.scope_of.get(self.owner)
        for name, bound in home.bound.items() if home is not None else ():
            if len(bound) > 1:
                self.state.bind(name, self.unknown("later", node, name))
        for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
            self.state.bind(argument.arg, self.unknown(argument))
        self.value(node.body)
        self.state = outer
        return Value(kind=v.FUNCTION, node=node, ids=frozenset([node]))

    def _named(self, node: ast.NamedExpr) -> Value:
        value = self.value(node.value)
        self.bind(node.target, value)
        return value

    def _await(self, node: ast.Await) -> Value:
        return self.value(node.value)

    # --- binding ----------------------------------------------------------------------------------------------

    def bind(self, target: ast.expr, value: Value) -> None:
        """Assign a value to a target of any form."""
        if isinstance(target, ast.Name):
            if target.id in self.inference.shared(self.owner):
                value = replace(
                    value, place=NOWHERE_KNOWN, origin=None, alternatives=()
                )  # a function inside binds it too
            self.values[target] = value
            self.state.bind(target.id, self._named_by(value, target.id, target))
        elif isinstance(target, ast.Attribute):
            self.value(target.value)
            self.values[target] = value
            path = path_of(target)
            if path is not None:
                self.state.bind(path, self._named_by(value, path, target))
            if target.attr == "data" and value.is_tensor:
                self._data_moved(target.value, value)
        elif isinstance(target, ast.Tuple | ast.List):
            for position, item in enumerate(target.elts):
                if isinstance(item, ast.Starred):
                    self.bind(item.value, Value(kind=v.SEQUENCE, element=value.element, ids=frozenset([item])))
                    continue
                starred = any(isinstance(other, ast.Starred) for other in target.elts)
                self.bind(item, self._unpacked(value, position, len(target.elts), starred, item))
        elif isinstance(target, ast.Subscript):
            base = self.value(target.value)
            index = self._index(target.slice)
            path = path_of(target.value)
            if path is None or not isinstance(index.const, str | int):
                self.state.changed(base)
            else:
                self.state.changed(base, keep=path)
                held = self.state.names.get(path)
                if held is not None and held.kind in (v.SEQUENCE, v.MAPPING):
                    self.state.names[path] = v.with_item(held, index, value)
                self.state.bind(f"{path}.[{index.const!r}]", value)

    def _data_moved(self, target: ast.expr, value: Value) -> None:
        """`x.data = x.data.to(device)` moves x itself, by all its names."""
        moved = self.values.get(target, ANYTHING)
        for identity in moved.ids:  # `for p in net.parameters(): p.data = ...`
            call = identity[1] if isinstance(identity, tuple) and identity[0] == "element" else None
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                effects.moved_somewhere(self, self.values.get(call.func.value, ANYTHING))
        for name, held in list(self.state.names.items()):
            if held.is_tensor and held.ids and held.ids == moved.ids:
                self.state.names[name] = held.at(value.place, value.origin)

    def _named_by(self, value: Value, path: str, target: ast.expr) -> Value:
        """A device keeps how the file names it, so that a fix and a message can say it."""
        if value.kind in (v.DEVICE, v.TEXT) and value.const is None and not value.place.text:
            key = value.place.key if value.place.key is not None else ("named", target)
            if value.kind == v.DEVICE and value.place.device:
                return value
            return replace(value, place=Place(key=key, text=path))
        return value

    def _unpacked(self, value: Value, position: int, count: int, starred: bool, target: ast.expr) -> Value:
        if value.items is not None and len(value.items) == count and not starred:
            return value.items[position]
        if value.kind in (v.TENSORS, v.TENSOR):
            dims = None if value.kind == v.TENSORS else _one_less(value)
            return Value(kind=v.TENSOR, place=value.place, ids=frozenset([target]), origin=value.origin, dims=dims)
        if value.kind == v.SEQUENCE and value.element is not None and value.element != ANYTHING:
            # Each turn of unpacking is another element: same kind and place, another definition.
            return replace(value.element, ids=frozenset([target]))
        if value.kind == v.NUMBER:
            return Value(kind=v.NUMBER)
        if any(isinstance(i, tuple) and i[0] == "element" for i in value.ids):
            return self.unknown("unpacked", target, origin=value.origin)
        return self.unknown(target, origin=value.origin)

    def element_of(self, value: Value, node: ast.AST) -> Value:
        """What a loop over value binds in each turn."""
        if value.kind == v.SEQUENCE and value.items:
            return (
                replace(v.join_all(value.items), ids=frozenset([("element", node)]))
                if len(value.items) > 1
                else value.items[0]
            )
        if value.element is not None:
            return value.element
        if value.kind in (v.TENSOR, v.PARAMETER, v.TENSORS):
            dims = None if value.kind == v.TENSORS else _one_less(value)
            return Value(
                kind=v.TENSOR, place=value.place, ids=frozenset([("element", node)]), origin=value.origin, dims=dims
            )
        if value.kind == v.LOADER:
            origin = Origin("an item of the loader", getattr(node, "lineno", 0))
            return self.unknown("element", node, origin=origin)
        return self.unknown("element", node)


def _one_less(value: Value) -> int:
    """The dimensions of the elements of a tensor."""
    return value.dims - 1 if value.dims is not None and value.dims > 0 else v.MAYBE_NONE


_LONG = 64
"""Of a list that is written out with more items than these, a table of data, the items are not looked at."""
_LAYER_PARAMETERS = frozenset({"weight", "bias", "in_proj_weight", "in_proj_bias", "weight_ih_l0", "weight_hh_l0"})
"""Attributes of layers of torch.nn that are parameters, wherever a layer has them."""
_DISPATCH: dict[type, Callable[[Evaluator, Any], Value]] = {
    ast.Name: Evaluator._name,
    ast.Attribute: Evaluator._attribute,
    ast.Constant: Evaluator._constant,
    ast.JoinedStr: Evaluator._joined,
    ast.Tuple: Evaluator._sequence,
    ast.List: Evaluator._sequence,
    ast.Set: Evaluator._sequence,
    ast.Dict: Evaluator._dict,
    ast.Starred: Evaluator._starred,
    ast.BinOp: Evaluator._binary,
    ast.UnaryOp: Evaluator._unary,
    ast.Compare: Evaluator._compare,
    ast.BoolOp: Evaluator._bool,
    ast.IfExp: Evaluator._if,
    ast.Subscript: Evaluator._subscript,
    ast.ListComp: Evaluator._comprehension,
    ast.SetComp: Evaluator._comprehension,
    ast.GeneratorExp: Evaluator._comprehension,
    ast.DictComp: Evaluator._comprehension,
    ast.Lambda: Evaluator._lambda,
    ast.NamedExpr: Evaluator._named,
    ast.Await: Evaluator._await,
    ast.Call: calls.call,
}
