"""Facts about libraries, as data: what torch and its neighbours do with devices.

The hand-written part stands in the `*.toml` of this folder, each group of rows with its source; `scripts/build_api.py`
adds what inspecting torch tells and writes `facts.json`, which is all that is read at run time.

A *row* is a plain dict that nobody alters. Its keys (a key that is absent means no, or not known):

`returns`            kind of the result, one of `KINDS`; "first": what the first argument is; "any": not known
`type`               canonical name of the class of the result, where it is one of the class table
`place`              where the result is, one of `PLACES`
`device_param`       name of the parameter that names the device, where it is not called `device`
`device_position`    its 0-based position, where it may be given by position (receiver not counted)
`fills_position`     0-based position of the module that what is loaded is copied into
`index_position`     0-based position of a separate device index
`at`                 0-based positions of the parameters named in this row; those that are missing are keyword-only
`like`               with place "like": the parameter whose device is followed, where it is not the first tensor
`strict`             parameters whose tensors must be on the CPU
`free`               parameters whose tensors may be on any device
`scalar_ok`          false: a 0-dim CPU tensor among operands on another device is refused too
`dims`               0: the result always has no dimension
`dims_unless`        `dims` holds unless one of these parameters is given (`reduction` of a loss)
`dims_alone`         0: it has none when nothing but the input is given (`x.sum()`)
`tensors_if`         the result is "tensors" when one of these parameters is given (and is not literally False or None;
                     by position only where the argument is no tensor: `torch.max(x, 1)` against `torch.max(x, y)`)
`tensors_if_alone`   the result is "tensors" when there is one argument only
`tensors_if_many`    the result is "tensors" when there are several arguments, or one sequence
`number_if_alone`    the result is "number" when there is no argument
`when`               the result holds tensors only where these arguments are literally so: {"return_tensors": "pt"}
`items`              of a "tensors" result of a known length: the kind of each item
`host_items`         with `items`: the 0-based positions of those that are on the CPU whatever `place` says
`inplace`            changes the receiver (or first argument) and returns it; of a tensor method that is an operation
                     the receiver itself must be on the device of the others, 0-dim or not
`view`               may share memory with its input
`copy`               a transfer or cast that leaves the receiver alone and returns a new object
`dtype`              it changes the dtype
`data`               a factory from data: follows a tensor given as its first argument, else the default device
`random`             draws random numbers
`legacy`             a legacy constructor: out of reach of `torch.device` blocks and default devices
`attribute`          the row of a method table is an attribute, not a method
`needs_host`         raises where its tensor is not on the CPU
`needs_accelerator`  raises on a build without that accelerator
`collective`         a collective of torch.distributed
`default_device`     a call that sets the default device; `current_device`: the current device of an accelerator
`context`            used by `with`: "default_device" or "current_device" of the block
`assign`             load_state_dict: the parameter that keeps the loaded tensors
`plugin`             a name that a plugin for another kind of device adds
`since`, `until`, `deprecated`   versions of the library: the first that has it, that lacks it again, that warns

Rows of the class table have these keys:

`kind`               kind of its instances
`bases`              canonical names of its bases
`to`                 what `.to` and its like of an instance do: "in-place" or "copy"
`state`              a module has parameters or buffers: true, false, "children" (as its children have), or the list of
                     the constructor's parameters that bring them
`eager_state`        an optimizer that allocates tensors when it is made
`call`               keys of the call row of its constructor
`gives`              what calling an instance returns; `gives_place`: where; `gives_dims`: as `dims`
`items`              what it holds: a kind, or the canonical name of a class
`wraps`              the attribute under which a wrapper holds the module
`moves_inputs`       it moves what it is called with itself
`moves_batches`      true, or the names of the methods whose batch argument was already moved
`live_device`        its `device` follows `.to`
`tables`             further kinds whose methods it has
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from devlint.placement.project import Surroundings

Row = dict[str, Any]
Table = dict[str, Row]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


KINDS = _words(
    """
    tensor tensors named_tensors parameter parameters named_parameters buffer module modules named_modules container
    metric optimizer scheduler noise_scheduler scaler loader dataset datasets sampler device generator tokenizer
    processor batch batches batch_items checkpoint state array number dtype context none stream event storage packed
    graph graph_data tensordict images distribution function callable transform writer trainer accelerator pipeline
    output object first arguments any
    """
)
"""All kinds that a row may name in `returns` or `kind`."""

PLACES = _words("factory like operands host first self argument cuda xpu saved inputs accelerator unknown none")
"""All places that a row may name.

factory      its `device` argument, else the default device (the CPU, unless a block or a setting changed it)
like         its `device` argument if given, else where its first tensor argument (for methods the receiver) is, else
             the default device
operands     its tensor operands must be on one device (0-dim CPU tensors excepted), the result is there
first        where its first argument is; others may be anywhere
self         where the receiver is
argument     where the argument says (`to`, `type_as`, `set_`): a device, or the device of a tensor; else stays
host         the CPU, always
cuda, xpu    that accelerator: the index given, else the current one
saved        where it was when it was saved, unless `device_param` says otherwise
inputs       where the parameter `inputs` is
accelerator  the device that an Accelerator or Trainer chose
unknown      not known; none: no place
"""


ROLES = _words("object_batches tensor_like_objects host_transforms launches_processes manages_processes host_weights")
"""What a package, or the beginning of an address, may be known for.

