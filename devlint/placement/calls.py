"""What a call gives back and where it lives, by the fact tables; and what it says of its arguments."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from devlint.placement import effects
from devlint.placement import values as v
from devlint.placement.effects import TRANSFERS
from devlint.placement.values import CPU, NOWHERE_KNOWN, Origin, Place, Value
from devlint.syntax.trees import walk

if TYPE_CHECKING:
    from devlint.placement.evaluate import Evaluator

Row = Mapping[str, Any]
Operand = tuple[ast.expr, Value]

_NUMBER_FIRST = frozenset(
    """
    pow float_power remainder bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift xlogy
    xlog1py zeta polygamma isin bucketize result_type normal
    add sub subtract mul multiply div divide true_divide floor_divide
    """.split()  # noqa: SIM905  a list of one a line would hide the code
)
"""Operations whose first argument may be a number: their schemas have an overload with a Scalar first, or the parser of
their arguments takes a number for a tensor (torch/csrc/utils/python_arg_parser.cpp)."""
_INPUTS_LIKE = {"torch.nn.CTCLoss": "torch.nn.functional.ctc_loss"}
"""Layers some of whose inputs may be on another device, as those of these functions."""
_CHANGE_DIMS = frozenset(
    """
    unsqueeze view view_as reshape reshape_as expand expand_as repeat broadcast_to stack cat concat hstack vstack
    dstack atleast_1d atleast_2d atleast_3d flatten ravel tile one_hot diag
    """.split()  # noqa: SIM905  a list of one a line would hide the code
)
"""Operations that give a 0-dim tensor a dimension; all others leave it without."""
_COUNTING = frozenset({"torch.arange", "torch.linspace", "torch.logspace", "torch.range"})
"""Factories whose arguments are numbers: bounds and steps."""
_ON_ONE_TENSOR = frozenset({"all_reduce", "broadcast", "reduce", "send", "recv", "isend", "irecv"})
"""Collectives whose first argument is a tensor and not a list."""
_LOOKING = frozenset(
    f"builtins.{name}" for name in ("print", "type", "format", "sum", "min", "max", "any", "all", "abs")
)
"""Functions that only look at what they are given."""
_READING = frozenset(["values", "items", "keys", "get", "copy", "index", "count", "append", "extend"])
"""Methods of lists and dictionaries that leave alone what is in there, or of which more is known."""
_PASS_THROUGH = frozenset({"tqdm", "trange", "iter", "reversed", "sorted", "list", "tuple"})


@dataclass(frozen=True, slots=True)
class Arguments:
    """The evaluated arguments of a call."""

    node: ast.Call
    positional: tuple[Operand, ...]
    named: Mapping[str, Operand]
    open_ended: bool
    """A `*` or `**` argument may hold more."""

    def get(self, name: str, position: int | None = None) -> Operand | None:
        """The argument of this name or position."""
        if name in self.named:
            return self.named[name]
        if position is not None and position < len(self.positional):
            before = self.positional[: position + 1]
            if not any(isinstance(expression, ast.Starred) for expression, _ in before):
                return before[-1]
        return None

    @property
    def open_keywords(self) -> bool:
        """Whether a `**` argument may hold more; of `*` alone, no keyword-only argument comes."""
        return any(keyword.arg is None for keyword in self.node.keywords)

    @property
    def all(self) -> list[Operand]:
        return [*self.positional, *self.named.values()]


def call(evaluator: Evaluator, node: ast.Call) -> Value:
    """The value of a call."""
    function = node.func
    receiver: Value | None = None
    if isinstance(function, ast.Attribute):
        receiver = evaluator.value(function.value)
        callee = evaluator.set_anew(function) if receiver.kind == v.NAME else None
        if callee is None and _is_static(evaluator, receiver):
            callee = evaluator.attribute_of(receiver, function)
        if callee is not None:
            evaluator.values[function] = callee
    else:
        callee = evaluator.value(function)
    arguments = _arguments(evaluator, node)
    if isinstance(function, ast.Attribute) and receiver is not None:
        if callee is None:
            return _method(evaluator, node, function, receiver, arguments)
        if callee.kind == v.UNKNOWN and receiver.kind in (v.OBJECT, v.MODULE):
            return _method(evaluator, node, function, receiver, arguments)
    assert callee is not None
    return _called(evaluator, node, callee, arguments, receiver)


def _is_static(evaluator: Evaluator, receiver: Value) -> bool:
    """Whether an attribute of the receiver names a function or class, rather than a method of a value."""
    if receiver.kind in (v.NAME, v.CLASS):
        return True
    return receiver.kind in (v.OBJECT, v.MODULE) and (
        receiver.node is not None or evaluator.facts.is_own(receiver.type)
    )


def _arguments(evaluator: Evaluator, node: ast.Call) -> Arguments:
    positional = tuple((argument, evaluator.value(argument)) for argument in node.args)
    named: dict[str, Operand] = {}
    open_ended = any(isinstance(argument, ast.Starred) for argument in node.args)
    for keyword in node.keywords:
        value = evaluator.value(keyword.value)
        if keyword.arg is None:
            open_ended = True
            if value.keys is not None:
                named.update({name: (keyword.value, item) for name, item in value.keys.items()})
        else:
            named[keyword.arg] = (keyword.value, value)
    return Arguments(node, positional, named, open_ended)


def _called(evaluator: Evaluator, node: ast.Call, callee: Value, arguments: Arguments, receiver: Value | None) -> Value:
    if callee.kind == v.NAME:
        return _named_call(evaluator, node, callee, arguments, receiver)
    effects.hand_over(evaluator, arguments)
    if callee.kind == v.CLASS:
        return evaluator.inference.instance(callee, node, evaluator.state)
    if callee.kind == v.FUNCTION:
        result = evaluator.unknown(node)
        if _is_wanted(evaluator, node):
            result = evaluator.inference.function_result(callee, arguments, receiver, evaluator)
        evaluator.inference.called(evaluator, callee.node, node)
        return result
    if callee.is_module:
        return _module_call(evaluator, node, callee, arguments)
    if callee.kind == v.TOKENIZER:
        return _tokenized(node, arguments)
    if callee.kind == v.UNKNOWN:
        evaluator.evidence.called(callee.ids)
    _loss(evaluator, node, arguments)
    if callee.kind == "transform":
        return _transformed(evaluator, node, callee)
    return evaluator.unknown(node)


def _transformed(evaluator: Evaluator, node: ast.Call, transform: Value) -> Value:
    """What a transform of torchvision gives: one that makes tensors makes them on the host."""
    steps = transform.items or ()
    rows = [evaluator.facts.cls(step.type) or {} for step in (transform, *(steps[0].items or () if steps else ()))]
    made = [row for row in rows if row.get("gives") == v.TENSOR and row.get("gives_place") == "host"]
    if not made or any(row.get("gives") == v.OBJECT for row in rows):
        return evaluator.unknown(node)
    return Value(kind=v.TENSOR, place=CPU, ids=frozenset([node]), origin=_made(transform.type, node))


def _loss(evaluator: Evaluator, node: ast.Call, arguments: Arguments) -> None:
    """A call of something unknown with a model's output and the sibling of that model's input: a loss, its target."""
    operands = [
        (e, value) for e, value in arguments.positional if not isinstance(e, ast.Starred) and not value.is_module
    ]
    if any(i in evaluator.outputs for _, value in operands for i in value.ids):
        evaluator.losses[node] = tuple(operands)
        for _, value in operands:
            if value.kind == v.UNKNOWN and evaluator.inference.sibling_is_tensor(evaluator, value):
                evaluator.prove(value, v.TENSOR)


# --- functions and classes of libraries ---------------------------------------------------------------------------


def _named_call(
    evaluator: Evaluator, node: ast.Call, callee: Value, arguments: Arguments, receiver: Value | None
) -> Value:
    name = callee.type
    if isinstance(callee.node, ast.Call):
        bound = _with_bound(evaluator, callee.node, arguments)
        if bound is None:
            return evaluator.unknown(node)
        arguments = bound
    special = _SPECIAL.get(name) or (_SPECIAL["*pass"] if name.rsplit(".", 1)[-1] in _PASS_THROUGH else None)
    if special is not None:
        result = special(evaluator, node, arguments)
        if result is not None:
            return result
    row = evaluator.facts.call(name)
    if row is not None:
        return _by_row(evaluator, node, name, row, arguments)
    if name not in _LOOKING:
        effects.hand_over(evaluator, arguments)
    beyond = evaluator.facts.beyond
    if beyond is None:
        return evaluator.unknown(node)
    result = beyond.result(name, arguments, receiver, evaluator) if _is_wanted(evaluator, node) else None
    beyond.called(name, evaluator, node)
    return evaluator.unknown(node) if result is None else result


def _with_bound(evaluator: Evaluator, partial: ast.Call, arguments: Arguments) -> Arguments | None:
    """The arguments of a call of what `partial(...)` gave, with those that it bound; None where not all are seen."""
    if any(keyword.arg is None for keyword in partial.keywords):
        return None
    known = evaluator.values
    first = tuple((one, known.get(one) or evaluator.unknown(one)) for one in partial.args[1:])
    named = {
        keyword.arg: (keyword.value, known.get(keyword.value) or evaluator.unknown(keyword.value))
        for keyword in partial.keywords
        if keyword.arg is not None
    }
    starred = any(isinstance(one, ast.Starred) for one in partial.args)
    return replace(
        arguments,
        positional=(*first, *arguments.positional),
        named={**named, **arguments.named},
        open_ended=arguments.open_ended or starred,
    )


def _is_wanted(evaluator: Evaluator, node: ast.Call) -> bool:
    """Whether anything is done with what a call gives; a function need not be followed for nothing."""
    return not isinstance(evaluator.inference.parents.get(node), ast.Expr)


def _instance(evaluator: Evaluator, node: ast.Call, name: str, row: Row, arguments: Arguments) -> Value:
    """An object of a library's class. A module without state lives nowhere."""
    kind = str(row.get("returns", v.OBJECT))
    cls = str(row.get("type", ""))
    place = NOWHERE_KNOWN
    if kind in v.MODULE_KINDS:
        place = _module_place(evaluator, cls, row, arguments)
    return Value(
        kind=kind,
        type=cls,
        place=place,
        ids=frozenset([node]),
        items=tuple(value for _, value in arguments.positional) if kind in (v.CONTAINER, "transform") else None,
        origin=_made(name, node),
    )


