"""New expressions made of source text and kept sub-expressions, with parentheses where the grammar asks for them."""

from __future__ import annotations

import ast
from collections.abc import Sequence

import libcst as cst

from ..model import EditRefused, Span
from .locate import ParsedText, parents_of, read_expression, shape

_PLACEHOLDER = "__precfix_kept_{}__"

# How tightly an expression binds; a slot of the grammar asks for a least level.
_LOOSE, _TUPLE, _LAMBDA, _CHOICE, _OR, _AND, _NOT, _COMPARISON = range(8)
_UNARY, _POWER, _AWAIT, _ATOM, _BRACKETED = 14, 15, 16, 17, 18
_BINARY: dict[type[cst.BaseBinaryOp], int] = {
    cst.BitOr: 8,
    cst.BitXor: 9,
    cst.BitAnd: 10,
    cst.LeftShift: 11,
    cst.RightShift: 11,
    cst.Add: 12,
    cst.Subtract: 12,
    cst.Multiply: 13,
    cst.MatrixMultiply: 13,
    cst.Divide: 13,
    cst.FloorDivide: 13,
    cst.Modulo: 13,
    cst.Power: _POWER,
}
_LEVELS: dict[type[cst.BaseExpression], int] = {
    cst.NamedExpr: _LOOSE,
    cst.GeneratorExp: _LOOSE,
    cst.Yield: _TUPLE,
    cst.Tuple: _TUPLE,
    cst.Lambda: _LAMBDA,
    cst.IfExp: _CHOICE,
    cst.Comparison: _COMPARISON,
    cst.Await: _AWAIT,
}


def parsed(code: str, module: cst.Module) -> cst.BaseExpression:
    """``code`` as an expression; raises `EditRefused` when it is none."""
    try:
        return cst.parse_expression(code.strip(), module.config_for_parsing)
    except (cst.ParserSyntaxError, ValueError, RecursionError) as error:
        raise EditRefused(f"{code!r} is not an expression") from error


def composed(
    source: ParsedText, parts: Sequence[str | Span], kept: Sequence[cst.BaseExpression], starred: Sequence[bool]
) -> cst.BaseExpression:
    """The expression that ``parts`` spell, with ``kept[i]`` (already edited) in the place of the i-th span.

    Raises `EditRefused` when the text is no expression or a kept part would be read differently.
    """
    names = [_PLACEHOLDER.format(index) for index in range(len(kept))]
    places = iter(zip(names, starred, strict=True))
    spelled = (part if isinstance(part, str) else "*" * (place := next(places))[1] + place[0] for part in parts)
    template = "".join(spelled)
    tree = parsed(template, source.module)
    fills = {name: _bare(node, source.module) for name, node in zip(names, kept, strict=True)}
    result = _filled(tree, fills)
    _check(template, fills, result, source.module)
    return result


def seated(
    source: ParsedText, original: cst.BaseExpression, new: cst.BaseExpression, edges: tuple[str, str]
) -> cst.BaseExpression:
    """``new`` in the place of ``original``: between its parentheses, or with some of its own where they are needed."""
    outer = len(original.lpar) - _own_brackets(original)
    if outer > 0:
        inner = _bare(new, source.module)
        lpar, rpar = original.lpar[:outer], original.rpar[len(original.rpar) - outer :]
        return inner.with_changes(lpar=[*lpar, *inner.lpar], rpar=[*inner.rpar, *rpar])
    code = source.module.code_for_node(new)
    needed = level(new) < required(source.parents[original], original, new)
    if not new.lpar and (needed or _breaks_line(source, original, code) or _sticks(edges, code)):
        new = bracketed(new)
    return bracketed(new) if _would_be_items(source, original, new) else new


def _would_be_items(source: ParsedText, original: cst.BaseExpression, new: cst.BaseExpression) -> bool:
    """Whether ``new`` is a tuple whose parentheses a ``with`` statement would take for its own: ``with (a, b):``."""
    item = source.parents[original]
    if not isinstance(new, cst.Tuple) or not isinstance(item, cst.WithItem) or item.asname is not None:
        return False
    statement = source.parents[item]
    return isinstance(statement, cst.With) and len(statement.items) == 1


def bracketed(node: cst.BaseExpression) -> cst.BaseExpression:
    return node.with_changes(lpar=[cst.LeftParen(), *node.lpar], rpar=[*node.rpar, cst.RightParen()])


def comments_of(node: cst.CSTNode) -> list[cst.Comment]:
    """The comments inside a node, in order."""
    found: list[cst.Comment] = []

    class Finder(cst.CSTVisitor):
        def visit_Comment(self, node: cst.Comment) -> None:
            found.append(node)

    node.visit(Finder())
    return found


def level(node: cst.BaseExpression) -> int:
    """How tightly ``node`` binds; 18 when it stands in parentheses."""
    if node.lpar:
        return _BRACKETED
    if isinstance(node, cst.BooleanOperation):
        return _OR if isinstance(node.operator, cst.Or) else _AND
    if isinstance(node, cst.UnaryOperation):
        return _NOT if isinstance(node.operator, cst.Not) else _UNARY
    if isinstance(node, cst.BinaryOperation):
        return _BINARY.get(type(node.operator), _COMPARISON)
    return _LEVELS.get(type(node), _ATOM)


