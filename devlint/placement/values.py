"""The lattice: what a value is, and where it lives.

A rule reports what it can prove, so unknown is a value and the usual one. Two symbolic places are equal only when
they stem from the same definition.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from devlint.placement import device_text

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_):
        return lambda decorator: decorator


T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def _unchanging(cls: type[T]) -> type[T]:
    """A dataclass that nothing changes. mypy sees to that: `frozen=True` would make each value three times as slow."""
    return dataclass(slots=True, unsafe_hash=True)(cls)


# Kinds. They are the words of the fact tables in `api/`, so that a row needs no translation.
UNKNOWN = "unknown"
TENSOR = "tensor"
TENSORS = "tensors"
PARAMETER = "parameter"
BUFFER = "buffer"
MODULE = "module"
METRIC = "metric"
CONTAINER = "container"
"""ModuleList, ModuleDict, Sequential: modules that hold modules."""
OPTIMIZER = "optimizer"
LOADER = "loader"
DATASET = "dataset"
DEVICE = "device"
GENERATOR = "generator"
TOKENIZER = "tokenizer"
BATCH = "batch"
CHECKPOINT = "checkpoint"
ARRAY = "array"
NUMBER = "number"
TEXT = "text"
NOTHING = "none"
SEQUENCE = "sequence"
MAPPING = "mapping"
NAME = "name"
"""An imported name: a package, a function or a class; `type` holds its qualified name."""
FUNCTION = "function"
"""A function or lambda of the same file; `node` holds it."""
CLASS = "class"
"""A class of the same file."""
OBJECT = "object"
"""An instance of a class that is none of the above; `type` or `node` says of which."""

TENSOR_KINDS = frozenset({TENSOR, PARAMETER, BUFFER})
MODULE_KINDS = frozenset({MODULE, METRIC, CONTAINER, "pretrained", "lightning_module"})


MAYBE_NONE = -1
"""Dimensions of a tensor that may have none: `t[i]` of a table with one may meet tensors on any device."""

MAX_SIZE = 512
"""Values in one value: of containers of containers, and of alternatives, that hold more, the contents are not known. A
loop around `a = [a, b]` would have no end else, and comparing what 40 lines `a = (a, a)` make would not come to one."""


@_unchanging
class Place:
    """Where a tensor or module lives, or what a device value names.

    A place is a device type, with an index where one is known; or a symbol (`key`), as "the value that `device` has
    since line 4" or "wherever the argument x is"; or neither: unknown. `text` is how the file writes it.
    """

    device: str = ""
    index: int | None = None
    key: Hashable = None
    text: str = ""

    @property
    def known(self) -> bool:
        return bool(self.device) or self.key is not None

    @property
    def is_cpu(self) -> bool:
        return self.device == "cpu"

    def same(self, other: Place) -> bool:
        """Proven to be one and the same place."""
        if self.key is not None or other.key is not None:
            return self.key is not None and self.key == other.key
        return bool(self.device) and (self.device, self.index) == (other.device, other.index)


NOWHERE_KNOWN = Place()
CPU = Place("cpu")


def named_place(text: str) -> Place | None:
    """The place that a device string names, by torch.device's grammar; None where the grammar refuses it."""
    device = device_text.read(text)
    if device is None:
        return None
    return CPU if device.type == "cpu" else Place(device.type, device.index)


@_unchanging
class Origin:
    """How a value came to be: words for a message, and the row (from 1) where it happened; 0 for no row."""

    words: str
    row: int = 0
    node: object = field(default=None, compare=False, repr=False)
    """The call that put the value where it is."""
    root: object = field(default=None, compare=False, repr=False)
    """The call that made the value, wherever it was moved since."""

    def __str__(self) -> str:
        return f"{self.words} at line {self.row}" if self.row else self.words