def _module_place(evaluator: Evaluator, cls: str, row: Row, arguments: Arguments) -> Place:
    # A function that makes a module makes one with parameters; of a class that the tables do not know, nobody can tell.
    state = (evaluator.facts.cls(cls) or {}).get("state", "children") if cls else True
    if "device_map" in arguments.named:
        return Place(key=("device", arguments.node))
    if state is False:
        return NOWHERE_KNOWN
    if isinstance(state, list):
        brought = [arguments.get(name, (evaluator.facts.cls(cls) or {}).get("at", {}).get(name)) for name in state]
        values = [operand[1] for operand in brought if operand is not None and operand[1].kind != v.NOTHING]
        return values[0].place if len(values) == 1 and values[0].is_tensor and values[0].dims != 0 else NOWHERE_KNOWN
    if row.get("place") == "unknown" or (evaluator.facts.is_own(cls) and is_told_where(arguments.node)):
        return NOWHERE_KNOWN  # a class of the project that may put its instances elsewhere than on the CPU
    if state == "children":
        children = [value for _, value in arguments.positional if value.is_module]
        stateful = [one for one in children if (evaluator.facts.cls(one.type) or {}).get("state") is not False]
        places = [evaluator.state.place_of(value) for value in stateful]
        return places[0] if places and all(place == places[0] for place in places) else NOWHERE_KNOWN
    if arguments.open_ended:
        return NOWHERE_KNOWN
    rule = str(row["place"]) if row.get("place") in ("first", "like") else "factory"
    return _place_by_rule(evaluator, arguments.node, rule, row, arguments)


