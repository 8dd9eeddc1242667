"""DEV203: modules or parameters in a plain list, tuple or dict of a module, which then does not know them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial

from devlint.checks import amp_imports, rewrite
from devlint.checks.base import Rule
from devlint.checks.made_modules import FUNCTIONS, STATEFUL, Made, Maker, is_module_class, methods, self_of
from devlint.finding import Edit, Fix, Group, RuleInfo
from devlint.placement import values as v
from devlint.placement.effects import TRANSFERS
from devlint.placement.evaluate import path_of
from devlint.screen import All, Keeps, Mentions
from devlint.syntax.lazy import cst
from devlint.syntax.trees import last_name, walk

_SEQUENCES = (ast.List, ast.Tuple, ast.ListComp)
_MAPPINGS = (ast.Dict, ast.DictComp)
_EMPTY_CALLS = {"builtins.list": "list", "builtins.dict": "dict", "collections.OrderedDict": "dict"}
_READERS_TEXT = """
    all any bool dict enumerate filter id iter len list map max min next print range reversed set sum tuple
    zip
"""
_READERS = frozenset(_READERS_TEXT.split())
"""Builtins that only read what they are given."""
_ADDS = {"append": 0, "insert": 1}
_LIST_METHODS = frozenset({"append", "extend", "insert", "pop"})
_DICT_METHODS = frozenset({"keys", "values", "items", "update", "pop", "clear"})
_OWN_TRANSFER_TEXT = """
    _apply children cpu cuda load_state_dict modules named_modules named_parameters parameters state_dict to
"""
_OWN_TRANSFER = frozenset(_OWN_TRANSFER_TEXT.split())
"""Methods by which a class looks after what it keeps in plain containers itself."""
_REGISTERS = frozenset({"add_module", "register_module", "register_parameter", "setattr", "__setattr__", "_modules"})

_MODULE_DICT_NAMES_TEXT = """
    T_destination add_module apply bfloat16 buffers call_super_init children clear compile cpu cuda double
    dump_patches eval extra_repr float forward get_buffer get_extra_state get_parameter get_submodule half ipu
    items keys load_state_dict modules mtia named_buffers named_children named_modules named_parameters parameters pop
    register_backward_hook register_buffer register_forward_hook register_forward_pre_hook
    register_full_backward_hook register_full_backward_pre_hook register_load_state_dict_post_hook
    register_load_state_dict_pre_hook register_module register_parameter register_state_dict_post_hook
    register_state_dict_pre_hook requires_grad_ set_extra_state set_submodule share_memory state_dict to
    to_empty train training type update values xpu zero_grad