object_batches       its loaders and tokenizers give objects, which may move in place and hold more than tensors
tensor_like_objects  its objects have many methods of a tensor
host_transforms      the classes below it prepare data on the host
launches_processes   it starts one process per device
manages_processes    it sets up the processes of a distributed run, places the model and shares out the data itself
host_weights         the weights that are published there are CPU tensors
"""


@dataclass(frozen=True, slots=True)
class Facts:
    """The merged tables; look things up by the methods, which know aliases, patterns and inherited kinds."""

    torch: str
    calls: Mapping[str, Row]
    classes: Mapping[str, Row]
    methods: Mapping[str, Mapping[str, Row]]
    aliases: Mapping[str, str]
    prefixes: tuple[tuple[str, str], ...]
    patterns: tuple[tuple[str, str, Row], ...]
    inherits: Mapping[str, str]
    constants: Mapping[str, str]
    packages: Mapping[str, frozenset[str]]
    """Packages by what they are known for; see ROLES."""
    only_module: frozenset[str]
    """Names that nn.Module has and torch.Tensor has not."""
    only_tensor: frozenset[str]
    """Names that torch.Tensor has, and no module, array, data frame, image, container or other thing with a `.to`."""
    tensor_like: frozenset[str]
    """Names like `only_tensor`, but that PyG's Data, PackedSequence, TensorDict and their kind have as well."""
    beyond: Surroundings | None = field(default=None, compare=False, repr=False)
    """What is known of the names of the project that the file belongs to; asked for what no table has."""
    _seen: dict[tuple[str, str], Row | None] = field(default_factory=dict, compare=False, repr=False)
    _aliased: dict[str, str] = field(default_factory=dict, compare=False, repr=False)
    _of_package: dict[str, list[tuple[str, str, Row]]] = field(default_factory=dict, compare=False, repr=False)

    def canonical(self, name: str) -> str:
        """The name under which the tables know `name`, a qualified name as a user wrote it; itself when they do not."""
        name = self._alias(name)
        if self.beyond is None or name in self.calls or name in self.classes:
            return name
        return self._alias(self.beyond.canonical(name))

    def _alias(self, name: str) -> str:
        known = self._aliased.get(name)
        if known is None:
            known = self._aliased[name] = self._follow(name)
        return known

    def _follow(self, name: str) -> str:
        for _ in range(3):
            other = self.aliases.get(name)
            if other is None:
                other = next((new + name[len(old) :] for old, new in self.prefixes if name.startswith(old)), name)
            if other == name:
                break
            name = other
        return name

    def call(self, name: str) -> Row | None:
        """The row of calling `name`, function or class; for a class that of its constructor."""
        return self._look("call", name)

    def cls(self, name: str) -> Row | None:
        """The row of the class `name`."""
        return self._look("class", name)

    def is_own(self, name: str) -> bool:
        """Whether `name` is a class of another file of the project, and not of a library."""
        return bool((self.cls(name) or {}).get("own"))

    def constant(self, name: str) -> str | None:
        """The kind of a constant: "dtype" for `torch.float32`, "number" for `torch.pi`."""
        return self.constants.get(self.canonical(name))

    def method(self, kind: str, name: str) -> Row | None:
        """The row of a method or attribute (`attribute` is true then) of receivers of this kind."""
        while True:
            row = self.methods.get(kind, {}).get(name)
            if row is not None or kind not in self.inherits:
                return row
            kind = self.inherits[kind]

    def member(self, cls: str, name: str) -> Row | None:
        """The row of a method or attribute of instances of the class `cls`: its own tables, its kind's, its bases'."""
        row = self.cls(cls)
        if row is None:
            return None
        for kind in (*row.get("tables", ()), row["kind"]):
            found = self.method(kind, name)
            if found is not None:
                return found
        for base in row.get("bases", ()):
            found = self.member(base, name)
            if found is not None:
                return found
        return None

    def merge(self, extra: Mapping[str, Any]) -> Facts:
        """These facts with a user's own laid over them: tables as in the TOML files, but rows by name.

        `extra` maps "call", "class" and "aliases" to rows (strings for aliases) by name, "method" to such a table by
        kind. A name with `*` in it is a pattern. Raises ValueError for a table, key, kind or place that does not exist.
        """
        _refuse_unknown("table", extra, ("call", "class", "method", "aliases"))
        for table, content in extra.items():
            if not isinstance(content, Mapping):
                raise ValueError(f"{table!r} must be a table of rows by name")
        rows: dict[str, Table] = {}
        for table in ("call", "class"):
            rows[table] = dict(extra.get(table, {}))
            for name, row in rows[table].items():
                check_row(name, row)
        methods = {kind: dict(table) for kind, table in self.methods.items()}
        for kind, table in extra.get("method", {}).items():
            for name, row in table.items():
                check_row(f"{kind}.{name}", row)
            methods[kind] = {**methods.get(kind, {}), **table}
        patterns = [(name, table, row) for table, named in rows.items() for name, row in named.items() if "*" in name]
        return Facts(
            torch=self.torch,
            calls={**self.calls, **rows["call"]},
            classes={**self.classes, **rows["class"]},
            methods=methods,
            aliases={**self.aliases, **extra.get("aliases", {})},
            prefixes=self.prefixes,
            patterns=(*patterns, *self.patterns),
            inherits=self.inherits,
            constants=self.constants,
            packages=self.packages,
            only_module=self.only_module,
            only_tensor=self.only_tensor,
            tensor_like=self.tensor_like,
        )

    def _look(self, table: str, name: str) -> Row | None:
        name = self.canonical(name)
        key = (table, name)
        if key not in self._seen:
            self._seen[key] = self._find(table, name)
        row = self._seen[key]
        return row if row is not None or self.beyond is None else self.beyond.row(table, name)

    def _near(self, name: str) -> list[tuple[str, str, Row]]:
        """The patterns that a name of its package can fit."""
        package = name.partition(".")[0]
        if package not in self._of_package:
            self._of_package[package] = [
                one for one in self.patterns if fits(one[0].partition(".")[0].replace("**", "*"), package)
            ]
        return self._of_package[package]

    def _find(self, table: str, name: str) -> Row | None:
        exact = (self.calls if table == "call" else self.classes).get(name)
        if exact is not None:
            return exact
        if table == "call" and name in self.classes:
            return constructor(name, self.classes[name])
        for pattern, where, row in self._near(name):
            if (where == table or table == "call") and fits(pattern, name):
                if where == table:
                    return row
                return constructor(name, row)
        return None


