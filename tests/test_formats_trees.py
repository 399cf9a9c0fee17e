"""YAML, JSON and TOML: every edit, read back by an independent parser, changes exactly the data it says."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from string import Template
from typing import Any

import pytest
import yaml
from precfix.codemod.formats.opening import open_config, open_within
from precfix.codemod.formats.text import ConfigText, ConfigUnreadable, TextEntry
from precfix.codemod.model import EditRefused, ReplaceText

try:
    from tomllib import loads as load_toml
except ImportError:  # Python 3.10
    import tomlkit

    def load_toml(text: str) -> dict[str, Any]:
        return dict(tomlkit.parse(text).unwrap())


YAML = {
    "accelerate": "compute_environment: LOCAL_MACHINE\nbf16: no\nmixed_precision: no # why\nn: 8\n",
    "nested": "trainer:\n  # up\n  prec: 16 # c\n  amp: {a: 1, 'b': [x, y], \"c\": on}\nlast:\n- a: 1\n  b: 2\n- c\n",
    "crlf": "a: 1\r\nb:\r\n  c: 'x' # é\r\n  d: |\r\n    t\r\n    u\r\ne: on\r\n",
    "no_final_newline": "a: 1\nb:\n  c: 2\n  d: 3",
    "empties": "bf16:\nfp16:   # none\nx: {p: , q: ''}\nl:\n-\n- 2\n",
    "anchors": "base: &b\n  p: &v yes\n  q: 1\nuse:\n  <<: *b\n  r: *v\nt: !!str yes\nk: !!bool 'true'\n",
    "unicode": "emoji 😀: '😀' # 😀\n\u00fcber: {\U0001d518: 1, b: 2}\nz: é\n",
    "flow_lines": "{\n  a: 1, # one\n  b: [ x,\n    y ],\n  c: 3 # three\n}\n",
    "dashes": "l:\n  - - 1\n    - 2\n  - {a: 1}\nm:\n- x: 1\n- y: {}\n",
    "blocks": "a: >-\n  folded\n  text\n\n# note\nb: |+\n  kept\n\nc: 1\n",
    "block_at_the_end": "a:\n  - |\n    x\n  - b: 1",
    "quoted_keys": '"a b": 1\n\'c: d\': 2\n? e\n: 3\nf: "x\\n"\n',
}
JSON = {
    "plain": '{"bf16": {"enabled": true, "loss_scale": 0}, "fp16": {"enabled": "auto"}, "n": 1E5}\n',
    "lines": '{\n    "a": 1,\n    "b": {\n        "c" : true\n    },\n    "d": [1, 2,\n      3],\n    "e": null\n}',
    "crlf": '{\r\n\t"a": 1,\r\n\t"b": "\U0001f600",\r\n\t"c": -1.5e-3\r\n}\r\n',
    "tight": '{"a":1,"b":[{"c":[]},{}],"d":"x"}',
    "spread": '{ "a" : 1 , "b" : [ 1 , 2 ] }',
    "list": '[{"a": 1}, {"a": 2}]',
    "escapes": '{"\\u00e9\\"": "a\\\\", "b": "\\ud83d\\ude00", "c": 12345678901234567890}',
}
TOML = {
    "flat": "title = \"x\" # c\nprecision = 'bf16'\nn = 1_000\nf = 1e-4\nd = 1979-05-27T07:32:00Z\n",
    "tables": 'a = 1\n[t] # head\n  k = "v"\n  list = [ 1, # one\n    2 ]\n[t.sub]\nin = { x = 1, "y z" = [true] }\n',
    "arrays": '[[p]]\nn = 1\n[[p]]\nn = 2\n[p.q]\nz = """\nm\n"""\nw = 3',
    "crlf": 'a = 1\r\n\r\n[b]\r\nc = "\U0001f600" # \u00e9\r\nd = [\r\n  1,\r\n  2,\r\n]\r\n',
    "dotted": "a.b.c = 1\na.\"d e\" = 'x'\n3 = inf\n[z.y]\n",
}
LOADERS: dict[str, Callable[[str], Any]] = {"yaml": yaml.safe_load, "json": json.loads, "toml": load_toml}
SAMPLES = [
    pytest.param(kind, text, id=f"{kind}-{name}")
    for kind, samples in (("yaml", YAML), ("json", JSON), ("toml", TOML))
    for name, text in samples.items()
]
NEW_VALUES = [
    "no",
    "bf16",
    "on",
    "1e5",
    "null",
    "16-mixed",
    "",
    "a: b # c",
    "it's",
    '"',
    "~",
    "0x1f",
    True,
    0,
    2.5,
    1e-5,
]


def applied(text: str, edit: ReplaceText) -> str:
    return text[: edit.start] + edit.text + text[edit.end :]


def holder(data: Any, path: tuple[str | int, ...]) -> tuple[Any, Any]:
    """The container of the last part of ``path``, and the key under which it is really there (YAML: typed)."""
    for part in path[:-1]:
        data = data[real_key(data, part)]
    return data, real_key(data, path[-1])


def real_key(data: Any, part: str | int) -> Any:
    if isinstance(data, list) or part in data:
        return part
    return next(key for key in data if str(key) == str(part))


def untouched(before: str, after: str, edit: ReplaceText) -> None:
    assert after.startswith(before[: edit.start])
    assert after.endswith(before[edit.end :])


def is_aliased(config: ConfigText, entry: TextEntry) -> bool:
    """Its data shows up in a second place, or it stands in a merge."""
    return bool(entry.anchor) or "<<" in entry.key or any(part == "base" for part in entry.key)


@pytest.mark.parametrize(("kind", "text"), SAMPLES)
def test_entries_are_what_the_parser_reads(kind: str, text: str) -> None:
    data = LOADERS[kind](text)
    for entry in open_config(text, kind).entries:
        if "<<" in entry.key or (isinstance(entry.value, str) and entry.raw[:4] == "1979"):
            continue
        box, key = holder(data, entry.key)
        if entry.style == "alias" or not entry.container:
            assert box[key] == entry.value
            assert text[entry.start : entry.end] == entry.raw
        else:
            assert isinstance(box[key], dict if entry.container == "mapping" else list)


@pytest.mark.parametrize("value", NEW_VALUES)
@pytest.mark.parametrize(("kind", "text"), SAMPLES)
def test_set(kind: str, text: str, value: str | bool | int | float) -> None:
    config = open_config(text, kind)
    for entry in config.entries:
        if entry.container or is_aliased(config, entry):
            continue
        try:
            edit = config.set(entry, value)
        except EditRefused:
            assert entry.style == "block" or entry.tag or (entry.style, kind) == ("absent", "yaml")
            continue
        after = applied(text, edit)
        expected = copy.deepcopy(LOADERS[kind](text))
        box, key = holder(expected, entry.key)
        box[key] = value
        assert LOADERS[kind](after) == expected, after
        untouched(text, after, edit)
        assert text[: edit.start].count("\n") + edit.text.count("\n") + text[edit.end :].count("\n") == text.count("\n")


@pytest.mark.parametrize(("kind", "text"), SAMPLES)
def test_remove(kind: str, text: str) -> None:
    config = open_config(text, kind)
    removed = 0
    for entry in config.entries:
        try:
            edit = config.remove(entry)
        except EditRefused:
            assert kind != "json"
            continue
        removed += 1
        after = applied(text, edit)
        expected = copy.deepcopy(LOADERS[kind](text))
        if "base" not in entry.key:
            drop(expected, entry, config)
            assert LOADERS[kind](after) == expected, after
        assert not after or after.endswith("\n") == text.endswith("\n") or "- |" in text
        assert set(lines(after)) - set(lines(text)) <= changed_lines(text, after)
    assert removed


def drop(data: Any, entry: TextEntry, config: ConfigText) -> None:
    if "<<" in entry.key:
        data["use"] = {"r": True}
        return
    box, key = holder(data, entry.key)
    del box[key]
    path = entry.key[:-1]
    while path and not box and not config.find(*path):  # TOML: only written through dotted keys or list numbers
        box, key = holder(data, path)
        del box[key]
        path = path[:-1]


def lines(text: str) -> list[str]:
    return [line.rstrip("\r") for line in text.split("\n")]


def changed_lines(before: str, after: str) -> set[str]:
    """At most three lines may read differently: neighbors that gave up a comma, an emptied bracket."""
    fresh = [line for line in lines(after) if line not in lines(before)]
    assert len(fresh) <= 3, fresh
    return set(fresh)


@pytest.mark.parametrize(("kind", "text"), SAMPLES)
def test_insert(kind: str, text: str) -> None:
    config = open_config(text, kind)
    sections: list[TextEntry | None] = [entry for entry in config.entries if entry.container == "mapping"]
    if isinstance(LOADERS[kind](text), dict):
        sections.append(None)
    for section in sections:
        try:
            edit = config.insert(section, "new key", "no")
        except EditRefused:
            assert "? e" in text
            continue
        after = applied(text, edit)
        expected = copy.deepcopy(LOADERS[kind](text))
        target = expected
        if section is not None:
            box, key = holder(expected, section.key)
            target = box[key]
        if "base" not in (section.key if section else ()):
            target["new key"] = "no"
            assert LOADERS[kind](after) == expected, after
        if "\r\n" in text:
            assert after.count("\n") == after.count("\r\n")
        assert after.endswith("\n") == text.endswith("\n")


def edited(text: str, kind: str, *key: str | int, value: Any = None, action: str = "remove") -> str:
    config = open_config(text, kind)
    (entry,) = config.find(*key)
    edit = config.remove(entry) if action == "remove" else config.set(entry, value)
    return applied(text, edit)


@pytest.mark.parametrize(
    ("kind", "text", "key", "after"),
    [
        ("json", '{\n  "a": 1,\n  "b": 2\n}\n', ("b",), '{\n  "a": 1\n}\n'),
        ("json", '{\n  "a": 1, // keep\n  "b": 2 // own\n}\n', ("b",), '{\n  "a": 1 // keep\n}\n'),
        ("json", '{\n  "a": 1, // own\n  "b": 2\n}\n', ("a",), '{\n  "b": 2\n}\n'),
        ("json", '{\n  "a": 1,\n  /* keep */\n  "b": 2,\n}\n', ("b",), '{\n  "a": 1,\n  /* keep */\n}\n'),
        ("json", '{"a": 1, /* b */ "b": 2}', ("b",), '{"a": 1 /* b */}'),
        ("yaml", "a: 1\n# keep\nb: 2 # own\n# keep too\n", ("b",), "a: 1\n# keep\n# keep too\n"),
        ("yaml", "s:\n  only: 1 # own\nt: 1\n", ("s", "only"), "s:\n  {}\nt: 1\n"),
        ("yaml", "s:\n- 1 # own\nt: 1\n", ("s", 0), "s:\n  []\nt: 1\n"),
        ("yaml", "- s:\n  - 1\n", (0, "s", 0), "- s:\n    []\n"),
        ("yaml", "s:\n  a: 1\n  # inner\nt: 1\n", ("s",), "t: 1\n"),
        ("yaml", "- a: 1\n  b: 2\n", (0, "a"), "- b: 2\n"),
        ("yaml", "x: {a: 1, b: 2,}\n", ("x", "b"), "x: {a: 1,}\n"),
        ("yaml", "x: {a: 1}\n", ("x", "a"), "x: {}\n"),
        ("toml", "a = 1 # own\n# keep\nb = 2\n", ("a",), "# keep\nb = 2\n"),
        ("toml", "[a]\nx = 1\n\n[b]\ny = 1\n", ("a",), "\n[b]\ny = 1\n"),
        ("toml", "x = { a = 1, b = 2 }\n", ("x", "b"), "x = { a = 1 }\n"),
    ],
)
def test_exact_removals(kind: str, text: str, key: tuple[str | int, ...], after: str) -> None:
    assert edited(text, kind, *key) == after


@pytest.mark.parametrize(
    ("kind", "text", "value", "after"),
    [
        ("yaml", "a: no\n", "no", "a: 'no'\n"),
        ("yaml", 'a: "x"\n', "no", 'a: "no"\n'),
        ("yaml", "a: True # c\n", False, "a: False # c\n"),
        ("yaml", "a: YES\n", False, "a: NO\n"),
        ("yaml", "a: off\n", True, "a: on\n"),
        ("yaml", "a:   # c\n", "bf16", "a: bf16   # c\n"),
        ("yaml", "a: &x yes\n", "bf16", "a: &x bf16\n"),
        ("yaml", "a: 1\n", 1e-05, "a: 1.0e-05\n"),
        ("yaml", "a: 1\n", "\x07\U00018cd6", 'a: "\\x07\\U00018cd6"\n'),
        ("yaml", "a: 1\n", "16", "a: '16'\n"),
        ("yaml", "a: 1\n", "16-mixed", "a: 16-mixed\n"),
        ("json", '{"a":  "True" }', False, '{"a":  false }'),
        ("toml", "a = 'x'\n", "bf16", "a = 'bf16'\n"),
        ("toml", 'a = "x" # c\n', "bf16", 'a = "bf16" # c\n'),
    ],
)
def test_exact_spellings(kind: str, text: str, value: Any, after: str) -> None:
    assert edited(text, kind, "a", value=value, action="set") == after


def test_duplicates_documents_and_templates() -> None:
    config = open_config("a: 1\na: 2\n---\na: 3\nt: {{ x }}\nu: ${BF16}\n", "yaml")
    assert [entry.document for entry in config.find("a")] == [0, 0, 1]
    (template,) = config.find("t")
    assert (template.style, template.is_scalar) == ("template", False)
    assert config.find("u")[0].value == "${BF16}"
    with pytest.raises(EditRefused):
        config.set(template, "x")
    assert [entry.value for entry in open_config('{"a": 1, "a": 2}', "json").find("a")] == [1, 2]


def test_texts_to_fill_in_change_beside_their_placeholders() -> None:
    text = '{"batch": $batch, "fp16": {"enabled": true, "scale": ${scale}}, "name": "${name}"}'
    config = open_config(text, "json")
    assert [(entry.name, entry.style) for entry in config.entries if not entry.is_scalar and not entry.container] == [
        ("batch", "template"),
        ("scale", "template"),
    ]
    after = applied(text, config.set(config.find("fp16", "enabled")[0], False))
    filled = json.loads(Template(after).substitute(batch=4, scale=0, name="x"))
    assert filled == {"batch": 4, "fp16": {"enabled": False, "scale": 0}, "name": "x"}
    for entry in (config.find("batch")[0], config.find("fp16")[0]):
        with pytest.raises(EditRefused):
            config.remove(entry)
    with pytest.raises(EditRefused):
        config.set(config.find("batch")[0], 8)


def test_nothing_is_known_or_written_where_a_template_picks_its_lines() -> None:
    text = '{"a": 1,\n{% if bf16 %}\n"bf16": {"enabled": true}\n{% else %}\n"fp16": {"enabled": true}\n{% endif %}\n}'
    config = open_config(text.replace("true}\n", "true},\n"), "json")
    (entry,) = config.find("fp16", "enabled")
    assert (entry.value, entry.raw) == (None, "true")
    with pytest.raises(EditRefused):
        config.set(entry, False)


def test_aliases_point_to_their_anchor() -> None:
    config = open_config("a: &v yes\nb: *v\nc: !ref <x>\n", "yaml")
    anchored, alias, tagged = config.entries
    assert (alias.style, alias.alias_of, alias.value) == ("alias", anchored.index, True)
    for entry, action in ((alias, config.set), (tagged, config.set)):
        with pytest.raises(EditRefused):
            action(entry, "x")
    with pytest.raises(EditRefused):
        config.remove(anchored)
    assert applied("a: &v yes\nb: *v\nc: !ref <x>\n", config.remove(alias)) == "a: &v yes\nc: !ref <x>\n"


def test_hostile_tags_are_only_text() -> None:
    text = "a: !!python/object/apply:os.system ['x']\nb: !new:torch.nn.Linear\n  in: 1\nc: no\n"
    config = open_config(text, "yaml")
    assert config.find("c")[0].value is False
    assert applied(text, config.set(config.find("c")[0], "bf16")) == text.replace("c: no", "c: bf16")


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("yaml", "{% if x %}\na: [\n{% endif %}\n", "template"),
        ("yaml", "a:\n\tb: 1\n", "not YAML"),
        ("yaml", "a: [1\n", "not YAML"),
        ("yaml", "a: *x\n", "undefined alias"),
        ("yaml", 'a: "\\UFFFFFFFF"\n', "not YAML"),
        ("yaml", "a: \x00\n", "not YAML"),
        ("yaml", "[" * 5000, "YAML|deep"),
        ("yaml", "{a: " * 300 + "1" + "}" * 300, "deeper"),
        ("yaml", "".join("  " * i + "a:\n" for i in range(300)), "deeper"),
        ("json", "[" * 100_000, "deeper"),
        ("json", '{"a": ' * 300, "deeper"),
        ("json", "{a: 1}", "double quotes"),
        ("json", '{"a": undefined}', "not a JSON value"),
        ("json", '{"a": {{ x }}, b}', "double quotes"),
        ("json", '{"a": "\\x"}', "escape"),
        ("json", '{"a": 1} x', "after the end"),
        ("json", "", "JSON value"),
        ("json", '{"a": 1', "expected"),
        ("json", '{,"a": 1}', "key"),
        ("toml", "a = 1\na = 2\n", "TOML"),
        ("toml", "a = [1, 2\n", "expected"),
        ("toml", "a = " + "[" * 1000, "deeper"),
        ("toml", "a" + ".a" * 1000 + " = 1\n", "parts"),
        ("toml", "[a\nb = 1\n", "header"),
        ("toml", "a = nope\n", "TOML value"),
        ("toml", "a = 1 b = 2\n", "after the end"),
        ("toml", "just text\n", "key"),
    ],
)
def test_unreadable(kind: str, text: str, reason: str) -> None:
    with pytest.raises(ConfigUnreadable, match=reason) as caught:
        open_config(text, kind)
    assert caught.value.row >= 1


@pytest.mark.parametrize(
    "text",
    [
        '// c\n{"a": .5, "b": +1, "c": 1., "d": NaN, "e": -Infinity, /* x */ "f": [1, 2,],}',
        '{"a": 1,\n // "b": 2,\n "c": 3\n}',
        '{"a": "line\nbreak\ttab", "b": 1}',
    ],
)
def test_tolerant_json(text: str) -> None:
    config = open_config(text, "json")
    for entry in config.entries:
        after = applied(text, config.remove(entry))
        left = [other.key for other in open_config(after, "json").entries]
        gone = [other.key for other in config.entries if other.key[: len(entry.key)] == entry.key]
        if entry.kind == "pair":
            assert left == [other.key for other in config.entries if other.key not in gone]
    assert open_config(applied(text, config.insert(None, "k", 1)), "json").find("k")[0].value == 1


def test_within_moves_offsets_and_guards_expansion() -> None:
    text = 'cat > a.json <<EOF\n{"bf16": {"enabled": true}}\nEOF\n'
    shell = open_config(text, "shell")
    (body,) = shell.heredocs
    inner = open_within(text, body.start, body.end, "json", literal=body.quoted)
    (entry,) = inner.find("bf16", "enabled")
    assert text[entry.start : entry.end] == "true"
    assert applied(text, inner.set(entry, "auto")) == text.replace("true", '"auto"')
    assert '"x": 1' in applied(text, inner.insert(inner.find("bf16")[0], "x", 1))
    with pytest.raises(EditRefused):
        inner.set(entry, "$HOME")


def test_unusual_yaml_line_ends_are_not_cut_through() -> None:
    text = "a: 1\u2028b: 2\u2028c: [x, # n\u2028 y]\n"
    config = open_config(text, "yaml")
    assert applied(text, config.remove(config.find("b")[0])) == "a: 1\u2028c: [x, # n\u2028 y]\n"
    with pytest.raises(EditRefused):
        config.remove(config.find("c", 0)[0])
