"""Generated YAML, JSON and TOML in random layouts: edits change the data they name and nothing else."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from precfix.codemod.formats.opening import open_config
from precfix.codemod.formats.text import TextEntry
from precfix.codemod.model import EditRefused, ReplaceText

from .nightly import examples

try:
    from tomllib import loads as load_toml
except ImportError:  # Python 3.10
    import tomlkit

    def load_toml(text: str) -> dict[str, Any]:
        return dict(tomlkit.parse(text).unwrap())


SETTINGS = settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
    database=None,
)
WORDS = [
    "bf16",
    "no",
    "on",
    "yes",
    "null",
    "1e5",
    "16",
    "a b",
    "é😀",
    "x: y",
    "# c",
    "",
    "it's",
    '"q"',
    "- a",
    "{{ x }}",
]
KEYS = ["bf16", "loss_scale", "fp16", "a.b", "a b", "no", "é", "--mixed_precision", "1"]
scalars = st.one_of(
    st.sampled_from(WORDS),
    st.booleans(),
    st.integers(-10, 10**12),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=6),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=3)),
    max_leaves=8,
)
documents = st.dictionaries(st.sampled_from(KEYS), values, min_size=1, max_size=4)


def applied(text: str, edit: ReplaceText) -> str:
    return text[: edit.start] + edit.text + text[edit.end :]


def holder(data: Any, path: tuple[str | int, ...]) -> Any:
    for part in path[:-1]:
        data = data[part]
    return data


def check(text: str, data: Any, load: Any, kind: str, value: Any) -> None:
    """Set, remove and insert at every entry of ``text``, which ``load`` reads as ``data``."""
    config = open_config(text, kind)
    for entry in config.entries:
        box = holder(data, entry.key)
        if not entry.container:
            assert same(box[entry.key[-1]], entry.value)
            expected = copy.deepcopy(data)
            holder(expected, entry.key)[entry.key[-1]] = value
            agree(lambda entry=entry: config.set(entry, value), text, load, expected, entry)
        expected = copy.deepcopy(data)
        del holder(expected, entry.key)[entry.key[-1]]
        agree(lambda entry=entry: config.remove(entry), text, load, expected, entry)
        if entry.container == "mapping":
            expected = copy.deepcopy(data)
            holder(expected, entry.key)[entry.key[-1]]["new"] = value
            agree(lambda entry=entry: config.insert(entry, "new", value), text, load, expected, entry)


def agree(edit: Any, text: str, load: Any, expected: Any, entry: TextEntry) -> None:
    made = attempted(edit)
    if isinstance(made, str):
        assert any(word in made for word in ("line", "block", "null", "tag")), made
        return
    after = applied(text, made)
    assert same(load(after), expected), (entry, after)


def attempted(edit: Any) -> ReplaceText | str:
    """The edit, or why it was refused."""
    try:
        made = edit()
    except EditRefused as refusal:
        return str(refusal)
    assert isinstance(made, ReplaceText)
    return made


def same(left: Any, right: Any) -> bool:
    return repr(left) == repr(right) or left == right


@st.composite
def json_texts(draw: st.DrawFn) -> tuple[str, Any]:
    """A JSON text with random blanks and newlines between its tokens."""
    data = draw(documents)
    newline = draw(st.sampled_from(["\n", "\r\n", ""]))
    blanks = st.sampled_from(["", " ", "  ", newline + "\t", newline + "    "])

    def write(value: Any) -> str:
        gap = draw(blanks)
        if isinstance(value, dict):
            colon = draw(st.sampled_from([":", ": ", " : "]))
            inner = [f"{draw(blanks)}{json.dumps(key)}{colon}{write(item)}" for key, item in value.items()]
            return "{" + f"{gap},".join(inner) + gap + "}"
        if isinstance(value, list):
            return "[" + f"{gap},".join(draw(blanks) + write(item) for item in value) + gap + "]"
        return json.dumps(value, ensure_ascii=draw(st.booleans()))

    return write(data) + newline, data


@SETTINGS
@given(json_texts(), scalars)
def test_json(sample: tuple[str, Any], value: Any) -> None:
    text, data = sample
    check(text, json.loads(text), json.loads, "json", value)
    assert json.loads(text) == data


@SETTINGS
@given(
    documents,
    scalars,
    st.sampled_from([None, True, False]),
    st.sampled_from([None, "'", '"']),
    st.integers(2, 6),
    st.sampled_from([20, 1000]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_yaml(
    data: Any, value: Any, flow: bool | None, quote: str | None, indent: int, width: int, newline: str
) -> None:
    text = yaml.safe_dump(
        data,
        default_flow_style=flow,
        default_style=quote,
        indent=indent,
        width=width,
        allow_unicode=True,
        sort_keys=False,
    ).replace("\n", newline)
    read = yaml.safe_load(text)
    assume(isinstance(read, dict))
    assert same(read, data)
    check(text, read, yaml.safe_load, "yaml", value)


def write_toml(table: dict[str, Any], path: tuple[str, ...]) -> list[str]:
    """``table`` as TOML: small values inline, mappings below their own header."""
    lines = [f"{toml_key(key)} = {toml_value(item)}" for key, item in table.items() if not isinstance(item, dict)]
    for key, item in table.items():
        if isinstance(item, dict):
            here = (*path, key)
            lines += ["", f"[{'.'.join(map(toml_key, here))}] # table", *write_toml(item, here)]
    return lines


def toml_key(key: str) -> str:
    return json.dumps(key, ensure_ascii=False)


def toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml_key(key)} = {toml_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",\n  ".join(map(toml_value, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f") if isinstance(value, str) else repr(value)


@SETTINGS
@given(documents, scalars, st.sampled_from(["\n", "\r\n"]))
def test_toml(data: Any, value: Any, newline: str) -> None:
    text = newline.join(write_toml(data, ())).replace("\r\n", "\n").replace("\n", newline) + newline
    assert same(load_toml(text), data)
    check(text, data, load_toml, "toml", value)


def test_floats_survive() -> None:
    for number in (1e-5, 1e300, 2.0, -0.0, 3e22):
        after = applied("a: 1\n", open_config("a: 1\n", "yaml").set(open_config("a: 1\n", "yaml").entries[0], number))
        read = yaml.safe_load(after)["a"]
        assert math.copysign(1, read) == math.copysign(1, number)
        assert read == number
