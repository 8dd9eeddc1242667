"""The pieces of fixes: small edits of calls and names, as text."""

from __future__ import annotations

import ast

from devlint.checks.context import Context
from devlint.finding import Applicability, Edit, Fix
from devlint.syntax.lazy import cst


def shortened(text: str, most: int = 40) -> str:
    """A piece of code for a message: at most so many characters, the end left out."""
    return text if len(text) <= most else text[: most - 3] + "..."


def safe(title: str, *edits: Edit) -> Fix:
    return Fix(title, edits, Applicability.SAFE)


def unsafe(title: str, *edits: Edit) -> Fix:
    return Fix(title, edits, Applicability.UNSAFE)


def suggestion(title: str, *edits: Edit) -> Fix:
    return Fix(title, edits, Applicability.SUGGESTION)


def replace(context: Context, node: cst.CSTNode | ast.AST, text: str) -> Edit:
    """Put text in the place of a node."""
    return Edit(*context.span(node), text)


def before(context: Context, node: cst.CSTNode | ast.AST, text: str) -> Edit:
    """Put text before a node."""
    start, _ = context.span(node)
    return Edit(start, start, text)


def attribute_span(context: Context, node: cst.Attribute | ast.Attribute) -> tuple[int, int]:
    """The characters of the name after an attribute's dot."""
    target = context.ast_of(node)
    assert isinstance(target, ast.Attribute)
    _, end = context.span(target)
    return end - len(target.attr), end


def callee_span(context: Context, call: cst.Call) -> tuple[int, int]:
    """The characters that name what is called: the last part of its name."""
    if isinstance(call.func, cst.Attribute):
        return attribute_span(context, call.func)
    return context.span(call.func)


def may_take_keyword(call: cst.Call, name: str) -> bool:
    """Whether a keyword can be added: it is not there, and no `**` may hold it."""
    return not any(
        argument.star == "**" or (argument.keyword is not None and argument.keyword.value == name)
        for argument in call.args
    )


def add_keyword(context: Context, call: cst.Call, name: str, value: str, *, absent: bool = False) -> Edit | None:
    """Add `name=value` after a call's last argument, in the call's own layout; None where that cannot be done.

    `absent` says that it is known not to be there, in a `**` neither.
    """
    if not (absent or may_take_keyword(call, name)) or not context.editable(call):
        return None
    _, call_end = context.span(call)
    if not call.args:
        return Edit(call_end - 1, call_end - 1, f"{name}={value}")
    last = call.args[-1]
    if isinstance(last.value, cst.GeneratorExp) and not last.value.lpar:
        return None
    end = _end_of_value(context, last.value)
    text = context.source.text
    if not isinstance(last.comma, cst.Comma):
        return Edit(end, end, f", {name}={value}")
    comma = text.find(",", end)
    line_start = text.rfind("\n", 0, context.span(last)[0]) + 1
    lead = text[line_start : context.span(last)[0]]
    if lead.strip() == "" and line_start > 0:  # one argument a line: so is the new one
        return Edit(comma + 1, comma + 1, f"{context.source.newline}{lead}{name}={value},")
    return Edit(comma + 1, comma + 1, f" {name}={value},")


def _end_of_value(context: Context, node: cst.BaseExpression) -> int:
    """Where an argument's value ends, parentheses around it included."""
    _, end = context.span(node)
    text = context.source.text
    # The parentheses of a tuple and of a generator belong to the node itself in `ast`.
    own = 1 if isinstance(node, cst.Tuple | cst.GeneratorExp) else 0
    for _ in node.rpar[own:]:
        end = _after_closing(text, end)
    return end


def _after_closing(text: str, position: int) -> int:
    while text[position] != ")":
        if text[position] == "#":
            while text[position] not in "\r\n":
                position += 1
        else:
            position += 1
    return position + 1


def remove_argument(context: Context, call: cst.Call, argument: cst.Arg) -> Edit:
    """Take one argument out of a call, with the comma that belonged to it."""
    index = next(i for i, other in enumerate(call.args) if other is argument)
    start, _ = argument_span(context, argument)
    if index + 1 < len(call.args):
        return Edit(start, argument_span(context, call.args[index + 1])[0], "")
    _, end = argument_span(context, argument)
    if index > 0:
        return Edit(argument_span(context, call.args[index - 1])[1], end, "")
    return Edit(start, context.span(call)[1] - 1, "")


def argument_span(context: Context, argument: cst.Arg) -> tuple[int, int]:
    """An argument with its name and stars, and the parentheses around its value."""
    start, _ = context.span(argument)
    if argument.keyword is None and not argument.star:
        own = 1 if isinstance(argument.value, cst.Tuple | cst.GeneratorExp) else 0
        for _ in argument.value.lpar[own:]:
            start = context.source.text.rfind("(", 0, start)
    return start, _end_of_value(context, argument.value)
