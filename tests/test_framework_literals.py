"""Keys of dictionary literals and arguments of calls that tables rename, drop and add: everything else stays."""

from __future__ import annotations

import ast

import pytest
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
from precfix.codemod.trainers.reading.mapping_items import MappingItem, items_of


class Draft:
    """Edits of the value of the last statement, an assignment or an expression, by the dotted paths of its keys."""

    def __init__(self, text: str) -> None:
        self.document = Document("config.py", FileKind.PYTHON, text.encode())
        statement = self.document.tree.body[-1]
        assert isinstance(statement, ast.Assign | ast.Expr)
        self.root = statement.value
        self.operations: list[PythonOperation] = []

    def _item(self, path: str) -> MappingItem:
        return next(item for item in items_of(self.root) if item.path == path)

    def drop(self, path: str) -> None:
        item = self._item(path)
        self.operations.append(RemoveArgument(self.document.span(item.holder), item.key))

    def rename(self, path: str, name: str) -> None:
        item = self._item(path)
        self.operations.append(NameArgument(self.document.span(item.holder), item.key, name))

    def set(self, path: str, source: str) -> None:
        self.operations.append(ReplaceExpression(self.document.span(self._item(path).value), (source,)))

    def add(self, section: str, name: str, source: str) -> None:
        holder = self._item(section).value if section else self.root
        self.operations.append(SetArgument(self.document.span(holder), name, source))

    def written(self) -> str:
        return rewrite(self.document.text, self.operations)


CONFIG = """import torch  # é

config = {
    "train_batch_size": 8,
    'fp16': {
        "enabled": True,  # V100
        "loss_scale": 0,  # dynamic
    },
    **others,
    "steps": [1, 2],
}
"""


def test_a_section_changes_its_name_and_loses_a_key() -> None:
    draft = Draft(CONFIG)
    draft.drop("fp16.loss_scale")
    draft.rename("fp16", "bf16")
    expected = CONFIG.replace("'fp16'", "'bf16'").replace('        "loss_scale": 0,  # dynamic\n', "")
    assert draft.written() == expected


def test_keys_join_in_the_layout_and_quotes_of_the_others() -> None:
    draft = Draft(CONFIG)
    draft.add("fp16", "hysteresis", "2")
    draft.add("", "amp", "False")
    expected = CONFIG.replace("  # dynamic\n", '  # dynamic\n        "hysteresis": 2,\n')
    assert draft.written() == expected.replace("[1, 2],\n", '[1, 2],\n    "amp": False,\n')


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("c = {'a': 1, 'fp16': True, **more}", "c = {'a': 1, **more}"),
        ("c = {'a': 1, **more, 'fp16': True}", "c = {'a': 1, **more}"),
        ("c = {'fp16': True}", "c = {}"),
        ("c = dict(a=1, fp16=True)", "c = dict(a=1)"),
        ("c = f(x, *rest, fp16=True, **more)", "c = f(x, *rest, **more)"),
        ("c = f(fp16=True)(fp16=True, a=1)", "c = f(fp16=True)(a=1)"),
        ("c = {'fp16': False, 'a': 1, 'fp16': True}", None),
        ("c = {'fp16': (True), 'a': 1}", "c = {'a': 1}"),
        ("c = {('fp16'): True, 'a': 1}", "c = {'a': 1}"),
    ],
)
def test_a_key_leaves_or_the_edit_is_refused(before: str, after: str | None) -> None:
    draft = Draft(before)
    draft.drop("fp16")
    if after is None:
        with pytest.raises(EditRefused):
            draft.written()
    else:
        assert draft.written() == after


def test_an_argument_changes_name_and_value_where_it_stands() -> None:
    text = "x = Arguments(\n    'out', fp16 = True,  # T4\n    steps=[\n        1,\n    ],\n)\n"
    draft = Draft(text)
    draft.set("fp16", "maybe")
    draft.rename("fp16", "bf16")
    draft.add("", "tf32", "True")
    expected = text.replace("fp16 = True", "bf16 = maybe").replace("    ],\n)", "    ],\n    tf32=True,\n)")
    assert draft.written() == expected


def test_a_concatenated_key_gets_no_other_name() -> None:
    draft = Draft("c = {'fp' '16': True}")
    draft.rename("fp16", "amp")
    with pytest.raises(EditRefused):
        draft.written()


def test_crlf_and_tabs_stay() -> None:
    draft = Draft('c = {\r\n\t"fp16": True,\r\n\t"a": 1\r\n}\r\n')
    draft.drop("fp16")
    draft.add("", "bf16", "True")
    assert draft.written() == 'c = {\r\n\t"a": 1,\r\n\t"bf16": True\r\n}\r\n'