def is_told_where(call: ast.Call) -> bool:
    """Whether a call of a class may be given a device."""
    if any(keyword.arg in (None, "device") for keyword in call.keywords):
        return True
    words = [
        node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else str(node.value)
        for argument in [*call.args, *(keyword.value for keyword in call.keywords)]
        for node in walk(argument)
        if isinstance(node, ast.Name | ast.Attribute | ast.Constant)
    ]
    return any(word in text.lower() for text in words for word in ("device", "cuda", "gpu"))


def _by_row(evaluator: Evaluator, node: ast.Call, name: str, row: Row, arguments: Arguments) -> Value:
    returns = str(row.get("returns", v.UNKNOWN))
    place_rule = row.get("place", "none")
    origin = _made(name, node)
    if row.get("collective") and arguments.positional and name.rsplit(".", 1)[-1] in _ON_ONE_TENSOR:
        evaluator.prove(arguments.positional[0][1], v.TENSOR)
    if returns == "first":
        return arguments.positional[0][1] if arguments.positional else evaluator.unknown(node)
    if returns in ("any", v.UNKNOWN):
        return evaluator.unknown(node)
    if returns not in (v.DEVICE, v.TENSOR, v.TENSORS, v.PARAMETER, v.BUFFER, v.CHECKPOINT):
        return _instance(evaluator, node, name, row, arguments)
    if returns == v.DEVICE:
        return _device(evaluator, node, arguments)
    if place_rule == "operands":
        tensors = operands_of(arguments.all)
        last = name.rsplit(".", 1)[-1]
        proves = name.startswith("torch.") and last not in _NUMBER_FIRST
        if proves and arguments.positional and not isinstance(arguments.positional[0][0], ast.Starred):
            first = arguments.positional[0][1]
            literal = isinstance(arguments.positional[0][0], ast.List | ast.Tuple)
            for value in (first.items or ()) if literal else (first,):
                evaluator.prove(value, v.TENSOR)
            if last.endswith(("_loss", "cross_entropy", "kl_div")) and len(arguments.positional) > 1:
                evaluator.prove(arguments.positional[1][1], v.TENSOR)
        place = evaluator.inference.meet(evaluator, node, tensors, row)
        dims = _result_dims(last, row, tensors, arguments)
        return Value(kind=returns, place=place, ids=frozenset([node]), dims=dims, origin=_origin_of(tensors, place))
    for expression, value in arguments.positional if name in _COUNTING else ():
        if not isinstance(expression, ast.Starred):
            evaluator.prove(value, v.NUMBER)
    place = _place_by_rule(evaluator, node, str(place_rule), row, arguments)
    if "items" in row:
        return Value(kind=v.SEQUENCE, items=_items(node, row, place, origin), ids=frozenset([node]), origin=origin)
    dims = _dims(name, arguments) if place_rule == "factory" or row.get("data") else row.get("dims")
    return Value(kind=returns, place=place, ids=frozenset([node]), origin=origin, dims=dims)


def _items(node: ast.Call, row: Row, place: Place, origin: Origin) -> tuple[Value, ...]:
    """The items of a result of several, of which the row says what each is."""
    found = []
    for position, kind in enumerate(row["items"]):
        where = CPU if position in row.get("host_items", ()) else place
        ids = frozenset([("item", node, position)])
        found.append(Value(kind=kind, place=where if kind == v.TENSOR else NOWHERE_KNOWN, ids=ids, origin=origin))
    return tuple(found)


def _dims(name: str, arguments: Arguments) -> int | None:
    """How many dimensions a factory's tensor has, where its arguments show it: `torch.tensor(0.0)` has none."""
    last = name.rsplit(".", 1)[-1]
    if last in ("arange", "linspace", "logspace", "range", "randperm"):
        return 1
    if last == "eye":
        return 2
    if not arguments.positional:
        return None
    expression, value = arguments.positional[0]
    if last in ("tensor", "as_tensor", "asarray", "scalar_tensor"):
        return _nested(value)
    if isinstance(expression, ast.Tuple | ast.List):
        return None if any(isinstance(item, ast.Starred) for item in expression.elts) else len(expression.elts)
    if last in ("zeros", "ones", "empty", "rand", "randn") and all(
        size.kind == v.NUMBER and not isinstance(item, ast.Starred) for item, size in arguments.positional
    ):
        return len(arguments.positional)
    return None


def _nested(value: Value) -> int | None:
    """How many lists of a literal are in each other, the innermost of numbers; None where that is not seen."""
    if value.kind == v.NUMBER:
        return 0
    inner = value.items[0] if value.items else value.element if value.kind == v.SEQUENCE else None
    dims = _nested(inner) if inner is not None else None
    return None if dims is None else dims + 1


