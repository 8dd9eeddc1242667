"""What the rules on loading agree on: which loads matter, and where the tensors should be put instead.

A file's content cannot be seen. What the program does with it can: what goes into `load_state_dict`, is used as a
module or as tensors, or is called a state dict or weights, holds tensors.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from devlint.checks import rewrite
from devlint.checks.context import Context
from devlint.checks.fate import Fate, Use, words_of
from devlint.checks.loading import Load
from devlint.checks.roundtrip import is_round_trip
from devlint.checks.spread import keyword_in_spread
from devlint.checks.uses import definitions
from devlint.finding import Edit, Fix
from devlint.placement import values as v
from devlint.placement.evaluate import path_of
from devlint.syntax.lazy import cst
from devlint.syntax.trees import last_name, walk

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WEIGHTS = _set(
    """
    weight weights ckpt ckpts checkpoint checkpoints pretrained pretrain pth backbone statedict lora unet vae
    """
)
_PARTS = _set("model models net network module generator discriminator encoder decoder embedding embeddings params")
"""Keys under which a checkpoint keeps the state of a model."""
_NO_WEIGHTS = _set(
    """
    vocab vocabulary vocabs args argument arguments config cfg stats stat statistics metric metrics scheduler
    dataset datasets data feature features feats feat label labels target targets mel pitch energy spec audio wav
    split splits index idx history results result cache cached sample samples tokenizer tokens token dictionary
    corpus graph graphs edges meta metadata hparams lexicon groups rng random
    states train valid test val image images batch
    """
)
_BARE = _set("meta metadata config cfg args arguments hparams vocab vocabulary tokenizer metrics")
_GROUPS = re.compile(r"param_?groups?", re.I)
"""An optimizer's groups without their parameters: learning rates and their kind."""
_HOST_CLASSES = re.compile(
    r"Dataset|DataModule|DataLoader|Sampler|Collat|Transform|Vocab|Tokenizer|Scheduler|Annealer|Lexicon|Dictionary"
)
_TEST_FILE = re.compile(r"(?:^|[\\/])(?:test_[^\\/]*|[^\\/]*_test|conftest)\.pyi?$")
_RANK = re.compile(r"(?:^|_)rank(?:$|_)", re.I)
_GUARDS = re.compile(r"cuda|gpu|is_available|accelerat|device", re.I)


def holds_tensors(load: Load, fate: Fate, context: Context) -> bool:
    """Whether what is loaded goes where tensors go."""
    if _is_called_otherwise(context, load):
        return False
    if any(_GROUPS.search(name) for name in [*fate.names, ast.unparse(load.source) if load.source else ""]):
        return False
    if load.is_script or load.fills is not None or fate.has(Use.STATE, Use.LIKELY_STATE, Use.KEPT, Use.MODEL):
        return True
    if fate.sinks and fate.only(Use.NUMBERS, Use.VALUE, Use.ASKED, Use.GENERATOR, Use.HOST):
        return False
    used = fate.has(Use.TENSOR, Use.SHAPED, Use.MOVED)
    if fate.has(Use.HOST) or (fate.has(Use.GENERATOR) and not used):
        return False
    moved = any(sink.use is Use.MOVED and not _to_host(sink.node) for sink in fate.sinks)
    if moved or (used and _in_module(context, load.call)):
        return True
    names, keys = words_of(fate.names), words_of(fate.keys)
    words = names | keys | words_of(fate.words) | _words_of_source(context, load.source)
    for spoken in (names, words - keys):
        if spoken & _NO_WEIGHTS and not (spoken | keys) & _WEIGHTS:
            return False
    if used:
        return True
    vague = (Use.PASSED, Use.RETURNED, Use.STORED, Use.SAVED, Use.OTHER)
    handed = [sink.node for sink in fate.sinks if sink.use in vague]
    if keys and not keys & (_WEIGHTS | _PARTS) and all(_makes_object(node) for node in handed):
        return False
    return bool(words & _WEIGHTS) and not fate.has(Use.VALUE) and fate.has(*vague)


def _makes_object(node: ast.AST) -> bool:
    """Whether a sink is a class that is given arguments: what a model is built by is no state of it."""
    return isinstance(node, ast.Call) and last_name(node.func)[:1].isupper()


