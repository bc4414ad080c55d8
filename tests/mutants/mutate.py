"""All mutants of one module, from its syntax tree. Pure.

Rules: a mutant changes one operator, comparison, boolean constant, number, condition or called function. Docstrings,
annotations and error texts are left alone, because no decision rests on them. A mutant is known by its module, function, the
changed text before and after, and a number where a function has several alike: line numbers change with every edit above.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """`key` is stable over edits elsewhere; `source` is the whole mutated module; `line` is of the original."""

    key: str
    line: int
    source: str


def mutants(module: str, text: str) -> Iterator[Mutant]:
    """Every mutant of `text`, the source of the dotted name `module`, in the order of its lines."""
    tree = ast.parse(text)
    skipped = _without_decisions(tree)
    seen: Counter[str] = Counter()
    for node, function in _walk(tree, ""):
        if id(node) in skipped or not hasattr(node, "lineno"):
            continue
        for changed in _changes(node):
            before, after = ast.unparse(node), ast.unparse(changed)
            name = f"{module}:{function or '-'}: {before} -> {after}"
            seen[name] += 1
            key = name if seen[name] == 1 else f"{name} #{seen[name]}"
            yield Mutant(" ".join(key.split()), node.lineno, _replaced(text, node, after))


def _walk(node: ast.AST, function: str) -> Iterator[tuple[ast.AST, str]]:
    for child in ast.iter_child_nodes(node):
        name = function
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{function}.{child.name}".lstrip(".")
        yield child, name
        yield from _walk(child, name)


def _without_decisions(tree: ast.AST) -> set[int]:
    """Docstrings, annotations, raised errors, TypeVars, imports, f-strings: all nodes below them."""
    tops: list[ast.AST | None] = []
    for node in ast.walk(tree):
        match node:
            case ast.AnnAssign(annotation=annotation) | ast.arg(annotation=annotation):
                tops.append(annotation)
            case ast.FunctionDef(decorator_list=decorators, returns=returns):
                tops += [*decorators, returns]
            case ast.ClassDef(decorator_list=decorators):
                tops += decorators
            case ast.keyword(arg="frozen"):  # as in the decorator of a dataclass
                tops.append(node)
            case ast.Raise() | ast.Import() | ast.ImportFrom() | ast.JoinedStr() | ast.Assert():
                tops.append(node)
            case ast.If(test=test) if "TYPE_CHECKING" in ast.unparse(test):
                tops.append(node)
    return {id(below) for top in tops if top is not None for below in ast.walk(top)}


def _changes(node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.Compare(left, [op], [right]):
            for other in COMPARISONS[type(op)]:
                yield ast.Compare(left, [other()], [right])
        case ast.BinOp(left, op, right) if type(op) in OPERATORS and not _is_text(left) and not _is_text(right):
            yield ast.BinOp(left, OPERATORS[type(op)](), right)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(ast.Not(), operand):
            yield operand
        case ast.UnaryOp(ast.USub(), operand) if isinstance(operand, ast.Constant):
            yield operand
        case ast.IfExp(test, body, orelse):
            yield ast.IfExp(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(float(value)):
            yield ast.Constant(value * 2 + 1)
        case ast.Call(ast.Name(name), arguments, keywords) if name in CALLS:
            yield ast.Call(ast.Name(CALLS[name]), arguments, keywords)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _replaced(text: str, node: ast.AST, after: str) -> str:
    """`text` with the piece of `node` replaced, in brackets so that precedence stays."""
    lines = text.encode().splitlines(keepends=True)
    first, last = node.lineno - 1, node.end_lineno - 1  # type: ignore[attr-defined]
    head = b"".join(lines[:first]) + lines[first][: node.col_offset]  # type: ignore[attr-defined]
    tail = lines[last][node.end_col_offset :] + b"".join(lines[last + 1 :])  # type: ignore[attr-defined]
    return bytes(head + f"({after})".encode() + tail).decode()