"""
MODULE_DICT_NAMES = frozenset(_MODULE_DICT_NAMES_TEXT.split())
"""Names that a ModuleDict cannot take as keys, since it has an attribute of that name: `KeyError: attribute ...`."""


_NO_TEXTS = frozenset(
    {"shape", "size", "dtype", "device", "ndim", "dim", "index", "len", "int", "id", "hash", "type", "tuple"}
)
"""Attributes and calls that give something else than a string."""
_BASES = frozenset({"nn", "Module", "torch", "lightning", "pytorch_lightning", "torchmetrics", "LightningModule"})
"""Without one of these no class of a file can be known to be a module."""


@dataclass(slots=True)
class _Kept:
    """All that a class does with one attribute that holds a plain container."""

    name: str
    statement: ast.Assign | ast.AnnAssign
    target: ast.Attribute
    value: ast.expr
    method: ast.FunctionDef | ast.AsyncFunctionDef
    mapping: bool
    local: ast.expr | None = None
    """Where the attribute takes a local name: the container that this name is bound to."""
    elements: list[tuple[ast.expr, ast.AST]] = field(default_factory=list)
    """What goes into it, with the method where it does."""
    keys: list[ast.expr | None] = field(default_factory=list)
    read: bool = False
    unfit: str = ""
    """Why the container of torch would not do, if so."""


class PlainModuleContainer(Rule):
    info = RuleInfo(
        "DEV203",
        "plain-module-container",
        (Group.BUG,),
        "modules or parameters in a plain list, tuple or dict of a module, which does not see them",
    )
    screen = (All((Mentions(_BASES), Keeps())),)

    def suspects(self) -> bool:
        return bool(self._faults)

    @cached_property
    def _maker(self) -> Maker:
        return Maker(self.context)

    @cached_property
    def _faults(self) -> dict[ast.ClassDef, list[_Kept]]:
        return {node: faults for node in self.context.classes if (faults := self._faults_of(node))}

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        class_ = self.context.ast_of(node)
        assert isinstance(class_, ast.ClassDef)
        for kept in self._faults.get(class_, ()):
            self._report(kept)

    def _faults_of(self, class_: ast.ClassDef) -> list[_Kept]:
        if not is_module_class(self.context, class_):
            return []
        found = []
        for kept in self._containers(class_):
            self._gather(class_, kept)
            if kept.name and self._is_fault(class_, kept):
                found.append(kept)
        return found

    # --- which attributes ---------------------------------------------------------------------------------------

    def _containers(self, class_: ast.ClassDef) -> Iterator[_Kept]:
        """The attributes of self that are assigned a plain container, once."""
        found: dict[str, list[_Kept | None]] = {}
        for method in methods(class_):
            own = self_of(method)
            for part in walk(method):
                if not isinstance(part, ast.Assign | ast.AnnAssign):
                    continue
                for target, value in _pairs(part):
                    for inner in walk(target):
                        if (
                            isinstance(inner, ast.Attribute)
                            and isinstance(inner.ctx, ast.Store)
                            and path_of(inner.value) == own
                        ):
                            kept = self._kept(part, inner, value, method) if inner is target else None
                            found.setdefault(inner.attr, []).append(kept)
        for several in found.values():
            if len(several) == 1 and several[0] is not None:
                yield several[0]

    def _kept(
        self,
        part: ast.Assign | ast.AnnAssign,
        target: ast.Attribute,
        value: ast.expr | None,
        method: ast.FunctionDef | ast.AsyncFunctionDef,
    ) -> _Kept | None:
        if value is None:
            return None
        local = self._local_container(value, method) if isinstance(value, ast.Name) else None
        mapping = self._is_mapping(local or value)
        return None if mapping is None else _Kept(target.attr, part, target, value, method, mapping, local)

    def _is_mapping(self, value: ast.expr) -> bool | None:
        """True for a plain dict, False for a list or tuple, None for all else."""
        if isinstance(value, _SEQUENCES):
            return False
        if isinstance(value, _MAPPINGS):
            return True
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult) and isinstance(value.left, ast.List):
            return False
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name | ast.Attribute):
            kind = _EMPTY_CALLS.get(self.context.name_of(value.func) or "")
            if kind == "list" and not value.keywords:
                inside = value.args[0] if value.args else None
                return False if inside is None or isinstance(inside, ast.GeneratorExp | ast.ListComp) else None
            if kind == "dict" and not value.args:
                return True
        return None

    def _local_container(self, name: ast.Name, method: ast.AST) -> ast.expr | None:
        """The container that a local name is bound to, once, and that goes nowhere else than to the attribute."""
        bound: ast.expr | None = None
        parents = self.context.inference.parents
        for part in walk(method):
            if not (isinstance(part, ast.Name) and part.id == name.id) or part is name:
                continue
            above = parents.get(part)
            if isinstance(part.ctx, ast.Store):
                if isinstance(above, ast.AugAssign):
                    continue
                if bound is not None or not (isinstance(above, ast.Assign) and above.targets == [part]):
                    return None
                bound = above.value
            elif isinstance(above, ast.Attribute):
                if above.attr not in _LIST_METHODS | _DICT_METHODS:
                    return None
            elif not (
                (isinstance(above, ast.Subscript) and above.value is part)
                or (isinstance(above, ast.Call) and self.context.name_of(above.func) == "builtins.len")
            ):
                return None
        return bound

    # --- what is done with it -----------------------------------------------------------------------------------

    def _gather(self, class_: ast.ClassDef, kept: _Kept) -> None:
        """Fill in the elements and uses; an attribute that is registered in some way loses its name."""
        for value in (kept.local or kept.value,):
            self._elements_of(value, kept, kept.method)
        if kept.local is not None and isinstance(kept.value, ast.Name):
            for part in walk(kept.method):
                if isinstance(part, ast.Name) and part.id == kept.value.id and part is not kept.value:
                    self._use(part, kept, kept.method)
            kept.read = False
        for method in methods(class_):
            own = self_of(method)
            mentioned = False
            for part in walk(method):
                if (
                    isinstance(part, ast.Attribute)
                    and part.attr == kept.name
                    and path_of(part.value) == own
                    and part is not kept.target
                ):
                    mentioned = True
                    self._use(part, kept, method)
            if (mentioned or method is kept.method) and _registers(method, own, kept):
                kept.name = ""
            if mentioned and method.name in _OWN_TRANSFER:
                kept.name = ""
            if not kept.name:
                return
        if any(kept.name in _names(statement) for statement in class_.body):
            kept.unfit = kept.unfit or f"the class itself has a `{kept.name}`"

    def _elements_of(self, value: ast.expr, kept: _Kept, method: ast.AST) -> None:
        """The elements that a container's expression puts in."""
        if isinstance(value, ast.BinOp):
            if not isinstance(value.op, ast.Mult):
                kept.unfit = kept.unfit or "what else goes into it is not known"
            value = value.left
        if isinstance(value, ast.Call):
            kept.elements += [(keyword.value, method) for keyword in value.keywords]
            if any(keyword.arg is None for keyword in value.keywords):
                kept.unfit = kept.unfit or "what `**` puts in is not known"
            kept.keys += [ast.Constant(keyword.arg) for keyword in value.keywords if keyword.arg]
            if value.args:
                self._elements_of(value.args[0], kept, method)
        elif isinstance(value, ast.List | ast.Tuple):
            kept.elements += [(item, method) for item in value.elts]
        elif isinstance(value, ast.ListComp | ast.GeneratorExp):
            kept.elements.append((value.elt, method))
        elif isinstance(value, ast.Dict):
            kept.elements += [(item, method) for item in value.values]
            kept.keys += value.keys
        elif isinstance(value, ast.DictComp):
            kept.elements.append((value.value, method))
            kept.keys.append(value.key)
        else:
            kept.unfit = kept.unfit or "what else goes into it is not known"

    def _use(self, node: ast.expr, kept: _Kept, method: ast.AST) -> None:
        """One place where the container stands."""
        parents = self.context.inference.parents
        above = parents.get(node)
        if isinstance(above, ast.AugAssign) and above.target is node:
            if isinstance(above.op, ast.Add) and not kept.mapping:
                self._elements_of(above.value, kept, method)
            else:
                kept.unfit = kept.unfit or "it is changed in a way that torch's container does not know"
        elif isinstance(above, ast.Attribute):
            self._method(above, kept, method)
        elif isinstance(above, ast.Subscript) and above.value is node:
            self._item(above, kept, method)
        elif isinstance(above, ast.Starred | ast.Call | ast.keyword):
            self._argument(node, kept)
        elif isinstance(
            above, ast.For | ast.AsyncFor | ast.comprehension | ast.If | ast.BoolOp | ast.IfExp | ast.UnaryOp
        ):
            kept.read = True
            if isinstance(above, ast.comprehension) and self._feeds_call(above) and self._is_registered(node):
                kept.name = ""
        elif _asks_for_member(above) or _names_it(above):
            kept.read = True
        elif isinstance(above, ast.AnnAssign | ast.Assign | ast.Delete):
            kept.name = "" if isinstance(above, ast.Assign) else kept.name
            kept.unfit = kept.unfit or "it is also assigned elsewhere"
        else:
            kept.read = True
            kept.unfit = kept.unfit or "it is used in a way that torch's container may not know"

    def _method(self, node: ast.Attribute, kept: _Kept, method: ast.AST) -> None:
        call = self.context.inference.parents.get(node)
        called = isinstance(call, ast.Call) and call.func is node
        if node.attr not in (_DICT_METHODS if kept.mapping else _LIST_METHODS) or not called:
            kept.read = True
            kept.unfit = kept.unfit or f"torch's container has no `.{node.attr}` of this kind"
            return
        assert isinstance(call, ast.Call)
        if node.attr in _ADDS and len(call.args) > _ADDS[node.attr]:
            kept.elements.append((call.args[_ADDS[node.attr]], method))
        elif node.attr in ("extend", "update") and len(call.args) == 1 and not call.keywords:
            self._elements_of(call.args[0], kept, method)
        elif node.attr in ("extend", "update", "append", "insert"):
            kept.unfit = kept.unfit or "what goes into it is not known"
        else:
            kept.read = True

    def _item(self, node: ast.Subscript, kept: _Kept, method: ast.AST) -> None:
        above = self.context.inference.parents.get(node)
        if isinstance(node.ctx, ast.Store) and isinstance(above, ast.Assign) and above.targets == [node]:
            kept.elements.append((above.value, method))
            kept.keys.append(node.slice)
            if isinstance(node.slice, ast.Slice):
                kept.unfit = kept.unfit or "a slice of it is assigned"
            return
        if not isinstance(node.ctx, ast.Load):
            kept.unfit = kept.unfit or "its items are changed"
            return
        kept.read = True
        if kept.mapping:
            kept.keys.append(node.slice)
        given = isinstance(above, ast.Starred | ast.keyword) or (isinstance(above, ast.Call) and above.func is not node)
        if given and self._is_registered(node):
            kept.name = ""

    def _argument(self, node: ast.expr, kept: _Kept) -> None:
        """It is handed to a call, whole or unpacked; or unpacked into another container."""
        kept.read = True
        call = next((above for above in self.context.ancestors(node) if isinstance(above, ast.Call | ast.stmt)), None)
        name = (self.context.name_of(call.func) or "") if isinstance(call, ast.Call) else ""
        if self._is_registered(node):
            kept.name = ""
        elif name.rpartition(".")[2] in ("isinstance", "sorted") and name.startswith("builtins."):
            kept.unfit = kept.unfit or f"`{name.rpartition('.')[2]}` asks for a plain container"
        elif not (name.startswith("builtins.") and name.rpartition(".")[2] in _READERS):
            kept.unfit = kept.unfit or "it is handed to a call that may want a plain container"

    def _is_registered(self, node: ast.expr) -> bool:
        """Whether a statement puts what the container holds into an attribute of self, or into a module's call."""
        for above in self.context.ancestors(node):
            if isinstance(above, ast.Assign | ast.AnnAssign):
                targets = above.targets if isinstance(above, ast.Assign) else [above.target]
                return any(isinstance(t, ast.Attribute) for t in targets) and not self._only_counts(node)
            if isinstance(above, ast.stmt):
                call = above.value if isinstance(above, ast.Expr) else None
                return isinstance(call, ast.Call) and last_name(call.func) in ("__init__", *_REGISTERS)
        return False

    def _feeds_call(self, loop: ast.comprehension) -> bool:
        """Whether a comprehension is an argument: `nn.ModuleList([part for part in self.parts])`."""
        whole = self.context.inference.parents.get(loop)
        above = self.context.inference.parents.get(whole) if whole is not None else None
        return isinstance(above, ast.Call | ast.Starred | ast.keyword)

    def _only_counts(self, node: ast.expr) -> bool:
        above = self.context.inference.parents.get(node)
        return isinstance(above, ast.Call) and self.context.name_of(above.func) in ("builtins.len", "builtins.range")

    # --- the verdict --------------------------------------------------------------------------------------------

    def _is_fault(self, class_: ast.ClassDef, kept: _Kept) -> bool:
        if not kept.read:
            return False
        made = [self._maker.made(element, method) for element, method in kept.elements]
        if not any(kind in STATEFUL for kind in made):
            return False
        if Made.PARAMETER in made and any(self._hands_out(method, kept.name) for method in methods(class_)):
            return False
        if self._is_fed_by_hand(class_, kept):
            return False
        value = kept.local or kept.value
        hidden = isinstance(value, ast.List | ast.Tuple) and len(value.elts) == 1 and len(kept.elements) == 1
        return not (hidden and not kept.mapping and self._read_at_zero(class_, kept))

    def _is_fed_by_hand(self, class_: ast.ClassDef, kept: _Kept) -> bool:
        """`self.kept[i](x.to(self.place))`: each call of an item moves its input to where the class keeps the items."""
        parents = self.context.inference.parents
        # Of its own: LightningModule has a `device` that follows it.
        setters = partial(self.context.inference.classes.setters, class_)
        calls = []
        for part in walk(class_):
            item = parents.get(part) if isinstance(part, ast.Attribute) and part.attr == kept.name else None
            call = parents.get(item) if isinstance(item, ast.Subscript) and item.value is part else None
            if isinstance(call, ast.Call) and call.func is item:
                calls.append(call)
        return bool(calls) and all(bool(call.args) and _is_moved_to_own(call.args[0], setters) for call in calls)

    def _hands_out(self, method: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> bool:
        """Whether a method gives the kept parameters, or one of them, to an optimizer or to its caller, or moves them:
        the class looks after them itself. What `forward` gives is a result."""
        own = self_of(method)
        parents = self.context.inference.parents
        for part in walk(method):
            if not (isinstance(part, ast.Attribute) and part.attr == name and path_of(part.value) == own):
                continue
            above = parents.get(part)
            held = above if isinstance(above, ast.Subscript) and above.value is part else part
            over = parents.get(held)
            if isinstance(over, ast.For) and over.iter is held and _moves(over):
                return True
            while isinstance(over, ast.List | ast.Tuple | ast.Starred | ast.Dict | ast.keyword):
                over = parents.get(over)
            if isinstance(over, ast.Return | ast.Yield | ast.YieldFrom) and method.name not in ("forward", "__call__"):
                return True
            if isinstance(over, ast.Call) and self.context.value_of(over).kind == v.OPTIMIZER:
                return True
        return False

    def _read_at_zero(self, class_: ast.ClassDef, kept: _Kept) -> bool:
        """`self._teacher = [Net()]`, read as `self._teacher[0]`: kept out of the parameters on purpose."""
        parents = self.context.inference.parents
        reads = [
            parents.get(part)
            for part in walk(class_)
            if isinstance(part, ast.Attribute) and part.attr == kept.name and isinstance(part.ctx, ast.Load)
        ]
        return all(
            isinstance(read, ast.Subscript) and isinstance(read.slice, ast.Constant) and read.slice.value == 0
            for read in reads
        )

    def _report(self, kept: _Kept) -> None:
        made = {self._maker.made(element, method) for element, method in kept.elements}
        what = "parameters" if made == {Made.PARAMETER} else "modules"
        container = "dict" if kept.mapping else "tuple" if isinstance(kept.local or kept.value, ast.Tuple) else "list"
        message = (
            f"`self.{kept.name}` is a plain {container}, so its {what} are no part of the module: "
            "`.to()` leaves them behind, `.parameters()` and `.state_dict()` miss them"
        )
        fix, no_fix = self._fix(kept, made)
        self.report(rewrite.attribute_span(self.context, kept.target), message, fix=fix, no_fix=no_fix)

    # --- the fix ------------------------------------------------------------------------------------------------

    def _fix(self, kept: _Kept, made: set[Made]) -> tuple[Fix | None, str | None]:
        reason = kept.unfit or self._reason(kept, made)
        if reason:
            return None, reason
        parameters = made == {Made.PARAMETER}
        kind = ("Parameter" if parameters else "Module") + ("Dict" if kept.mapping else "List")
        written = self._name_of(kind, kept)
        if written is None:
            return None, f"{kind} is not imported here, nor is torch.nn"
        edits = [self._wrapped(kept, written)]
        if isinstance(kept.statement, ast.AnnAssign):
            edits.insert(0, rewrite.replace(self.context, kept.statement.annotation, written))
        title = f"Make it an `nn.{kind}`, which adds its {'parameters' if parameters else 'modules'} to `state_dict()`"
        return rewrite.unsafe(title, *edits), None

    def _reason(self, kept: _Kept, made: set[Made]) -> str:
        if not made <= {Made.MODULE, Made.STATELESS} and made != {Made.PARAMETER}:
            return "it holds more than modules, or containers of them"
        if kept.mapping:
            for key in kept.keys:
                reason = self._key_reason(key, made)
                if reason:
                    return reason
        if self._before_init(kept):
            return "it stands before `super().__init__()`, where a module takes no modules"
        return ""

    def _key_reason(self, key: ast.expr | None, made: set[Made]) -> str:
        if key is None:
            return "what `**` puts in is not known"
        pieces = (
            [part for part in key.values if isinstance(part, ast.Constant)] if isinstance(key, ast.JoinedStr) else [key]
        )
        for piece in pieces:
            if isinstance(piece, ast.Constant) and isinstance(piece.value, str):
                text = piece.value
                if "." in text or (piece is key and not text):
                    return "a key with a dot in it, or an empty one, cannot name a module"
                if piece is key and text in MODULE_DICT_NAMES:
                    return f"ModuleDict has an attribute `{text}` itself and refuses it as a key"
            elif isinstance(piece, ast.Constant | ast.Tuple):
                return "its keys are no strings"
        if isinstance(key, ast.Constant | ast.JoinedStr):
            return ""
        if isinstance(key, ast.BinOp | ast.Tuple) and not isinstance(getattr(key, "op", None), ast.Add | ast.Mod):
            return "its keys are no strings"
        if isinstance(key, ast.Name) and self._is_counted(key):
            return "its keys are no strings"
        kind = self.context.value_of(key).kind
        known = kind not in (v.UNKNOWN, v.TEXT) or self._names_no_text(key)
        return "its keys are no strings" if known else ""

    def _names_no_text(self, key: ast.expr) -> bool:
        """`x.shape`, `len(x)`, or a name that is assigned such a thing."""
        if isinstance(key, ast.Name):
            owner = self.context.inference.owner(key)
            sources = [
                part.value
                for part in walk(owner)
                if isinstance(part, ast.Assign) and any(path_of(target) == key.id for target in part.targets)
            ]
            return any(isinstance(s, ast.Tuple | ast.List) or self._names_no_text(s) for s in sources if s is not key)
        last = (
            last_name(key.func)
            if isinstance(key, ast.Call)
            else last_name(key)
            if isinstance(key, ast.Attribute)
            else ""
        )
        return last in _NO_TEXTS

    def _is_counted(self, key: ast.Name) -> bool:
        """A name that a loop over `range` or `enumerate` counts up."""
        for above in self.context.ancestors(key):
            loops = getattr(above, "generators", [above] if isinstance(above, ast.For) else [])
            for loop in loops:
                call = loop.iter
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                    target = loop.target
                    if call.func.id == "range" and isinstance(target, ast.Name) and target.id == key.id:
                        return True
                    if call.func.id == "enumerate" and isinstance(target, ast.Tuple) and target.elts:
                        return isinstance(target.elts[0], ast.Name) and target.elts[0].id == key.id
        return False

    def _before_init(self, kept: _Kept) -> bool:
        """Whether the assignment stands where Module.__init__ has not run."""
        if kept.method.name != "__init__":
            return False
        for part in walk(kept.method):
            if (
                isinstance(part, ast.Call)
                and isinstance(part.func, ast.Attribute)
                and part.func.attr == "__init__"
                and path_of(part.func.value) != self_of(kept.method)
            ):
                return part.lineno > kept.statement.lineno
        return True

    def _name_of(self, kind: str, kept: _Kept) -> str | None:
        """How the file writes `torch.nn.KIND`."""
        root = kept.target.value
        assert isinstance(root, ast.Name)
        for module, tail in ((f"torch.nn.{kind}", ""), ("torch.nn", f".{kind}"), ("torch", f".nn.{kind}")):
            name = amp_imports.module_name(self.context, module, kept.statement, root)
            if name is not None:
                return f"{name}{tail}"
        return None

    def _wrapped(self, kept: _Kept, written: str) -> Edit:
        """The container's expression, put into torch's container."""
        start, end = self.context.span(kept.value)
        text = self.context.source.text[start:end]
        value = kept.value
        if isinstance(value, ast.Call) and not value.keywords:
            inner = self.context.text(value.args[0]) if value.args else ""
            if value.args and isinstance(value.args[0], ast.GeneratorExp) and inner.startswith("("):
                inner = inner[1:-1]
            return Edit(start, end, f"{written}({inner})")
        if text in ("[]", "{}", "()") or not text.strip("[]{}() \t\r\n"):
            return Edit(start, end, f"{written}()")
        if isinstance(value, ast.Tuple) and not text.startswith("("):
            text = f"({text})"
        return Edit(start, end, f"{written}({text})")


def _pairs(part: ast.Assign | ast.AnnAssign) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """Each target of an assignment with its value; None where it is not plain which value it gets."""
    if isinstance(part, ast.AnnAssign):
        yield part.target, part.value
        return
    for target in part.targets:
        if len(part.targets) > 1:
            yield target, None
        elif isinstance(target, ast.Tuple | ast.List):
            values = part.value.elts if isinstance(part.value, ast.Tuple | ast.List) else []
            plain = len(values) == len(target.elts) and not any(
                isinstance(item, ast.Starred) for item in [*values, *target.elts]
            )
            for position, item in enumerate(target.elts):
                yield item, values[position] if plain else None
        else:
            yield target, part.value


def _is_moved_to_own(node: ast.expr, setters: Callable[[str], Collection[ast.AST]]) -> bool:
    """`x.to(self.place)`: moved to a device that an attribute of the class's own names."""
    if not isinstance(node, ast.Call) or last_name(node.func) != "to":
        return False
    places = [*node.args, *(keyword.value for keyword in node.keywords)]
    return any(
        isinstance(place, ast.Attribute) and path_of(place) == f"self.{place.attr}" and setters(place.attr)
        for place in places
    )


def _moves(loop: ast.For) -> bool:
    """`for p in self.kept: p.data = p.data.to(device)`."""
    return isinstance(loop.target, ast.Name) and any(
        isinstance(part, ast.Assign)
        and any(path_of(target) == f"{loop.target.id}.data" for target in part.targets)
        and isinstance(part.value, ast.Call)
        and last_name(part.value.func) in TRANSFERS
        for part in walk(loop)
    )


def _asks_for_member(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Compare) and all(isinstance(op, ast.In | ast.NotIn) for op in node.ops)


def _names_it(node: ast.AST | None) -> bool:
    """`layers = self.layers`: a local name for it."""
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Name) for target in node.targets)
    return isinstance(node, ast.NamedExpr)


def _registers(method: ast.AST, own: str | None, kept: _Kept) -> bool:
    """Whether a method registers modules by itself: `self.add_module(...)`, `setattr(self, ...)`."""
    for part in walk(method):
        if isinstance(part, ast.Call):
            last = last_name(part.func)
            if any(isinstance(argument, ast.Constant) and argument.value is None for argument in part.args):
                continue  # `register_parameter("bias", None)`
            if last == "setattr" and part.args and path_of(part.args[0]) == own:
                return True
            if last in _REGISTERS and isinstance(part.func, ast.Attribute) and path_of(part.func.value) == own:
                return True
        elif isinstance(part, ast.Attribute) and part.attr == "_modules" and path_of(part.value) == own:
            return True
    return False


def _names(statement: ast.stmt) -> set[str]:
    """The names that a statement of a class body binds to a value."""
    if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, ast.Assign):
        return {part.id for target in statement.targets for part in walk(target) if isinstance(part, ast.Name)}
    if isinstance(statement, ast.AnnAssign) and statement.value is not None and isinstance(statement.target, ast.Name):
        return {statement.target.id}
    return set()


__all__ = ["PlainModuleContainer"]
