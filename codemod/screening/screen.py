"""Which findings count and which fixes may be used, by the settings, comments, a baseline and ``--diff-base``.

Asked in every round of a run, so a finding that does not count is not repaired either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from ..model import Applicability, Finding, Fix, Rule
from ..outcome import Screened, Silence, Silenced
from ..settings.settings import ProjectSettings
from ..settings.settings_tree import SettingsTree
from ..source.project import Project
from .baseline import Baseline
from .changed_lines import ChangedLines, carried_over
from .path_patterns import PathPatterns
from .selection import Selection, fix_selectors, matches
from .suppressing import silence


@dataclass(slots=True)
class Screen:
    """The conditions of a run; call it with a project and what was found in it."""

    root: Path
    settings: SettingsTree
    ran: Sequence[Rule]
    known: Sequence[Rule]
    """All rules there are, also those that did not run."""
    command_line: tuple[tuple[str, ...] | None, tuple[str, ...]] = (None, ())
    """``--select`` and ``--ignore``: they hold for every file."""
    baseline: Baseline | None = None
    changed: ChangedLines | None = None
    outdated: int = 0
    """After a call: the entries of the baseline that no longer occur."""
    always: str = ""
    """A rule that speaks though no settings take it: what was asked for by an option of its own."""
    shown_only: frozenset[str] = frozenset()
    """Rules whose fixes are told and not carried out: they have nothing to do with the move that was asked for."""
    whole: bool = True
    """Whether the project was read as a whole: in a part of it, comments may seem to have no use."""
    _known_rows: dict[tuple[str, str], set[int]] | None = None
    """File and rule -> the rows on the disk of what the baseline knows, once it was asked."""
    _taken: dict[ProjectSettings, frozenset[str]] = field(default_factory=dict)
    _patterns: dict[ProjectSettings, list[tuple[PathPatterns, tuple[str, ...]]]] = field(default_factory=dict)

    def __call__(self, project: Project, found: tuple[Finding, ...]) -> Screened:
        """Part findings into those that count and those that do not, and leave to each the fixes that may be used."""
        # first: it says which comments have a use
        screened = silence(project, found, self.ran, self.known, self.whole)
        counting = tuple(finding for finding in screened.findings if self._selected(finding))
        silenced = [each for each in screened.silenced if self._selected(each.finding)]
        ignored = [finding for finding in counting if self._ignored(finding)]
        silenced += [Silenced(finding, Silence.SETTINGS) for finding in ignored]
        counting = _less(counting, ignored)
        if self.baseline is not None:
            counting, known, self.outdated = self.baseline.part(counting, project, partial(self._may_find, project))
            if self._known_rows is None:
                self._known_rows = _rows_by_rule(known)
            edited = tuple(_where_known(project, counting, self._known_rows))
            counting, known = _less(counting, edited), (*known, *edited)
            silenced += [Silenced(finding, Silence.BASELINE) for finding in known]
        if self.changed is not None:
            old = [finding for finding in counting if not self.changed.touches(project, finding)]
            silenced += [Silenced(finding, Silence.UNCHANGED) for finding in old]
            counting = _less(counting, old)
        return Screened(tuple(self._with_usable_fixes(finding) for finding in counting), tuple(silenced))

    def _selected(self, finding: Finding) -> bool:
        return finding.code == self.always or self._takes(finding.path, finding.code)

    def _takes(self, path: str, code: str) -> bool:
        """Whether the settings nearest to the file let the rule speak."""
        settings = self.settings.of(path)
        if settings not in self._taken:
            select, ignore = self.command_line
            selection = Selection.of(settings, select, ignore)
            self._taken[settings] = frozenset(rule.code for rule in self.ran if selection.takes(rule))
        return code in self._taken[settings]

    def _may_find(self, project: Project, path: str, code: str) -> bool:
        """Whether this run would tell of a finding of the rule in the file."""
        return project.is_checked(path) and any(rule.code == code for rule in self.ran) and self._takes(path, code)

    def _ignored(self, finding: Finding) -> bool:
        settings = self.settings.of(finding.path)
        if settings not in self._patterns:
            self._patterns[settings] = [
                (PathPatterns([pattern], self.root), codes) for pattern, codes in settings.per_file_ignores
            ]
        return any(
            any(matches(code, finding.code, finding.name) for code in codes) and patterns.match(finding.path)
            for patterns, codes in self._patterns[settings]
        )

    def _with_usable_fixes(self, finding: Finding) -> Finding:
        if finding.code in self.shown_only:
            return replace(finding, fixes=tuple(_only_shown(finding, fix) for fix in finding.fixes))
        settings = self.settings.of(finding.path)
        if not finding.fixes or settings.path is None:
            return finding
        fixable = settings.fixable is None or _means(settings.fixable, finding)
        if not fixable or _means(settings.unfixable, finding):
            return replace(finding, fixes=())
        return replace(finding, fixes=tuple(_trusted(finding, fix, settings) for fix in finding.fixes))


def _rows_by_rule(findings: Iterable[Finding]) -> dict[tuple[str, str], set[int]]:
    rows: dict[tuple[str, str], set[int]] = {}
    for finding in findings:
        rows.setdefault((finding.path, finding.code), set()).add(finding.span.row)
    return rows


def _where_known(
    project: Project, findings: Iterable[Finding], known: Mapping[tuple[str, str], set[int]]
) -> Iterator[Finding]:
    """Those whose line a fix of this run has edited, where the baseline knew the same of the line on the disk."""
    places: dict[tuple[str, str], frozenset[int]] = {}
    for finding in findings:
        key = finding.path, finding.code
        document, on_disk = project.document(finding.path), project.unchanged_document(finding.path)
        if key not in known or document is None or on_disk is None or document.data == on_disk.data:
            continue
        if key not in places:
            places[key] = carried_over(known[key], on_disk, document)
        if finding.span.row in places[key]:
            yield finding


def _means(selectors: Sequence[str], finding: Finding) -> bool:
    return any(matches(selector, finding.code, finding.name) for selector in selectors)


def _only_shown(finding: Finding, fix: Fix) -> Fix:
    message = f"{fix.message}; a move leaves this: migrate without --to, or with --fix {finding.code}={fix.name}"
    return replace(fix, applicability=Applicability.DISPLAY_ONLY, message=message)


def _trusted(finding: Finding, fix: Fix, settings: ProjectSettings) -> Fix:
    """The fix with the applicability that the settings give it; what is only displayed is never written."""
    if fix.applicability is Applicability.DISPLAY_ONLY:
        return fix
    if _listed(settings.extend_unsafe_fixes, finding, fix):
        return replace(fix, applicability=Applicability.UNSAFE)
    if _listed(settings.extend_safe_fixes, finding, fix):
        return replace(fix, applicability=Applicability.SAFE)
    return fix


def _listed(entries: Sequence[str], finding: Finding, fix: Fix) -> bool:
    return any(
        matches(rule, finding.code, finding.name) and name in ("", fix.name) for rule, name in fix_selectors(entries)
    )


def _less(findings: Sequence[Finding], others: Sequence[Finding]) -> tuple[Finding, ...]:
    left_out = set(others)
    return tuple(finding for finding in findings if finding not in left_out)
