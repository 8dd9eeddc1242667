"""DEV401: a device that torch refuses: a string outside its grammar, the CPU for `.cuda()`, one where none is taken."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from devlint.checks import guards, rewrite
from devlint.checks.base import Rule
from devlint.checks.context import Context
from devlint.checks.device_texts import Possible, Texts, argument
from devlint.finding import Edit, Fix, Group, RuleInfo
from devlint.placement import values as v
from devlint.placement.device_text import error, map_location_error, read, repaired, suspicious
from devlint.placement.values import Value
from devlint.screen import Strings, Where
from devlint.syntax.lazy import cst
from devlint.syntax.trees import is_none, walk

_DIRECT = frozenset(
    {"device", "to", "cuda", "load", "jit_load", "set_device", "set_default_device", "Generator", "xpu"}
)
"""Callees, as written, in whose arguments any string is judged; elsewhere, and where the string comes by way of a name,
it has to look like a device."""
_KEYWORDS = frozenset({"device", "map_location"})
_REFUSERS = {
    "torch.from_numpy": "torch.from_numpy() takes no keyword arguments",
    "torch.Tensor.type_as": "type_as() got an unexpected keyword argument 'device'",
}
_FILE_NAME = re.compile(r"[\\/]|\.(?:pth?|ckpt|bin|tar|pkl|model)$")
_NO_DEVICE_TAKERS = frozenset({"from_numpy", "type_as"})
_NOT_DEVICES = frozenset(
    {"torch.autocast", "torch.amp.autocast", "torch.amp.GradScaler", "torch.amp.autocast_mode.autocast"}
)
"""Their strings are device types, which is another grammar."""


def _leaves(node: ast.expr | None) -> Iterator[ast.expr]:
    if isinstance(node, ast.IfExp):
        yield from _leaves(node.body)
        yield from _leaves(node.orelse)
    elif isinstance(node, ast.BoolOp):
        for operand in node.values:
            yield from _leaves(operand)
    elif node is not None:
        yield node


def _is_bad(node: ast.expr, map_location: bool) -> bool:
    if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        return False
    found = read(node.value)
    refused = map_location_error(node.value) if map_location else error(node.value)
    return refused is not None or (found is not None and found.wraps)


def _may_fail(call: ast.Call) -> bool:
    """Screen: a string in a device's place that torch refuses, as it stands; an index beside a type; a device for what
    takes none. The rule asks it again, so that nothing is found in one file and hidden in another."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name == "device" and len(call.args) + len(call.keywords) > 1:
        return True
    for keyword in call.keywords:
        if keyword.arg in _KEYWORDS:
            if any(_is_bad(leaf, keyword.arg == "map_location") for leaf in _leaves(keyword.value)):
                return True
            if name in _NO_DEVICE_TAKERS:
                return True
    if name == "load":
        return any(_is_bad(leaf, True) for one in call.args[1:2] for leaf in _leaves(one))
    return name in _DIRECT and any(_is_bad(leaf, False) for one in call.args[:1] for leaf in _leaves(one))


def _names_a_device(call: ast.Call) -> bool:
    """Screen: `.cuda(device)`."""
    given = argument(call, "device", 0)
    return given is not None and not (isinstance(given, ast.Constant) and not isinstance(given.value, str))