def _is_called_otherwise(context: Context, load: Load) -> bool:
    """`metadata = torch.load(folder / METADATA)`: the file, and what is read, are called something without tensors."""
    above = context.inference.parents.get(load.call)
    names = (
        [target.id for target in above.targets if isinstance(target, ast.Name)] if isinstance(above, ast.Assign) else []
    )
    spoken, file = words_of(names), _words_of_source(context, load.source)
    return bool(spoken & _BARE and file & _BARE) and not (spoken | file) & _WEIGHTS


def _in_module(context: Context, call: ast.Call) -> bool:
    """Whether a load stands in a class of modules: what it uses as tensors belongs to the model."""
    home = next((above for above in context.ancestors(call) if isinstance(above, ast.ClassDef)), None)
    return home is not None and context.inference.classes.kind(home) in v.MODULE_KINDS


def _words_of_source(context: Context, source: ast.expr | None, depth: int = 0) -> set[str]:
    """The words by which the program names the file, and what the file's name is made of."""
    if source is None:
        return set()
    found: set[str] = set()
    for node in walk(source):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= words_of([node.value])
        elif isinstance(node, ast.Name):
            found |= words_of([node.id])
            if depth < 2:
                for definition in definitions(context, node):
                    found |= _words_of_source(context, definition, depth + 1)
        elif isinstance(node, ast.Attribute):
            found |= words_of([node.attr])
    return found


def is_left_alone(context: Context, load: Load, fate: Fate) -> bool:
    """Loads that are right as they are: in tests and data sets, files of this run, behind a check of the device."""
    if is_left_to_tests(context, load, fate):
        return True
    feeds = fate.has(Use.STATE, Use.LIKELY_STATE, Use.KEPT, Use.MODEL)
    if load.is_lightning and not _leaves_trainer(context, fate):
        return True
    if not feeds and _is_own_data(context, load):
        return True
    return is_round_trip(context, load) or _is_guarded(context, load.call) or _is_published_on_host(context, load)


def is_of_one_rank(context: Context, source: ast.expr | None, depth: int = 0) -> bool:
    """Whether the file's name holds the rank: each process reads what it has itself written, on its own GPU."""
    for node in walk(source) if source is not None else ():
        if isinstance(node, ast.Name | ast.Attribute) and _RANK.search(last_name(node)):
            return True
        found = definitions(context, node) if isinstance(node, ast.Name) and depth < 2 else ()
        if any(is_of_one_rank(context, one, depth + 1) for one in found):
            return True
    return False


def _is_published_on_host(context: Context, load: Load) -> bool:
    """Whether all addresses that the source may be are of publishers whose tensors are CPU tensors."""
    sources = [load.source] if load.source is not None else []
    if isinstance(load.source, ast.Subscript):
        sources = [load.source.value]
    addresses: list[ast.expr] = []
    for source in sources:
        for found in definitions(context, source) if isinstance(source, ast.Name) else [source]:
            addresses += found.values if isinstance(found, ast.Dict) else [found]
    publishers = tuple(context.inference.facts.packages["host_weights"])
    return bool(addresses) and all(
        isinstance(address, ast.Constant) and isinstance(address.value, str) and address.value.startswith(publishers)
        for address in addresses
    )


def _in_test(context: Context, call: ast.Call) -> bool:
    for above in context.ancestors(call):
        if isinstance(above, _FUNCTIONS) and above.name.startswith("test_"):
            return True
        if isinstance(above, ast.ClassDef) and any("TestCase" in ast.unparse(base) for base in above.bases):
            return True
    return False


def _in_host_class(context: Context, call: ast.Call) -> bool:
    """Whether the call stands in a class or function that prepares data on the host."""
    for above in context.ancestors(call):
        if isinstance(above, ast.ClassDef):
            names = [above.name, *(ast.unparse(base) for base in above.bases)]
            return (
                any(_HOST_CLASSES.search(name) for name in names) or context.inference.classes.kind(above) == v.DATASET
            )
        if isinstance(above, _FUNCTIONS) and above.name in ("__getitem__", "collate_fn", "collate"):
            return True
    return False


