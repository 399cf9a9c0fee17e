"""Dictionary literals and calls in Python, ugly ones: one key changes, every other one keeps its bytes."""

from __future__ import annotations

import ast
import random
from collections import Counter

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from precfix.codemod.model import (
    EditRefused,
    NameArgument,
    PythonOperation,
    RemoveArgument,
    ReplaceExpression,
    SetArgument,
)
from precfix.codemod.rewrite import rewrite
from precfix.codemod.source.documents import Document, FileKind
from precfix.codemod.trainers.reading.mapping_items import items_of

from .nightly import examples
from .rewrite_oracle import comments

NAMES = ["fp16", "bf16", "precision", "é", "loss_scale"]
SCALARS = [
    "True",
    "'fp16'",
    '"bf16"',
    "torch.float16",
    "1e-5",
    "'# no'",
    "f(a, *b)",
    "lambda x: (x, 1)",
    "[1,\n 2]",
    "'''a\nb'''",
]


@st.composite
def literals(draw: st.DrawFn, depth: int = 2, kind: str = "") -> str:
    """``{...}`` or ``dict(...)``, over several lines, with comments, nested ones, ``**more``."""
    kind = kind or draw(st.sampled_from(["{", "{", "dict(", "cfg.Trainer("]))
    names = draw(st.lists(st.sampled_from(NAMES), min_size=0, max_size=4, unique=True))
    wide = draw(st.booleans())
    gap = "\n    " if wide else draw(st.sampled_from(["", " "]))
    members = []
    for number, name in enumerate(names):
        nested = depth and draw(st.integers(0, 4)) == 0
        value = draw(literals(depth - 1)) if nested else draw(st.sampled_from(SCALARS))
        quote = draw(st.sampled_from("'\""))
        colon = draw(st.sampled_from([": ", ":", " : "]))
        member = (
            f"{quote}{name}{quote}{colon}{value}"
            if kind == "{"
            else f"{name}{draw(st.sampled_from(['=', ' = ']))}{value}"
        )
        before = f"# before {number}{depth}\n    " if wide and draw(st.integers(0, 5)) == 0 else ""
        after = f"  # after {number}{depth}" if wide and draw(st.integers(0, 3)) == 0 else ""
        comma = "," if number + 1 < len(names) or draw(st.booleans()) else ""
        members.append(f"{gap}{before}{member}{comma}{after}")
    if draw(st.integers(0, 9)) == 0 and (
        not members or "," in members[-1].rpartition("#")[0] or members[-1].endswith(",")
    ):
        members.append(f"{gap}**more")
    closing = "\n" if wide or (members and "#" in members[-1]) else ""
    return f"{kind}{''.join(members)}{closing}{'}' if kind == '{' else ')'}"


@settings(
    max_examples=examples(250),
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(
    literals(),
    st.integers(0, 10**6),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from(["x = ", "f(1, ", "    y = "]),
)
def _try_edits(literal: str, seed: int, newline: str, front: str) -> None:
    source = random.Random(seed)
    lead = "if a:\n" if front.startswith(" ") else ""
    text = f"# é\n{lead}{front}{literal}{')' if '(' in front else ''}  # end\nz = 1\n".replace("\n", newline)
    document = Document("a.py", FileKind.PYTHON, text.encode())
    root = _root(document.tree, front)
    items = list(items_of(root))
    if not items:
        COUNTS["empty"] += 1
        return
    item = source.choice(items)
    verb = source.choice(("set", "rename", "drop", "add"))
    holder = document.span(item.holder)
    operation: PythonOperation = {
        "add": SetArgument(document.span(root), "added", "torch.bfloat16"),
        "set": ReplaceExpression(document.span(item.value), ("None",)),
        "rename": NameArgument(holder, item.key, "renamed"),
        "drop": RemoveArgument(holder, item.key),
    }[verb]
    try:
        after = rewrite(text, [operation])
    except EditRefused as refusal:
        COUNTS[str(refusal)] += 1
        return
    _check(text, after, item.path, verb, front)
    rows = range(item.value.lineno, (item.value.end_lineno or 0) + 1)  # the key's row, too, in these texts
    lost = comments(text) - comments(after)
    assert all(any(comment in document.line(row) for row in rows) for comment in lost) or verb not in ("set", "drop")
    COUNTS["done"] += 1


COUNTS: Counter[str] = Counter()


def _root(tree: ast.Module, front: str) -> ast.Dict | ast.Call:
    statement = tree.body[0]
    if isinstance(statement, ast.If):
        statement = statement.body[0]
    assert isinstance(statement, ast.Assign | ast.Expr)
    value: ast.expr = statement.value
    if "(" in front:
        assert isinstance(value, ast.Call)
        value = value.args[1]
    assert isinstance(value, ast.Dict | ast.Call)
    return value


def _check(text: str, after: str, path: str, verb: str, front: str) -> None:
    before, now = _said(text, front), _said(after, front)
    below = [key for key, _ in before if key == path or key.startswith(f"{path}.")]
    rest = [pair for pair in before if pair[0] not in below]
    if verb == "add":
        assert _without(now, "added") == before
        assert now.count(("added", "torch.bfloat16")) == 1
    elif verb == "set":
        assert [pair for pair in now if pair[0] != path] == rest
        assert (path, "None") in now
    elif verb == "rename":
        new = f"{path.rpartition('.')[0]}.renamed".lstrip(".")
        assert [
            (key.replace(new, path, 1) if key == new or key.startswith(f"{new}.") else key, value) for key, value in now
        ] == before
    else:
        assert now == rest
    lost = comments(text) - comments(after)
    assert verb in ("set", "drop") or not lost
    assert after.startswith(text[: text.index(front)])
    assert after.replace("\r\n", "\n").replace("\r", "\n").endswith("  # end\nz = 1\n")
    if "\n" not in text:
        assert "\n" not in after


def _said(text: str, front: str) -> list[tuple[str, str]]:
    """Every leaf of the literal, by its dotted path, and what else stands in it (``**more``)."""
    return list(_leaves(_root(ast.parse(text), front), ""))


def _leaves(node: ast.Dict | ast.Call, above: str) -> list[tuple[str, str]]:
    if isinstance(node, ast.Dict):
        pairs = [
            (key.value if isinstance(key, ast.Constant) else "**", value)
            for key, value in zip(node.keys, node.values, strict=True)
        ]
    else:
        pairs = [(keyword.arg or "**", keyword.value) for keyword in node.keywords]
    found: list[tuple[str, str]] = []
    for name, value in pairs:
        path = f"{above}.{name}".lstrip(".")
        is_box = isinstance(value, ast.Dict) or (
            isinstance(value, ast.Call) and ast.unparse(value.func) in ("dict", "cfg.Trainer")
        )
        if isinstance(value, ast.Dict | ast.Call) and is_box:
            found += [(path, "{"), *_leaves(value, path)]
        else:
            found.append((path, ast.unparse(value)))
    return found


def _without(said: list[tuple[str, str]], path: str) -> list[tuple[str, str]]:
    return [pair for pair in said if pair[0] != path]


def test_random_edits_of_ugly_literals() -> None:
    COUNTS.clear()
    _try_edits()
    refused = COUNTS.total() - COUNTS["done"] - COUNTS["empty"]
    assert COUNTS["done"] > examples(100), COUNTS
    assert refused < COUNTS["done"] / 10, COUNTS
