"""Finds the places where a Python file can be mutated: operators, conditions, constants, calls for
effect."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.mutation.edits import Edit

COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"),
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "+"), ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"), ast.Mod: ("%", "//"), ast.LShift: ("<<", ">>"), ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"), ast.Pow: ("**", "*"),
}  # fmt: skip
SWAPPED = {"min": "max", "max": "min", "any": "all", "all": "any", "floor": "ceil", "ceil": "floor"}


def edits(text: str) -> Iterator[Edit]:
    """Yields all edits, in no particular order."""
    finder = _Finder(text)
    finder.visit(ast.parse(text))
    yield from finder.found


class _Finder(ast.NodeVisitor):
    """Collects edits. Raised values, annotations and assertions are left alone: they are sentences
    and types."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0]
        for line in text.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.found: list[Edit] = []

    def _at(self, line: int, column: int) -> int:
        start = self.starts[line - 1]
        row = self.text[start : self.starts[line]]
        return start + len(row.encode()[:column].decode())

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._at(node.lineno, node.col_offset), self._at(
            node.end_lineno, node.end_col_offset
        )

    def _between(self, left: ast.expr, right: ast.expr, old: str, new: str, kind: str) -> None:
        start, end = self._span(left)[1], self._span(right)[0]
        words = r"\s+".join(map(re.escape, old.split()))
        pattern = rf"\b{words}\b" if old[0].isalpha() else words
        if match := re.search(pattern, self.text[start:end]):
            self.found.append(Edit(start + match.start(), start + match.end(), new, kind))

    def visit_Raise(self, node: ast.Raise) -> None: ...

    def visit_Assert(self, node: ast.Assert) -> None: ...

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None: ...

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for part in (*node.body, *node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(part)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in node.body:
            self.visit(part)

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for k, operator in enumerate(node.ops):
            old, new = COMPARISONS[type(operator)]
            self._between(operands[k], operands[k + 1], old, new, "comparison")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in ARITHMETIC and not _text(node.left) and not _text(node.right):
            old, new = ARITHMETIC[type(node.op)]
            self._between(node.left, node.right, old, new, "arithmetic")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            if not _text(right):
                self._between(left, right, old, new, "boolean")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            start, end = self._span(node)
            inner = self._span(node.operand)
            self.found.append(Edit(start, end, self.text[inner[0] : inner[1]], "not"))
        self.generic_visit(node)

    def _condition(self, test: ast.expr) -> None:
        if isinstance(test, ast.Name | ast.Attribute | ast.Call) and "TYPE_CHECKING" not in (
            ast.dump(test)
        ):
            start, end = self._span(test)
            self.found.append(Edit(start, end, f"not {self.text[start:end]}", "condition"))

    def visit_If(self, node: ast.If) -> None:
        self._condition(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._condition(node.test)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        start, end = self._span(node)
        if isinstance(node.value, bool):
            self.found.append(Edit(start, end, str(not node.value), "constant"))
        elif isinstance(node.value, int):
            self.found.append(Edit(start, end, str(node.value + 1), "constant"))
        elif isinstance(node.value, float):
            self.found.append(Edit(start, end, repr(node.value * 1.01 or 1.0), "constant"))

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg != "strict":  # of zip: an assertion
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in SWAPPED:
            start, end = self._span(node.func)
            self.found.append(Edit(start, end, SWAPPED[node.func.id], "call"))
        if isinstance(node.func, ast.Attribute) and node.func.attr == "reshape":
            for argument in node.args:  # numpy takes any number below zero for its -1
                if ast.unparse(argument) != "-1":
                    self.visit(argument)
            self.visit(node.func)
            return
        self.generic_visit(node)

    def _removed(self, node: ast.stmt) -> None:
        self.found.append(Edit(*self._span(node), "pass", "removed"))

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._removed(node)
            self.generic_visit(node)
        elif not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._removed(node)
        self.generic_visit(node)

    def visit_Break(self, node: ast.Break) -> None:
        self._removed(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self._removed(node)


def _text(node: ast.expr) -> bool:
    """Whether a node makes a sentence, whose wording no test has to know."""
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