def _result_dims(name: str, row: Row, tensors: Sequence[Operand], arguments: Arguments) -> int | None:
    """0 where the result of an operation surely has no dimension."""
    if "dims" in row:
        return int(row["dims"])
    if "dims_alone" in row and len(arguments.all) == (1 if isinstance(arguments.node.func, ast.Name) or tensors else 0):
        return int(row["dims_alone"])
    return v.scalar_dims(*(value for _, value in tensors)) if name not in _CHANGE_DIMS else None


def _place_by_rule(evaluator: Evaluator, node: ast.Call, rule: str, row: Row, arguments: Arguments) -> Place:
    device = arguments.get(str(row.get("device_param", "device")), row.get("device_position"))
    if rule == "host":
        return NOWHERE_KNOWN if "device" in arguments.named else CPU
    if "out" in arguments.named:
        return evaluator.state.place_of(arguments.named["out"][1])
    if rule in ("factory", "like") and device is not None and device[1].kind != v.NOTHING:
        return place_named_by(device[1])
    starred = row.get("device_position") is not None or rule == "like"
    if rule in ("factory", "like") and (arguments.open_ended if starred else arguments.open_keywords):
        return NOWHERE_KNOWN
    if rule in ("like", "first"):
        first = arguments.positional[0][1] if arguments.positional else None
        if first is not None and (first.is_tensor or first.is_module or first.kind == v.TENSORS):
            return evaluator.state.place_of(first)
        # `as_tensor(x)` of what may be a tensor stays with it; nobody copies a tensor by `tensor(x)`, which warns.
        copies = row.get("data") and not row.get("view")
        plain = row.get("data") and first is not None and first.kind != v.UNKNOWN
        return evaluator.state.default if copies or plain else NOWHERE_KNOWN
    if rule == "factory":
        if device is not None and device[1].kind != v.NOTHING:
            return NOWHERE_KNOWN
        return evaluator.state.default
    return NOWHERE_KNOWN


def place_named_by(device: Value) -> Place:
    """The place that a value used as a device argument names."""
    if device.kind == v.DEVICE or (device.kind == v.TEXT and device.const is None):
        return device.place
    if isinstance(device.const, str):
        return v.named_place(device.const) or NOWHERE_KNOWN
    if isinstance(device.const, int) and not isinstance(device.const, bool):
        return Place("cuda", device.const)
    if device.is_tensor:
        return device.place
    if device.ids:
        return Place(key=("named by", device.ids), text=device.place.text)
    return NOWHERE_KNOWN


def _device(evaluator: Evaluator, node: ast.Call, arguments: Arguments) -> Value:
    """`torch.device(...)` in all its spellings, and functions that give a device back."""
    ids: frozenset[Hashable] = frozenset([node])
    first, index = arguments.get("device", 0) or arguments.get("type"), arguments.get("index", 1)
    place = Place(key=("device", node))
    if first is not None:
        _, value = first
        if isinstance(value.const, str) and index is None:
            place = v.named_place(value.const) or place
        elif isinstance(value.const, str) and index is not None and isinstance(index[1].const, int):
            place = Place(value.const, index[1].const)
        elif isinstance(value.const, int) and index is None:
            place = Place("cuda", value.const)
        elif value.kind == v.DEVICE or (value.kind == v.TEXT and value.place.known):
            place = replace(value.place, text="")
    return Value(kind=v.DEVICE, place=place, ids=ids, origin=Origin("chosen", node.lineno))


# --- methods ------------------------------------------------------------------------------------------------------


def _method(
    evaluator: Evaluator, node: ast.Call, function: ast.Attribute, receiver: Value, arguments: Arguments
) -> Value:
    name = function.attr
    if name == "backward":
        evaluator.is_loss(receiver)
    if receiver.kind == v.UNKNOWN:
        evaluator.evidence.attribute(receiver.ids, name, called=True)
        if name == "size" and arguments.positional:
            evaluator.prove(receiver, v.TENSOR)  # an array's or image's size is no function
        if _has_dim(evaluator, name, arguments):
            evaluator.prove(receiver, v.TENSOR)  # arrays have axes, and xarray's dimensions are strings
        receiver = evaluator.resolved(receiver)
    if receiver.is_tensor:
        return _tensor_method(evaluator, node, name, receiver, arguments)
    if receiver.is_module:
        return _module_method(evaluator, node, name, receiver, arguments)
    if receiver.kind == v.UNKNOWN:
        return _unknown_method(evaluator, node, name, receiver, arguments)
    if receiver.kind == v.BATCH and name in TRANSFERS:
        return replace(receiver, place=moved_to(evaluator, name, arguments) or receiver.place)
    if receiver.kind == v.TOKENIZER and name in ("encode", "__call__", "batch_encode_plus", "encode_plus"):
        result = _tokenized(node, arguments)
        return replace(result, kind=v.TENSOR) if result.kind == v.BATCH and name == "encode" else result
    if receiver.kind in (v.SEQUENCE, v.MAPPING) and name not in _READING:
        for part in effects.parts(receiver):
            effects.moved_somewhere(evaluator, part)
        evaluator.state.changed(receiver)
    if receiver.kind == v.MAPPING:
        return _mapping_method(evaluator, node, name, receiver)
    if receiver.kind == v.SEQUENCE and name in ("append", "extend") and arguments.positional:
        _extend(evaluator, function, receiver, arguments.positional[0][1], name)
        return Value(kind=v.NOTHING)
    row = evaluator.facts.method(receiver.kind, name)
    if row is None and receiver.type:
        row = evaluator.facts.call(f"{receiver.type}.{name}")
    if row is not None:
        returns = str(row.get("returns", v.UNKNOWN))
        if returns == "self":
            return receiver
        if returns != v.UNKNOWN:
            return Value(kind=returns, ids=frozenset([node]), place=_row_place(row, receiver))
    if row is None:
        effects.hand_over(evaluator, arguments)
    return evaluator.unknown(node)


