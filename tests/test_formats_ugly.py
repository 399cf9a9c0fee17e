"""Ugly generated texts and every configuration file of fixtures/: an edit changes what it names and nothing else.

One random entry of a text is set, removed or renamed. What the text says then, by readers that are not precfix's own,
differs in that entry alone; no other entry, no comment of another entry and no line ending is touched; the same edit
once more changes nothing. An edit may be refused, but few are.
"""

from __future__ import annotations

import copy
import random
import re
import shlex
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from precfix.codemod.formats.opening import kind_of, open_config
from precfix.codemod.formats.text import ConfigText, ConfigUnreadable, Scalar, TextEntry
from precfix.codemod.model import EditRefused, Place, ReplaceText, Span
from precfix.codemod.source.documents import Document, FileKind
from precfix.codemod.trainers.framework import Framework, FrameworkKey, Recognition
from precfix.codemod.trainers.reading.configs import ConfigFile
from precfix.codemod.trainers.reading.scopes import Setting, SettingScope, TextOrigin
from precfix.codemod.trainers.writing.steps import ChangeStep
from precfix.codemod.trainers.writing.text_editing import text_edits

from .config_layouts import Box, Leaf, json_said, jsonc_texts, load_toml, toml_texts, yaml_said, yaml_texts
from .nightly import examples
from .readers import FIXTURES, REPOSITORY
from .test_formats_shell import BASH, applied, words

UGLY = settings(
    max_examples=examples(110),
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],  # shrinking texts of this kind takes minutes
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
VALUES: tuple[Scalar, ...] = ("bf16", "no", "a: b # c", True, False, 16, 1e-5)
TREES = {"yaml": yaml_said, "json": json_said, "jsonc": json_said}


# --- what is done to a text -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Deed:
    """One edit of one entry."""

    verb: str
    number: int
    """Which entry: the remainder of a division by how many there are."""
    value: Scalar = "bf16"

    def entry(self, config: ConfigText) -> TextEntry | None:
        among = list(config.entries)
        if self.verb == "set":
            among = [entry for entry in among if entry.is_scalar and entry.style not in ("alias", "block")]
        elif self.verb == "rename":
            among = [entry for entry in among if entry.kind != "item" and isinstance(entry.key[-1], str)]
        return among[self.number % len(among)] if among else None

    def edit(self, config: ConfigText, entry: TextEntry, text: str, kind: str) -> ReplaceText:
        """The edit; raises EditRefused."""
        if self.verb == "set":
            return config.set(entry, self.value)
        if self.verb == "remove":
            return config.remove(entry)
        return _rename(text, kind, entry)


deeds = st.builds(
    Deed, st.sampled_from(["set", "set", "remove", "remove", "rename"]), st.integers(0, 999), st.sampled_from(VALUES)
)
NEW_NAME = "fp16_new"


def _rename(text: str, kind: str, entry: TextEntry) -> ReplaceText:
    """The edit that the ledger's editor makes to rename a key; raises EditRefused."""
    document = Document(f"a.{kind}", FileKind.TEXT, text.encode("utf-8", "surrogatepass"))
    config = ConfigFile(document, open_config(text, kind), document.path, kind)
    place = Place(document.path, Span(1, 1, 1, 1), "")
    key = FrameworkKey(entry.name, "compute", (), ())
    setting = Setting(key, None, "string", place, entry.name, entry.index)
    framework = Framework("own", "Own", (), Recognition(), (), ())
    origin = TextOrigin(config)
    scope = SettingScope(framework, document.path, "file", place.span, "", (setting,), False, origin)
    (edit,) = text_edits(scope, origin, [ChangeStep("rename", key, NEW_NAME, setting)]) or (None,)
    if edit is None:
        raise EditRefused("nothing to rename")
    assert isinstance(edit.operation, ReplaceText)
    return edit.operation


# --- what must hold ---------------------------------------------------------------------------------------------------


def test_the_readers_of_the_test_agree_with_the_loaders() -> None:
    (said,) = json_said('{"a": [1, /* , ] */ 2,], "a": "// x", } // end')
    assert said == Box(
        "mapping", "", [("a", Box("sequence", "", [(None, Leaf(1)), (None, Leaf(2))])), ("a", Leaf("// x"))]
    )
    (said,) = yaml_said("a: &x 1\nb: [*x, !!str 2]\n")
    assert isinstance(said, Box)
    assert [key for key, _ in said.pairs] == ["a", "b"]
    assert said.pairs[1][1] == Box(
        "sequence", "&", [(None, Leaf("*x", "alias")), (None, Leaf("2", "tag:yaml.org,2002:str"))]
    )


