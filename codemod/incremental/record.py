"""What a check keeps of its findings: which files, questions and facts each rests on, and what these were."""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from importlib import import_module
from types import FunctionType
from typing import Any

from .. import model
from ..cache.states import FileState
from ..model import Applicability, Finding
from ..source.documents import FileKind
from ..source.looks import DEFINED, FACT, FILE, PARSED, QUESTION, SKIPPED

MAX_BYTES = 256_000_000
"""Of what is packed; the record of diffusers has some 30 million."""
Leaf = tuple[Any, ...]
PACKAGE = __package__.partition(".codemod")[0]
OF_FACTS = (f"{PACKAGE}.codemod.", f"{PACKAGE}.transforms.")
OF_NO_FACTS = (f"{PACKAGE}.codemod.applying", f"{PACKAGE}.codemod.cli", f"{PACKAGE}.codemod.interactive")
"""Packages that write files or speak to the user: whatever stands in a record, nothing there is called."""

_WORDS: Mapping[str, type] = {
    name: each for name, each in vars(model).items() if isinstance(each, type) and is_dataclass(each)
}
_FIELDS = {kind: tuple(each.name for each in fields(kind)) for kind in _WORDS.values()}


@dataclass(slots=True)
class CheckRecord:
    """One check of a whole project. Sets are numbers in which leaf ``n`` is bit ``n`` (`Looks`)."""

    states: dict[str, FileState]
    """All files, in order."""
    leaves: list[Leaf] = field(default_factory=list)
    """What was looked at, as `Looks` notes it."""
    answers: dict[Leaf, int] = field(default_factory=dict)
    """For a question the files that may answer it: file ``n`` is bit ``n``."""
    parts: dict[Leaf, str] = field(default_factory=dict)
    """For a part of a file the digest of its slice."""
    facts: dict[Leaf, tuple[int, str | None]] = field(default_factory=dict)
    """For a fact what it rests on, and the mark of what it says."""
    units: dict[str, list[int]] = field(default_factory=dict)
    """What the findings of a rule in each file rest on, by the rule's code."""
    findings: dict[tuple[str, str], tuple[Finding, ...]] = field(default_factory=dict)
    """By the rule's code and path; nothing where there are none."""
    told: dict[str, dict[str, tuple[object, int]]] = field(default_factory=dict)
    """What costly facts and memos said, by name and by what was asked about (`Values`), and what each rests on."""
    regime: tuple[str, int] | None = None
    """The regime that the project declares, and what that rests on."""


def to_plain(record: CheckRecord) -> object:
    """The record as plain values; raises TypeError where that cannot be."""
    numbers = {path: number for number, path in enumerate(record.states)}
    sets: dict[int, int] = {}

    def number_of(seen: int) -> int:
        return sets.setdefault(seen, len(sets))

    leaves = [_plain_leaf(leaf, numbers) for leaf in record.leaves]
    at = {leaf: number for number, leaf in enumerate(record.leaves)}
    answers = [[at[leaf], f"{files:x}"] for leaf, files in record.answers.items()]
    parts = [[at[leaf], digest] for leaf, digest in record.parts.items()]
    facts = [[at[leaf], number_of(seen), mark] for leaf, (seen, mark) in record.facts.items()]
    units = [[code, [number_of(seen) for seen in each]] for code, each in record.units.items()]
    found = [
        [code, numbers[path], [plain(each) for each in findings]]
        for (code, path), findings in record.findings.items()
        if findings
    ]
    told = [
        [name, [[key, said, number_of(seen)] for key, (said, seen) in each.items()]]
        for name, each in record.told.items()
    ]
    regime = None if record.regime is None else [record.regime[0], number_of(record.regime[1])]
    paths = [[path, *state] for path, state in record.states.items()]
    return [paths, leaves, answers, parts, facts, units, found, regime, _packed(told, sets)]


def from_plain(value: Any) -> CheckRecord:
    """The record that plain values stand for; raises ValueError, TypeError, KeyError or the like for anything else."""
    listed, leaves, answers, parts, facts, units, found, regime, packed = value
    kept, *sets = _unpacked(packed)
    told = json.loads(kept)
    states: dict[str, FileState] = {path: (told, held, fresh) for path, told, held, fresh in listed}
    if not all(isinstance(each, str) for state in states.values() for each in state[:2]):
        raise TypeError(listed)
    paths, seen = list(states), [int(each, 16) for each in sets]
    record = CheckRecord(states, [_leaf(each, paths) for each in leaves])
    record.answers = {record.leaves[at]: int(files, 16) for at, files in answers}
    record.parts = {record.leaves[at]: digest for at, digest in parts}
    record.facts = {record.leaves[at]: (seen[number], mark) for at, number, mark in facts}
    record.units = {code: [seen[number] for number in each] for code, each in units}
    if any(len(each) != len(paths) for each in record.units.values()):
        raise ValueError(units)
    record.findings = {(code, paths[at]): tuple(map(finding_of, each)) for code, at, each in found}
    record.told = {name: {key: (said, seen[number]) for key, said, number in each} for name, each in told}
    if regime is not None:
        word, number = regime
        if not isinstance(word, str):
            raise TypeError(word)
        record.regime = (word, seen[number])
    return record