def _has_dim(evaluator: Evaluator, name: str, arguments: Arguments) -> bool:
    """Whether a method of a tensor's is told a dimension by number: `x.mean(dim=-1)`."""
    given = [arguments.named[word][1] for word in ("dim", "keepdim") if word in arguments.named]
    return any(value.kind == v.NUMBER for value in given) and evaluator.facts.method(v.TENSOR, name) is not None


def short(name: str) -> str:
    """A qualified name as most people write it: `torch.zeros`, `nn.Linear`, `DataLoader`."""
    for prefix, spelling in (
        ("torch.nn.functional.", "F."),
        ("torch.nn.", "nn."),
        ("torch.utils.data.", ""),
        ("builtins.", ""),
    ):
        if name.startswith(prefix):
            return spelling + name[len(prefix) :]
    return name


def _row_place(row: Row, receiver: Value) -> Place:
    return CPU if row.get("place") == "host" else receiver.place


def _extend(evaluator: Evaluator, function: ast.Attribute, receiver: Value, item: Value, name: str) -> None:
    """A list that grows holds what was put into it."""
    from devlint.placement.evaluate import path_of

    path = path_of(function.value)
    element = item if name == "append" else (item.element or v.ANYTHING)
    joined = element if receiver.element is None or receiver.items == () else v.join(receiver.element, element)
    if path is not None and path in evaluator.state.names:
        evaluator.state.names[path] = replace(receiver, items=None, element=joined)


def _mapping_method(evaluator: Evaluator, node: ast.Call, name: str, receiver: Value) -> Value:
    element = v.any_of(receiver)
    if name == "values":
        return Value(kind=v.SEQUENCE, element=element, ids=frozenset([node]))
    if name == "items" and element is not None:
        pair = Value(kind=v.SEQUENCE, items=(Value(kind=v.TEXT, ids=frozenset([node])), element))
        return Value(kind=v.SEQUENCE, element=pair, ids=frozenset([node]))
    if name == "get" and element is not None and element.is_module:
        return element
    return evaluator.unknown(node)


def moved_to(evaluator: Evaluator, name: str, arguments: Arguments) -> Place | None:
    """Where a transfer puts its result; None where it moves nothing (`.to(torch.float16)`)."""
    if name == "cpu":
        return CPU
    if name != "to":
        device = arguments.get("device", 0)
        if device is None or device[1].kind == v.NOTHING:
            return Place(name)
        return place_named_by(device[1])
    device = arguments.get("device", 0)
    if device is None:
        other = arguments.get("other")
        if other is not None:
            return evaluator.state.place_of(other[1])
        return NOWHERE_KNOWN if arguments.open_ended else None
    value = device[1]
    if value.kind == "dtype" or (value.kind == v.NAME and value.type.startswith("torch.")):
        return None
    if value.kind == v.NOTHING:
        return None
    return place_named_by(value)


def _tensor_method(evaluator: Evaluator, node: ast.Call, name: str, receiver: Value, arguments: Arguments) -> Value:
    assert isinstance(node.func, ast.Attribute)
    moved = _moved(name, node, receiver)
    if name in TRANSFERS:
        place = moved_to(evaluator, name, arguments)
        if place is None:
            return replace(receiver, kind=v.TENSOR, ids=frozenset([node]))
        # Wherever the branches before may have put it, here it is now: their alternatives are past.
        return replace(receiver, kind=v.TENSOR, place=place, ids=frozenset([node]), alternatives=(), origin=moved)
    row = evaluator.facts.method(v.TENSOR, name)
    if row is None:
        return evaluator.unknown(node)
    returns, rule = str(row.get("returns", v.UNKNOWN)), row.get("place", "self")
    if row.get("needs_host") and receiver.place.key is not None and "force" not in arguments.named:
        evaluator.on_host.add(receiver.place.key)
    if returns == "self":
        returns = v.TENSOR
    if returns not in (v.TENSOR, v.TENSORS, v.SEQUENCE):
        host = Value(kind=returns, ids=frozenset([node]), place=CPU if rule == "host" else NOWHERE_KNOWN)
        return host if returns != v.UNKNOWN else evaluator.unknown(node)
    if rule == "host":
        return Value(kind=returns, place=CPU, ids=frozenset([node]))
    if rule == "argument":
        first = arguments.get("other", 0)
        place = first[1].place if first is not None and first[1].is_tensor else NOWHERE_KNOWN
        if first is not None and _is_dtype(first[1]):
            return replace(receiver, kind=v.TENSOR, ids=frozenset([node]))
        return Value(kind=returns, place=place, ids=frozenset([node]), origin=moved)
    if rule == "like":
        device = arguments.get("device")
        if device is not None and device[1].kind != v.NOTHING:
            return Value(kind=returns, place=place_named_by(device[1]), ids=frozenset([node]), origin=moved)
        place = NOWHERE_KNOWN if arguments.open_ended else receiver.place
        return Value(kind=returns, place=place, ids=frozenset([node]), origin=receiver.origin)
    tensors = [(node.func.value, receiver), *operands_of(arguments.all)]
    place = evaluator.inference.meet(evaluator, node, tensors, row) if rule == "operands" else receiver.place
    dims = receiver.dims if row.get("inplace") else _method_dims(name, row, tensors, arguments)
    kind = v.TENSORS if returns in (v.TENSORS, v.SEQUENCE) else v.TENSOR
    if row.get("inplace") and kind == v.TENSOR:
        kind = receiver.kind  # `nn.Parameter(x).requires_grad_()` is the parameter itself
    ids = receiver.ids if row.get("inplace") else frozenset([node])
    return Value(kind=kind, place=place, ids=ids, dims=dims, origin=receiver.origin)


