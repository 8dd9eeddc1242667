"""What becomes of a value that was loaded: each way that it, its items and what is made of them are used.

The value is followed through names, attributes of self, subscripts, loops, comprehensions, containers and the
functions of the same file, forwards; where the way leaves the file, it ends in a sink that says so.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from devlint.checks.context import Context
from devlint.placement import values as v
from devlint.placement.evaluate import path_of
from devlint.syntax.names import Scope
from devlint.syntax.trees import last_name, walk

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LIMIT = 600
"""Steps after which a value is given up; what is known by then stands, and no fix relies on it."""


class Use(Enum):
    """How a loaded value ends."""

    STATE = auto()
    """`load_state_dict` of a proven module or optimizer, or `copy_`: copied to where the parameters are."""
    LIKELY_STATE = auto()
    """`load_state_dict` of something that is not proven."""
    KEPT = auto()
    """`load_state_dict(..., assign=True)`: the loaded tensors themselves become the parameters."""
    NUMBERS = auto()
    """`load_state_dict` of a scheduler, a scaler, a loader: there are no tensors in it."""
    MODEL = auto()
    """It is itself used as a module."""
    MOVED = auto()
    """`.to(...)`, `.cuda()`, `.cpu()`; `node` is the call."""
    TENSOR = auto()
    """It is used as a tensor."""
    SHAPED = auto()
    """A method gave another tensor on the same device (`squeeze`, `half`), which is followed in its place."""
    GENERATOR = auto()
    """The state of a random number generator, which must be on the CPU."""
    ASKED = auto()
    """Looked at, printed, measured: where it lives does not matter."""
    VALUE = auto()
    """Used as a number or text."""
    MAYBE_VALUE = auto()
    """A result by its key (`best_acc`), which may be a number or a tensor, handed on."""
    HOST = auto()
    """Read as an array or list, which only a tensor on the CPU can be."""
    PASSED = auto()
    """Handed to a function that is not in this file."""
    RETURNED = auto()
    STORED = auto()
    SAVED = auto()
    OTHER = auto()
    LOST = auto()
    """There was more to follow than is followed."""


@dataclass(frozen=True, slots=True)
class Sink:
    use: Use
    node: ast.AST


@dataclass(slots=True)
class Fate:
    """The sinks of one loaded value, and the words by which the program speaks of it on the way."""

    sinks: list[Sink] = field(default_factory=list)
    words: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    """The names that it itself has on the way."""
    keys: set[str] = field(default_factory=set)
    """The keys by which its items are read."""

    def has(self, *uses: Use) -> bool:
        return any(sink.use in uses for sink in self.sinks)

    def only(self, *uses: Use) -> bool:
        return all(sink.use in uses for sink in self.sinks)


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


class _Mood(Enum):
    """What the key under which an item stands says of it."""

    ANY = auto()
    NUMBER = auto()
    MAYBE = auto()


_NUMBER_KEYS = re.compile(
    r"(?:(?:start|last|current|cur|global|total|num|max|n)_?)*"
    r"(?:epochs?|iters?|iterations?|steps?|batch(?:es)?|updates?)"
    r"(?:_?(?:num|idx|no|count|done))?|args|config|cfg|hparams|hyper_parameters|arch|version|class_names|classes|names|seed"
    r"|lr|lr_?sched\w*|scheduler\w*|opt_?level|commit|date|time|meta|model_name|name|pytorch[-_]lightning_version"
    r"|vocab\w*",
    re.I,
)
_MAYBE_KEYS = re.compile(
    r".*(?:loss|acc|best|score|metric|miou|psnr|ssim|bleu|wer|fitness|reward|result|history).*", re.I
)
_WITHOUT_TENSORS = re.compile(
    r"sched|scaler|stopp|meter|sampler|loader|dataset|data_?module|tokenizer|vocab|callback|lr_|warmup|annealing"
    r"|history|timer|counter"
)
_GENERATOR_KEYS = re.compile(r".*rng.*|.*random_state.*|.*generator_state.*", re.I)
_BUILTINS_ASKING = _set(
    """
    print len type isinstance issubclass id repr str format hasattr callable bool any all set iter hash vars dir
    getattr
    """
)
_BUILTINS_FOLLOWED = _set(
    """
    dict list tuple sorted reversed enumerate zip filter map OrderedDict copy deepcopy tqdm cast
    """
)
_PLAIN_NUMBERS = frozenset({"int", "float", "range", "round", "min", "max", "sum"})
_MAPPING_GIVES = frozenset({"items", "values", "copy"})
_ITEM_GIVES = frozenset({"get", "pop", "setdefault", "popitem", "__getitem__"})
_ASKING = _set(
    """
    keys shape size dim ndim dtype numel device stride requires_grad is_cuda type move_to_end __contains__ __len__
    index count startswith endswith clear nelement ndimension
    """
)
_HOST = frozenset({"numpy", "tolist", "item"})
_TRANSFERS = frozenset({"to", "cuda", "cpu", "xpu", "mps", "npu"})
_SHAPING = _set(
    """
    clone detach contiguous squeeze unsqueeze view reshape transpose permute t flatten float half double bfloat16 long
    int flip narrow repeat chunk
    """
)
_CASTS = _set("type_as mean std sum max min abs sqrt pow matmul T data")
_MODULE_PROOF = _set(
    """
    eval parameters named_parameters buffers named_buffers modules named_modules children named_children
    register_buffer register_parameter register_module add_module register_forward_hook get_submodule
    register_forward_pre_hook
    """
)
_MODULE_USES = _MODULE_PROOF | {"train", "state_dict", "load_state_dict", "zero_grad", "forward", "generate"}


class Follower:
    """Follows loaded values through one file."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._inference = context.inference
        self._reads: dict[str, list[ast.Name]] = {}
        self._attributes: dict[str, list[ast.Attribute]] = {}
        self._calls: dict[str, list[ast.Call]] = {}
        for node in walk(context.tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self._reads.setdefault(node.id, []).append(node)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                self._attributes.setdefault(node.attr, []).append(node)
            elif isinstance(node, ast.Call):
                self._calls.setdefault(last_name(node.func), []).append(node)

    def follow(self, way: tuple[ast.Call, ...]) -> Fate:
        """The fate of what the last of these calls gives, if each of them is made in the function that the one before
        it calls."""
        fate = Fate()
        run = _Run(self, fate)
        run.push(way[-1], _Track(way[-1], calls=way[:-1]))
        run.finish()
        return fate

    # --- asked while following --------------------------------------------------------------------------------

    def reads_of_name(self, target: ast.Name) -> Iterator[ast.Name]:
        """The reads that the binding at `target` reaches."""
        home = self._context.names.homes.get(target)
        scope = home.defining(target.id) if home is not None else None
        return self.reads(target.id, scope, self._inference.value(target).ids)

    def reads(self, name: str, scope: Scope | None, ids: frozenset[Hashable]) -> Iterator[ast.Name]:
        for read in self._reads.get(name, ()):
            home = self._context.names.homes.get(read)
            if home is None or home.defining(name) is not scope:
                continue
            found = self._inference.value(read).ids
            if not ids or not found or found & ids or any(isinstance(i, tuple) and i[0] == "narrowed" for i in found):
                yield read

    def reads_of_attribute(self, target: ast.Attribute) -> Iterator[ast.Attribute]:
        """The reads of `self.x` in the class; of another attribute, those later in the same function."""
        path = path_of(target)
        if path is None:
            return
        home = self._class_of(target) if isinstance(target.value, ast.Name) else None
        owner = self._inference.owner(target)
        for read in self._attributes.get(target.attr, ()):
            if path_of(read) != path:
                continue
            same_class = home is not None and self._class_of(read) is home
            if same_class or (self._inference.owner(read) is owner and read.lineno > target.lineno):
                yield read

    def _class_of(self, node: ast.Attribute) -> ast.ClassDef | None:
        """The class whose method's own first argument the attribute hangs on."""
        owner = self._inference.owner(node)
        while isinstance(owner, _FUNCTIONS):
            above = self._inference.parents.get(owner)
            arguments = [*owner.args.posonlyargs, *owner.args.args]
            if isinstance(above, ast.ClassDef):
                own = bool(arguments) and isinstance(node.value, ast.Name) and arguments[0].arg == node.value.id
                return above if own else None
            owner = self._inference.owner(owner)
        return None

    def callers(self, function: ast.AST) -> Iterator[ast.Call]:
        """The calls of a function of the file, in the file."""
        for call in self._calls.get(getattr(function, "name", ""), ()):
            if self._inference.value(call.func).node is function:
                yield call

    def receiver_use(self, call: ast.Call) -> Use:
        """What `receiver.load_state_dict(...)` does with what it is given."""
        assert isinstance(call.func, ast.Attribute)
        receiver = call.func.value
        value = self._inference.value(receiver)
        text = (path_of(receiver) or last_name(receiver)).rsplit(".", 1)[-1].lower()
        for keyword in call.keywords:
            plainly_off = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
            if keyword.arg == "assign" and not plainly_off:
                return Use.KEPT
            if keyword.arg is None:
                return Use.LIKELY_STATE
        if len(call.args) > 2:
            return Use.KEPT
        if value.kind == v.OPTIMIZER:
            return Use.STATE if self._keeps_method(value) else Use.LIKELY_STATE
        if value.kind in ("scheduler", "scaler", v.LOADER):
            return Use.NUMBERS
        if value.is_module and self.is_proven_module(receiver, call):
            return Use.STATE
        if _WITHOUT_TENSORS.search(text):
            return Use.NUMBERS
        return Use.STATE if value.kind == v.UNKNOWN and self._only_a_module_could(receiver, call) else Use.LIKELY_STATE

    def is_proven_module(self, receiver: ast.expr, call: ast.Call) -> bool:
        """Whether a receiver is a module by its class, or by methods that nothing else has; not by this call alone."""
        value = self._inference.value(receiver)
        if value.is_module and (value.type or value.node is not None or value.kind == v.CONTAINER):
            return self._keeps_method(value)
        if isinstance(receiver, ast.Attribute) and receiver.attr in ("module", "_orig_mod"):
            return self.is_proven_module(receiver.value, call)
        return self._only_a_module_could(receiver, call)

    def takes_no_place(self, call: ast.Call) -> bool:
        """Whether `receiver.load_state_dict(...)` is that of torch's modules or optimizers, which takes no device."""
        assert isinstance(call.func, ast.Attribute)
        value = self._inference.value(call.func.value)
        if value.kind == v.OPTIMIZER:
            return self._keeps_method(value)
        return (value.is_module or value.kind == v.UNKNOWN) and self.is_proven_module(call.func.value, call)

    def _keeps_method(self, value: v.Value) -> bool:
        """Whether a class of the file has not written its own load_state_dict."""
        return not isinstance(value.node, ast.ClassDef) or (
            not self._inference.classes.defines(value.node, "load_state_dict")
        )

    def _only_a_module_could(self, receiver: ast.expr, call: ast.Call) -> bool:
        if any(keyword.arg == "strict" for keyword in call.keywords):
            return True
        path = path_of(receiver)
        if path is None:
            return False
        owner = self._inference.owner(receiver)
        ids = self._inference.value(receiver).ids
        return any(
            path_of(read.value) == path
            and self._inference.owner(read) is owner
            and (self._inference.value(read.value).ids & ids or not ids or "." in path)
            for name in _MODULE_PROOF
            for read in self._attributes.get(name, ())
        )


@dataclass(frozen=True, slots=True)
class _Track:
    node: ast.AST
    mood: _Mood = _Mood.ANY
    calls: tuple[ast.Call, ...] = ()
    """Through which calls the way led into the function that it is in now."""


class _Run:
    """One value's way."""

    def __init__(self, follower: Follower, fate: Fate) -> None:
        self._follower = follower
        self._inference = follower._inference
        self._facts = follower._inference.facts
        self._parents = follower._inference.parents
        self._context = follower._context
        self._fate = fate
        self._work: list[_Track] = []
        self._seen: set[tuple[ast.AST, _Mood]] = set()

    def push(self, node: ast.AST, track: _Track | None = None, mood: _Mood | None = None) -> None:
        old = track or _Track(node)
        new = _Track(node, mood or old.mood, old.calls)
        if (node, new.mood) not in self._seen:
            self._seen.add((node, new.mood))
            self._work.append(new)

    def finish(self) -> None:
        steps = 0
        while self._work:
            steps += 1
            if steps > _LIMIT:
                self._fate.sinks.append(Sink(Use.LOST, self._work[-1].node))
                return
            self._step(self._work.pop())

    def _end(self, use: Use, node: ast.AST, track: _Track) -> None:
        """A sink; what a key says is a number ends as one, unless it is used as a tensor."""
        vague = (Use.PASSED, Use.RETURNED, Use.STORED, Use.SAVED, Use.OTHER, Use.LIKELY_STATE, Use.STATE)
        if track.mood is _Mood.NUMBER and use in vague:
            use = Use.VALUE
        elif track.mood is _Mood.MAYBE and use in vague:
            use = Use.MAYBE_VALUE
        self._fate.sinks.append(Sink(use, node))

    def _step(self, track: _Track) -> None:
        node = track.node
        above = self._parents.get(node)
        if above is None:
            return
        if isinstance(above, ast.keyword):
            call = self._parents.get(above)
            if isinstance(call, ast.Call):
                self._argument(node, call, above.arg or "**", track)
            return
        method = getattr(self, "_in_" + type(above).__name__, None)
        if method is None:
            if not isinstance(above, ast.Expr):
                self._end(Use.OTHER, above, track)
            return
        method(node, above, track)

    # --- expressions around ------------------------------------------------------------------------------------

    def _in_Await(self, node: ast.AST, above: ast.AST, track: _Track) -> None:
        self.push(above, track)

    _in_Starred = _in_List = _in_Set = _in_BoolOp = _in_Dict = _in_Await

    def _in_Tuple(self, node: ast.AST, above: ast.Tuple, track: _Track) -> None:
        """`a, b = x, y` binds each to its own."""
        statement = self._parents.get(above)
        if isinstance(statement, ast.Assign) and all(
            isinstance(target, ast.Tuple) and len(target.elts) == len(above.elts) for target in statement.targets
        ):
            self._in_Assign(node, statement, track)
        else:
            self.push(above, track)

    def _in_IfExp(self, node: ast.AST, above: ast.IfExp, track: _Track) -> None:
        if node is above.test:
            self._end(Use.ASKED, above, track)
        else:
            self.push(above, track)

    def _in_NamedExpr(self, node: ast.AST, above: ast.NamedExpr, track: _Track) -> None:
        self._bind(above.target, track)
        self.push(above, track)

    def _in_JoinedStr(self, node: ast.AST, above: ast.AST, track: _Track) -> None:
        self._end(Use.ASKED, above, track)

    _in_FormattedValue = _in_UnaryOp = _in_Assert = _in_If = _in_While = _in_Delete = _in_Raise = _in_JoinedStr

    def _in_Compare(self, node: ast.AST, above: ast.Compare, track: _Track) -> None:
        asks = all(isinstance(op, ast.In | ast.NotIn | ast.Is | ast.IsNot) for op in above.ops)
        number = track.mood is not _Mood.ANY
        self._end(Use.ASKED if asks else Use.VALUE if number else Use.OTHER, above, track)

    def _in_BinOp(self, node: ast.AST, above: ast.BinOp, track: _Track) -> None:
        if isinstance(above.op, ast.BitOr) and track.mood is _Mood.ANY:
            self.push(above, track)
            return
        other = above.right if node is above.left else above.left
        if self._inference.value(other).is_tensor:
            self._end(Use.TENSOR, above, track)
        elif track.mood is _Mood.ANY:
            self._end(Use.OTHER, above, track)
        else:
            self.push(above, track)

    def _in_AugAssign(self, node: ast.AST, above: ast.AugAssign, track: _Track) -> None:
        if self._inference.value(above.target).is_tensor:
            self._end(Use.TENSOR, above, track)
        else:
            self._end(Use.VALUE if track.mood is not _Mood.ANY else Use.OTHER, above, track)

    def _in_Subscript(self, node: ast.AST, above: ast.Subscript, track: _Track) -> None:
        if node is not above.value:
            self._end(Use.OTHER, above, track)
        elif isinstance(above.ctx, ast.Load):
            self._item(above, above.slice, track)
        else:
            self._end(Use.ASKED, above, track)

    def _item(self, node: ast.AST, key: ast.expr | None, track: _Track) -> None:
        """An item under a key, which may say what it is."""
        mood = track.mood
        if isinstance(key, ast.Constant) and isinstance(key.value, str) and mood is _Mood.ANY:
            text = key.value
            self._fate.keys.add(text)
            if _NUMBER_KEYS.fullmatch(text):
                mood = _Mood.NUMBER
            elif _GENERATOR_KEYS.fullmatch(text):
                self._end(Use.GENERATOR, node, track)
                return
            elif _MAYBE_KEYS.fullmatch(text):
                mood = _Mood.MAYBE
        self.push(node, track, mood)

    def _in_Attribute(self, node: ast.AST, above: ast.Attribute, track: _Track) -> None:
        name = above.attr
        call = self._parents.get(above)
        called = isinstance(call, ast.Call) and call.func is above
        if not isinstance(above.ctx, ast.Load):
            self._end(Use.ASKED, above, track)
        elif called:
            assert isinstance(call, ast.Call)
            self._method(name, above, call, track)
        elif name in _ASKING:
            self._end(Use.ASKED, above, track)
        elif name in ("data", "T", "grad"):
            self._end(Use.TENSOR, above, track)
        elif name in _MODULE_USES:
            self._end(Use.MODEL, above, track)
        else:
            self._fate.words.add(name)
            self._end(Use.OTHER, above, track)

    def _method(self, name: str, function: ast.Attribute, call: ast.Call, track: _Track) -> None:
        if name in _ITEM_GIVES:
            self._item(call, call.args[0] if call.args else None, track)
        elif name in _MAPPING_GIVES:
            self.push(call, track)
        elif name in _ASKING or name == "update":
            self._end(Use.ASKED, call, track)
        elif name in _HOST:
            self._end(Use.HOST, call, track)
        elif name in _TRANSFERS:
            self._end(Use.MOVED, call, track)
        elif name in _MODULE_USES:
            self._end(Use.MODEL, call, track)
        elif name in _SHAPING:
            self._end(Use.SHAPED if track.mood is _Mood.ANY else Use.VALUE, call, track)
            self.push(call, track)
        elif name in _CASTS or name in self._facts.only_tensor or name in self._facts.tensor_like:
            if track.mood is _Mood.ANY:
                self._end(Use.TENSOR, call, track)
            else:
                self._end(Use.VALUE, call, track)
        elif name in ("append", "extend", "insert"):
            self._end(Use.ASKED, call, track)
        else:
            self._end(Use.OTHER, call, track)

    # --- calls -------------------------------------------------------------------------------------------------

    def _in_Call(self, node: ast.AST, above: ast.Call, track: _Track) -> None:
        if node is above.func:
            self._end(Use.MODEL, above, track)
            return
        position = next((i for i, argument in enumerate(above.args) if argument is node), None)
        self._argument(node, above, position, track)

    def _argument(self, node: ast.AST, call: ast.Call, which: int | str | None, track: _Track) -> None:
        last = last_name(call.func)
        name = self._context.name_of(call.func) or ""
        if isinstance(call.func, ast.Attribute) and self._on_receiver(call, call.func, which, track):
            return
        plain = name.removeprefix("builtins.")
        if plain in _BUILTINS_ASKING or last in ("keys", "next"):
            self._end(Use.ASKED, call, track)
        elif plain in _PLAIN_NUMBERS:
            self._end(Use.VALUE, call, track)
        elif last in _BUILTINS_FOLLOWED and not name.startswith("torch."):
            self.push(call, track)
        elif name == "torch.save":
            self._end(Use.SAVED, call, track)
        elif name in ("torch.tensor", "torch.Tensor", "torch.FloatTensor"):
            self._end(Use.VALUE, call, track)
        elif name.endswith("set_rng_state") or name.endswith("set_rng_state_all") or last == "set_state":
            self._end(Use.GENERATOR, call, track)
        elif name == "torch.is_tensor" or name.startswith("logging."):
            self._end(Use.ASKED, call, track)
        elif name.startswith("torch."):
            self._torch(name, call, track)
        else:
            self._own(node, call, which, track)

    def _torch(self, name: str, call: ast.Call, track: _Track) -> None:
        if name == "torch.from_numpy":
            self._end(Use.HOST, call, track)
            return
        row = self._facts.call(name)
        returns = row.get("returns") if row is not None else None
        tensors = (v.TENSOR, v.TENSORS, v.PARAMETER, v.BUFFER)
        if name.rsplit(".", 1)[-1] == "from_pretrained" or returns in tensors:
            self._end(Use.TENSOR, call, track)
        else:
            self._fate.words.add(name.rsplit(".", 1)[-1])
            self._end(Use.PASSED, call, track)

    def _on_receiver(self, call: ast.Call, function: ast.Attribute, which: int | str | None, track: _Track) -> bool:
        """Methods of others that take what was loaded."""
        name = function.attr
        if name in ("get", "pop", "setdefault") and which in (1, "default"):
            self.push(call, track)
            return True
        if name == "load_state_dict" and which in (0, "state_dict"):
            use = self._follower.receiver_use(call)
            if use is Use.STATE and track.mood is _Mood.MAYBE:
                use = Use.LIKELY_STATE
            self._fate.sinks.append(Sink(use, call))
            return True
        if name == "copy_" and which == 0:
            self._end(Use.STATE, call, track)
            return True
        if name == "load_state_dict":
            self._end(Use.ASKED, call, track)
            return True
        if name == "append" or name == "extend" or (name == "update" and which in (0, "**")):
            if self._into(function.value, track):
                return True
            self._fate.words.add(path_of(function.value) or "")
            self._end(Use.STORED, call, track)
            return True
        if name in ("register_buffer", "register_parameter", "index_copy_", "set_data"):
            self._end(Use.TENSOR, call, track)
            return True
        if name in ("info", "debug", "warning", "log", "print", "write", "format"):
            self._end(Use.ASKED, call, track)
            return True
        return False

    def _into(self, container: ast.expr, track: _Track) -> bool:
        """What is put into a container is followed where the container is read."""
        if isinstance(container, ast.Name):
            home = self._context.names.homes.get(container)
            scope = home.defining(container.id) if home is not None else None
            if scope is None:
                return False
            self._fate.names.add(container.id)
            if any(isinstance(bound, ast.arg) for bound in scope.bound.get(container.id, ())):
                self._end(Use.STORED, container, track)
            for read in self._follower.reads(container.id, scope, frozenset()):
                if read is not container:
                    self.push(read, track)
            return True
        if isinstance(container, ast.Attribute):
            self._fate.names.add(container.attr)
            reads = [read for read in self._follower.reads_of_attribute(container) if read is not container]
            for attribute in reads:
                self.push(attribute, track)
            if not reads:
                self._end(Use.STORED, container, track)
            return True
        return False

    def _own(self, node: ast.AST, call: ast.Call, which: int | str | None, track: _Track) -> None:
        """A function or class of the file is followed, anything else is where the way ends."""
        callee = self._inference.value(call.func)
        if callee.is_module:
            self._end(Use.TENSOR, call, track)
            return
        function: object = callee.node
        bound = isinstance(call.func, ast.Attribute) and self._inference.value(call.func.value).kind != v.CLASS
        if callee.kind == v.CLASS and isinstance(function, ast.ClassDef):
            function, bound = self._inference.classes.method(function, "__init__"), True
        parameter = _parameter(function, which, bound, self._parents) if isinstance(function, _FUNCTIONS) else None
        if parameter is None or not isinstance(function, _FUNCTIONS) or len(track.calls) > 3:
            self._fate.words.update([last_name(call.func), which if isinstance(which, str) else ""])
            self._end(Use.PASSED, call, track)
            return
        scope = self._context.names.scope_of.get(function)
        inner = _Track(node, track.mood, (*track.calls, call))
        self._fate.names.add(parameter.arg)
        for read in self._follower.reads(parameter.arg, scope, frozenset([parameter])):
            self.push(read, inner)

    # --- statements around -------------------------------------------------------------------------------------

    def _in_Return(self, node: ast.AST, above: ast.AST, track: _Track) -> None:
        function = self._inference.owner(above)
        if track.calls:
            self.push(track.calls[-1], _Track(track.calls[-1], track.mood, track.calls[:-1]))
            return
        self._fate.words.add(getattr(function, "name", ""))
        self._annotation(getattr(function, "returns", None))
        calls = list(self._follower.callers(function))
        if not (calls and self._is_private(function)):
            self._end(Use.RETURNED, above, track)
        for call in calls:
            self.push(call, track)

    def _is_private(self, function: ast.AST) -> bool:
        """Whether nobody outside the file calls a function: a nested one, or one with an underscore."""
        name = getattr(function, "name", "")
        if not isinstance(self._inference.owner(function), ast.Module):
            return True
        return name.startswith("_") and not name.startswith("__")

    _in_Yield = _in_YieldFrom = _in_Return

    def _in_Lambda(self, node: ast.AST, above: ast.AST, track: _Track) -> None:
        """A lambda with a name is followed to the calls of that name."""
        bound = self._parents.get(above)
        names = bound.targets if isinstance(bound, ast.Assign) else []
        calls = [
            self._parents.get(read)
            for name in names
            if isinstance(name, ast.Name)
            for read in self._follower.reads_of_name(name)
        ]
        if not calls or not all(isinstance(call, ast.Call) for call in calls):
            self._end(Use.RETURNED, above, track)
        for call in calls:
            if isinstance(call, ast.Call):
                self.push(call, track)

    def _in_Assign(self, node: ast.AST, above: ast.Assign, track: _Track) -> None:
        for target in above.targets:
            self._bind(target, track, above.value)

    def _in_AnnAssign(self, node: ast.AST, above: ast.AnnAssign, track: _Track) -> None:
        self._annotation(above.annotation)
        self._bind(above.target, track, above.value)

    def _in_For(self, node: ast.AST, above: ast.For | ast.AsyncFor, track: _Track) -> None:
        self._loop(node, above.target, track)

    _in_AsyncFor = _in_For

    def _in_comprehension(self, node: ast.AST, above: ast.comprehension, track: _Track) -> None:
        if node is above.iter:
            self._loop(node, above.target, track)
        else:
            self._end(Use.ASKED, above, track)

    def _in_ListComp(self, node: ast.AST, above: ast.AST, track: _Track) -> None:
        self.push(above, track)

    _in_SetComp = _in_GeneratorExp = _in_ListComp

    def _in_DictComp(self, node: ast.AST, above: ast.DictComp, track: _Track) -> None:
        if node is above.value:
            self.push(above, track)

    def _loop(self, iterated: ast.AST, target: ast.expr, track: _Track) -> None:
        """The keys of a mapping are texts; what matters are its values."""
        items = isinstance(iterated, ast.Call) and last_name(iterated.func) == "items"
        if items and isinstance(target, ast.Tuple) and len(target.elts) == 2:
            self._bind(target.elts[1], track)
        elif isinstance(iterated, ast.Name | ast.Subscript) and isinstance(target, ast.Name):
            self._end(Use.ASKED, iterated, track)  # a mapping's keys; a list of tensors is not what files hold
        else:
            self._bind(target, track)

    def _bind(self, target: ast.expr, track: _Track, value: ast.expr | None = None) -> None:
        if isinstance(target, ast.Name):
            if track.mood is _Mood.ANY:
                self._fate.names.add(target.id)
            for read in self._follower.reads_of_name(target):
                self.push(read, track)
        elif isinstance(target, ast.Starred):
            self._bind(target.value, track)
        elif isinstance(target, ast.Tuple | ast.List):
            if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
                for part, item in zip(target.elts, value.elts, strict=True):
                    if item is track.node or any(child is track.node for child in walk(item)):
                        self._bind(part, track)
                return
            for part in target.elts:
                self._bind(part, track)
        elif isinstance(target, ast.Subscript):
            if not self._into(target.value, track):
                self._end(Use.STORED, target, track)
        elif isinstance(target, ast.Attribute):
            self._attribute_bound(target, track)
        else:
            self._end(Use.OTHER, target, track)

    def _attribute_bound(self, target: ast.Attribute, track: _Track) -> None:
        if target.attr == "data":
            self._end(Use.TENSOR, target, track)
            return
        if track.mood is _Mood.ANY:
            self._fate.names.add(target.attr)
        if not (isinstance(target.value, ast.Name) and target.value.id in ("args", "opt", "config", "cfg")):
            self._end(Use.STORED, target, track)
        for read in self._follower.reads_of_attribute(target):
            self.push(read, track)

    def _annotation(self, annotation: ast.expr | None) -> None:
        """An annotation that speaks of tensors is as good as a use."""
        if annotation is None:
            return
        names = {last_name(part) for part in walk(annotation) if isinstance(part, ast.Name | ast.Attribute)}
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            names.update(re.findall(r"\w+", annotation.value))
        if "Tensor" in names:
            self._fate.sinks.append(Sink(Use.TENSOR, annotation))


def _parameter(
    function: ast.FunctionDef | ast.AsyncFunctionDef,
    which: int | str | None,
    bound: bool,
    parents: dict[ast.AST, ast.AST],
) -> ast.arg | None:
    """The parameter that receives an argument of a call."""
    positional = [*function.args.posonlyargs, *function.args.args]
    static = any(last_name(d) == "staticmethod" for d in function.decorator_list)
    if isinstance(parents.get(function), ast.ClassDef) and bound and not static:
        positional = positional[1:]
    if isinstance(which, int):
        return positional[which] if which < len(positional) else None
    return next((a for a in [*positional, *function.args.kwonlyargs] if a.arg == which), None)


def words_of(names: Iterable[str]) -> set[str]:
    """The single words of identifiers (`loadPath` is load, path), and statedict where state and dict stand together."""
    found: set[str] = set()
    for name in names:
        found.update(part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name))
        if _STATE_DICT.search(name):
            found.add("statedict")
    return found


_STATE_DICT = re.compile(r"state_?dict|model_?state|state_?model", re.I)