def check(text: str, kind: str, deed: Deed) -> str:
    """Carry out ``deed`` and compare; how it went: ``done``, ``empty``, or why it was refused."""
    config = open_config(text, kind)
    entry = deed.entry(config)
    if entry is None:
        return "empty"
    try:
        edit = deed.edit(config, entry, text, kind)
    except EditRefused as refusal:
        return str(refusal)
    after = applied(text, edit)
    assert_said(text, after, kind, config, entry, deed)
    assert_bytes(text, edit, config, entry, deed)
    assert_lasting(text, after, kind, entry, deed)
    return "done"


def assert_said(text: str, after: str, kind: str, config: ConfigText, entry: TextEntry, deed: Deed) -> None:
    """What the text says differs in the entry alone."""
    if kind == "toml":
        expected = copy.deepcopy(load_toml(text))
        box: object = expected
        for part in entry.key[:-1]:
            box = box[part]  # type: ignore[index]
        _change_plain(box, entry.key[-1], deed)
        now = load_toml(after)
        if deed.verb == "remove":  # `[a.b]` makes `a`, too
            _without_empty(expected, entry.key[:-1])
            _without_empty(now, entry.key[:-1])
        assert repr(now) == repr(expected) or now == expected, (deed, entry, after)
        return
    said, now = TREES[kind](text), TREES[kind](after)
    places = [place for root in said if isinstance(root, Box) for place in root.all()]
    assert len(places) == len(config.entries)
    _change_said(*places[entry.index], entry, deed)
    assert repr(now) == repr(said), (deed, entry, after)


def _change_plain(box: object, key: str | int, deed: Deed) -> None:
    if isinstance(box, dict):
        if deed.verb == "rename":
            items = [(NEW_NAME if name == key else name, value) for name, value in box.items()]
            box.clear()
            box.update(items)
            return
        if deed.verb == "remove":
            del box[key]
            return
    assert isinstance(box, dict | list)
    if deed.verb == "remove":
        del box[key]  # type: ignore[arg-type]
    else:
        box[key] = deed.value  # type: ignore[index, call-overload]


def _without_empty(box: object, path: tuple[str | int, ...]) -> None:
    """Take out the tables and arrays on the way to a key that hold nothing."""
    if isinstance(box, list) and path and isinstance(path[0], int) and path[0] < len(box):
        _without_empty(box[path[0]], path[1:])
    elif isinstance(box, dict) and path and path[0] in box:
        _without_empty(box[path[0]], path[1:])
        if not box[path[0]]:
            del box[path[0]]


def _change_said(box: Box, number: int, entry: TextEntry, deed: Deed) -> None:
    key, inner = box.pairs[number]
    if deed.verb == "remove":
        del box.pairs[number]
    elif deed.verb == "rename":
        box.pairs[number] = (NEW_NAME, inner)
    else:
        assert isinstance(inner, Leaf)
        assert inner.tag != "alias"
        box.pairs[number] = (key, Leaf(deed.value, inner.tag))


def assert_bytes(text: str, edit: ReplaceText, config: ConfigText, entry: TextEntry, deed: Deed) -> None:
    """The edit touches the entry, its comma and its own lines; every other entry and comment is there afterwards."""
    if deed.verb == "set":
        assert entry.start <= edit.start <= edit.end <= entry.end or edit.start == edit.end == entry.key_end, edit
        return
    if deed.verb == "rename":
        assert entry.key_start <= edit.start <= edit.end <= entry.key_end
        return
    gone = text[edit.start : edit.end]
    for other in config.entries:
        if other.document == entry.document and other.key[: len(entry.key)] == entry.key:
            continue  # itself, what is below it, and where a key repeats its namesakes
        starts = edit.start < other.start < edit.end and not other.container and other.start < other.end
        assert not starts or text[other.key_start : other.end] in edit.text, (other, gone)
    lost = Counter(_comments(gone)) - Counter(_comments(edit.text))
    own = _comments(_own_lines(text, entry, config))
    assert not lost - Counter(own), (lost, own)
    for newline in re.findall("\r\n|\r|\n", edit.text):
        assert newline in text