def _is_dtype(value: Value) -> bool:
    named = value.kind == v.NAME and value.type.startswith("torch.") and not value.type.endswith("Tensor")
    return named or value.kind == "dtype"


def _method_dims(name: str, row: Row, tensors: Sequence[Operand], arguments: Arguments) -> int | None:
    if "dims_alone" in row and not arguments.all:
        return int(row["dims_alone"])
    return int(row["dims"]) if "dims" in row else _result_dims(name, {}, tensors, arguments)


def _module_method(evaluator: Evaluator, node: ast.Call, name: str, receiver: Value, arguments: Arguments) -> Value:
    if name in TRANSFERS:
        place = moved_to(evaluator, name, arguments)
        if place is not None:
            for identity in receiver.ids:
                evaluator.state.places[identity] = place
                for part in identity.args if isinstance(identity, ast.Call) else ():
                    inner = evaluator.values.get(part, v.ANYTHING)  # `DataParallel(net).cuda()` moves net
                    if inner.is_module:
                        evaluator.state.places.update(dict.fromkeys(inner.ids, place))
        return replace(receiver, place=receiver.place if place is None else place)
    if any(value.kind == v.FUNCTION and effects.moves_what_it_is_given(value) for _, value in arguments.all):
        effects.moved_somewhere(evaluator, receiver)  # `net.apply(lambda part: part.cuda())`
    if name in ("parameters", "buffers"):
        element = Value(kind=v.PARAMETER, place=evaluator.state.place_of(receiver), ids=frozenset([("element", node)]))
        return Value(kind=v.SEQUENCE, element=element, ids=frozenset([node]))
    if name in ("named_parameters", "named_buffers"):
        parameter = Value(
            kind=v.PARAMETER, place=evaluator.state.place_of(receiver), ids=frozenset([("element", node)])
        )
        pair = Value(kind=v.SEQUENCE, items=(Value(kind=v.TEXT), parameter))
        return Value(kind=v.SEQUENCE, element=pair, ids=frozenset([node]))
    if name in ("modules", "children"):
        return Value(
            kind=v.SEQUENCE, element=Value(kind=v.MODULE, ids=frozenset([("element", node)])), ids=frozenset([node])
        )
    if name in ("named_modules", "named_children"):
        pair = Value(
            kind=v.SEQUENCE, items=(Value(kind=v.TEXT), Value(kind=v.MODULE, ids=frozenset([("element", node)])))
        )
        return Value(kind=v.SEQUENCE, element=pair, ids=frozenset([node]))
    if name == "state_dict":
        tensor = Value(kind=v.TENSOR, place=evaluator.state.place_of(receiver), ids=frozenset([("element", node)]))
        return Value(kind=v.MAPPING, element=tensor, ids=frozenset([node]), type="state_dict")
    row = evaluator.facts.method(v.MODULE, name)
    if row is not None and row.get("returns") in (v.MODULE, "first"):
        return receiver
    if name in ("forward", "__call__"):
        return _module_call(evaluator, node, receiver, arguments)
    if row is None and receiver.type:
        row = evaluator.facts.call(f"{receiver.type}.{name}")
    if name == "generate" and receiver.type.startswith("transformers."):
        return evaluator.unknown(node, place=evaluator.state.place_of(receiver))
    returns = str(row.get("returns", v.UNKNOWN)) if row is not None else v.UNKNOWN
    if returns != v.UNKNOWN:
        return Value(kind=returns, ids=frozenset([node]))
    if row is None:
        effects.hand_over(evaluator, arguments)
    return evaluator.unknown(node)


def _unknown_method(evaluator: Evaluator, node: ast.Call, name: str, receiver: Value, arguments: Arguments) -> Value:
    """A method of something unknown. A transfer gives what its receiver is, where it was sent."""
    if name in TRANSFERS and receiver.ids:
        evaluator.evidence.moved(receiver.ids)
        place = moved_to(evaluator, name, arguments)
        if place is None:
            return replace(receiver, origin=_moved(name, node, receiver))
        return replace(receiver, place=place, alternatives=(), origin=_moved(name, node, receiver))
    if name == "generate" and "max_new_tokens" in arguments.named and "return_dict_in_generate" not in arguments.named:
        return Value(kind=v.TENSOR, ids=frozenset([node]))  # a language model of transformers
    row = evaluator.facts.method(v.TENSOR, name)
    if row is not None and row.get("returns") == v.TENSOR and row.get("place") in ("self", "operands") and receiver.ids:
        # `view`, `sum`, `reshape`: of a tensor a tensor, of an array an array; what the result proves, its source is.
        return replace(receiver, const=None, items=None, alternatives=(), dims=None)
    if row is None:
        effects.hand_over(evaluator, arguments)
    return evaluator.unknown(node)


