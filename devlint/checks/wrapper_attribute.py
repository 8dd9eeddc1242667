"""DEV503: an attribute of a wrapped model is read on its wrapper, or `module` where there may be no wrapper."""

from __future__ import annotations

import ast

from devlint.checks import rewrite
from devlint.checks.base import Rule
from devlint.checks.guards import conditions, expects_error
from devlint.checks.wrappers import WRAPPERS, may_be_bare, wrapping
from devlint.finding import Edit, Group, RuleInfo
from devlint.placement import values as v
from devlint.placement.evaluate import path_of
from devlint.screen import Mentions
from devlint.syntax.lazy import cst
from devlint.syntax.trees import walk

OWN = {
    "DataParallel": """
        module device_ids output_device dim src_device_obj device_type gather parallel_apply replicate scatter
    """,
    "DistributedDataParallel": """
        module device device_ids device_type dim output_device process_group reducer logger join join_device join_hook
        join_process_group no_sync register_comm_hook will_sync_module_buffers broadcast_buffers broadcast_bucket_size
        bucket_bytes_cap bucket_bytes_cap_default find_unused_parameters forward_sync_buffers gradient_as_bucket_view
        is_multi_device_module mixed_precision modules_buffers parameters_to_ignore require_backward_grad_sync
        require_forward_param_sync skip_all_reduce_unused_params static_graph delay_all_reduce_named_params
        param_to_hook_all_reduce named_module_buffers to_kwargs use_side_stream_for_tensor_copies gather scatter
        batched_grad_copy bucket_bytes_cap_list
    """,
}
"""What the wrappers have beside what every module has."""
_OWN = {name: frozenset(text.split()) for name, text in OWN.items()}


class WrapperAttribute(Rule):
    info = RuleInfo(
        "DEV503", "wrapper-attribute", (Group.STYLE,), "an attribute of a wrapped model is read on its wrapper"
    )
    screen = (Mentions(frozenset({"DataParallel", "DistributedDataParallel"})),)

    def suspects(self) -> bool:
        context = self.context
        self._found: dict[ast.AST, str] = {}
        stored = {
            path_of(node)
            for node in walk(context.tree)
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
        }
        for node in walk(context.tree):
            if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
                continue
            if node.attr == "module":
                if self._may_be_bare(node):
                    self._found[node] = "module"
            elif not node.attr.startswith("_") and path_of(node) not in stored and not self._is_known(node.attr):
                wrapper = self._wrapper(node.value)
                if wrapper and node.attr not in _OWN[wrapper] and not self._is_asked_for(node):
                    self._found[node] = wrapper
        return bool(self._found)

    def _wrapper(self, node: ast.expr) -> str:
        """The class of the wrapper that an expression is proven to be, or nothing."""
        value = self.context.value_of(node)
        return value.type.rpartition(".")[2] if value.type in WRAPPERS else ""

    def _is_known(self, name: str) -> bool:
        """Whether every module has a name."""
        facts = self.context.inference.facts
        return (
            facts.method(v.MODULE, name) is not None
            or name in facts.only_module
            or name in ("register_module", "T_destination")
        )

    def _may_be_bare(self, node: ast.Attribute) -> bool:
        """Whether a model is wrapped on one way and not on another, and what reads `module` does not ask which."""
        context = self.context
        calls = wrapping(context, context.value_of(node.value))
        if not calls or not may_be_bare(context, context.value_of(node.value)) or self._is_asked_for(node):
            return False
        names = {word for call in calls for text in conditions(context, call) for word in _names(text)}
        return all(names.isdisjoint(_names(text)) for text in conditions(context, node))

    def _is_asked_for(self, node: ast.AST) -> bool:
        asks = any(
            word in text
            for text in conditions(self.context, node)
            for word in ("hasattr", "isinstance", "module", "type(")
        )
        return asks or expects_error(self.context, node)

    def visit_Attribute(self, node: cst.Attribute) -> None:
        context = self.context
        target = context.ast_of(node) if context.knows(node) else None  # the names of imports are no expressions
        wrapper = self._found.get(target) if target is not None else None
        if wrapper is None or not isinstance(target, ast.Attribute):
            return
        at = rewrite.attribute_span(context, target)
        if wrapper == "module":
            message = (
                "the model is wrapped on one way only: on the other it has no `module`, and torch raises"
                " \"object has no attribute 'module'\""
            )
            self.report(
                at, message, no_fix="reading it before the model is wrapped, or unwrapping it if it is, is a choice"
            )
            return
        message = (
            f"`{target.attr}` belongs to the wrapped model: torch raises"
            f" \"'{wrapper}' object has no attribute '{target.attr}'\""
        )
        fix = rewrite.suggestion("Read it on the wrapped model", Edit(at[0], at[0], "module."))
        self.report(at, message, fix=fix)


def _names(text: str) -> set[str]:
    """The names in the text of a condition, those of functions and packages left out."""
    found: set[str] = set()
    for node in walk(ast.parse(text, mode="eval")):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Name):
            found.add(node.id)
    return found - {"torch", "cuda", "args", "self", "len", "not"}
