"""DEV804: deprecated names of mixed precision, and a torch.device where autocast wants a string."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from devlint.checks import amp_imports, rewrite
from devlint.checks.amp_imports import Binding
from devlint.checks.base import Rule
from devlint.finding import Applicability, Edit, Fix, Group, RuleInfo
from devlint.placement import values as v
from devlint.screen import Mentions
from devlint.source import Noqa
from devlint.syntax import trees
from devlint.syntax.lazy import cst
from devlint.syntax.walk import walk

_OLD = {
    f"torch.{device}.amp.{name}": (device, name)
    for device, names in {
        "cuda": ("autocast", "GradScaler", "custom_fwd", "custom_bwd"),
        "cpu": ("autocast", "GradScaler"),
    }.items()
    for name in names
}
"""The deprecated names, with the device type that the new one is told."""

_SINCE = {"autocast": (1, 10), "GradScaler": (2, 3), "custom_fwd": (2, 4), "custom_bwd": (2, 4)}
"""The first torch whose torch.amp has the name (https://docs.pytorch.org/docs/stable/amp.html)."""

_AUTOCAST_ORDER = ("enabled", "dtype", "cache_enabled")
"""Positional parameters of the old autocast; the new one has dtype, enabled, cache_enabled after the device type."""

_NEW = frozenset({"torch.autocast", *(f"torch.amp.{name}" for name in _SINCE)})
_WANT_TYPE = {"torch.autocast": 0, "torch.amp.custom_fwd": None, "torch.amp.custom_bwd": None}
"""Functions that take `device_type` as a string, with its position."""

_DEFAULTS = frozenset(
    {"set_autocast_gpu_dtype", "set_autocast_cpu_dtype", "set_autocast_dtype", "set_autocast_cache_enabled"}
)
"""Functions that change what the new autocast takes for an argument that is not given; the old one has its own."""

_VERSION = re.compile(r"version|torch_?v?\d|torch_(?:ge|gt|le|lt|greater|less|newer|older|min|at_least)")
"""Names of what tells one torch from another."""


@dataclass(frozen=True, slots=True)
class _Use:
    """One place where a deprecated name stands, and the call or decorator that makes it work, if it is one."""

    node: ast.Name | ast.Attribute
    root: ast.Name
    device: str
    name: str
    call: cst.Call | None = None
    decorates: bool = False
    asks: bool = False
    """It is compared with, or annotates: a class that is named, not called."""

    @property
    def reported(self) -> bool:
        return self.call is not None or self.decorates


class CudaAmp(Rule):
    info = RuleInfo(
        "DEV804",
        "cuda-amp",
        (Group.DEPRECATED,),
        "deprecated name of mixed precision, or a torch.device where autocast wants a string",
    )
    screen = (Mentions(frozenset({"amp", "autocast", "GradScaler", "custom_fwd", "custom_bwd", "autocast_mode"})),)

    def suspects(self) -> bool:
        for node in trees.walk(self.context.tree):
            if isinstance(node, ast.Call):
                name = self.name_of(node.func)
                if name in _WANT_TYPE or name in _OLD:
                    return True
            elif any(self.name_of(decorator) in _OLD for decorator in getattr(node, "decorator_list", ())):
                return True
        return False

    def visit_Module(self, node: cst.Module) -> None:
        calls = {self.context.ast_of(part): part for part in walk(node) if isinstance(part, cst.Call)}
        uses = list(self._uses(calls))
        plan = _Plan(self, uses)
        for use in uses:
            if use.reported and not self._is_fallback(use):
                fix, no_fix = plan.fix(use)
                self.report(self._end_span(use.node), _message(use), fix=fix, no_fix=no_fix)
        for call, part in calls.items():
            assert isinstance(call, ast.Call)
            name = self.name_of(call.func)
            if name in _WANT_TYPE:
                self._device_type(part, call, _WANT_TYPE[name])
            elif name in _OLD and not any(use.node is call.func for use in uses):
                self._called_by_another_name(call, name)

    # --- deprecated names ---------------------------------------------------------------------------------------

    def _uses(self, calls: dict[ast.AST, cst.Call]) -> Iterator[_Use]:
        parents = self.context.inference.parents
        for root in self.context.names.homes:
            if not isinstance(root, ast.Name):
                continue
            node: ast.Name | ast.Attribute = root
            while True:
                above = parents.get(node)
                name = self.context.names.name_of(node)
                if name is None:
                    break
                known = _OLD.get(self.context.inference.facts.canonical(name))
                if known is not None:
                    yield self._use(node, root, *known, calls)
                    break
                if not isinstance(above, ast.Attribute):
                    break
                node = above

    def _use(
        self, node: ast.Name | ast.Attribute, root: ast.Name, device: str, name: str, calls: dict[ast.AST, cst.Call]
    ) -> _Use:
        above = self.context.inference.parents.get(node)
        if isinstance(above, ast.Call) and above.func is node:
            return _Use(node, root, device, name, call=calls[above])
        if name.startswith("custom_") and node in getattr(above, "decorator_list", ()):
            return _Use(node, root, device, name, decorates=True)
        return _Use(node, root, device, name, asks=name == "GradScaler" and self._only_named(node))

    def _only_named(self, node: ast.AST) -> bool:
        """An annotation, or the class in `isinstance(x, cls)`."""
        child = node
        for above in self.context.ancestors(node):
            if isinstance(above, ast.Call):
                return isinstance(above.func, ast.Name) and above.func.id == "isinstance" and child in above.args[1:]
            if isinstance(above, ast.arg | ast.AnnAssign) and above.annotation is child:
                return True
            if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef) and above.returns is child:
                return True
            if not isinstance(above, ast.Tuple | ast.Subscript | ast.BinOp):
                return False
            child = above
        return False

    def _end_span(self, node: ast.Name | ast.Attribute) -> tuple[int, int]:
        return (
            rewrite.attribute_span(self.context, node) if isinstance(node, ast.Attribute) else self.context.span(node)
        )

    def _is_fallback(self, use: _Use) -> bool:
        """It stands where the torch at hand has no other: in the branch of a version check, or after the new name."""
        child: ast.AST = use.node
        for above in self.context.ancestors(use.node):
            if isinstance(above, ast.If | ast.IfExp) and child is not above.test:
                if _asks_version(above.test):
                    return True
                branches = [above.body, above.orelse]
                others = [
                    part
                    for branch in branches
                    for part in (branch if isinstance(branch, list) else [branch])
                    if child is not part and not (isinstance(branch, list) and child in branch)
                ]
                if self._names_new(others, use.name):
                    return True
            elif isinstance(above, ast.Try) and child not in above.body and self._names_new(above.body, use.name):
                return True
            child = above
        return False

    def _names_new(self, nodes: Sequence[ast.AST], name: str) -> bool:
        for node in nodes:
            for part in trees.walk(node):
                if isinstance(part, ast.Name | ast.Attribute):
                    found = self.name_of(part) or ""
                    if found in _NEW and found.endswith(name):
                        return True
                elif isinstance(part, ast.ImportFrom) and part.module == "torch.amp":
                    return True
        return False

    def _called_by_another_name(self, call: ast.Call, name: str) -> None:
        device, last = _OLD[name]
        if isinstance(call.func, ast.Name | ast.Attribute):
            self.report(
                self._end_span(call.func),
                _message_of(device, last),
                no_fix="the name is bound by an assignment, which has to change first",
            )

    @cached_property
    def changes_defaults(self) -> bool:
        return any(
            isinstance(node, ast.Attribute | ast.Name)
            and (node.attr if isinstance(node, ast.Attribute) else node.id) in _DEFAULTS
            for node in trees.walk(self.context.tree)
        )

    # --- a torch.device as device_type --------------------------------------------------------------------------

    def _device_type(self, node: cst.Call, call: ast.Call, position: int | None) -> None:
        argument = next((a for a in node.args if a.keyword is not None and a.keyword.value == "device_type"), None)
        if (
            argument is None
            and position is not None
            and node.args
            and node.args[0].keyword is None
            and not node.args[0].star
        ):
            argument = node.args[0]
        if argument is None:
            return
        value = self.value_of(argument.value)
        proven = _is_device(value)
        if not proven and not self._device_by_calls(argument.value, value):
            return
        context = self.context
        _, end = context.span(argument.value)
        written = context.text(argument.value)
        edits = [Edit(end, end, ".type")]
        if not isinstance(argument.value, cst.Name | cst.Attribute | cst.Call | cst.Subscript):
            if argument.value.lpar:
                end = rewrite.argument_span(context, argument)[1]
                edits = [Edit(end, end, ".type")]
            else:
                start = context.span(argument.value)[0]
                edits = [Edit(start, start, "("), Edit(end, end, ").type")]
        title = "Give it the device's `.type`"
        short = written if len(written) <= 40 else "the device"
        self.report(
            argument.value,
            f"`{short}` is a torch.device, and this takes its type as a string: "
            "ValueError, Expected `device_type` of type `str`",
            fix=rewrite.safe(title, *edits) if proven else rewrite.unsafe(title, *edits),
        )

    def _device_by_calls(self, node: cst.BaseExpression, value: v.Value) -> bool:
        """Whether node is an argument of a function that the file calls with a torch.device, and with nothing else."""
        if not isinstance(node, cst.Name) or value.kind != v.UNKNOWN or len(value.ids) != 1:
            return False
        parameter = next(iter(value.ids))
        if not isinstance(parameter, ast.arg):
            return False
        function = self.context.inference.owner(self.context.ast_of(node))
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            return False
        positional = [*function.args.posonlyargs, *function.args.args]
        given: list[ast.expr] = []
        for call in trees.walk(self.context.tree):
            if not (isinstance(call, ast.Call) and self._calls(call, function)):
                continue
            if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
                return False
            named = [k.value for k in call.keywords if k.arg == parameter.arg]
            place = positional.index(parameter) if parameter in positional else len(call.args)
            found = named or call.args[place : place + 1]
            if not found:
                return False
            given += found
        return bool(given) and all(_is_device(self.value_of(expression)) for expression in given)

    def _calls(self, call: ast.Call, function: ast.AST) -> bool:
        called = self.value_of(call.func)
        return called.kind == v.FUNCTION and called.node is function and isinstance(call.func, ast.Name)