@_unchanging
class Value:
    """What devlint believes of one value.

    `ids` are the definitions that it can stem from: what is seen of a value at a later use (a method that only a
    tensor has) speaks for its definitions. `alternatives` holds what came together where two branches disagree.
    """

    kind: str = UNKNOWN
    place: Place = NOWHERE_KNOWN
    type: str = ""
    ids: frozenset[Hashable] = frozenset()
    const: str | int | float | bool | None = None
    items: tuple[Value, ...] | None = None
    keys: Mapping[str, Value] | None = field(default=None, hash=False)
    element: Value | None = None
    node: object = field(default=None, compare=False)
    dims: int | None = None
    alternatives: tuple[Value, ...] = ()
    origin: Origin | None = field(default=None, compare=False)
    size: int = field(default=1, init=False, compare=False, repr=False)
    """How many values this one holds, itself included."""

    def __post_init__(self) -> None:
        if not (self.items or self.alternatives or self.keys or self.element is not None):
            return
        size = 1 + sum(value.size for value in self.items or ()) + sum(value.size for value in self.alternatives)
        size += sum(value.size for value in self.keys.values()) if self.keys else 0
        size += self.element.size if self.element is not None else 0
        if size > MAX_SIZE:
            for name, nothing in (("items", None), ("keys", None), ("element", None), ("alternatives", ())):
                object.__setattr__(self, name, nothing)
            size = 1
        object.__setattr__(self, "size", size)

    @property
    def is_tensor(self) -> bool:
        return self.kind in TENSOR_KINDS

    @property
    def is_module(self) -> bool:
        return self.kind in MODULE_KINDS

    def at(self, place: Place, origin: Origin | None = None) -> Value:
        return replace(self, place=place, origin=origin or self.origin)

    def possibilities(self) -> tuple[Value, ...]:
        """The values that this one can be: its alternatives, or itself."""
        return self.alternatives or (self,)


ANYTHING = Value()


def join(first: Value, second: Value) -> Value:
    """What is known where two branches come together."""
    if first == second:
        return first
    kind = first.kind if first.kind == second.kind else UNKNOWN
    same_class = first.type == second.type and first.node is second.node
    place = first.place if first.place.same(second.place) or first.place == second.place else NOWHERE_KNOWN
    alternatives: tuple[Value, ...] = ()
    made_apart = kind in TENSOR_KINDS and place.is_cpu and first.origin != second.origin
    apart = place != first.place or made_apart or bool(first.alternatives or second.alternatives)
    apart = apart and kind not in MODULE_KINDS  # modules move in place: where each of two is now is kept elsewhere
    if kind == UNKNOWN or kind in (DEVICE, TEXT, NAME) or apart:
        alternatives = tuple(dict.fromkeys([*first.possibilities(), *second.possibilities()]))
        if len(alternatives) > 8 or _moved_in_one_branch(alternatives):
            alternatives = ()
    items = None
    if first.items is not None and second.items is not None and len(first.items) == len(second.items):
        items = tuple(join(a, b) for a, b in zip(first.items, second.items, strict=True))
    return Value(
        kind=kind,
        place=place,
        type=first.type if kind != UNKNOWN and same_class else "",
        ids=first.ids | second.ids,
        items=items,
        keys=first.keys if first.keys == second.keys else None,
        element=_joined_element(first, second),
        node=first.node if same_class else None,
        dims=scalar_dims(first, second) if first.dims != second.dims else first.dims,
        alternatives=alternatives,
        origin=first.origin if first.origin == second.origin and place == first.place else None,
    )


def _joined_element(first: Value, second: Value) -> Value | None:
    """What two lists hold; one that is empty says nothing."""
    if first.items == ():
        return second.element
    if second.items == ():
        return first.element
    return join(first.element, second.element) if first.element and second.element else None


def any_of(container: Value) -> Value | None:
    """What an item of a list or dictionary is, whichever it is; None where nothing is known of it."""
    if container.element is None and container.keys:
        return join_all(container.keys.values())
    return container.element


def with_item(container: Value, index: Value, item: Value) -> Value:
    """A list or dictionary after `container[index] = item`."""
    element = join(container.element, item) if container.element is not None else None
    if container.keys is not None and isinstance(index.const, str):
        return replace(container, keys={**container.keys, index.const: item}, element=element)
    place = index.const
    if container.items and isinstance(place, int) and -len(container.items) <= place < len(container.items):
        items = list(container.items)
        items[place] = item
        return replace(container, items=tuple(items), element=join_all(items))
    return replace(container, keys=None, items=None, element=None)


def scalar_dims(*values: Value) -> int | None:
    """0 where none of these tensors has dimensions, MAYBE_NONE where it may be so, None where one surely has some or
    nothing is known."""
    dims = {value.dims for value in values}
    if not dims or not dims <= {0, MAYBE_NONE}:
        return None
    return 0 if dims == {0} else MAYBE_NONE


def _moved_in_one_branch(values: Iterable[Value]) -> bool:
    """One and the same tensor, moved on one way and not on another: what decides that is not known here."""
    places: dict[int, Place] = {}
    for value in values:
        root = value.origin.root if value.origin is not None else None
        if root is not None and places.setdefault(id(root), value.place) != value.place:
            return True
    return False


def join_all(values: Iterable[Value]) -> Value:
    """The join of some values; unknown for none."""
    result: Value | None = None
    for value in values:
        result = value if result is None else join(result, value)
    return ANYTHING if result is None else result