def _packed(told: object, sets: Iterable[int]) -> str:
    """Plain values, and a set in each further line, in a tenth of the space: most sets are alike."""
    packing = zlib.compressobj(1)
    parts = [packing.compress(json.dumps(told, separators=(",", ":")).encode())]
    parts += [packing.compress(b"\n%x" % seen) for seen in sets]
    return b64encode(b"".join([*parts, packing.flush()])).decode()


def _unpacked(text: str) -> list[bytes]:
    opened = zlib.decompressobj()
    data = opened.decompress(b64decode(text), MAX_BYTES)
    if not opened.eof:
        raise ValueError("too large")
    return data.split(b"\n")


def _plain_leaf(leaf: Leaf, numbers: dict[str, int]) -> list[object]:
    kind = leaf[0]
    if kind in (FILE, PARSED):
        return [kind, numbers[leaf[1]]]
    if kind in (SKIPPED, DEFINED):
        return [kind, numbers[leaf[1]], leaf[2]]
    if kind == QUESTION:
        return [kind, [each.value for each in leaf[1]], leaf[2], leaf[3]]
    return [FACT, name_of(leaf[1]), *leaf[2:]]


def _leaf(value: Sequence[Any], paths: list[str]) -> Leaf:
    kind, *rest = value
    if kind in (FILE, PARSED):
        return (kind, paths[rest[0]])
    if kind in (SKIPPED, DEFINED):
        return (kind, paths[rest[0]], str(rest[1]))
    if kind == QUESTION:
        kinds, words, also = rest
        return (kind, tuple(map(FileKind, kinds)), _strings(words), tuple(map(_strings, also)))
    if kind != FACT:
        raise ValueError(kind)
    return (kind, fact_named(rest[0]), *_strings(rest[1:]))


def _strings(values: Sequence[Any]) -> tuple[str, ...]:
    if not {str}.issuperset(map(type, values)):
        raise TypeError(values)
    return tuple(values)


def name_of(compute: Hashable) -> str:
    """Where the function of a fact is found; raises TypeError for one that is not found anywhere."""
    name = f"{getattr(compute, '__module__', '')}:{getattr(compute, '__qualname__', '')}"
    if fact_named(name) is not compute:
        raise TypeError(name)
    return name


def fact_named(name: str) -> Hashable:
    """What finds a fact of precfix; raises TypeError where there is nothing of the kind."""
    module, _, qualified = name.partition(":")
    if not module.startswith(OF_FACTS) or module.startswith(OF_NO_FACTS):
        raise TypeError(name)
    found = getattr(import_module(module), qualified, None)
    found = getattr(found, "__wrapped__", found)
    if getattr(found, "__module__", "") != module or not _takes_project(found):
        raise TypeError(name)
    return found


def _takes_project(found: object) -> bool:
    """Whether a function, or a class that is made of one, takes a project first."""
    made = found.__init__ if isinstance(found, type) else found  # type: ignore[misc]
    names = made.__code__.co_varnames if isinstance(made, FunctionType) else ()
    return names[isinstance(found, type) :][:1] in (("project",), ("_project",))


def plain(value: object) -> object:
    """Numbers, strings and lists for a finding and what it is made of; raises TypeError for anything else."""
    if value is None or (isinstance(value, bool | int | str) and not isinstance(value, Enum)):
        return value
    if isinstance(value, Applicability):
        return {"level": value.value}
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    names = _FIELDS.get(type(value))
    if names is None:
        raise TypeError(type(value).__name__)
    return {"word": type(value).__name__, "with": [plain(getattr(value, name)) for name in names]}


def finding_of(value: Any) -> Finding:
    """The finding that plain values stand for; raises ValueError, TypeError or KeyError for anything else."""
    found = _word(value)
    if not isinstance(found, Finding):
        raise TypeError(type(found).__name__)
    return found


def _word(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_word(each) for each in value)
    if not isinstance(value, dict):
        return value
    if "level" in value:
        return Applicability(value["level"])
    kind = _WORDS[value["word"]]
    return kind(*[_word(each) for each in value["with"]])
