"""One walk with tables finds what a plain recursive reading of Python's rules finds."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from precfix.codemod.python.names import ModuleNames
from precfix.codemod.python.scopes import Scope
from precfix.codemod.source.child_fields import within
from precfix.codemod.source.documents import Document, FileKind
from precfix.codemod.source.parsing import MAX_DEPTH, Unparsable, parse_python

from .fixture_cases import REPOSITORY

NOTHING = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
OPENING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
ODD = """
import a.b.c as d, e.f
from . import *
from .g import h as i, j
global_1 = global_2 = p
(k, *l), m[n] = {o: 1, **p}
def q(r, /, s: t = u, *v: w, x=y, **z) -> aa:
    global bb, cc
    bb = lambda dd, *ee, ff=(gg := 1): [hh for hh in dd if (ii := hh)]
    async def jj(): return await kk
    class ll(mm, metaclass=nn):
        oo: pp = qq
        rr: ss
        def tt(self): yield self.uu
    try:
        with vv as (ww, xx), yy: zz += 1
    except (A, B) as C: raise D from C
    else: return
    finally: del E
@F.G(H)
class I(J): K = L = M
for N, (O, *P) in Q: continue
else: R[S:T, ...] = U if V else not W
match X:
    case [Y, *Z, {"a": AA, **BB}] if CC: pass
    case DD(EE=FF) | GG.HH as II: pass
print(f"{JJ!r:{KK}}", LL < MM <= NN, OO and PP or -QQ)
"""


def children(node: ast.AST) -> list[ast.AST]:
    return [child for child in ast.iter_child_nodes(node) if not isinstance(child, NOTHING)]


def plainly(node: ast.AST, scope: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Each node and the one that opens its scope, in source order of the parents."""
    yield node, scope
    body = getattr(node, "body", None) if isinstance(node, OPENING) else None
    inside = body if isinstance(body, list) else [body]
    for child in children(node):
        yield from plainly(child, node if any(child is item for item in inside) else scope)


def module_of(text: str) -> ModuleNames:
    return ModuleNames(Document("pkg/odd.py", FileKind.PYTHON, text.encode()))


def texts() -> list[str]:
    return [ODD, *(path.read_text() for path in sorted((REPOSITORY / "codemod" / "python").glob("*.py")))]


@pytest.mark.parametrize("text", texts(), ids=range(len(texts())))
def test_nodes_parents_and_scopes_are_those_of_a_plain_walk(text: str) -> None:
    module = module_of(text)
    expected = list(plainly(module.tree, module.tree))
    assert module.nodes == [node for node, _ in expected]
    assert [module.scope_of(node).node for node in module.nodes] == [scope for _, scope in expected]
    assert all(module.parents.get(child) is node for node in module.nodes for child in children(node))
    assert module.parents.get(module.tree) is None
    assert [node for node in module.nodes if node not in module.parents] == [module.tree]
    assert list(module.scopes) == [node for node in module.nodes if isinstance(node, (*OPENING, ast.Module))]
    assert within(module.tree) == [node for node in ast.walk(module.tree) if not isinstance(node, NOTHING)]


def test_every_way_to_bind_a_name_is_seen() -> None:
    module = module_of(ODD)

    def bound(scope: Scope) -> dict[str, list[str]]:
        return {name: [binding.kind for binding in found] for name, found in scope.bindings.items()}

    top = bound(module.module_scope)
    imports = {binding.qualified for found in module.module_scope.bindings.values() for binding in found}
    assert imports >= {"a.b.c", "e", "pkg.g.h", "pkg.g.j"}
    assert module.star_imports == ["pkg"]
    assert {name for name, kinds in top.items() if kinds == ["assign"]} == {"global_1", "global_2", "bb"}
    assert (top["q"], top["I"], top["N"], top["P"], top["k"]) == (
        ["function"],
        ["class"],
        ["for"],
        ["for"],
        ["unpacked"],
    )
    function = bound(next(scope for node, scope in module.scopes.items() if getattr(node, "name", "") == "q"))
    assert [name for name, kinds in function.items() if kinds == ["parameter"]] == ["r", "s", "x", "v", "z"]
    assert (function["ww"], function["C"], function["zz"]) == (["with"], ["other"], ["augmented"])


@pytest.mark.parametrize("levels", [*range(60, 70), *range(96, 104), *range(193, 203)])
@pytest.mark.parametrize(
    "shape", ["-\\\n{}", "{}\\\n.a", "not \\\n{}", "lambda: \\\n{}", "{}.a(\n)", "{} if x \\\n else y"]
)
def test_nesting_over_many_lines_is_refused_where_a_plain_count_says(shape: str, levels: int) -> None:
    text = "x"
    for _ in range(levels):
        text = shape.format(text)
    tree = ast.parse(text)
    if plain_depth(tree) > MAX_DEPTH:
        with pytest.raises(Unparsable):
            parse_python(text)
    else:
        assert ast.dump(parse_python(text)) == ast.dump(tree)


@pytest.mark.parametrize("text", texts(), ids=range(len(texts())))
def test_slim_nodes_read_like_those_of_the_parser(text: str) -> None:
    tree = parse_python(text)
    assert ast.dump(tree, include_attributes=True) == ast.dump(ast.parse(text), include_attributes=True)
    nodes = [node for node in within(tree) if node is not tree]
    assert all(hasattr(node, "__slots__") and not node.__dict__ for node in nodes)


def plain_depth(tree: ast.AST) -> int:
    """The depth of what is not short, as the limit is defined."""
    deepest = 0
    pending: list[tuple[ast.AST, int]] = [(tree, 0)]
    while pending:
        node, depth = pending.pop()
        deepest = max(deepest, depth)
        pending += [(child, depth + 1) for child in ast.iter_child_nodes(node) if not is_short(child)]
    return deepest


def is_short(node: ast.AST) -> bool:
    if not isinstance(node, ast.stmt | ast.expr) or node.end_col_offset is None:
        return False
    return node.end_lineno == node.lineno and node.end_col_offset - node.col_offset <= MAX_DEPTH
