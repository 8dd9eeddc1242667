"""Random numbers: what every process draws for itself has to come out the same, unless it is of one sample."""

from __future__ import annotations

import ast

from devlint.checks.ddp.loaders import Loop
from devlint.checks.ddp.output import is_foreign
from devlint.checks.ddp.script import ByHand, Script, argument
from devlint.placement import values as v
from devlint.placement.infer import FUNCTIONS
from devlint.syntax.trees import last_name

_DRAWS = ("rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "poisson")
_TORCH = frozenset(f"torch.{name}" for name in _DRAWS)
_SPLIT = "torch.utils.data.random_split"
_SEEDS = {
    "torch": frozenset({"torch.manual_seed", "torch.random.manual_seed"}),
    "numpy": frozenset({"numpy.random.seed"}),
    "random": frozenset({"random.seed"}),
}
_ANY_SEED = ("seed_everything", "set_seed", "setup_seed", "seed_all", "set_random_seed")
_FIXED = frozenset({"seed", "default_rng", "RandomState", "Generator", "get_state", "set_state", "Random"})


def check(script: Script, loop: Loop) -> None:
    """Raises ByHand for data that would be other in each process."""
    for call in script.calls:
        source = _source(script, call)
        if source is None or _is_of_one_sample(script, call):
            continue
        if loop.node in set(script.ancestors(call)):
            raise ByHand(f"line {call.lineno} draws random numbers for each batch: every process would draw the same")
        if not _is_seeded(script, call, source):
            raise ByHand(f"line {call.lineno} draws random numbers without a seed: each process would have other data")


def _source(script: Script, call: ast.Call) -> str | None:
    """Which generator a call draws from; None where it draws nothing, or has one of its own."""
    name = script.name(call.func)
    if argument(call, "generator") is not None or argument(call, "random_state") is not None:
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


def _is_seeded(script: Script, call: ast.Call, source: str) -> bool:
    """Whether a seed is set, and not only after the call in the same function."""
    for seed in script.calls:
        named = script.name(seed.func) in _SEEDS[source]
        function = script.called(seed)
        if not named and not (function is None and last_name(seed.func) in _ANY_SEED):
            continue
        if seed.lineno < call.lineno or script.owner(seed) is not script.owner(call):
            return True
    return False


def _is_of_one_sample(script: Script, call: ast.Call) -> bool:
    """In the method that makes one sample, or in a module, whose parameters come from the first process."""
    owner = script.owner(call)
    if not isinstance(owner, FUNCTIONS):
        return False
    class_ = script.class_of(owner)
    if class_ is None:
        return False
    return owner.name in ("__getitem__", "__call__") or script.context.inference.classes.kind(class_) in v.MODULE_KINDS