def _comments(text: str) -> list[str]:
    """The numbered comments in a text; in files of people the lines that are nothing but a comment."""
    return re.findall(r"(?<!\w)c\d+c(?!\w)", text) + re.findall(r"(?m)^[ \t]*(?:#|//)[^\r\n]*", text)


def _own_lines(text: str, entry: TextEntry, config: ConfigText) -> str:
    """The lines from the key to the end of the value, with comments below a block that are indented deeper."""
    first = max(text.rfind(mark, 0, entry.key_start) for mark in "\r\n") + 1
    end = max([entry.end, entry.key_end, *(each.end for each in config.entries if _is_below(each, entry))])
    following = re.compile(r"[^\r\n]*").match(text, end)
    assert following is not None
    last = following.end()
    column = len(re.split(r"[^ ]", text[first:], maxsplit=1)[0])
    if entry.container == "mapping" or entry.container == "sequence":
        end_of_line = "(?:\r\n|\r|\n)"
        below = rf"(?:{end_of_line} {{{column + 1},}}[^\r\n]*|{end_of_line}[ \t]*(?=[\r\n]|\Z))*"
        deeper = re.compile(below).match(text, last)
        last = deeper.end() if deeper else last
    return text[first:last]


def _is_below(each: TextEntry, entry: TextEntry) -> bool:
    return each.document == entry.document and each.key[: len(entry.key)] == entry.key


def assert_lasting(text: str, after: str, kind: str, entry: TextEntry, deed: Deed) -> None:
    """The same edit of the result changes nothing, or the entry is gone."""
    config = open_config(after, kind)
    if deed.verb == "set":
        again = config.entries[entry.index]
        assert applied(after, config.set(again, deed.value)) == after
    elif deed.verb == "remove" and not isinstance(entry.key[-1], int):  # the items behind move up
        names = [each.key for each in open_config(text, kind).entries if each.document == entry.document]
        left = [each.key for each in config.entries if each.document == entry.document]
        assert left.count(entry.key) == names.count(entry.key) - 1
    elif deed.verb == "rename":
        assert config.entries[entry.index].name == NEW_NAME


class Refusals:
    """Counts how edits went: a test that refuses everything proves nothing."""

    def __init__(self, share: float) -> None:
        self.share = share
        self.counts: Counter[str] = Counter()

    def note(self, outcome: str) -> None:
        self.counts[outcome] += 1

    def assert_few(self) -> None:
        done, empty = self.counts["done"], self.counts["empty"]
        refused = self.counts.total() - done - empty
        assert done > examples(40) // 2, self.counts
        assert refused <= self.share * (done + refused), self.counts.most_common(8)


GENERATED = {"yaml": (yaml_texts, 0.25), "json": (jsonc_texts, 0.1), "toml": (toml_texts, 0.15)}
"""What is drawn, and which share of the edits may be refused."""


@pytest.mark.parametrize("kind", GENERATED)
def test_generated_texts(kind: str) -> None:
    texts, share = GENERATED[kind]
    refusals = Refusals(share)

    @UGLY
    @given(texts(), st.lists(deeds, min_size=3, max_size=3))
    def run(text: str, chosen: list[Deed]) -> None:
        for deed in chosen:
            refusals.note(check(text, kind, deed))

    run()
    refusals.assert_few()


# --- files of the repository ------------------------------------------------------------------------------------------


def _files(kind: str) -> Iterator[str]:
    for path in sorted([*FIXTURES.rglob("*"), *(REPOSITORY / "transforms" / "frameworks").glob("*.yaml")]):
        if path.is_file() and kind_of(path.name) == kind and path.stat().st_size < 30_000:
            try:
                text = path.read_bytes().decode("utf-8-sig")
                open_config(text, kind)
            except (UnicodeDecodeError, ConfigUnreadable):
                continue  # some fixtures are broken on purpose
            if kind != "json" or "{{" not in text:  # templates are no JSON before they are filled in
                yield text


MOST_FILES = examples(60)


@pytest.mark.parametrize(("kind", "share"), [("yaml", 0.15), ("json", 0.1), ("toml", 0.1)])
def test_files_of_the_repository(kind: str, share: float) -> None:
    source, refusals = random.Random(6), Refusals(share)
    texts = list(_files(kind))
    for text in source.sample(texts, min(len(texts), MOST_FILES)):
        newline = source.choice(("\n", "\n", "\r\n") if kind == "toml" else ("\n", "\n", "\r\n", "\r"))
        changed = text.replace("\r\n", "\n").replace("\n", newline)
        for _ in range(4):
            verb = source.choice(("set", "set", "remove", "remove", "rename"))
            refusals.note(check(changed, kind, Deed(verb, source.randrange(10**6), source.choice(VALUES))))
    refusals.assert_few()