def _is_own_bytes(context: Context, load: Load) -> bool:
    """`BytesIO(x)` of what is not read from a file: bytes that came from another process of the same run."""
    if load.source is None:
        return False
    sources = [load.source, *(definitions(context, load.source) if isinstance(load.source, ast.Name) else ())]
    for source in sources:
        if isinstance(source, ast.Call) and context.name_of(source.func) == "io.BytesIO":
            parts = [part for part in walk(source) if isinstance(part, ast.Call) and part is not source]
            names = {part.func.attr for part in parts if isinstance(part.func, ast.Attribute)}
            return not names & {"read", "read_bytes", "get", "getvalue"} or "numpy" in names
    return False


def _is_own_data(context: Context, load: Load) -> bool:
    """Whether what is loaded becomes the attribute that the same class saves with `torch.save`: data of its own."""
    statement = context.inference.parents.get(load.call)
    home = next((above for above in context.ancestors(load.call) if isinstance(above, ast.ClassDef)), None)
    if home is None or not isinstance(statement, ast.Assign):
        return False
    stored = {ast.unparse(target) for target in statement.targets if isinstance(target, ast.Attribute)}
    return any(
        isinstance(node, ast.Call)
        and bool(node.args)
        and isinstance(node.args[0], ast.Attribute)
        and ast.unparse(node.args[0]) in stored
        and context.name_of(node.func) == "torch.save"
        for node in (walk(home) if stored else ())
    )


def _leaves_trainer(context: Context, fate: Fate) -> bool:
    """Whether a Lightning module is used outside a Trainer, which moves it itself."""
    return fate.has(Use.MODEL, Use.TENSOR, Use.MOVED)


def _is_guarded(context: Context, call: ast.Call) -> bool:
    """Whether a check of the device, or an attempt with another way out, stands around or before the call."""
    child: ast.AST = call
    for above in context.ancestors(call):
        if isinstance(above, ast.If | ast.IfExp) and child is not above.test:
            branches = [above.body, above.orelse] if isinstance(above, ast.IfExp) else [*above.body, *above.orelse]
            if _GUARDS.search(ast.unparse(above.test)) and any(_says_place(branch, call) for branch in branches):
                return True
            if _asks_for_accelerator(above.test) and (
                child is above.body or (isinstance(above, ast.If) and child in above.body)
            ):
                return True
        if isinstance(above, ast.Try) and child in above.body and any(_says_place(h, call) for h in above.handlers):
            return True
        body = _block_of(above, child)
        for earlier in body[: body.index(child)] if child in body else []:
            if (
                isinstance(earlier, ast.If)
                and _GUARDS.search(ast.unparse(earlier.test))
                and isinstance(earlier.body[-1], ast.Return | ast.Raise)
                and (_says_place(earlier, call) or isinstance(earlier.body[-1], ast.Raise))
                and "is_available" in ast.unparse(earlier.test)
            ):
                return True
        if isinstance(above, _FUNCTIONS):
            return False
        child = above
    return False


def _block_of(above: ast.AST, child: ast.AST) -> list[ast.stmt]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(above, name, None)
        if isinstance(block, list) and child in block:
            return block
    return []


def _asks_for_accelerator(test: ast.expr) -> bool:
    text = ast.unparse(test)
    return "is_available" in text and not re.search(r"\bnot\b", text)


def _says_place(node: ast.AST, call: ast.Call) -> bool:
    """Whether a load with `map_location` stands in node, other than call."""
    return any(
        isinstance(part, ast.Call)
        and part is not call
        and any(keyword.arg == "map_location" for keyword in part.keywords)
        for part in walk(node)
    )


@dataclass(frozen=True, slots=True)
class Choice:
    """A value for `map_location`, and whether it is certain; or why there is none."""

    text: str = ""
    safe: bool = False
    reason: str = ""


_HARMLESS = (Use.ASKED, Use.VALUE, Use.GENERATOR, Use.NUMBERS, Use.SHAPED)


