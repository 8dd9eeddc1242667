"""Whether a loss is a mean over the batch, so that the mean over processes of its gradients is its gradient.

DistributedDataParallel averages gradients over processes. That is the gradient of the whole batch if the loss is a mean
over samples that do not depend on each other, and each process has as many of them.
"""

from __future__ import annotations

import ast

from devlint.checks.ddp.flows import Flows
from devlint.checks.ddp.script import ByHand, Script, argument, has_stars, method
from devlint.checks.ddp.wrapping import Wraps
from devlint.placement.infer import FUNCTIONS, Function
from devlint.syntax.trees import is_none, last_name, walk

_CLASSES = frozenset(
    f"torch.nn.{name}"
    for name in (
        *("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "BCELoss", "BCEWithLogitsLoss", "KLDivLoss", "CTCLoss"),
        *("PoissonNLLLoss", "GaussianNLLLoss", "CrossEntropyLoss", "NLLLoss", "TripletMarginLoss", "SoftMarginLoss"),
        *("MarginRankingLoss", "CosineEmbeddingLoss", "HingeEmbeddingLoss", "MultiLabelMarginLoss"),
        *("MultiLabelSoftMarginLoss", "MultiMarginLoss"),
    )
)
_FUNCTIONS = frozenset(
    f"torch.nn.functional.{name}"
    for name in (
        *("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "cross_entropy", "nll_loss"),
        *("binary_cross_entropy_with_logits", "kl_div", "ctc_loss", "triplet_margin_loss", "margin_ranking_loss"),
        *("cosine_embedding_loss", "hinge_embedding_loss", "soft_margin_loss", "multilabel_soft_margin_loss"),
        *("multi_margin_loss", "poisson_nll_loss"),
    )
)
_WEIGHTED = frozenset({"CrossEntropyLoss", "NLLLoss", "cross_entropy", "nll_loss"})
"""Their mean is over the weights of the labels at hand (torch/nn/modules/loss.py)."""

_EACH = frozenset(
    (
        *(
            "to",
            "cuda",
            "cpu",
            "float",
            "double",
            "half",
            "long",
            "int",
            "bool",
            "type",
            "contiguous",
            "detach",
            "clone",
        ),
        *("squeeze", "unsqueeze", "view", "reshape", "flatten", "permute", "transpose", "expand", "requires_grad_"),
        *("abs", "exp", "log", "sqrt", "square", "pow", "clamp", "sigmoid", "tanh", "relu", "softmax", "log_softmax"),
        *("normalize", "dropout", "gelu", "logsigmoid", "softplus", "where", "zeros_like", "ones_like", "argmax"),
        *("one_hot", "interpolate", "pad", "eq", "gt", "lt", "ge", "le", "ne", "Variable", "get", "items"),
        *("max_pool2d", "avg_pool2d", "adaptive_avg_pool2d"),
    )
)
"""Methods and functions of torch that treat each sample by itself (`flatten` and `view` keep their order)."""
_ALONG = frozenset({"sum", "mean", "max", "min", "norm", "cat", "stack", "prod", "logsumexp", "cosine_similarity"})
"""Those that do if they go along another dimension than the first."""
_PASSED_ON = frozenset({"to", "cuda", "cpu", "float", "double", "half", "squeeze", "mean", "contiguous", "clone"})
_PAIRS = frozenset({"cdist", "mm", "matmul", "einsum", "pdist"})

_DEPTH = 20


class Losses:
    """Asks of expressions whether they are means over the batch; raises ByHand with the reason where they are not."""

    def __init__(self, script: Script, flows: Flows, wraps: Wraps) -> None:
        self._script = script
        self._flows = flows
        self._wraps = wraps

    def is_mean(self, node: ast.expr) -> bool:
        try:
            self.require_mean(node)
        except ByHand:
            return False
        return True

    def require_mean(self, node: ast.expr, depth: int = 0) -> None:
        """Raises ByHand if the loss is not a mean over the batch, or is not seen to be one."""
        if depth > _DEPTH:
            raise self._unknown(node)
        if isinstance(node, ast.Constant):
            return
        if isinstance(node, ast.Name):
            self._mean_name(node, depth)
        elif isinstance(node, ast.BinOp):
            self._mean_of_operation(node, depth)
        elif isinstance(node, ast.IfExp):
            self.require_mean(node.body, depth + 1)
            self.require_mean(node.orelse, depth + 1)
        elif isinstance(node, ast.Call):
            self._mean_call(node, depth)
        else:
            raise self._unknown(node)

    # --- means --------------------------------------------------------------------------------------------------

    def _mean_name(self, node: ast.Name, depth: int) -> None:
        values = self.assigned(node)
        if not values:
            raise self._unknown(node)
        for value in values:
            self.require_mean(value, depth + 1)

    def _mean_of_operation(self, node: ast.BinOp, depth: int) -> None:
        left, right = node.left, node.right
        if isinstance(node.op, ast.Add | ast.Sub):
            for side in (left, right):
                if self._depends(side):
                    self.require_mean(side, depth + 1)
            return
        if isinstance(node.op, ast.Div) and self._is_sum(left):
            if self.is_size(right):
                self._require_each(_summed(left), depth + 1)
                return
            raise self._masked(node)
        if isinstance(node.op, ast.Div | ast.Mult):
            for side, other in ((left, right), (right, left)):
                if not self._depends(other) and not (isinstance(node.op, ast.Div) and side is right):
                    self.require_mean(side, depth + 1)
                    return
        raise self._unknown(node)

    def _mean_call(self, node: ast.Call, depth: int) -> None:
        function, name = node.func, last_name(node.func)
        criterion = self._criterion(function)
        if criterion is not None:
            self._require_reduction(criterion, node)
            for value in _values(node):
                self._require_each(value, depth + 1)
            return
        if isinstance(function, ast.Attribute) and not self._script.name(function).startswith("torch."):
            if name == "mean" and not node.args and not node.keywords:
                if not self.is_mean(function.value):
                    self._require_each(function.value, depth + 1)
                return
            if name in _PASSED_ON:
                self.require_mean(function.value, depth + 1)
                return
        if self._script.name(function) == "torch.mean" and len(node.args) == 1 and not node.keywords:
            self._require_each(node.args[0], depth + 1)
            return
        if name == "sum":
            raise self._sum(node)
        if self._wraps.holds(function):
            raise ByHand(f"the loss of line {node.lineno} comes out of the model: whether it is a mean is not seen")
        target = self._script.called(node) or self._forward(function)
        if target is None:
            raise self._unknown(node)
        for value in _returned(self._script, target):
            self.require_mean(value, depth + 1)
        for value in _values(node):
            self._require_each(value, depth + 1)

    def _criterion(self, function: ast.expr) -> ast.Call | None:
        """The call that says how a loss is reduced: that of the function itself, or the one that made the object."""
        name = self._script.name(function)
        if name in _FUNCTIONS:
            call = self._script.parents[function]
            return call if isinstance(call, ast.Call) else None
        if isinstance(function, ast.Call):
            return function if self._is_loss(function) else None
        made = [_bare(origin) for origin in self._flows.origins(function)]
        if made and all(isinstance(one, ast.Call) and self._is_loss(one) for one in made):
            for one in made[1:]:
                assert isinstance(one, ast.Call)
                self._require_reduction(one, one)
            assert isinstance(made[0], ast.Call)
            return made[0]
        return None

    def _is_loss(self, call: ast.Call) -> bool:
        return self._script.name(call.func) in _CLASSES

    def _require_reduction(self, call: ast.Call, at: ast.expr) -> None:
        reduction = argument(call, "reduction")
        name = self._script.name(call.func).rsplit(".", 1)[1]
        if has_stars(call) or argument(call, "size_average") or argument(call, "reduce"):
            raise self._unknown(at)
        if reduction is not None:
            kind = reduction.value if isinstance(reduction, ast.Constant) else None
            if kind == "sum":
                raise self._sum(at)
            if kind not in ("mean", "batchmean"):
                raise self._unknown(at)
        if name in _WEIGHTED:
            weight = argument(call, "weight", 0 if name.endswith("Loss") else 2)
            if weight is not None and not is_none(weight):
                raise ByHand(
                    f"the loss of line {at.lineno} weighs the classes: it divides by the weights of the labels at "
                    "hand, which differ between processes"
                )
            if argument(call, "ignore_index") is not None:
                raise self._masked(at)

    def _forward(self, function: ast.expr) -> Function | None:
        """`forward` of a loss module of this file."""
        for origin in self._flows.origins(function):
            value = _bare(origin)
            home = self._script.context.names.homes.get(value.func) if isinstance(value, ast.Call) else None
            if home is not None and isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
                for bound in home.module.bound.get(value.func.id, []):
                    if isinstance(bound, ast.ClassDef):
                        return method(bound, "forward")
        return None

    # --- samples by themselves ----------------------------------------------------------------------------------

    def _require_each(self, node: ast.AST, depth: int) -> None:
        """Raises ByHand if an expression mixes the samples of the batch, or may."""
        if depth > _DEPTH:
            raise self._unknown(node)
        if not self._depends(node):
            return
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            if self._depends(node.left) and self._depends(node.right):
                raise self._whole(node)
        elif isinstance(node, ast.Name):
            for value in self.assigned(node):
                self._require_each(value, depth + 1)
            return
        elif isinstance(node, ast.Call):
            self._each_call(node, depth)
            return
        elif isinstance(node, ast.Subscript):
            if not _is_fixed(node.slice):
                raise self._masked(node)
        elif isinstance(node, ast.Attribute):
            if node.attr in ("T", "mT", "H"):
                raise self._whole(node)
            if self._flows.variable(node) is not None:
                return
        elif not isinstance(
            node, ast.BinOp | ast.UnaryOp | ast.Compare | ast.Constant | ast.Tuple | ast.List | ast.IfExp | ast.keyword
        ):
            if isinstance(node, ast.GeneratorExp | ast.ListComp):
                self._require_each(node.elt, depth + 1)
                return
            raise self._unknown(node)
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.expr) and not (isinstance(node, ast.Subscript) and part is node.slice):
                self._require_each(part, depth + 1)

    def _each_call(self, node: ast.Call, depth: int) -> None:
        function, name = node.func, last_name(node.func)
        if name in _PAIRS or name == "t":
            raise self._whole(node)
        target = self._script.called(node)
        if self._wraps.holds(function) or name in _EACH or (name in _ALONG and _goes_along(node)):
            pass
        elif target is not None and target.name != "__init__":
            for value in _returned(self._script, target):
                self._require_each(value, depth + 1)
        elif isinstance(function, ast.Attribute) and name in ("sum", "mean") and not self._depends(function.value):
            pass
        elif self._depends(node) and not self._is_plain(function):
            raise self._unknown(node)
        elif name == "arange" and self._depends(node):
            raise self._whole(node)
        if isinstance(function, ast.Attribute):
            self._require_each(function.value, depth + 1)
        for value in _values(node):
            self._require_each(value, depth + 1)

    def _is_plain(self, function: ast.expr) -> bool:
        """An elementwise function of torch, or a module that is called: a head, a wrapped part."""
        name = self._script.name(function)
        if name.startswith("torch."):
            return name.rsplit(".", 1)[1] in _EACH
        return isinstance(function, ast.Attribute) and function.attr == "module" and self._wraps.holds(function.value)

    # --- what depends on the batch ------------------------------------------------------------------------------

    def assigned(self, node: ast.Name) -> list[ast.expr]:
        """The values that a local name may have: of the last plain assignment before, and what is added after it."""
        script = self._script
        owner = script.owner(node)
        found: list[ast.expr] = []
        for statement in sorted(
            (n for n in script.own_nodes(owner) if isinstance(n, ast.Assign | ast.AugAssign | ast.AnnAssign)),
            key=lambda n: n.lineno,
        ):
            if statement.lineno > node.lineno or (
                statement.lineno == node.lineno and script.statement(node) is statement
            ):
                continue
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                value = _bound_to(target, statement.value, node.id)
                if value is not None:
                    if isinstance(statement, ast.Assign) and script.block(statement) is script.block(
                        self._in_block(script.statement(node), statement)
                    ):
                        found = []
                    found.append(value)
        return found

    def _in_block(self, statement: ast.stmt, other: ast.stmt) -> ast.stmt:
        """The statement around the first that stands in the block of the other, or the first itself."""
        above: ast.AST = statement
        home = self._script.parents[other]
        while above in self._script.parents:
            if self._script.parents[above] is home and isinstance(above, ast.stmt):
                return above
            above = self._script.parents[above]
        return statement

    def _depends(self, node: ast.AST) -> bool:
        """Whether an expression holds anything of the batch: a name that a loop, an argument or a call binds."""
        return any(isinstance(part, ast.Name) and self._is_data(part) for part in walk(node))

    def _is_data(self, node: ast.Name) -> bool:
        if node.id == "self" or self._is_callee(node):
            return False
        owner = self._script.owner(node)
        variable = self._flows.variable(node)
        if variable is None or variable[0] is not owner:
            return False  # of an outer scope, or a builtin
        if isinstance(owner, FUNCTIONS) and any(a.arg == node.id for a in walk(owner.args) if isinstance(a, ast.arg)):
            return not self._is_setting(owner, node.id)
        for part in self._script.own_nodes(owner):
            if isinstance(part, ast.For) and any(
                isinstance(n, ast.Name) and n.id == node.id for n in walk(part.target)
            ):
                return not (isinstance(part.iter, ast.Call) and last_name(part.iter.func) in ("range", "trange"))
        return any(
            isinstance(part, ast.Name) and self._is_data(part) for value in self.assigned(node) for part in walk(value)
        )

    def _is_callee(self, node: ast.Name) -> bool:
        above = self._script.parents[node]
        return isinstance(above, ast.Call) and above.func is node

    def _is_setting(self, function: Function, parameter: str) -> bool:
        """A parameter that is given plain settings: numbers, devices, arguments of the program; its default is one."""
        values = list(self._flows.values.get((function, parameter), ()))
        defaults = [*function.args.defaults, *function.args.kw_defaults]
        names = [
            *function.args.args[len(function.args.args) - len(function.args.defaults) :],
            *function.args.kwonlyargs,
        ]
        values += [value for name, value in zip(names, defaults, strict=True) if value and name.arg == parameter]
        return bool(values) and all(isinstance(value, ast.Constant | ast.Attribute) for value in values)

    def is_size(self, node: ast.AST) -> bool:
        """`len(x)`, `x.size(0)`, `x.shape[0]`: how many samples this process has; a variable that holds it."""
        if isinstance(node, ast.Name):
            values = self.assigned(node)
            return bool(values) and all(self.is_size(value) for value in values)
        if isinstance(node, ast.Call):
            name = last_name(node.func)
            if name == "len" and len(node.args) == 1:
                return self._depends(node.args[0]) and isinstance(node.args[0], ast.Name)
            return (
                name == "size"
                and bool(node.args)
                and isinstance(node.args[0], ast.Constant)
                and node.args[0].value == 0
            )
        return (
            isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Attribute)
            and node.value.attr == "shape"
            and _is_zero(node.slice)
        )

    def _is_sum(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and last_name(node.func) == "sum" and self._depends(node)

    # --- reasons ------------------------------------------------------------------------------------------------

    def _unknown(self, node: ast.AST) -> ByHand:
        line = getattr(node, "lineno", "?")
        return ByHand(f"whether the loss is a mean over samples that are independent is not seen in line {line}")

    def _sum(self, node: ast.AST) -> ByHand:
        return ByHand(
            f"the loss of line {getattr(node, 'lineno', '?')} is summed over the batch: DistributedDataParallel "
            "averages the gradients of the processes, which would be smaller by their number"
        )

    def _masked(self, node: ast.AST) -> ByHand:
        return ByHand(
            f"the loss of line {getattr(node, 'lineno', '?')} is a mean over the elements that a mask leaves: "
            "processes have different numbers of them, and the mean of their means is another"
        )

    def _whole(self, node: ast.AST) -> ByHand:
        return ByHand(
            f"the loss of line {getattr(node, 'lineno', '?')} compares the samples of a batch with each other: "
            "a process sees only those of its part"
        )


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in walk(node) if isinstance(part, ast.Name)}


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0


