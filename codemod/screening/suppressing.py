"""Which findings the comments of a project silence, and which of these comments silence nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from ..formats.opening import open_config
from ..formats.text import ConfigUnreadable
from ..model import Edit, Finding, Fix, Place, ReplaceText, Rule, Span
from ..outcome import UNUSED_SUPPRESSION, Screened, Silence, Silenced
from ..proof.needs import SameResult
from ..proof.proving import proved
from ..source.documents import Document, Unparsable
from ..source.project import Project
from .comments import DATA_KINDS, dialect_of, layout_of
from .selection import matches, similar
from .suppressions import Suppression, suppressed_documents, suppressions_of

_LETTERS_FOR_DIGITS = str.maketrans("OIL", "011")


def silence(
    project: Project, findings: Iterable[Finding], ran: Sequence[Rule], known: Sequence[Rule], whole: bool = True
) -> Screened:
    """Part ``findings`` by the comments in their files.

    When the rule PF002 is among those that ``ran``, findings about comments that silence nothing are added. A comment
    is judged only when all rules that it names did run and say the same on every machine and for every target;
    ``known`` are all rules there are. None is called unused when the project is not read as a ``whole``: what makes the
    finding may stand in another file. Fixes that would touch a file with a bare ``ignore-file`` are taken away.
    """
    comments = project.fact(_comments)
    kept: list[Finding] = []
    silenced: list[Silenced] = []
    used: dict[Suppression, set[str]] = {}
    for finding in findings:
        found = [*_silencers(comments.get(finding.path, ()), finding)]
        for suppression, codes in found:
            used.setdefault(suppression, set()).update(codes)
        if found:
            reason = next((each.reason for each, _ in found if each.reason), "")
            silenced.append(Silenced(finding, Silence.COMMENT, reason))
        else:
            kept.append(finding)
    rule = next((rule for rule in ran if rule.code == UNUSED_SUPPRESSION), None)
    if rule is not None:
        here = {path: found for path, found in comments.items() if project.is_checked(path)}
        about = _Judge(project, rule, ran, known, used, whole).judged(here)
        kept, silenced = [*kept, *about.findings], [*silenced, *about.silenced]
    return Screened(tuple(sorted(without_protected_edits(project, kept), key=_place)), tuple(silenced))


def without_protected_edits(project: Project, findings: Iterable[Finding]) -> list[Finding]:
    """The findings without the fixes that would edit a file with a bare ``ignore-file``."""
    protected = {path for path, found in project.fact(_comments).items() if any(each.protects for each in found)}
    if not protected:
        return list(findings)
    return [
        replace(finding, fixes=allowed) if len(allowed) < len(finding.fixes) else finding
        for finding in findings
        for allowed in [tuple(fix for fix in finding.fixes if not _touches(fix, protected))]
    ]


def _touches(fix: Fix, paths: set[str]) -> bool:
    return any(edit.path in paths for edit in fix.edits)


def _comments(project: Project) -> dict[str, tuple[Suppression, ...]]:
    found = ((document.path, suppressions_of(document)) for document in suppressed_documents(project))
    return {path: suppressions for path, suppressions in found if suppressions}


def _silencers(suppressions: Sequence[Suppression], finding: Finding) -> Iterator[tuple[Suppression, list[str]]]:
    """The comments that silence a finding, each with those of its codes that mean it."""
    for each in suppressions:
        if each.covers(finding.span.row):
            codes = [code for code in each.codes if matches(code, finding.code, finding.name)]
            if codes or each.protects:
                yield each, codes


def _place(finding: Finding) -> tuple[str, Span, str, str]:
    return finding.path, finding.span, finding.code, finding.message


@dataclass(frozen=True, slots=True)
class _Judge:
    """Says what is wrong with comments; ``used`` are the codes of each that have silenced something."""

    project: Project
    rule: Rule
    ran: Sequence[Rule]
    known: Sequence[Rule]
    used: dict[Suppression, set[str]]
    whole: bool
    _verdicts: dict[str, bool] = field(default_factory=dict)

    def judged(self, comments: dict[str, tuple[Suppression, ...]]) -> Screened:
        """A finding for each comment that is not as it should be, unless another comment silences that."""
        kept: list[Finding] = []
        silenced: list[Silenced] = []
        for path, suppressions in comments.items():
            if any(each.protects for each in suppressions):
                continue
            document = self.project.document(path)
            if document is None:
                continue
            own = [each for each in suppressions if any(self._is_own(code) for code in each.codes)]
            for each in suppressions:
                for finding in self._findings(document, each):
                    by = [one for one in own if one.covers(finding.span.row)]
                    for one in by:
                        self.used.setdefault(one, set()).update(code for code in one.codes if self._is_own(code))
                    if by:
                        silenced.append(Silenced(finding, Silence.COMMENT, by[0].reason))
                    else:
                        kept.append(finding)
            # What only silences findings of this rule is judged last, and nothing silences that: no circles.
            kept += [finding for each in own for finding in self._unused(document, each, own=True)]
        return Screened(tuple(kept), tuple(silenced))

    def _is_own(self, code: str) -> bool:
        """Whether a code means this rule and no other."""
        return code.upper() == self.rule.code or code.lower() == self.rule.name

    def _findings(self, document: Document, each: Suppression) -> Iterator[Finding]:
        if each.malformed:
            yield self.rule.found(Place(each.path, each.span, f"this comment silences nothing: {each.malformed}"))
            return
        unknown = [code for code in dict.fromkeys(each.codes) if not self._means(code)]
        if unknown:
            said = "; ".join(f"no rule {code!r}: {self._meant_instead(code)}" for code in unknown)
            yield self.rule.found(Place(each.path, each.span, f"this comment names an unknown rule: {said}"))
        else:
            yield from self._unused(document, each)

    def _unused(self, document: Document, each: Suppression, own: bool = False) -> Iterator[Finding]:
        """The codes that silence nothing, as far as that can be said here; ``own``: only those of this rule."""
        if not self.whole or not each.codes or not all(self._may_judge(code) for code in each.codes):
            return
        if not document.fact(_was_read):
            return
        unused = [code for code in dict.fromkeys(each.codes) if code not in self.used.get(each, ())]
        unused = [code for code in unused if self._is_own(code) == own]
        if unused:
            where = "in this file" if each.whole_file else "here"
            message = f"{', '.join(unused)} {'has' if len(unused) == 1 else 'have'} nothing to silence {where}"
            others = [code for code in each.codes if code not in unused]
            fixes = _fixes(self.project, document, each, others, unused)
            yield self.rule.found(Place(each.path, each.span, message), fixes=fixes)

    def _meant_instead(self, code: str) -> str:
        digits = code.upper().translate(_LETTERS_FOR_DIGITS)
        likely = next((rule.code for rule in self.known if rule.code.translate(_LETTERS_FOR_DIGITS) == digits), None)
        words = [word for rule in self.known for word in (rule.code, rule.name)]
        return f"did you mean {likely}?" if likely else similar(code, words)

    def _means(self, code: str) -> list[Rule]:
        return [rule for rule in self.known if matches(code, rule.code, rule.name)]

    def _may_judge(self, code: str) -> bool:
        """Whether every rule that the code means has run, and depends on nothing but the files."""
        if code not in self._verdicts:
            ran, meant = {rule.code for rule in self.ran}, self._means(code)
            self._verdicts[code] = bool(meant) and all(rule.code in ran and not rule.depends_on for rule in meant)
        return self._verdicts[code]


def _was_read(document: Document) -> bool:
    """Whether rules could read the file: in one that cannot be read every comment would seem to be unused."""
    dialect = dialect_of(document)
    try:
        if dialect in ("python", "notebook"):
            document.tree  # noqa: B018 - parsing is what is asked for
        elif dialect in DATA_KINDS:
            open_config(document.text, dialect)
    except (Unparsable, ConfigUnreadable):
        return False
    return layout_of(document).complete


def _fixes(
    project: Project, document: Document, each: Suppression, others: Sequence[str], unused: Sequence[str]
) -> tuple[Fix, ...]:
    """The comment without the unused codes; without codes no comment."""
    if others:
        edit = ReplaceText(*each.listed, ", ".join(dict.fromkeys(others)))
        said = f"take {', '.join(unused)} out of the comment"
    elif each.removal is not None:
        edit = ReplaceText(*each.removal, "")
        said = "take the comment away"
    else:
        return ()
    return (proved(project, "remove", said, [Edit(document.path, edit)], SameResult("a comment changes no run")),)