def choose(context: Context, load: Load, fate: Fate) -> Choice:
    """Where to put what is loaded: on the CPU where it is copied on anyway, else where the program moves its model."""
    if not load.is_script and not load.is_lightning:
        feeds = load.fills is not None or fate.has(Use.STATE, Use.LIKELY_STATE)
        if feeds and fate.only(Use.STATE, *_HARMLESS):
            return Choice('"cpu"', True)
        if feeds and fate.only(Use.STATE, Use.LIKELY_STATE, Use.MAYBE_VALUE, Use.STORED, *_HARMLESS):
            return Choice('"cpu"')
        if fate.has(Use.MOVED) and fate.only(Use.MOVED, *_HARMLESS) and all(_to_host(sink.node) for sink in fate.sinks):
            return Choice('"cpu"')
    if fate.has(Use.GENERATOR):
        return Choice(reason="it holds the state of a random number generator, which must stay on the CPU")
    device = device_for(context, load, fate)
    if device is not None:
        return Choice(device)
    return Choice(reason=_why_not(fate))


def _to_host(node: ast.AST) -> bool:
    """Whether a sink, if it is a transfer, is `.cpu()`."""
    attribute = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
    return attribute not in ("to", "cuda", "xpu", "mps", "npu")


def _why_not(fate: Fate) -> str:
    if fate.has(Use.KEPT):
        return "`assign=True` keeps the loaded tensors, and no device variable that the model moves to is set before"
    if fate.has(Use.RETURNED) and not fate.has(Use.TENSOR, Use.MOVED, Use.MODEL):
        return "what is loaded is returned, so the device is the caller's to say"
    if not fate.has(Use.TENSOR, Use.SHAPED, Use.MOVED, Use.MODEL, Use.STATE, Use.LIKELY_STATE):
        return "what becomes of it is not seen in this file, so the device is yours to say"
    return "no device variable that the model moves to is set before, and on the CPU its tensors could meet others"


def device_for(context: Context, load: Load, fate: Fate) -> str | None:
    """The device variable that the model, or what is loaded, moves to, if it is set before the load."""
    wanted = [sink.node for sink in fate.sinks if sink.use is Use.MOVED]
    scopes: list[ast.AST] = [context.inference.owner(load.call)]
    home = next((above for above in context.ancestors(load.call) if isinstance(above, ast.ClassDef)), None)
    if home is not None:
        scopes.append(home)
    if scopes[0] is not context.tree:
        scopes.append(context.tree)
    found: list[tuple[int, str]] = []
    for node in wanted:
        text = _device_argument(context, node, load)
        if text is not None:
            return text
    if wanted and not fate.has(Use.MODEL, Use.TENSOR, Use.STATE, Use.LIKELY_STATE):
        return None  # it moves, but to something that is not known at the load
    for rank, scope in enumerate(scopes):
        for node in walk(scope):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "to"
                and context.value_of(node.func.value).is_module
            ):
                text = _device_argument(context, node, load)
                if text is not None:
                    found.append((rank, text))
        if found:
            break
    texts = {text for _, text in found}
    return texts.pop() if len(texts) == 1 else None


