"""DEV302: `map_location` is handed to `load_state_dict`, which does not take it."""

from __future__ import annotations

import ast

from devlint.checks import rewrite
from devlint.checks.base import Rule
from devlint.checks.context import Context
from devlint.checks.fate import Follower
from devlint.checks.loading import is_nowhere, load_of
from devlint.finding import Fix, Group, RuleInfo
from devlint.screen import Calls
from devlint.syntax.lazy import cst
from devlint.syntax.trees import walk

_ITEMS = frozenset({"get", "pop"})
_ERROR = "`TypeError: load_state_dict() got an unexpected keyword argument 'map_location'`"


class MisplacedMapLocation(Rule):
    info = RuleInfo(
        "DEV302", "misplaced-map-location", (Group.BUG,), "map_location is handed to load_state_dict, which has none"
    )
    screen = (Calls(frozenset({"load_state_dict"})),)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._found: set[ast.AST] = set()
        self._nodes: dict[ast.AST, cst.Call] | None = None

    def suspects(self) -> bool:
        follower: Follower | None = None
        for node in self.context.seen.calls.get("load_state_dict", ()):
            if not isinstance(node.func, ast.Attribute):
                continue
            if not any(keyword.arg == "map_location" for keyword in node.keywords):
                continue
            follower = follower or Follower(self.context)
            if follower.takes_no_place(node):
                self._found.add(node)
                inner = self._load_behind(_state(node))
                if inner is not None:
                    self.context.claims[inner] = self.info.code
        return bool(self._found)

    def visit_Call(self, node: cst.Call) -> None:
        call = self.context.ast_of(node)
        if not isinstance(call, ast.Call) or call not in self._found:
            return
        argument = next(a for a in node.args if a.keyword is not None and a.keyword.value == "map_location")
        fix, no_fix = self._fix(node, call, argument)
        start, _ = self.context.span(argument)
        self.report(
            (start, start + len("map_location")),
            f"`load_state_dict` has no `map_location`: {_ERROR}; it belongs to the `torch.load`",
            fix=fix,
            no_fix=no_fix,
        )

    def _fix(self, node: cst.Call, call: ast.Call, argument: cst.Arg) -> tuple[Fix | None, str | None]:
        context = self.context
        inner = self._load_behind(_state(call))
        if inner is None:
            return None, "where the state dict is loaded is not seen here"
        load = load_of(context, inner)
        if load is None:
            return None, "what the load is told about devices is not seen here"
        remove = rewrite.remove_argument(context, node, argument)
        if not is_nowhere(load):
            return rewrite.safe("Drop `map_location`: the load has one", remove), None
        target = self._node_of(inner)
        place = context.ast_of(argument.value)
        if target is None or not self._same_there(place, call, inner):
            return None, f"`{context.text(argument.value)}` may not be set yet where the state dict is loaded"
        if load.given is not None:
            return None, "the load says `map_location=None`"
        add = rewrite.add_keyword(context, target, load.keyword, context.text(argument.value))
        if add is None:
            return None, "the keyword cannot be added to the load"
        return rewrite.safe(f"Move `map_location` to `{load.short}`", add, remove), None

    def _load_behind(self, state: ast.expr | None) -> ast.Call | None:
        """The one load that a state dict comes from: itself, an item of it, a name that was bound to it alone."""
        while state is not None:
            if isinstance(state, ast.Subscript):
                state = state.value
            elif isinstance(state, ast.Call) and isinstance(state.func, ast.Attribute) and state.func.attr in _ITEMS:
                state = state.func.value
            elif isinstance(state, ast.Call):
                return state if load_of(self.context, state) is not None else None
            elif isinstance(state, ast.Name):
                state = self._only_definition(state)
            else:
                return None
        return None

    def _only_definition(self, name: ast.Name) -> ast.expr | None:
        context = self.context
        home = context.names.homes.get(name)
        scope = home.defining(name.id) if home is not None else None
        bound = scope.bound.get(name.id, []) if scope is not None else []
        if len(bound) != 1 or context.inference.owner(bound[0]) is not context.inference.owner(name):
            return None
        above = context.inference.parents.get(bound[0])
        return above.value if isinstance(above, ast.Assign) and bound[0] in above.targets else None

    def _same_there(self, place: ast.AST, call: ast.Call, load: ast.Call) -> bool:
        """Whether the place reads the same at the load: it stands in the same call, or all its names hold before."""
        if any(part is load for part in walk(call)):
            return not any(isinstance(part, ast.NamedExpr | ast.Await | ast.Yield) for part in walk(place))
        for part in walk(place):
            if isinstance(part, ast.Call | ast.NamedExpr | ast.Await | ast.Yield):
                return False
            if isinstance(part, ast.Name) and not self._settled_before(part, load):
                return False
        return True

    def _settled_before(self, name: ast.Name, load: ast.Call) -> bool:
        home = self.context.names.homes.get(name)
        scope = home.defining(name.id) if home is not None else None
        if scope is None:
            return True  # a builtin
        nodes = scope.bound.get(name.id, [])
        return all(isinstance(n, ast.arg) or getattr(n, "lineno", 0) < load.lineno for n in nodes) and len(nodes) <= 1

    def _node_of(self, call: ast.Call) -> cst.Call | None:
        if self._nodes is None:
            self._nodes = {target: node for node, target in self.context.pairs.items() if isinstance(node, cst.Call)}
        return self._nodes.get(call)


def _state(call: ast.Call) -> ast.expr | None:
    """The state dict that `load_state_dict` is given."""
    return next((k.value for k in call.keywords if k.arg == "state_dict"), call.args[0] if call.args else None)