def fits(pattern: str, name: str) -> bool:
    """Does a qualified name fit a pattern? `*` stands for anything but dots, `**` for anything, [A-Z] for a letter."""
    start, whole = _compiled(pattern)
    return name.startswith(start) and whole.fullmatch(name) is not None


@cache
def _compiled(pattern: str) -> tuple[str, re.Pattern[str]]:
    """What a pattern begins with, and all of it."""
    parts = re.split(r"(\*\*|\*|\[[^\]]*\])", pattern)
    meaning = {"**": ".*", "*": r"[^.]*"}
    whole = "".join(meaning.get(p, p if p.startswith("[") else re.escape(p)) for p in parts)
    return parts[0], re.compile(whole)


def constructor(name: str, row: Row) -> Row:
    """The call row of a class: what its constructor gives."""
    shared = {key: row[key] for key in ("since", "until", "deprecated", "needs_accelerator", "at") if key in row}
    return {"returns": row["kind"], "type": name, "place": "none", **shared, **row.get("call", {})}


def check_row(name: str, row: Mapping[str, Any]) -> None:
    """Raise ValueError when a user's row names a key, kind or place that does not exist."""
    if not isinstance(row, Mapping):
        raise ValueError(f"the row of {name} must be a table")
    _refuse_unknown(f"key of {name}", row, KEYS)
    for key, allowed in (("returns", KINDS), ("kind", KINDS), ("place", PLACES)):
        if key in row:
            _refuse_unknown(f"{key} of {name}", [row[key]], allowed)
    if "call" in row:
        check_row(f"{name}.call", row["call"])


KEYS = _words(
    """
    returns type place device_param device_position fills_position index_position at like strict free scalar_ok dims
    dims_unless dims_alone tensors_if tensors_if_alone tensors_if_many number_if_alone when gives gives_place gives_dims
    host_items inplace view copy dtype data random
    legacy attribute needs_host needs_accelerator collective default_device current_device context assign since until
    deprecated kind bases to state eager_state call items wraps moves_inputs moves_batches tables live_device plugin
    """
)
"""All keys that a row may have."""


def _refuse_unknown(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    known = sorted(known)
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            raise ValueError(f"unknown {what}: {name!r}" + (f", did you mean {near[0]!r}?" if near else ""))


def load(text: str) -> Facts:
    """Facts from the text of `facts.json`."""
    content = json.loads(text)
    return Facts(
        torch=content["torch"],
        calls=_table(content["call"]),
        classes=_table(content["class"]),
        methods={kind: _table(groups) for kind, groups in content["method"].items()},
        aliases=dict(content["aliases"]),
        prefixes=tuple((old, new) for old, new in content["prefixes"]),
        patterns=tuple((pattern, table, row) for pattern, table, row in content["pattern"]),
        inherits=content["inherits"],
        packages={role: frozenset(names.split()) for role, names in content["package"].items()},
        constants={name: kind for kind, names in content["constant"] for name in names.split()},
        only_module=frozenset(content["only_module"].split()),
        only_tensor=frozenset(content["only_tensor"].split()),
        tensor_like=frozenset(content["tensor_like"].split()),
    )


def _table(groups: list[tuple[Row, str]]) -> Table:
    return {name: row for row, names in groups for name in names.split()}


@cache
def facts() -> Facts:
    """The facts that ship with devlint, read once."""
    return load(Path(__file__).with_name("facts.json").read_text(encoding="utf-8"))