# --- shell ------------------------------------------------------------------------------------------------------------

WORDS = [
    "1",
    "bf16",
    "'a b'",
    '"x $HOME"',
    "a\\ b",
    "''",
    "'# no comment'",
    '"--not a flag"',
    "$((1+2))",
    "é",
    '"it\'s"',
]
FLAGS = ["--fp16", "--mixed_precision", "--a", "-b", "--lr"]
FRONTS = ["", "A=1 B='x y' ", "set -eu && ", "true; ", "if true; then ", "( ", "for i in 1 2; do ", "! false && "]
ENDS = {"if true; then ": "; fi", "( ": " )", "for i in 1 2; do ": "; done"}


@st.composite
def scripts(draw: st.DrawFn) -> str:
    """Commands with quotes, continued lines, comments, assignments, arrays, here-documents, in one script."""
    lines = ["#!/bin/bash"] if draw(st.booleans()) else []
    for _ in range(draw(st.integers(1, 3))):
        lines.append(
            draw(st.sampled_from(["", "# --fp16 is not here", "  # python t.py --fp16", "X=1", "export Y='a b'  # y"]))
        )
        lines.append(draw(_commands()))
        lines.append(
            draw(st.sampled_from(["", "", "python t.py <<'EOF'\n--fp16 1\nEOF", "cat <<EOF >/dev/null\nfp16: 1\nEOF"]))
        )
    return "\n".join(lines) + draw(st.sampled_from(["\n", "", "\n\n"]))


@st.composite
def _commands(draw: st.DrawFn) -> str:
    front = draw(st.sampled_from(FRONTS))
    gap = st.sampled_from([" ", " ", "  ", "\t", " \\\n    "])
    parts = [draw(st.sampled_from(["python t.py", "torchrun --n 1 t.py", "accelerate launch --x 2 t.py"]))]
    for flag in draw(st.lists(st.sampled_from(FLAGS), min_size=1, max_size=4, unique=True)):
        shape = draw(st.sampled_from(["bare", "word", "glued", "glued"] if flag.startswith("--") else ["word"]))
        word = draw(st.sampled_from(WORDS))
        parts.append(flag if shape == "bare" else f"{flag}={word}" if shape == "glued" else f"{flag}{draw(gap)}{word}")
    command = parts[0] + "".join(draw(gap) + part for part in parts[1:])
    if front == "" and draw(st.integers(0, 4)) == 0:
        return f'ARGS=( {" ".join(parts[1:])} )\npython t.py "${{ARGS[@]}}" --z 1'
    end = ENDS.get(front, "") or draw(
        st.sampled_from(["", "", "  # note", " | cat", " && true", " > /dev/stdout 2>&1"])
    )
    return front + command + end


@pytest.mark.skipif(BASH is None, reason="bash is not there to say what a script does")
def test_generated_scripts() -> None:
    refusals = Refusals(0.35)

    @settings(UGLY, max_examples=examples(90))
    @given(scripts(), st.integers(0, 999), st.booleans())
    def run(text: str, number: int, remove: bool) -> None:
        config = open_config(text, "shell")
        flags = [entry for entry in config.entries if entry.kind == "flag" and entry.name in FLAGS]
        if not flags:
            return refusals.note("empty")
        entry = flags[number % len(flags)]
        try:
            edit = config.remove(entry) if remove else config.set(entry, "fp32")
        except EditRefused as refusal:
            return refusals.note(str(refusal))
        after = applied(text, edit)
        assert_argv(words(text), words(after), entry, remove)
        if not remove:
            again = open_config(after, "shell")
            assert applied(after, again.set(again.entries[entry.index], "fp32")) == after
        assert [line for line in text.split("\n") if "#" in line and line.lstrip().startswith("#")] == [
            line for line in after.split("\n") if "#" in line and line.lstrip().startswith("#")
        ]
        refusals.note("done")

    run()
    refusals.assert_few()