def _values(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _bare(node: ast.expr) -> ast.expr:
    """What made a module, without the `.to(device)` behind it."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("to", "cuda"):
        node = node.func.value
    return node


def _returned(script: Script, function: Function) -> list[ast.expr]:
    nodes = script.own_nodes(function)
    return [node.value for node in nodes if isinstance(node, ast.Return) and node.value is not None]


def _summed(node: ast.AST) -> ast.AST:
    """What a sum is over: its receiver, or its argument."""
    assert isinstance(node, ast.Call)
    return node.args[0] if node.args else node.func.value if isinstance(node.func, ast.Attribute) else node


def _bound_to(target: ast.expr, value: ast.expr | None, name: str) -> ast.expr | None:
    """What an assignment gives to a name: the whole value where it is unpacked from one."""
    if value is None:
        return None
    if isinstance(target, ast.Name):
        return value if target.id == name else None
    if isinstance(target, ast.Tuple | ast.List):
        if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
            for one, other in zip(target.elts, value.elts, strict=True):
                if (found := _bound_to(one, other, name)) is not None:
                    return found
            return None
        if any(isinstance(part, ast.Name) and part.id == name for part in target.elts):
            return value
    return None


def _is_fixed(index: ast.expr) -> bool:
    """An index that takes the same of each sample, or a part of a batch by its name or number."""
    if isinstance(index, ast.Constant):
        return True
    if isinstance(index, ast.UnaryOp):
        return _is_fixed(index.operand)
    if isinstance(index, ast.Tuple):
        first = index.elts[0]
        whole = isinstance(first, ast.Slice) and first.lower is None and first.upper is None
        return whole or (isinstance(first, ast.Constant) and first.value is ...)
    return False


def _goes_along(call: ast.Call) -> bool:
    """Whether a reduction or a concatenation goes along another dimension than the first."""
    function = call.func
    own = isinstance(function, ast.Attribute) and last_name(function.value) not in ("torch", "F", "functional")
    places = call.args if own else call.args[1:]
    dim = argument(call, "dim") or (places[0] if places else None)
    if isinstance(dim, ast.UnaryOp):
        return True
    return isinstance(dim, ast.Constant) and isinstance(dim.value, int) and dim.value != 0
