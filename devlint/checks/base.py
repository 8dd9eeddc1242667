"""The base of all rules."""

from __future__ import annotations

import ast
from typing import ClassVar

from devlint.checks.context import Context
from devlint.finding import Finding, Fix, Group, RuleInfo
from devlint.placement.values import Value
from devlint.screen import Sign
from devlint.syntax.lazy import cst

Span = tuple[int, int]


class Rule:
    """A rule is a LibCST visitor in all but its base class: `visit_<Node>(self, node)` methods that report.

    It is plain so that its module imports without LibCST; `devlint.syntax.walk.as_visitor` makes a `cst.CSTVisitor`
    of it. `screen` says what a file must hold for the rule to find anything: without one of these signs the file is
    not even parsed for it.
    """

    info: ClassVar[RuleInfo]
    screen: ClassVar[tuple[Sign, ...]]

    def __init__(self, context: Context) -> None:
        self.context = context
        self.findings: list[Finding] = []

    def suspects(self) -> bool:
        """Whether, by the `ast` tree and the inference alone, the rule may find something.

        It is asked before LibCST parses the file, which costs more than all the rest; it must not hide a finding.
        """
        return True

    def name_of(self, node: cst.CSTNode | ast.AST) -> str | None:
        """The qualified name of what node stands for, aliases followed; None where it is not a library's."""
        return self.context.name_of(node)

    def value_of(self, node: cst.CSTNode | ast.AST) -> Value:
        """What the value of node is and where it lives, as far as that is proven."""
        return self.context.value_of(node)

    def report(
        self,
        at: cst.CSTNode | ast.AST | Span,
        message: str,
        *,
        fix: Fix | None = None,
        no_fix: str | None = None,
        group: Group | None = None,
    ) -> None:
        """Report a finding at a node or span. A message says what is wrong and what will happen, without a full stop.

        `group` names the one that applies where the rule has two; `no_fix` says why there is no fix.
        """
        context = self.context
        span = at if isinstance(at, tuple) else context.span(at)
        if fix is not None and not isinstance(at, tuple) and not context.editable(at):
            fix, no_fix = None, "it stands inside an f-string"
        self.findings.append(
            Finding(
                code=self.info.code,
                name=self.info.name,
                message=message,
                path=context.source.path,
                start=context.source.location(span[0]),
                end=context.source.location(span[1]),
                group=group or self.info.groups[0],
                fix=fix,
                no_fix=no_fix,
            )
        )