def required(parent: cst.CSTNode, child: cst.CSTNode, node: cst.BaseExpression) -> int:
    """The level that ``node`` must have to stand where ``child`` stands in ``parent``."""
    if isinstance(parent, cst.Attribute) and isinstance(node, cst.Integer):
        return _BRACKETED  # 1.real is no attribute
    if isinstance(parent, cst.Attribute | cst.Await | cst.Decorator) or _is_subject(parent, child):
        return _ATOM
    if isinstance(parent, cst.BinaryOperation):
        if isinstance(parent.operator, cst.Power):
            return _AWAIT if parent.left is child else _UNARY
        return _BINARY.get(type(parent.operator), _ATOM) + (parent.right is child)
    if isinstance(parent, cst.UnaryOperation):
        return _NOT if isinstance(parent.operator, cst.Not) else _UNARY
    if isinstance(parent, cst.BooleanOperation):
        return (_OR if isinstance(parent.operator, cst.Or) else _AND) + 1
    if isinstance(parent, cst.Comparison | cst.ComparisonTarget | cst.StarredElement | cst.StarredDictElement):
        return _COMPARISON + 1
    if isinstance(parent, cst.IfExp):
        return _LAMBDA if parent.orelse is child else _OR
    if isinstance(parent, cst.CompFor | cst.CompIf):
        return _OR
    return _required_by_statement(parent, child, node)


def _required_by_statement(parent: cst.CSTNode, child: cst.CSTNode, node: cst.BaseExpression) -> int:
    if isinstance(parent, cst.FormattedStringExpression):
        braced = isinstance(node, cst.Dict | cst.Set | cst.DictComp | cst.SetComp)
        return _BRACKETED if braced else _CHOICE
    whole = isinstance(parent, cst.Assign | cst.AugAssign | cst.Return | cst.Expr) and parent.value is child
    return _TUPLE if whole else _LAMBDA


def _is_subject(parent: cst.CSTNode, child: cst.CSTNode) -> bool:
    """Whether ``child`` is what is called or subscripted."""
    return (isinstance(parent, cst.Call) and parent.func is child) or (
        isinstance(parent, cst.Subscript) and parent.value is child
    )


def _filled(tree: cst.BaseExpression, fills: dict[str, cst.BaseExpression]) -> cst.BaseExpression:
    parents = parents_of(tree)

    class Filler(cst.CSTTransformer):
        def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
            node = fills.get(original_node.value)
            if node is None:
                return updated_node
            parent = parents.get(original_node)
            if original_node.lpar:
                return node.with_changes(lpar=[*original_node.lpar, *node.lpar], rpar=[*node.rpar, *original_node.rpar])
            if parent is None:
                return node
            return bracketed(node) if level(node) < required(parent, original_node, node) else node

    filled = tree.visit(Filler())
    assert isinstance(filled, cst.BaseExpression)
    return filled


def _bare(node: cst.BaseExpression, module: cst.Module) -> cst.BaseExpression:
    """``node`` less parentheses that are not part of it, unless they hold lines together."""
    code = module.code_for_node(node)
    if len(node.lpar) <= _own_brackets(node) or "\n" in code or "\r" in code:
        return node
    own = _own_brackets(node)
    return node.with_changes(lpar=node.lpar[len(node.lpar) - own :], rpar=node.rpar[:own])


def _own_brackets(node: cst.BaseExpression) -> int:
    """How many of the node's parentheses are its own: for `ast`, too, those of a tuple belong to the tuple."""
    return 1 if isinstance(node, cst.Tuple | cst.GeneratorExp) and node.lpar else 0


def _check(template: str, fills: dict[str, cst.BaseExpression], result: cst.BaseExpression, module: cst.Module) -> None:
    """Read the result with `ast`: the kept parts must be whole sub-expressions of the template's tree."""
    wanted = read_expression(template)
    found = read_expression(module.code_for_node(result))
    if wanted is None or found is None:
        raise EditRefused(f"{template!r} cannot be filled")
    kept = {name: read_expression(module.code_for_node(node)) for name, node in fills.items()}

    class Fill(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return kept.get(node.id) or node

    if shape(Fill().visit(wanted)) != shape(found):
        raise EditRefused(f"a kept expression would be read differently in {module.code_for_node(result)!r}")


# --- the place in the file --------------------------------------------------------------------------------------------


def _breaks_line(source: ParsedText, original: cst.BaseExpression, code: str) -> bool:
    """Whether a newline in ``code`` would end the statement."""
    if "\n" not in code and "\r" not in code:
        return False
    try:
        ast.parse(code.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return not _in_brackets(source, original)
    return False


def _in_brackets(source: ParsedText, node: cst.CSTNode) -> bool:
    child = node
    for above in source.ancestors(node):
        if isinstance(above, cst.BaseSmallStatement | cst.BaseCompoundStatement):
            return isinstance(above, cst.FunctionDef | cst.ClassDef) and isinstance(child, cst.Parameters | cst.Arg)
        if isinstance(above, cst.BaseExpression) and (above.lpar or isinstance(above, _DISPLAYS)):
            return True
        if isinstance(child, cst.Arg | cst.SubscriptElement):
            return True
        child = above
    return False


_DISPLAYS = (cst.List, cst.Set, cst.Dict, cst.ListComp, cst.SetComp, cst.DictComp)


def _sticks(edges: tuple[str, str], code: str) -> bool:
    """Whether the new code would run together with a neighboring word: ``return(a).b`` becoming ``returnx``."""
    before, after = edges
    return (_is_word(before) and _is_word(code[:1] or " ", quotes=True)) or (_is_word(after) and _is_word(code[-1:]))


def _is_word(char: str, *, quotes: bool = False) -> bool:
    return char.isalnum() or char == "_" or (quotes and char in "\"'")
