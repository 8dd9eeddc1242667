"""Which strings an expression can be where a device is wanted: through names, branches, f-strings and defaults."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from string import Formatter

from devlint.checks.context import Context
from devlint.placement import values as v
from devlint.placement.device_text import error, impossible, map_location_error, near_miss, suspicious, unknown_type
from devlint.placement.values import Value
from devlint.syntax.trees import walk

_DEVICE, _ANY = "\0", "\1"
"""Stand in a text for a formatted torch.device of unknown type, and for what is not known at all."""
_MOST = 16
"""Combinations of pieces beyond which nothing is said."""
_DEEPEST = 8


@dataclass(frozen=True, slots=True)
class Possible:
    """One string that an expression can be.

    `literal` is the constant of the file that holds exactly this text; `shown` is the text with the unknown pieces in
    braces; `default` says whose default it is ("the option --device", "the argument device"), "" where it is none;
    `suspect`: a piece of it is plainly a device string; `put_together`: it comes from an f-string or the like.
    """

    text: str
    shown: str
    literal: ast.Constant | None = None
    default: str = ""
    suspect: bool = False
    put_together: bool = False

    def error(self, map_location: bool = False) -> str | None:
        """What torch raises for it; None where it raises nothing, or that is not known."""
        if _DEVICE not in self.text and _ANY not in self.text:
            return map_location_error(self.text) if map_location else error(self.text)
        known = re.split(f"[{_DEVICE}{_ANY}]", self.text)
        head = self.text.partition(_DEVICE)[0]
        if any(map(impossible, known)) or (_ANY not in head and ":" in head and _DEVICE in self.text):
            return f"Invalid device string: '{self.shown}'"
        kind, colon, _ = known[0].partition(":")
        return unknown_type(kind) if colon and near_miss(kind) else None


class Texts:
    """Answers for one file."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._inference = context.inference

    def of(self, node: ast.expr, depth: int = 0) -> list[Possible]:
        """The strings that an expression can be; those of which nothing is known are left out."""
        if depth > _DEEPEST:
            return []
        if isinstance(node, ast.Constant):
            return [_constant(node)] if isinstance(node.value, str) else []
        if isinstance(node, ast.IfExp):
            return [*self.of(node.body, depth + 1), *self.of(node.orelse, depth + 1)]
        if isinstance(node, ast.BoolOp):
            operands = node.values if isinstance(node.op, ast.Or) else node.values[-1:]
            return [text for operand in operands for text in self.of(operand, depth + 1)]
        if isinstance(node, ast.NamedExpr):
            return self.of(node.value, depth + 1)
        parts = self._parts(node)
        if parts is not None:
            return self._joined(parts, depth)
        return self._of_value(self._inference.value(node), node, depth)

    def _of_value(self, value: Value, node: ast.AST, depth: int) -> list[Possible]:
        if isinstance(value.const, str):
            literal = next((i for i in value.ids if isinstance(i, ast.Constant) and i.value == value.const), None)
            return [replace(_constant(literal), literal=literal)] if literal else [_plain(value.const)]
        if value.alternatives:
            return [text for other in value.alternatives for text in self._of_value(other, node, depth + 1)]
        if value.kind not in (v.TEXT, v.UNKNOWN) or len(value.ids) != 1:
            return []
        source = next(iter(value.ids))
        if isinstance(source, ast.JoinedStr | ast.BinOp | ast.IfExp | ast.Call) and source is not node:
            return self.of(source, depth + 1) if value.kind == v.TEXT else []
        if value.kind == v.UNKNOWN:
            return self._defaults(source)
        return []

    # --- texts put together -----------------------------------------------------------------------------------

    def _parts(self, node: ast.expr) -> list[str | ast.expr] | None:
        """The pieces of an f-string, a sum, `.format` or `%`; None for another expression. An expression stands for
        what `str` makes of it."""
        if isinstance(node, ast.JoinedStr):
            return [self._piece(part) for part in node.values]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            sides = [self._parts(side) or self._side(side) for side in (node.left, node.right)]
            return [*sides[0], *sides[1]] if sides[0] and sides[1] else None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and _is_text(node.left):
            return _filled_percent(node.left.value, node.right)  # type: ignore[attr-defined]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
            return _filled_braces(node.func.value.value, node) if _is_text(node.func.value) else None  # type: ignore[attr-defined]
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "str"
            and len(node.args) == 1
        ):
            return [node.args[0]]
        return None

    @staticmethod
    def _piece(part: ast.expr) -> str | ast.expr:
        if isinstance(part, ast.Constant):
            return str(part.value)
        assert isinstance(part, ast.FormattedValue)
        return part.value if part.format_spec is None and part.conversion in (-1, 115) else ast.Constant(...)

    def _side(self, node: ast.expr) -> list[str | ast.expr] | None:
        if _is_text(node):
            return [str(node.value)]  # type: ignore[attr-defined]
        return [node] if self._inference.value(node).kind in (v.TEXT, v.UNKNOWN) else None

    def _joined(self, parts: list[str | ast.expr], depth: int) -> list[Possible]:
        made = [Possible("", "", put_together=True)]
        for part in parts:
            choices = [_plain(part)] if isinstance(part, str) else self._formatted(part, depth + 1)
            made = [
                Possible(a.text + b.text, a.shown + b.shown, None, a.default or b.default, a.suspect or b.suspect, True)
                for a in made
                for b in choices
            ]
            if len(made) > _MOST:
                return []
        return [replace(one, suspect=any(isinstance(p, str) and suspicious(p) for p in parts)) for one in made]

    def _formatted(self, node: ast.expr, depth: int) -> list[Possible]:
        """What `str` can make of a value."""
        written = "{" + (ast.unparse(node) if not isinstance(node, ast.Constant) else "") + "}"
        value = self._inference.value(node)
        if isinstance(node, ast.Constant) and node.value is not ...:
            return [_plain(str(node.value))]
        if isinstance(value.const, int) and not isinstance(value.const, bool):
            return [_plain(str(value.const))]
        if value.kind == v.NOTHING:
            return [_plain("None")]
        if value.kind == v.DEVICE:
            return [Possible(_DEVICE, written)]
        return self.of(node, depth) or [Possible(_ANY, written)]

    # --- devices ----------------------------------------------------------------------------------------------

    def of_device(self, value: Value) -> Iterator[Possible]:
        """The strings that a torch.device was made from, by the calls of torch.device that made it; with the index
        that was given beside one."""
        for other in value.possibilities():
            for source in other.ids:
                if other.kind != v.DEVICE or not isinstance(source, ast.Call):
                    continue
                if self._context.name_of(source.func) != "torch.device":
                    continue
                first = argument(source, "device", 0) or argument(source, "type")
                index = argument(source, "index", 1)
                if first is None:
                    continue
                inner = self._inference.value(first)
                texts = self.of(first) or list(self.of_device(inner))
                for text in texts:
                    if index is None:
                        yield text
                    elif isinstance(index, ast.Constant) and isinstance(index.value, int):
                        yield replace(text, text=f"{text.text}:{index.value}", literal=None)
                    else:
                        yield replace(text, text=f"{text.text}:{_ANY}", literal=None)

    # --- defaults ---------------------------------------------------------------------------------------------

    def _defaults(self, source: object) -> list[Possible]:
        """The default of an argument, or of an option of argparse, where nothing in the file asks what it is."""
        if isinstance(source, ast.arg):
            return self._argument_default(source)
        if (
            isinstance(source, tuple)
            and len(source) == 3
            and source[0] == "attribute"
            and isinstance(source[1], frozenset)
            and len(source[1]) == 1
            and all(map(self._holds_options, source[1]))
        ):
            return self._option_default(str(source[2]))
        return []

    def _argument_default(self, argument: ast.arg) -> list[Possible]:
        arguments = self._inference.parents.get(argument)
        function = self._inference.parents.get(arguments) if arguments is not None else None
        if not isinstance(arguments, ast.arguments) or function is None:
            return []
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults: dict[ast.arg, ast.expr | None] = dict(
            zip(reversed(positional), reversed(arguments.defaults), strict=False)
        )
        defaults |= dict(zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True))
        default = defaults.get(argument)
        if default is None or not _is_text(default) or argument.arg in _asked(function):
            return []
        assert isinstance(default, ast.Constant)
        return [replace(_constant(default), default=f"the argument {argument.arg}")]

    def _option_default(self, name: str) -> list[Possible]:
        options = self._options.get(name, [])
        if len(options) != 1 or name in self._asked_attributes:
            return []
        keywords = {keyword.arg: keyword.value for keyword in options[0].keywords}
        default, kind = keywords.get("default"), keywords.get("type")
        if (
            default is None
            or not _is_text(default)
            or not keywords.keys() <= {"default", "type", "help", "dest", "metavar", "choices", "required"}
        ):
            return []
        if kind is not None and not (isinstance(kind, ast.Name) and kind.id == "str"):
            return []
        assert isinstance(default, ast.Constant)
        return [replace(_constant(default), default=f"the option --{name}")]

    def _holds_options(self, source: object) -> bool:
        """Whether a definition is what `parse_args()` of argparse gave, or an argument that gets it in every call."""
        if isinstance(source, ast.Call):
            return (
                isinstance(source.func, ast.Attribute)
                and source.func.attr == "parse_args"
                and self._is_parser(source.func.value)
            )
        if not isinstance(source, ast.arg):
            return False
        arguments = self._inference.parents.get(source)
        function = self._inference.parents.get(arguments) if arguments is not None else None
        if not isinstance(function, ast.FunctionDef) or isinstance(self._inference.parents.get(function), ast.ClassDef):
            return False
        calls = [call for call in self._calls if isinstance(call.func, ast.Name) and call.func.id == function.name]
        position = (
            [*function.args.posonlyargs, *function.args.args].index(source)
            if source not in function.args.kwonlyargs
            else None
        )
        given = [argument(call, source.arg, position) for call in calls]
        return bool(given) and all(
            one is not None
            and (ids := self._inference.value(one).ids)
            and all(isinstance(i, ast.Call) and self._holds_options(i) for i in ids)
            for one in given
        )

    def _is_parser(self, node: ast.expr) -> bool:
        ids = self._inference.value(node).ids
        return bool(ids) and all(
            isinstance(i, ast.Call) and self._context.name_of(i.func) == "argparse.ArgumentParser" for i in ids
        )

    @cached_property
    def _calls(self) -> list[ast.Call]:
        return [node for node in walk(self._context.tree) if isinstance(node, ast.Call)]

    @cached_property
    def _options(self) -> dict[str, list[ast.Call]]:
        """The calls of add_argument by the attribute that they fill."""
        found: dict[str, list[ast.Call]] = {}
        for call in self._calls:
            if not (isinstance(call.func, ast.Attribute) and call.func.attr in ("add_argument", "set_defaults")):
                continue
            if call.func.attr == "set_defaults":
                for keyword in call.keywords:
                    found.setdefault(keyword.arg or "", []).extend([call, call])
                continue
            flags = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            long = [flag for flag in flags if flag.startswith("--")] or flags
            dest = argument(call, "dest")
            name = (
                dest.value if isinstance(dest, ast.Constant) else long[0].lstrip("-").replace("-", "_") if long else ""
            )
            found.setdefault(str(name), []).append(call)
        return found

    @cached_property
    def _asked_attributes(self) -> frozenset[str]:
        return frozenset(name[1:] for name in _asked(self._context.tree) if name.startswith("."))


