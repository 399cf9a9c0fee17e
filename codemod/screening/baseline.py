"""The baseline: findings that a team knows of and does not want to hear of again, in a file that goes into git.

An entry names a finding by its fingerprint (rule, file and text of the line), so it holds while lines move, and ends
when the line is edited or the file renamed. Equal lines of one file share an entry, which then counts them. Files are
named as seen from the folder of the baseline: it holds whatever part of the project precfix is started on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ..model import Finding, UsageError
from ..report.fingerprints import fingerprint
from ..report.tally import in_order
from ..source.project import Project
from ..source.reading import FileRefused, read_regular_file

VERSION = 1
MAX_BYTES = 50_000_000


@dataclass(frozen=True, slots=True)
class KnownFinding:
    """A finding that is known: its file as seen from the baseline's folder, its rule, and how often it occurs."""

    path: str
    code: str
    count: int


@dataclass(frozen=True, slots=True)
class Baseline:
    """What is known, by fingerprint."""

    path: Path
    entries: Mapping[str, KnownFinding]

    def part(
        self, findings: Iterable[Finding], project: Project, may_find: Callable[[str, str], bool]
    ) -> tuple[tuple[Finding, ...], tuple[Finding, ...], int]:
        """Findings that are new, those that are known, and how many entries no longer occur.

        ``may_find`` says whether a rule (code) would be told of in a file (path) of the project: of entries that this
        run cannot meet nobody knows whether they still occur.
        """
        left = {name: entry.count for name, entry in self.entries.items()}
        names = _Names(self.path, project)
        new, known = [], []
        for finding in in_order(findings):
            name = names.fingerprint(finding)
            if left.get(name, 0) > 0:
                left[name] -= 1
                known.append(finding)
            else:
                new.append(finding)
        unread = {skip.path for skip in project.skipped}
        paths = {names.of(path): path for path in project.paths if path not in unread}
        gone = sum(
            left[name]
            for name, entry in self.entries.items()
            if left[name] and may_find(paths.get(entry.path, ""), entry.code) and names.is_here(entry.path, paths)
        )
        return tuple(new), tuple(known), gone


class _Names:
    """The files of a project as seen from the folder of a baseline, so that it holds wherever precfix is started."""

    def __init__(self, baseline: Path, project: Project) -> None:
        self._project = project
        self._root = os.fspath(project.root)
        self._folder = os.path.dirname(os.path.realpath(baseline))

    def of(self, path: str) -> str:
        """``src/train.py`` of the project as ``../src/train.py`` or the like."""
        return os.path.relpath(os.path.join(self._root, path), self._folder).replace(os.sep, "/")

    def fingerprint(self, finding: Finding) -> str:
        return fingerprint(replace(finding, path=self.of(finding.path)), lambda _: self._project.document(finding.path))

    def is_here(self, name: str, paths: Mapping[str, str]) -> bool:
        """Whether a file was looked at, or is gone from below the project's root."""
        if name in paths:
            return True
        full = os.path.normpath(os.path.join(self._folder, name))
        return full.startswith(self._root.rstrip(os.sep) + os.sep) and not os.path.lexists(full)


def read_baseline(path: Path) -> Baseline:
    """The baseline in a file; raises UsageError when there is none, or it is something else."""
    try:
        raw = json.loads(read_regular_file(str(path), MAX_BYTES))
        if raw["version"] != VERSION:
            raise UsageError(f"{path}: a baseline of version {raw['version']!r}; this precfix reads {VERSION}")
        entries: dict[str, KnownFinding] = {}
        for each in raw["findings"]:
            entry = KnownFinding(each["filename"], each["code"], each["count"])
            name = each["fingerprint"]
            texts = (name, entry.path, entry.code)
            if not all(isinstance(text, str) for text in texts) or type(entry.count) is not int or entry.count < 1:
                raise ValueError(f"an entry is {each!r}")
            entries[name] = replace(entry, count=entry.count + entries[name].count) if name in entries else entry
    except OSError as error:
        raise UsageError(f"{path}: {(error.strerror or 'cannot be read').lower()}; --write-baseline makes it") from None
    except FileRefused as error:
        raise UsageError(f"{path}: {error}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(f"{path}: not a baseline of precfix: {_short(error)}") from None
    return Baseline(path, entries)


def _short(error: Exception) -> str:
    said = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    return said if len(said) < 120 else said[:117] + "..."


def baseline_text(path: Path, findings: Iterable[Finding], project: Project) -> str:
    """The file at ``path`` for these findings: JSON, ordered by file and rule, one entry a line so that git merges it.

    ``line`` is there for readers; it is not read back.
    """
    entries: dict[str, dict[str, str | int]] = {}
    names = _Names(path, project)
    for finding in in_order(findings):
        name = names.fingerprint(finding)
        document = project.document(finding.path)
        line = document.line(finding.span.row).strip() if document is not None else ""
        entry: dict[str, str | int] = {"filename": names.of(finding.path), "code": finding.code, "line": line[:200]}
        count = entries.get(name, {"count": 0})["count"]
        entries[name] = {**entry, "fingerprint": name, "count": int(count) + 1}
    ordered = sorted(entries.values(), key=lambda entry: (entry["filename"], entry["code"], entry["fingerprint"]))
    rows = ",\n".join("    " + json.dumps(entry) for entry in ordered)
    return f'{{\n  "version": {VERSION},\n  "findings": [\n{rows}\n  ]\n}}\n'
