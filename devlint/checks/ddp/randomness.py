"""Random numbers: what every process draws for itself has to come out the same, unless it is of one sample."""

from __future__ import annotations

import ast

from devlint.checks.ddp.loaders import Loop
from devlint.checks.ddp.output import is_foreign
from devlint.checks.ddp.script import ByHand, Script, argument
from devlint.placement import values as v
from devlint.placement.infer import FUNCTIONS
from devlint.syntax.trees import is_none, last_name, walk

_DRAWS = (
    "rand",
    "randn",
    "randint",
    "randperm",
    "normal",
    "bernoulli",
    "multinomial",
    "poisson",
    "rand_like",
    "randn_like",
)
_TORCH = frozenset(f"torch.{name}" for name in _DRAWS)
_SPLIT = "torch.utils.data.random_split"
_SEEDS = {
    "torch": frozenset({"torch.manual_seed", "torch.random.manual_seed"}),
    "numpy": frozenset({"numpy.random.seed"}),
    "random": frozenset({"random.seed"}),
}
_ANY_SEED = ("seed_everything", "set_seed", "setup_seed", "seed_all", "set_random_seed")
_FIXED = frozenset({"seed", "default_rng", "RandomState", "Generator", "get_state", "set_state", "Random"})

_FRESH = frozenset({"numpy.random.default_rng", "numpy.random.RandomState", "random.Random"})


def check(script: Script, loop: Loop) -> None:
    """Raises ByHand for data that would be other in each process."""
    for call in script.calls:
        if script.name(call.func) in _FRESH and _is_unseeded(call):
            raise ByHand(f"the generator of line {call.lineno} has no seed: each process would draw other data")
        source = _source(script, call)
        if source is None or _is_of_one_sample(script, call):
            continue
        if loop.node in set(script.ancestors(call)):
            raise ByHand(f"line {call.lineno} draws random numbers for each batch: every process would draw the same")
        if not _is_seeded(script, call, source):
            raise ByHand(f"line {call.lineno} draws random numbers without a seed: each process would have other data")


def _is_unseeded(call: ast.Call) -> bool:
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return not given or is_none(given[0])


def _source(script: Script, call: ast.Call) -> str | None:
    """Which generator a call draws from; None where it draws nothing, or has one of its own."""
    name = script.name(call.func)
    own = [given for key in ("generator", "random_state") if (given := argument(call, key)) is not None]
    if own and not is_none(own[0]):
        return None
    if name in _TORCH or name == _SPLIT:
        return "torch"
    if name.startswith("numpy.random.") and name.rsplit(".", 1)[1] not in _FIXED:
        return "numpy"
    if name.endswith(".train_test_split"):
        return "numpy"
    if is_foreign(name) and "split" in last_name(call.func):
        return "torch"
    if name.startswith("random.") and name.rsplit(".", 1)[1] not in _FIXED:
        return "random"
    return None


def _is_seeded(script: Script, place: ast.AST, source: str, seen: frozenset[ast.AST] = frozenset()) -> bool:
    """Whether a seed is surely set before place: in its function, at the top of the file, or before all calls of it."""
    owner = script.owner(place)
    line = getattr(place, "lineno", 0)
    for call in script.own_nodes(owner):
        earlier = isinstance(call, ast.Call) and call.lineno < line and _is_certain(script, call, place)
        if earlier and isinstance(call, ast.Call) and _seeds(script, call, source):
            return True
    if not isinstance(owner, FUNCTIONS) or owner in seen:
        return False
    callers = script.callers(owner)
    if callers:
        return all(_is_seeded(script, caller, source, seen | {owner}) for caller in callers)
    top = [n for n in script.own_nodes(script.tree) if isinstance(n, ast.Call) and _is_certain(script, n, owner)]
    return any(_seeds(script, call, source) for call in top)


def _seeds(script: Script, call: ast.Call, source: str, seen: frozenset[ast.AST] = frozenset()) -> bool:
    """Whether a call sets a seed that is the same in each process, by itself or in a function of this file."""
    if script.name(call.func) in _SEEDS[source]:
        drawn = [n for value in call.args for n in walk(value) if isinstance(n, ast.Call)]
        return bool(call.args or call.keywords) and all(last_name(n.func) == "int" for n in drawn)
    function = script.called(call)
    if function is None:
        return last_name(call.func) in _ANY_SEED
    if function in seen:
        return False
    inner = [n for n in script.own_nodes(function) if isinstance(n, ast.Call) and _is_certain(script, n, function)]
    return any(_seeds(script, n, source, seen | {function}) for n in inner)


def _is_certain(script: Script, call: ast.Call, place: ast.AST) -> bool:
    """Whether a call is run wherever place is: under no condition that is not around place too."""
    around = {place, *script.ancestors(place)}
    conditions = (
        n for n in script.ancestors(call) if isinstance(n, ast.If | ast.IfExp | ast.Try | ast.While | ast.For)
    )
    return all(n in around or n in map(script.parents.get, script.main[:1]) for n in conditions)


def _is_of_one_sample(script: Script, call: ast.Call) -> bool:
    """In the method that makes one sample, or in a module, whose parameters come from the first process."""
    owner = script.owner(call)
    if not isinstance(owner, FUNCTIONS):
        return False
    class_ = script.class_of(owner)
    if class_ is None:
        return False
    return owner.name in ("__getitem__", "__call__") or script.context.inference.classes.kind(class_) in v.MODULE_KINDS