def argument(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """The argument of this name or position, where no star stands before it."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if position is None or position >= len(call.args):
        return None
    before = call.args[: position + 1]
    return None if any(isinstance(one, ast.Starred) for one in before) else before[-1]


def _plain(text: str) -> Possible:
    return Possible(text, text)


def _constant(node: ast.Constant) -> Possible:
    return Possible(str(node.value), str(node.value), node, suspect=suspicious(str(node.value)))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _filled_percent(text: str, right: ast.expr) -> list[str | ast.expr] | None:
    pieces = re.split(r"%[sd]", text)
    values = list(right.elts) if isinstance(right, ast.Tuple) else [right]
    if len(pieces) != len(values) + 1 or any("%" in piece for piece in pieces):
        return None
    return _woven(pieces, values)


def _filled_braces(text: str, call: ast.Call) -> list[str | ast.expr] | None:
    try:
        fields = list(Formatter().parse(text))
    except ValueError:
        return None
    if call.keywords or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    pieces: list[str | ast.expr] = []
    count = 0
    for before, name, spec, conversion in fields:
        pieces.append(before)
        if name is None:
            continue
        if name not in ("", str(count)) or spec or conversion or count >= len(call.args):
            return None
        pieces.append(call.args[count])
        count += 1
    return pieces


def _woven(pieces: list[str], values: list[ast.expr]) -> list[str | ast.expr]:
    woven: list[str | ast.expr] = [pieces[0]]
    for value, piece in zip(values, pieces[1:], strict=True):
        woven += [value, piece]
    return woven


def _asked(root: ast.AST) -> set[str]:
    """The names, and attributes with a dot before them, that a condition asks about or an assignment changes."""
    found: set[str] = set()
    for node in walk(root):
        if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
            found |= _names(node.test)
        elif isinstance(node, ast.Compare | ast.BoolOp):
            found |= _names(node)
        elif isinstance(node, ast.Match):
            found |= _names(node.subject)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add("." + node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def _names(root: ast.AST) -> set[str]:
    names = {node.id for node in walk(root) if isinstance(node, ast.Name)}
    return names | {"." + node.attr for node in walk(root) if isinstance(node, ast.Attribute)}