def _device_argument(context: Context, node: ast.AST, load: Load) -> str | None:
    """The device that a `.to(device)` names, if it is a variable that the load can read."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "to":
        return None
    argument = next((k.value for k in node.keywords if k.arg == "device"), node.args[0] if node.args else None)
    if not isinstance(argument, ast.Name | ast.Attribute):
        return None
    return path_of(argument) if is_device(context, argument) and is_set_before(context, argument, load.call) else None


def is_device(context: Context, node: ast.expr) -> bool:
    """Whether an expression is a torch.device or a device string, by its value or by its name."""
    value = context.value_of(node)
    if value.kind in (v.DEVICE, v.TEXT):
        return True
    last = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return value.kind == v.UNKNOWN and (last == "device" or last.endswith("_device"))


def is_set_before(context: Context, node: ast.expr, call: ast.Call) -> bool:
    """Whether a name or an attribute of one holds at `call` what it holds at `node`: bound once, before."""
    root = node
    depth = 0
    while isinstance(root, ast.Attribute):
        root, depth = root.value, depth + 1
    if not isinstance(root, ast.Name):
        return False
    home, here = context.names.homes.get(root), context.names.homes.get(_first_name(call) or root)
    scope = home.defining(root.id) if home is not None else None
    if scope is None or here is None or here.defining(root.id) is not scope:
        same_self = depth == 1 and _is_self(context, root) and _self_at(context, call) == root.id
        return same_self and _attribute_set_before(context, node, call)
    if depth and _is_self(context, root):
        return _attribute_set_before(context, node, call)
    bound = scope.bound.get(root.id, [])
    if len(bound) != 1:
        return False
    return isinstance(bound[0], ast.arg) or dominates(context, bound[0], call)


def _first_name(call: ast.Call) -> ast.Name | None:
    return next((node for node in walk(call.func) if isinstance(node, ast.Name)), None)


def _is_self(context: Context, root: ast.Name) -> bool:
    return _self_at(context, root) == root.id


def _self_at(context: Context, node: ast.AST) -> str | None:
    """The name of the instance in the method around node."""
    owner = context.inference.owner(node)
    if not isinstance(owner, _FUNCTIONS) or not isinstance(context.inference.parents.get(owner), ast.ClassDef):
        return None
    plain = not any(getattr(d, "id", "") in ("staticmethod", "classmethod") for d in owner.decorator_list)
    return owner.args.args[0].arg if plain and owner.args.args else None


def _attribute_set_before(context: Context, node: ast.expr, call: ast.Call) -> bool:
    """Whether `self.device` is set in the class's `__init__`, before the load if that stands there as well."""
    assert isinstance(node, ast.Attribute)
    if not isinstance(node.value, ast.Name):
        return False
    home = next((above for above in context.ancestors(call) if isinstance(above, ast.ClassDef)), None)
    if home is None:
        return False
    if node.attr == "device" and any(
        "lightning" in str(base).lower() for base in context.inference.classes.lineage(home)
    ):
        return True
    setters = context.inference.classes.setters(home, node.attr)
    start = context.inference.classes.method(home, "__init__")
    if setters != {start}:
        return False
    owner = context.inference.owner(call)
    if owner is not start:
        return True
    for part in walk(owner):
        if (
            isinstance(part, ast.Attribute)
            and isinstance(part.ctx, ast.Store)
            and part.attr == node.attr
            and dominates(context, part, call)
        ):
            return True
    return False


def dominates(context: Context, target: ast.AST, call: ast.AST) -> bool:
    """Whether the statement that binds `target` has run whenever `call` runs, as far as blocks tell."""
    parents = context.inference.parents
    statement = target
    while statement in parents and not isinstance(statement, ast.stmt):
        statement = parents[statement]
    block = parents.get(statement)
    if block is None:
        return False
    owner, here = context.inference.owner(statement), context.inference.owner(call)
    if owner is not here:
        return isinstance(owner, ast.Module) or any(above is owner for above in context.ancestors(call))
    child: ast.AST = call
    for above in context.ancestors(call):
        if above is block:
            body = _block_of(above, child)
            return statement in body and child in body and body.index(statement) < body.index(child)
        child = above
    return False


def fix_for(context: Context, node: cst.Call, load: Load, choice: Choice) -> Fix | None:
    """Say `map_location` in a call, in place of what is said of it there."""
    if not choice.text:
        return None
    edit: Edit | None
    held, value = keyword_in_spread(context, load.call, load.keyword)
    if load.given is not None and (value is load.given or any(part is load.given for part in walk(load.call))):
        edit = rewrite.replace(context, load.given, choice.text) if context.editable(load.given) else None
    else:
        edit = rewrite.add_keyword(context, node, load.keyword, choice.text, absent=held and value is None)
    if edit is None:
        return None
    title = (
        f"Load onto `{choice.text}`"
        if choice.text != '"cpu"'
        else "Load onto the CPU; `load_state_dict` copies it from there"
    )
    return rewrite.safe(title, edit) if choice.safe else rewrite.unsafe(title, edit)


def is_left_to_tests(context: Context, load: Load, fate: Fate) -> bool:
    """Loads in tests and in what prepares data: what they read is made where they run."""
    if _TEST_FILE.search(context.source.path) or _in_test(context, load.call):
        return True
    feeds = fate.has(Use.STATE, Use.LIKELY_STATE, Use.KEPT, Use.MODEL)
    return not feeds and (_in_host_class(context, load.call) or _is_own_bytes(context, load))


def rank_device_for(context: Context, load: Load) -> str | None:
    """The device variable of this process: the one that the function's modules and tensors move to."""
    scope = context.inference.owner(load.call)
    texts = {
        text
        for node in walk(scope)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "to"
        for text in [_device_argument(context, node, load)]
        if text is not None
    }
    return texts.pop() if len(texts) == 1 else None