def assert_argv(before: list[list[str]], after: list[list[str]], entry: TextEntry, remove: bool) -> None:
    """What the programs get differs in one flag of one command (which a loop may call several times)."""
    assert len(before) == len(after)
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert len({tuple(old) for old, _ in changed}) <= 1
    for old, new in changed:
        at = next((i for i in range(len(old)) if i >= len(new) or old[i] != new[i]), len(old))
        glued = f"{entry.name}="
        if remove:
            at = min(at, len(old) - 1)
            while old[at] != entry.name and not old[at].startswith(glued):
                at -= 1  # the next word was the same by chance
            size = 1 if old[at].startswith(glued) or entry.value is None else 2
            assert new == old[:at] + old[at + size :]
        elif entry.value is None:
            assert new == [*old[:at], "fp32", *old[at:]]
        elif old[at].startswith(glued):
            assert new == [*old[:at], f"{glued}fp32", *old[at + 1 :]]
        else:
            assert new == [*old[:at], "fp32", *old[at + 1 :]]


ASSIGNED = ["1", "bf16", "'a b'", '"x y"', "", '""', "'#'", "a#b"]


@UGLY
@given(
    st.lists(st.tuples(st.sampled_from("ABCDE"), st.sampled_from(ASSIGNED), st.booleans()), min_size=1, max_size=5),
    st.integers(0, 99),
    st.booleans(),
    st.sampled_from(["\n", "\r\n"]),
)
def test_generated_env_files(rows: list[tuple[str, str, bool]], number: int, remove: bool, newline: str) -> None:
    lines = [f"{'export ' if exported else ''}{name}={value}" for name, value, exported in rows]
    lines = [line for pair in zip(lines, ("# A=1", "", "  # x", "", ""), strict=False) for line in pair]
    text = newline.join(lines) + newline
    config = open_config(text, "env")
    assert [(entry.name, entry.value or "") for entry in config.entries] == _assigned(text)
    entry = config.entries[number % len(config.entries)]
    edit = config.remove(entry) if remove else config.set(entry, "fp32")
    after = applied(text, edit)
    expected = _assigned(text)
    expected[entry.index : entry.index + 1] = [] if remove else [(entry.name, "fp32")]
    assert _assigned(after) == expected
    row, before, now = text.count(newline, 0, entry.start), text.split(newline), after.split(newline)
    assert now[:row] == before[:row]
    assert now[row if remove else row + 1 :] == before[row + 1 :]


def _assigned(text: str) -> list[tuple[str, str]]:
    """What an env file sets, by the standard library."""
    found = []
    for line in text.splitlines():
        for word in shlex.split(line, comments=False) if not line.lstrip().startswith("#") else ():
            if "=" in word:
                found.append((word.partition("=")[0], word.partition("=")[2]))
    return found


@pytest.mark.skipif(BASH is None, reason="bash is not there to say what is a script")
def test_scripts_of_the_repository() -> None:
    source, refusals = random.Random(6), Refusals(0.45)
    texts = list(_files("shell"))
    for text in source.sample(texts, min(len(texts), 60)):
        config = open_config(text, "shell")
        for _ in range(3):
            if not config.entries:
                continue
            entry, remove = source.choice(config.entries), source.random() < 0.5
            try:
                edit = config.remove(entry) if remove else config.set(entry, "fp32")
            except EditRefused as refusal:
                refusals.note(str(refusal))
                continue
            after = applied(text, edit)
            assert _is_script(after) == _is_script(text), (entry, after)
            assert_bytes_of_script(text, edit, config, entry, remove)
            refusals.note("done")
    refusals.assert_few()


def _is_script(text: str) -> bool:
    assert BASH
    return subprocess.run([BASH, "-n"], input=text.encode(), capture_output=True, check=False).returncode == 0


def assert_bytes_of_script(text: str, edit: ReplaceText, config: ConfigText, entry: TextEntry, remove: bool) -> None:
    """No other entry is touched, but for those that stand in the entry itself (an array's flags) or around it."""
    if not remove:
        assert entry.start <= edit.start <= edit.end <= max(entry.end, entry.key_end)
        return
    for other in config.entries:
        inside = min(entry.key_start, entry.start) <= other.key_start and other.end <= max(entry.end, entry.key_end)
        around = other.start <= entry.key_start and entry.end <= other.end
        assert (
            inside
            or around
            or other.end <= edit.start
            or other.key_start >= edit.end
            or other.key_start == entry.key_start
        )