def _module_call(evaluator: Evaluator, node: ast.Call, module: Value, arguments: Arguments) -> Value:
    """`module(x)`: a layer of torch gives a tensor where its input is, others give something where they are."""
    evaluator.inference.fed(evaluator, node, module, arguments)
    place = evaluator.state.place_of(module)
    tensors = operands_of(arguments.all, states=True)
    if not place.known and tensors:
        place = tensors[0][1].place
    gives = _gives(evaluator, module)
    if gives in (v.TENSOR, v.TENSORS):
        for expression, value in arguments.positional:
            if not isinstance(expression, ast.Starred):
                evaluator.prove(value, v.TENSOR)
        row = evaluator.facts.call(_INPUTS_LIKE.get(module.type, "")) or {}
        here = evaluator.state.place_of(module)
        located = [(node.func, replace(module, place=here))] if here.known else []
        place = evaluator.inference.meet(evaluator, node, [*located, *tensors], row)
        return Value(kind=gives, place=place, ids=frozenset([node]), origin=_origin_of(tensors, place))
    evaluator.outputs.add(node)
    if place.known and not (evaluator.facts.cls(module.type) or {}).get("moves_inputs"):
        evaluator.feed(node, [(node.func, replace(module, place=place)), *_inputs(evaluator, node, arguments)])
    return evaluator.unknown(node, place=place if place.known else None)


def _inputs(evaluator: Evaluator, node: ast.Call, arguments: Arguments) -> list[Operand]:
    """What goes into a module whose forward is not known: its first argument, and batches; lengths and other later
    arguments may belong on the host."""
    found = [(e, value) for e, value in arguments.positional[:1] if value.is_tensor or value.kind == v.BATCH]
    spread = [(keyword.value, evaluator.values[keyword.value]) for keyword in node.keywords if keyword.arg is None]
    return found + [(expression, value) for expression, value in spread if value.kind == v.BATCH]


def _gives(evaluator: Evaluator, module: Value) -> str:
    """What a layer or loss of torch.nn gives for tensors; a Sequential of such gives what they give."""
    if module.kind == v.CONTAINER:
        known = module.type == "torch.nn.Sequential" and module.items
        all_tensors = known and all(_gives(evaluator, item) == v.TENSOR for item in module.items or ())
        return v.TENSOR if all_tensors else v.UNKNOWN
    return str((evaluator.facts.cls(module.type) or {}).get("gives", v.UNKNOWN)) if module.type else v.UNKNOWN


def _tokenized(node: ast.Call, arguments: Arguments) -> Value:
    tensors = arguments.get("return_tensors")
    if tensors is None or tensors[1].const != "pt":
        return Value(kind=v.MAPPING if tensors is None else v.UNKNOWN, ids=frozenset([node]))
    return Value(
        kind=v.BATCH, place=CPU, ids=frozenset([node]), origin=Origin("made by the tokenizer", node.lineno, node, node)
    )


# --- operations ---------------------------------------------------------------------------------------------------


def operands_of(arguments: Sequence[Operand], states: bool = False) -> list[Operand]:
    """The tensors among arguments; a list or tuple holds some only as the first, or as `states` of an RNN."""
    found: list[Operand] = []
    for position, (expression, value) in enumerate(arguments):
        value = _or_tensor(value)
        if value.is_tensor:
            found.append((expression, value))
        elif states and value.kind == v.SEQUENCE and value.items and not isinstance(expression, ast.Tuple | ast.List):
            found += [(expression, item) for item in value.items if item.is_tensor]
        elif (
            (position == 0 or states)
            and value.kind == v.SEQUENCE
            and value.items is not None
            and isinstance(expression, ast.Tuple | ast.List)
        ):
            inner = [e for e in expression.elts if not isinstance(e, ast.Starred)]
            if len(inner) == len(value.items):
                found += [item for item in zip(inner, value.items, strict=True) if item[1].is_tensor]
        elif position == 0 and value.kind == v.SEQUENCE and value.element is not None:
            element = value.element
            if element.is_tensor and element.place.known and not element.alternatives and element.dims != 0:
                found.append((expression, element))
    return found


def _or_tensor(value: Value) -> Value:
    """A tensor, where a value is one, or else None or an argument: `if mask is None: mask = torch.ones(n)`."""
    if value.kind != v.UNKNOWN or not any(one.is_tensor for one in value.alternatives):
        return value
    others = [one for one in value.alternatives if not (one.is_tensor or one.kind == v.NOTHING)]
    given = all(one.kind == v.UNKNOWN and any(isinstance(i, ast.arg) for i in _parts(one.place.key)) for one in others)
    return replace(value, kind=v.TENSOR) if given else value


def _parts(key: Hashable) -> tuple[Hashable, ...]:
    return key if isinstance(key, tuple) else ()


def _origin_of(tensors: Sequence[Operand], place: Place) -> Origin | None:
    """How what decides an operation's place came there."""
    return next((value.origin for _, value in tensors if value.place == place), None)


def _made(name: str, node: ast.Call) -> Origin:
    return Origin(f"made by {short(name)}", node.lineno, node, node)


def _moved(name: str, node: ast.Call, receiver: Value) -> Origin:
    return Origin(f"moved by .{name}()", node.lineno, node, receiver.origin.root if receiver.origin else None)


