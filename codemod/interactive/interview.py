"""``migrate --interactive``: asks before every fix. Plain lines in, plain lines out; any terminal will do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ..engine import MAX_ROUNDS, Options, choose, collide, documents_with
from ..model import Applicability, Edit, EditRefused, Finding, Fix
from ..outcome import Screened
from ..report.proposal import diff_view, evidence_lines, fix_line, heading_lines, other_lines
from ..report.tally import counted
from ..source.documents import Document
from ..source.project import Project
from .answers import LEAVE, Replies, Reply
from .terminal import Terminal

HELP = {
    "y": "apply this fix",
    "n": "skip this fix",
    "a": "apply this fix here and to all further findings of this rule that offer it",
    "d": "skip this one and all further ones of this rule",
    "e": "show the evidence with its code",
    "m": "show the whole diff",
    "1": "show another fix by its number; y then applies it",
    "q": "stop asking: accepted fixes are applied, everything else is left unchanged",
    "?": "this help; Ctrl-C ends precfix at once and nothing is written",
}
_WORDS = {"yes": "y", "no": "n", "all": "a", "evidence": "e", "more": "m", "quit": "q", "help": "?", "h": "?"}


@dataclass(slots=True)
class _Question:
    """A finding that is being asked about."""

    project: Project
    finding: Finding
    fix: Fix
    """The fix that ``y`` would take."""
    pairs: Sequence[tuple[Document, Document]] = ()
    """Each file before and after the fix."""
    refused: str = ""
    """Why the fix cannot be carried out."""
    cut: bool = False
    """Whether more of the diff can be shown."""

    first: Fix = field(init=False)
    """The fix that was proposed before another was looked at."""

    def __post_init__(self) -> None:
        self.first = self.fix
        self.propose(self.fix)

    def propose(self, fix: Fix) -> None:
        """Make ``fix`` the one that is asked about."""
        self.fix, self.pairs, self.refused = fix, (), ""
        try:
            self.pairs = documents_with(self.project, [fix])
        except EditRefused as refusal:
            self.refused = f"this fix cannot be carried out: {refusal}"
        else:
            if not any(before.data != after.data for before, after in self.pairs):
                self.refused = "this fix changes nothing"

    def numbered(self, answer: str) -> Fix | None:
        """The fix that a number stands for, if there is one that may be written."""
        return self._writable.get(answer)

    @property
    def _writable(self) -> dict[str, Fix]:
        numbered = {str(number): fix for number, fix in enumerate(self.finding.fixes, start=1)}
        display_only = Applicability.DISPLAY_ONLY
        return {number: fix for number, fix in numbered.items() if fix.applicability is not display_only}

    @property
    def keys(self) -> list[str]:
        """What can be answered."""
        possible = {"y": not self.refused, "a": not self.refused, "m": self.cut, "1": len(self._writable) > 1}
        return [key for key in HELP if possible.get(key, True)]

    @property
    def prompt(self) -> str:
        """The line that waits for an answer."""
        unsafe = "unsafe " if self.fix.applicability is Applicability.UNSAFE else ""
        what = "Leave it" if self.refused else f"Apply this {unsafe}fix"
        return f"{what} [{','.join(map(self.shown, self.keys))}]? "

    def shown(self, key: str) -> str:
        """How a key is written in the prompt: ``1-3`` for a number."""
        return f"1-{len(self.finding.fixes)}" if key == "1" else key


@dataclass(slots=True)
class Interview:
    """Asks once about each finding that has a usable fix, and remembers the answers through all rounds."""

    terminal: Terminal
    options: Options
    """What the user allows without being asked: decides which fix is proposed first."""
    accepted: int = 0
    asked: int = 0
    """Findings that were settled, by a question or by an earlier answer for the whole rule."""
    stopped: bool = False
    _answers: Replies = field(default_factory=Replies)
    _always: set[tuple[str, Reply]] = field(default_factory=set)
    """Rules, and the fix to use without asking where it is proposed."""
    _instead: dict[str, Reply] = field(default_factory=dict)
    """Rules, and the fix to use without asking where it is offered at all: it was chosen over the proposed one."""
    _never: set[str] = field(default_factory=set)
    _taken: list[Edit] = field(default_factory=list)
    """The edits accepted in this round."""
    _open: int = 0
    """Findings of this round without an answer."""
    _rounds: int = 0

    def begin(self, project: Project, findings: Sequence[Finding]) -> None:
        """Take up the findings of a new round; must be called before `decide` is asked about any of them."""
        asked = [finding for finding in findings if self._proposal(finding) is not None]
        self._answers.begin(project, asked)
        self._taken, self._rounds = [], self._rounds + 1
        self._open = sum(self._recall(finding) is None for finding in asked)

    def decide(self, project: Project, finding: Finding, fix: Fix) -> Fix | None:
        """The fix to carry out, asking where that is not settled yet (for `Options.decide`)."""
        known = self._recall(finding)
        if known is not None:
            return self._took(known.fix_of(finding))
        proposed = self._proposal(finding) or fix
        if self.stopped:
            return None
        if self._rounds > MAX_ROUNDS:  # nothing is carried out any more: the engine asks whether there is work left
            return None if finding.code in self._never else proposed
        settled = self._without_asking(finding, proposed)
        if settled is None and any(collide(mine, other) for mine in proposed.edits for other in self._taken):
            return None  # the text under it is about to change; if it is still found then, that is the time to ask
        answer = settled or self._ask(_Question(project, finding, proposed))
        if self.stopped:  # by this very answer
            return None
        self._open -= 1
        self._answers.remember(project, finding, answer)
        self.asked, self.accepted = self.asked + 1, self.accepted + (answer != LEAVE)
        return self._took(answer.fix_of(finding))

    def end(self) -> None:
        """Say how it went; nothing when there was nothing to ask."""
        if not (self.asked or self.stopped):
            return
        asked = f"{counted(self.accepted, 'fix').replace('fixs', 'fixes')} accepted, {self._answers.left} declined"
        left = f", {self._open} not asked about" if self.stopped and self._open else ""
        self.terminal.say(f"precfix: {asked}{left}")

    def _proposal(self, finding: Finding) -> Fix | None:
        """What would be done without asking, else the best of what needs permission."""
        return choose(finding, self.options) or choose(finding, replace(self.options, unsafe_fixes=True))

    def _recall(self, finding: Finding) -> Reply | None:
        answer = self._answers.recall(finding)
        return None if answer is None or (answer != LEAVE and answer.fix_of(finding) is None) else answer

    def _took(self, fix: Fix | None) -> Fix | None:
        self._taken += fix.edits if fix is not None else ()
        return fix

    def _without_asking(self, finding: Finding, proposed: Fix) -> Reply | None:
        if finding.code in self._never:
            return LEAVE
        instead = self._instead.get(finding.code)
        if instead is not None and instead.fix_of(finding) is not None:
            return instead
        use = Reply.use(proposed)
        covered = bool(proposed.edits) and all(edit in self._taken for edit in proposed.edits)
        return use if covered or (finding.code, use) in self._always else None

    def _ask(self, question: _Question) -> Reply:
        number = self.asked + 1
        position = f"{number}/{number + self._open - 1}"
        finding, source_of = question.finding, question.project.document
        self.terminal.show((), *heading_lines(finding, position, source_of))
        self._show_fix(question)
        while True:
            given = self.terminal.ask(question.prompt)
            answer = "q" if given is None else _WORDS.get(given.lower(), given.lower())
            if answer in _DECISIONS and answer in question.keys:
                return _DECISIONS[answer](self, question)
            if answer:
                self._look(question, answer)

    def _look(self, question: _Question, answer: str) -> None:
        """Carry out an answer after which the question is put again."""
        fix = question.numbered(answer)
        if fix is not None:
            question.propose(fix)
            self._show_fix(question)
        elif answer == "e":
            self.terminal.show(*evidence_lines(question.finding, question.project.document))
        elif answer == "m" and question.cut:
            self._show_fix(question, whole=True)
        elif answer == "?":
            self.terminal.show(*(((f"  {question.shown(key):<4} {HELP[key]}", "text"),) for key in question.keys))
        else:
            self.terminal.say(_misunderstood(answer))

    def _show_fix(self, question: _Question, *, whole: bool = False) -> None:
        view = diff_view(question.pairs, whole=whole)
        question.cut = view.left_out > 0
        self.terminal.show(fix_line(question.finding, question.fix), *view.lines)
        if question.cut:
            self.terminal.say(f"... {counted(view.left_out, 'more line')} left out or cut; m shows all")
        if question.refused:
            self.terminal.say(question.refused)
        self.terminal.show(*other_lines(question.finding, question.fix))

    def _yes(self, question: _Question) -> Reply:
        return Reply.use(question.fix)

    def _no(self, question: _Question) -> Reply:
        return LEAVE

    def _all(self, question: _Question) -> Reply:
        answer = Reply.use(question.fix)
        if question.fix == question.first:
            self._always.add((question.finding.code, answer))
        else:
            self._instead[question.finding.code] = answer
        return answer

    def _none(self, question: _Question) -> Reply:
        self._never.add(question.finding.code)
        return LEAVE

    def _quit(self, question: _Question) -> Reply:
        self.stopped = True
        kept = counted(self.accepted, "accepted fix")
        self.terminal.say(f"No further questions; {kept} kept.")
        return LEAVE


_DECISIONS: dict[str, Callable[[Interview, _Question], Reply]] = {
    "y": Interview._yes,
    "n": Interview._no,
    "a": Interview._all,
    "d": Interview._none,
    "q": Interview._quit,
}


def _misunderstood(answer: str) -> str:
    if answer.isascii() and answer.isdecimal():
        return "There is no fix with this number that may be written."
    if answer in HELP:
        return "That is not possible here."
    return "Type one of the letters in brackets, then Enter; ? explains them."


def interviewed(options: Options, terminal: Terminal) -> tuple[Options, Interview]:
    """``options`` under which the engine asks before each fix, and the interview that does the asking."""
    interview = Interview(terminal, options)

    def screen(project: Project, findings: tuple[Finding, ...]) -> Screened:
        screened = options.screen(project, findings) if options.screen is not None else Screened(findings)
        interview.begin(project, screened.findings)
        return screened

    asking = replace(options, unsafe_fixes=True, screen=screen, decide=interview.decide, progress=None)
    return asking, interview