class InvalidDevice(Rule):
    info = RuleInfo("DEV401", "invalid-device", (Group.BUG,), "torch refuses this device, or takes none here")
    screen = (Strings(suspicious), Where(_may_fail), Where(_names_a_device, frozenset({"cuda"})))

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._texts = Texts(context)
        self._said: set[ast.AST] = set()
        self._unreadable = False
        """Whether a call is wrong whose finding needs LibCST's tree."""

    def suspects(self) -> bool:
        for calls in self.context.seen.calls.values():
            for call in calls:
                self._look_at(call, None)
        found = self._unreadable or bool(self.findings)
        self.findings.clear()
        self._said.clear()
        return found

    def visit_Call(self, node: cst.Call) -> None:
        call = self.context.ast_of(node)
        if isinstance(call, ast.Call):
            self._look_at(call, node)

    def _look_at(self, call: ast.Call, node: cst.Call | None) -> None:
        """Judge a call; `node` is None as long as the file is not parsed by LibCST."""
        context = self.context
        name = self.name_of(call.func)
        if self._takes_no_device(node, call, name):
            return
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if method == "cuda" and self._cuda_of_cpu(call):
            return
        given = self._device_argument(call, name)
        if given is None:
            return
        expression, map_location = given
        if name == "torch.device" and _may_fail(call) and self._index(call, expression):
            return
        if guards.expects_error(context, call):
            return
        for text in self._texts.of(expression):
            self._judge(text, expression, call, name or f".{method}", map_location)

    # --- which argument is a device ---------------------------------------------------------------------------

    def _device_argument(self, call: ast.Call, name: str | None) -> tuple[ast.expr, bool] | None:
        """The argument that torch reads as a device, and whether it is a map_location; None where the callee is not
        proven to be torch's, or takes none."""
        row = self._row(call, name)
        if row is None:
            return None
        parameter = str(row.get("device_param", "device"))
        if parameter not in _KEYWORDS:
            return None
        position = row.get("device_position")
        found = argument(call, parameter, position if isinstance(position, int) else None)
        if found is None and name == "torch.device":
            found = argument(call, "type")
        return None if found is None else (found, parameter == "map_location")

    def _row(self, call: ast.Call, name: str | None) -> dict[str, object] | None:
        facts = self.context.inference.facts
        if name is not None:
            if name == "functools.partial" and call.args:
                name = self.name_of(call.args[0])
            if name is None or not name.startswith("torch.") or name in _NOT_DEVICES:
                return None
            row = facts.call(name)
            takes = row is not None and (
                row.get("place") in ("factory", "like") or "device_param" in row or name.startswith("torch.nn.")
            )
            return row if takes else None
        if not isinstance(call.func, ast.Attribute):
            return None
        receiver, method = self.value_of(call.func.value), call.func.attr
        if not self._is_torchs(receiver, method):
            return None
        row = facts.method(v.TENSOR if receiver.is_tensor else v.MODULE, method)
        return row if row is not None and (row.get("place") == "like" or "device_param" in row) else None

    def _is_torchs(self, receiver: Value, method: str) -> bool:
        """Whether this method of the receiver is the one of torch.Tensor or torch.nn.Module."""
        if receiver.is_tensor:
            return True
        if not receiver.is_module:
            return False
        own = receiver.node
        return not (isinstance(own, ast.ClassDef) and self.context.inference.classes.defines(own, method))

    # --- strings ----------------------------------------------------------------------------------------------

    def _judge(self, text: Possible, expression: ast.expr, call: ast.Call, callee: str, map_location: bool) -> None:
        literal = text.literal
        at: ast.expr = literal if literal is not None and not text.put_together else expression
        direct = literal is not None and any(literal is leaf for leaf in _leaves(expression))
        if at in self._said or not (text.suspect or (direct and _may_fail(call))):
            return
        if not direct and self._depends_on_other_condition(at, call):
            return
        words = text.error(map_location)
        found = read(text.text)
        if words is None and found is not None and found.wraps and not map_location:
            self._said.add(at)
            kept = found.kept_index
            becomes = f"{found.type}:{kept}" if kept is not None and kept >= 0 else f"index {kept}"
            self.report(
                at,
                f"torch keeps a device index in a signed byte: '{text.text}' is accepted and becomes {becomes}",
                no_fix="which device is meant is yours to say",
            )
            return
        if words is None:
            return
        self._said.add(at)
        if map_location and _FILE_NAME.search(text.text):
            self.report(
                at,
                f"{callee} takes `map_location` here, and '{text.text}' is the name of a file: the call raises",
                no_fix="which file is meant to be loaded is yours to say",
            )
            return
        fix, no_fix = self._repair(text, at, direct, map_location)
        where = f"the default of {text.default} makes " if text.default else ""
        self.report(
            at,
            f"{where}{_call_name(callee)} raise {words}" if where else f"{_call_name(callee)} raises {words}",
            fix=fix,
            no_fix=no_fix,
        )

    def _depends_on_other_condition(self, literal: ast.AST, call: ast.Call) -> bool:
        """Whether the string is chosen under a condition that the use stands under as well: which choice arrives at
        the use is not known then."""
        chosen = set(guards.conditions(self.context, literal))
        return bool(chosen) and bool(set(guards.conditions(self.context, call)) - chosen)

    def _repair(self, text: Possible, at: ast.expr, direct: bool, map_location: bool) -> tuple[Fix | None, str | None]:
        meant = repaired(text.text)
        if map_location and meant is None and text.text.startswith(("cpu:", "meta:")):
            meant = text.text.partition(":")[0]
        elif map_location and meant is not None and map_location_error(meant) is not None:
            meant = meant.partition(":")[0]
        if text.literal is None or text.put_together:
            return None, "the string is put together from several parts"
        if meant is None:
            return None, "which device is meant is yours to say"
        if text.default:
            return None, f"the default of {text.default} may be read elsewhere too"
        written = self.context.text(at)
        if "\n" in written or written[:1] not in "'\"" or written[:3] in ("'''", '"""') or _is_joined(written):
            return None, "the string is written in an unusual way"
        edit = rewrite.replace(self.context, at, f"{written[0]}{meant}{written[0]}")
        title = f"Write {written[0]}{meant}{written[0]}"
        if direct or self._only_for_devices(at):
            return rewrite.safe(title, edit), None
        return rewrite.unsafe(title, edit), None

    def _only_for_devices(self, literal: ast.expr) -> bool:
        """Whether the name that holds the string is read as an argument of torch's calls only."""
        inference = self.context.inference
        above: ast.AST | None = inference.parents.get(literal)
        while isinstance(above, ast.IfExp | ast.BoolOp):
            above = inference.parents.get(above)
        if not (isinstance(above, ast.Assign) and len(above.targets) == 1 and isinstance(above.targets[0], ast.Name)):
            return False
        name, owner = above.targets[0].id, inference.owner(above)
        reads = [
            node
            for node in walk(self.context.tree)
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
        ]
        return bool(reads) and all(inference.owner(read) is owner and self._is_device_argument(read) for read in reads)

    def _is_device_argument(self, node: ast.expr) -> bool:
        above = self.context.inference.parents.get(node)
        if isinstance(above, ast.keyword):
            above = self.context.inference.parents.get(above)
        if not isinstance(above, ast.Call):
            return False
        given = self._device_argument(above, self.name_of(above.func))
        return given is not None and given[0] is node

    # --- torch.device(type, index) ----------------------------------------------------------------------------

    def _index(self, call: ast.Call, kind: ast.expr) -> bool:
        """`torch.device("cuda:0", 1)`, `torch.device("cuda", -1)`, `torch.device("cuda", 128)`."""
        index = argument(call, "index", 1)
        if index is None or guards.expects_error(self.context, call):
            return False
        number = _number(index)
        if number is not None and number < 0:
            self.report(
                index,
                "torch.device raises Device index must not be negative",
                no_fix="which device is meant is yours to say",
            )
            return True
        if number is not None and number > 127:
            self.report(
                index,
                f"torch keeps a device index in a signed byte: {number} is accepted and becomes "
                f"{(number + 128) % 256 - 128}",
                no_fix="which device is meant is yours to say",
            )
            return True
        if isinstance(kind, ast.Constant) and isinstance(kind.value, str):
            found = read(kind.value)
            if found is not None and found.index is not None and not is_none(index):
                words = "type (string) must not include an index because index was passed explicitly"
                self.report(
                    kind, f"torch.device raises {words}: {kind.value}", no_fix="which index is meant is yours to say"
                )
                return True
        return False

    # --- .cuda(cpu device) ------------------------------------------------------------------------------------

    def _cuda_of_cpu(self, call: ast.Call) -> bool:
        assert isinstance(call.func, ast.Attribute)
        given = argument(call, "device", 0)
        if given is None or any(keyword.arg is None for keyword in call.keywords):
            return False
        receiver, value = self.value_of(call.func.value), self.value_of(given)
        torchs = self._is_torchs(receiver, "cuda")
        if not torchs and (receiver.kind != v.UNKNOWN or self._has_own_cuda):
            return False
        found = self._cpu_of(value, given, torchs)
        if found is None or guards.expects_error(self.context, call):
            return False
        conditional, words = found
        if conditional and self._chosen(call, value, given):
            return False
        title = "Use .to(), which takes every device"
        text = f"`.cuda()` takes CUDA devices only, and {words}: it raises Invalid device, must be cuda device"
        fix, no_fix = self._to(call, value, torchs, title)
        self.report(rewrite.attribute_span(self.context, call.func), text, fix=fix, no_fix=no_fix)
        return True

    def _cpu_of(self, value: Value, given: ast.expr, torchs: bool) -> tuple[bool, str] | None:
        """Whether the device is the CPU in one branch only, and how to say so; None where it is not proven to be."""
        written = ast.unparse(given)
        others = [one for one in value.possibilities() if one.kind == v.DEVICE]
        if others and all(one.place.is_cpu for one in others) and len(others) == len(value.possibilities()):
            return False, f"`{written}` is the CPU"
        texts = list(self._texts.of_device(value)) if others else []
        if torchs and not others:
            texts = self._texts.of(given)
        if any(one.place.is_cpu for one in others) or any(read_type(text.text) == "cpu" for text in texts):
            sure = not text_choice(texts) and len(value.possibilities()) == 1
            default = next((text.default for text in texts if text.default), "")
            if default:
                return None
            return not sure, f"`{written}` {'is' if sure else 'can be'} the CPU"
        return None

    def _chosen(self, call: ast.Call, value: Value, given: ast.expr) -> bool:
        """Whether a condition around the call has to do with devices, so that the CPU may not come so far."""
        words = {"cuda", "gpu", "cpu", "device", "is_available", "accelerator"}
        names = {part.id for part in walk(given) if isinstance(part, ast.Name)}
        for one in value.possibilities():
            for source in one.ids:
                if isinstance(source, ast.Call):
                    names |= {
                        part.id
                        for condition in _tests(source, self.context)
                        for part in walk(condition)
                        if isinstance(part, ast.Name)
                    }
        return any(
            any(word in condition.lower() for word in words) or any(name in condition.split() for name in names)
            for condition in guards.conditions(self.context, call)
        )

    @property
    def _has_own_cuda(self) -> bool:
        return any(
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == "cuda"
            for node in walk(self.context.tree)
        )

    def _to(self, call: ast.Call, value: Value, torchs: bool, title: str) -> tuple[Fix | None, str | None]:
        context = self.context
        if any(isinstance(one, ast.Starred) for one in call.args) or len(call.args) > 2:
            return None, "the call has arguments that .to() reads otherwise"
        assert isinstance(call.func, ast.Attribute)
        edits = [Edit(*rewrite.attribute_span(context, call.func), "to")]
        if len(call.args) == 2:
            edits.append(rewrite.before(context, call.args[1], "non_blocking="))
        receiver = self.value_of(call.func.value)
        plain = torchs and self._is_torchs(receiver, "to")
        proven = value.kind == v.DEVICE or (value.kind == v.TEXT and plain)
        return (rewrite.safe if plain and proven else rewrite.unsafe)(title, *edits), None

    # --- callees without a device -----------------------------------------------------------------------------

    def _takes_no_device(self, node: cst.Call | None, call: ast.Call, name: str | None) -> bool:
        if not any(keyword.arg == "device" for keyword in call.keywords):
            return False
        if name is None and isinstance(call.func, ast.Attribute) and call.func.attr == "type_as":
            name = "torch.Tensor.type_as" if self.value_of(call.func.value).is_tensor else None
        if name not in _REFUSERS or not _may_fail(call) or guards.expects_error(self.context, call):
            return False
        if node is None:
            self._unreadable = True
            return True
        keyword = next(one for one in node.args if one.keyword is not None and one.keyword.value == "device")
        removal = rewrite.remove_argument(self.context, node, keyword)
        comment = "#" in self.context.source.text[removal.start : removal.end]
        edits = [removal]
        title = "Drop the keyword"
        if name == "torch.from_numpy":
            _, end = self.context.span(call)
            edits.append(Edit(end, end, f".to({self.context.text(keyword.value)})"))
            title = "Move the tensor afterwards"
        fixable = not comment and len(call.args) == 1 and len(call.keywords) == 1
        self.report(
            self._keyword_span(keyword),
            f"{_REFUSERS[name]}: the call raises TypeError",
            fix=rewrite.safe(title, *edits) if fixable else None,
            no_fix=None if fixable else "the call holds more than the fix understands",
        )
        return True

    def _keyword_span(self, keyword: cst.Arg) -> tuple[int, int]:
        start, _ = self.context.span(keyword)
        return start, start + len("device")


def _tests(node: ast.AST, context: Context) -> Iterator[ast.expr]:
    for part in [*walk(node), *context.inference.ancestors(node)]:
        if isinstance(part, ast.IfExp | ast.If):
            yield part.test


def read_type(text: str) -> str:
    found = read(text)
    return found.type if found is not None else ""


def text_choice(texts: list[Possible]) -> bool:
    return len({text.text for text in texts}) > 1


def _call_name(name: str) -> str:
    return f"`{name}()`" if name.startswith(".") else name


def _number(node: ast.expr) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return -node.operand.value if isinstance(node.operand.value, int) else None
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None


def _is_joined(written: str) -> bool:
    """Whether several strings stand one after the other."""
    return written.count(written[0]) != 2