def operate(evaluator: Evaluator, node: ast.expr, operands: Sequence[Operand]) -> Value:
    """An operator between values: tensors meet, numbers do not matter."""
    operands = [(expression, _or_tensor(value)) for expression, value in operands]
    if any(value.is_tensor for _, value in operands):
        for _, value in operands:
            if _is_forward_input(evaluator, value):
                evaluator.prove(value, v.TENSOR)
    tensors = operands_of([operand for operand in operands if operand[1].is_tensor])
    if not tensors:
        kinds = {value.kind for _, value in operands}
        if kinds == {v.NUMBER}:
            return Value(kind=v.NUMBER)
        if kinds == {v.TEXT}:
            return Value(kind=v.TEXT, ids=frozenset([node]), place=Place(key=("text", node)))
        if v.SEQUENCE in kinds and kinds <= {v.SEQUENCE, v.NUMBER}:
            return Value(
                kind=v.SEQUENCE, element=v.join_all(x.element for _, x in operands if x.element), ids=frozenset([node])
            )
        return evaluator.unknown(node)
    place = evaluator.inference.meet(evaluator, node, tensors, {})
    alone = all(value.is_tensor or _is_number(value) for _, value in operands)
    scalars = v.scalar_dims(*(value for _, value in tensors))
    if not alone and scalars is not None:
        # What is not known may be a tensor elsewhere, which a number in a tensor meets on any device.
        return Value(kind=v.TENSOR, place=v.NOWHERE_KNOWN, ids=frozenset([node]))
    dims = scalars if alone else None
    return Value(kind=v.TENSOR, place=place, ids=frozenset([node]), dims=dims, origin=_origin_of(tensors, place))


def _is_forward_input(evaluator: Evaluator, value: Value) -> bool:
    """Whether a value is the first argument of a module's `forward`: beside a tensor, in arithmetic, it is one."""
    function = evaluator.owner
    if value.kind != v.UNKNOWN or not isinstance(function, ast.FunctionDef) or function.name != "forward":
        return False
    arguments = [*function.args.posonlyargs, *function.args.args]
    if len(arguments) - len(function.args.defaults) < 2 or value.ids != frozenset([arguments[1]]):
        return False
    home = evaluator.inference.parents.get(function)
    return isinstance(home, ast.ClassDef) and evaluator.inference.classes.kind(home) in v.MODULE_KINDS


def _is_number(value: Value) -> bool:
    return value.kind == v.NUMBER or (value.kind == v.NAME and value.type.startswith("math."))


# --- calls that change what is known ------------------------------------------------------------------------------


def _partial(evaluator: Evaluator, node: ast.Call, arguments: Arguments) -> Value | None:
    if not arguments.positional:
        return None
    function = arguments.positional[0][1]
    return replace(function, ids=frozenset([node]), node=node) if function.kind == v.NAME else None


def _first(evaluator: Evaluator, node: ast.Call, arguments: Arguments) -> Value | None:
    return arguments.positional[0][1] if arguments.positional else None


def _next(evaluator: Evaluator, node: ast.Call, arguments: Arguments) -> Value | None:
    if not arguments.positional:
        return None
    return evaluator.element_of(arguments.positional[0][1], node)


def _enumerate(evaluator: Evaluator, node: ast.Call, arguments: Arguments) -> Value | None:
    if not arguments.positional:
        return None
    element = evaluator.element_of(arguments.positional[0][1], node)
    pair = Value(kind=v.SEQUENCE, items=(Value(kind=v.NUMBER), element))
    return Value(kind=v.SEQUENCE, element=pair, ids=frozenset([node]))


def _zip(evaluator: Evaluator, node: ast.Call, arguments: Arguments) -> Value | None:
    if arguments.open_ended:
        return None
    elements = tuple(evaluator.element_of(value, expression) for expression, value in arguments.positional)
    pair = Value(kind=v.SEQUENCE, items=elements)
    return Value(kind=v.SEQUENCE, element=pair, ids=frozenset([node]))


def _number(evaluator: Evaluator, node: ast.Call, arguments: Arguments) -> Value | None:
    return Value(kind=v.NUMBER, ids=frozenset([node]))


def _text(evaluator: Evaluator, node: ast.Call, arguments: Arguments) -> Value | None:
    return Value(kind=v.TEXT, ids=frozenset([node]), place=Place(key=("text", node)))


def _range(evaluator: Evaluator, node: ast.Call, arguments: Arguments) -> Value | None:
    return Value(kind=v.SEQUENCE, element=Value(kind=v.NUMBER), ids=frozenset([node]))


def _deepcopy(evaluator: Evaluator, node: ast.Call, arguments: Arguments) -> Value | None:
    if not arguments.positional:
        return None
    source = arguments.positional[0][1]
    if source.kind == v.UNKNOWN:
        return None
    return replace(source, ids=frozenset([node]), place=evaluator.state.place_of(source))


def _super(evaluator: Evaluator, node: ast.Call, arguments: Arguments) -> Value | None:
    """`super()`: the instance itself, known as what its first library base is."""
    for above in evaluator.inference.ancestors(node):
        if isinstance(above, ast.ClassDef):
            classes = evaluator.inference.classes
            base = next((b for b in classes.lineage(above) if isinstance(b, str)), "")
            place = Place(key=("self", above), text="self")
            return Value(kind=classes.kind(above), type=base, place=place, ids=frozenset([("self", above)]))
    return None


_SPECIAL = {
    "builtins.super": _super,
    "*pass": _first,
    "functools.partial": _partial,
    "builtins.next": _next,
    "builtins.enumerate": _enumerate,
    "builtins.zip": _zip,
    "builtins.range": _range,
    "builtins.str": _text,
    "builtins.repr": _text,
    **dict.fromkeys(
        [
            "builtins.len",
            "builtins.int",
            "builtins.float",
            "builtins.bool",
            "builtins.isinstance",
            "builtins.hasattr",
            "builtins.issubclass",
            "builtins.id",
            "builtins.hash",
            "builtins.callable",
        ],
        _number,
    ),
    "copy.deepcopy": _deepcopy,
    "copy.copy": _deepcopy,
    "torch.compile": _first,
    "torch.jit.script": _first,
}