class _Plan:
    """Fixes for all uses in a file: each on its own, or, where an import goes or changes, all uses of it at once."""

    def __init__(self, rule: CudaAmp, uses: list[_Use]) -> None:
        self._rule = rule
        self._context = rule.context
        self._noqa = Noqa(rule.context.source)
        self._uses = uses
        self._joint: dict[ast.Name, Fix] = {}
        self._renamed: set[ast.Name] = set()
        """Roots that keep their name, as their import changes."""
        self._plan_imports()

    def fix(self, use: _Use) -> tuple[Fix | None, str | None]:
        """The fix of a use, or why there is none."""
        reason = self._reason(use)
        if reason is not None:
            return None, reason
        joint = self._joint.get(use.root)
        if joint is not None:
            return joint, None
        edits = self._edits(use)
        if edits is None:
            return None, "`torch` is not imported under a name of its own here"
        asking = self._asking(use, self._joint)
        if asking is None:
            return None, "the class is asked for elsewhere in the file, where it cannot be renamed"
        return Fix(self._title(use), (*edits, *asking), self._applicability(use)), None

    def _title(self, use: _Use) -> str:
        return f"Use `torch.amp.{use.name}`"

    # --- one use ------------------------------------------------------------------------------------------------

    def _reason(self, use: _Use) -> str | None:
        since = _SINCE[use.name]
        target = self._context.target_torch
        if target < since:
            return (
                f"torch.amp.{use.name} came with torch {since[0]}.{since[1]}, "
                f"and target-torch is {target[0]}.{target[1]}"
            )
        if not self._context.editable(use.node):
            return "it stands inside an f-string"
        if use.call is not None:
            return self._call_reason(use, use.call)
        return None

    def _call_reason(self, use: _Use, call: cst.Call) -> str | None:
        arguments = call.args
        double = any(argument.star == "**" for argument in arguments)
        if use.name == "autocast":
            positional = [argument for argument in arguments if argument.keyword is None and argument.star != "**"]
            if any(argument.star for argument in positional):
                return "`*` may hold any of its arguments, and their order differs"
            if positional and double:
                return "`**` may hold any of its arguments, and their order differs"
            if len(positional) > len(_AUTOCAST_ORDER):
                return "it has more arguments than autocast takes"
            named = {argument.keyword.value for argument in arguments if argument.keyword is not None}
            if named & set(_AUTOCAST_ORDER[: len(positional)]) or "device_type" in named:
                return "its arguments are not those of the old autocast"
        elif use.name == "GradScaler":
            if any(a.keyword is not None and a.keyword.value == "device" for a in arguments):
                return "its arguments are not those of the old GradScaler"
        elif double or any(a.keyword is not None and a.keyword.value == "device_type" for a in arguments):
            return "`device_type` may be among its arguments already"
        return None

    def _callee(self, use: _Use) -> str | None:
        """How the new name is written here; None where nothing names torch."""
        if use.root in self._renamed:
            return self._context.text(use.node)
        name = amp_imports.module_name(self._context, "torch", use.node, use.root)
        if name is None and self._context.names.name_of(use.root) == "torch":
            name = use.root.id
        return None if name is None else f"{name}.amp.{use.name}"

    def _edits(self, use: _Use) -> list[Edit] | None:
        callee = self._callee(use)
        if callee is None:
            return None
        context = self._context
        edits = [rewrite.replace(context, use.node, callee)] if callee != context.text(use.node) else []
        if use.decorates:
            end = context.span(use.node)[1]
            named = f'(device_type="{use.device}")'
            return [Edit(edits[0].start, end, f"{callee}{named}")] if edits else [Edit(end, end, named)]
        if use.call is None:
            return edits
        call = use.call
        if use.name.startswith("custom_"):
            if call.args and call.args[0].keyword is None:
                added = rewrite.add_keyword(context, call, "device_type", f'"{use.device}"')
                return [*edits, added] if added is not None else None
            return [*edits, self._first(use, call, f'device_type="{use.device}"')]
        edits.append(self._first(use, call, f'"{use.device}"'))
        if use.name == "autocast":
            for argument, keyword in zip(call.args, _AUTOCAST_ORDER, strict=False):
                if argument.keyword is not None or argument.star:
                    break
                start = rewrite.argument_span(context, argument)[0]
                if start == edits[-1].start:  # directly behind the new first argument
                    edits[-1] = Edit(start, start, f"{edits[-1].text}{keyword}=")
                else:
                    edits.append(Edit(start, start, f"{keyword}="))
        return edits

    def _first(self, use: _Use, call: cst.Call, written: str) -> Edit:
        """Put an argument before all others, in the call's own layout."""
        context = self._context
        text = context.source.text
        opening = text.index("(", context.span(use.node)[1]) + 1
        if not call.args:
            return Edit(opening, opening, written)
        position = opening
        while text[position].isspace():
            position += 1
        gap = text[opening:position]
        if text[position] == "#":
            return Edit(opening, opening, f"{written},")
        if "\n" in gap or "\r" in gap:
            return Edit(position, position, f"{written},{gap}")
        return Edit(position, position, f"{written}, ")

    def _applicability(self, use: _Use) -> Applicability:
        """Unsafe where the new autocast would take another dtype than the old one's own default."""
        if use.name != "autocast" or use.call is None:
            return Applicability.SAFE
        given = {a.keyword.value for a in use.call.args if a.keyword is not None}
        given.update(_AUTOCAST_ORDER[: sum(a.keyword is None for a in use.call.args)])
        if "dtype" in given:
            return Applicability.SAFE
        return Applicability.UNSAFE if self._rule.changes_defaults or self._is_nested(use) else Applicability.SAFE

    def _is_nested(self, use: _Use) -> bool:
        """Inside `with autocast(..., dtype=...)` the new one takes that dtype, the old one float16."""
        for above in self._context.ancestors(use.node):
            if isinstance(above, ast.With | ast.AsyncWith):
                for item in above.items:
                    call = item.context_expr
                    if isinstance(call, ast.Call) and call.func is not use.node:
                        name = self._rule.name_of(call.func) or ""
                        if name.endswith("autocast") and (
                            len(call.args) > 1 or any(k.arg in ("dtype", None) for k in call.keywords)
                        ):
                            return True
        return False

    def _asking(self, use: _Use, done: Collection[ast.Name]) -> list[Edit] | None:
        """A scaler of the new class is none of the old: where the file asks for the old, it must ask for the new."""
        if use.name != "GradScaler":
            return []
        edits: list[Edit] = []
        for other in self._uses:
            if other.asks and other.device == use.device and other.root not in done:
                renamed = self._edits(other)
                if renamed is None:
                    return None
                edits += renamed
        return edits

    # --- imports ------------------------------------------------------------------------------------------------

    def _plan_imports(self) -> None:
        """Find the imports all of whose uses change; those uses then share one fix."""
        bindings: dict[ast.alias, tuple[Binding, list[_Use]]] = {}
        for use in self._uses:
            if self._context.names.name_of(use.root) == "torch":
                continue
            binding = amp_imports.binding_of(self._context, use.root)
            if binding is not None:
                bindings.setdefault(binding.alias, (binding, []))[1].append(use)
        statements: dict[ast.AST, list[tuple[Binding, list[_Use]]]] = {}
        for binding, uses in bindings.values():
            if self._all_change(binding, uses):
                statements.setdefault(binding.statement, []).append((binding, uses))
        for group in statements.values():
            self._plan_statement(group)

    def _all_change(self, binding: Binding, uses: list[_Use]) -> bool:
        if len(amp_imports.uses_of(self._context, binding)) != len(uses):
            return False
        if not any(use.reported for use in uses) or amp_imports.is_wanted_elsewhere(self._context, binding):
            return False
        return all((use.reported or use.asks) and self._may_change(use) for use in uses)

    def _may_change(self, use: _Use) -> bool:
        suppressed = use.reported and self._noqa.suppresses("DEV804", use.node.end_lineno or use.node.lineno)
        return self._reason(use) is None and not suppressed and not self._rule._is_fallback(use)

    def _plan_statement(self, group: list[tuple[Binding, list[_Use]]]) -> None:
        context = self._context
        statement = group[0][0].statement
        gone = [binding.alias for binding, _ in group]
        uses = [use for _, used in group for use in used]
        plain = amp_imports.is_plain(context, statement) and amp_imports.stands_alone(context, statement)
        if plain and all(self._callee(use) is not None for use in uses):
            edits = amp_imports.removal(context, statement, gone)
        else:
            changed = self._changed(statement, gone, plain)
            if changed is None:
                return
            edits = changed
            self._renamed.update(use.root for use in uses)
        for use in uses:
            own = self._edits(use)
            if own is None:
                self._renamed -= {use.root for use in uses}
                return
            edits += own
        roots = {use.root for use in uses}
        scaler = next((use for use in uses if use.name == "GradScaler"), None)
        asking = self._asking(scaler, roots | self._joint.keys()) if scaler is not None else []
        if asking is None:
            self._renamed -= roots
            return
        worst = Applicability.SAFE
        if any(self._applicability(use) is Applicability.UNSAFE for use in uses):
            worst = Applicability.UNSAFE
        names = " and ".join(sorted({f"`torch.amp.{use.name}`" for use in uses if use.reported}))
        fix = Fix(f"Use {names}", tuple(dict.fromkeys([*edits, *asking])), worst)
        self._joint.update(dict.fromkeys(roots, fix))

    def _changed(self, statement: ast.Import | ast.ImportFrom, gone: list[ast.alias], plain: bool) -> list[Edit] | None:
        """The import, of torch.amp instead; the names stay."""
        context = self._context
        start, end = context.span(statement)
        text = context.source.text[start:end]
        whole = len(gone) == len(statement.names)
        if isinstance(statement, ast.Import):
            if not whole or len(gone) != 1 or not gone[0].asname:
                return None
            alias_start, _ = context.span(gone[0])
            return [Edit(alias_start, alias_start + len(gone[0].name), "torch.amp")]
        module = statement.module or ""
        at = text.find(module, len("from"))
        if at < 0:
            return None
        new = "torch" if module in ("torch.cuda", "torch.cpu") else "torch.amp"
        if whole:
            return [Edit(start + at, start + at + len(module), new)]
        if not plain:
            return None
        names = ", ".join(alias.name + (f" as {alias.asname}" if alias.asname else "") for alias in gone)
        indent = " " * statement.col_offset
        line = f"from {new} import {names}{context.source.newline}{indent}"
        return [Edit(start, start, line), *amp_imports.removal(context, statement, gone)]


def _message(use: _Use) -> str:
    return _message_of(use.device, use.name)


def _message_of(device: str, name: str) -> str:
    told = f'device_type="{device}"' if name.startswith("custom_") else f'"{device}"'
    return (
        f"`torch.{device}.amp.{name}` is deprecated since torch 2.4 and warns at every call; "
        f"`torch.amp.{name}` is told the device by {told}"
    )


def _is_device(value: v.Value) -> bool:
    return all(one.kind == v.DEVICE for one in value.possibilities())


def _asks_version(test: ast.expr) -> bool:
    """`if torch.__version__ >= ...`, `if TORCH_2_4`, `if hasattr(torch, "amp")`."""
    for node in trees.walk(test):
        if isinstance(node, ast.Name | ast.Attribute):
            name = node.attr if isinstance(node, ast.Attribute) else node.id
            if _VERSION.search(name.lower()):
                return True
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "hasattr":
            return any(isinstance(part, ast.Name) and part.id in ("torch", "th") for part in trees.walk(node))
    return False


__all__ = ["CudaAmp"]
