"""Rules asked in several processes: each checks a share of the files, tells what it found, and ends.

A process is a fork of this one. What all of them need to know of the project is found before they start; what else
they parse goes when they end. What comes back is the same as from one process: a share whose process was killed is
checked again in this one, and a rule that failed on a share is asked again about the whole.
"""

from __future__ import annotations

import gc
import os
import pickle
import selectors
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from .asking import RuleAnswer, ask
from .model import Rule
from .outcome import Skipped
from .source.project import Project

BEGUN, DONE = b".", b"="
"""What a process writes before each rule, and before all that it has to tell."""

Told = tuple[list[RuleAnswer], tuple[Skipped, ...], frozenset[str]]
"""Answers, files left out, files parsed."""


def can_fork() -> bool:
    """Whether this process may be forked: the system can, and no other thread holds anything."""
    return hasattr(os, "fork") and threading.active_count() == 1


def shares_of(project: Project, number: int) -> list[tuple[str, ...]]:
    """The checked files in up to ``number`` shares with as many bytes that speak of torch, neighbors together."""
    costs = {path: project.size_of(path) for path in project.python_paths(("torch",)) if project.is_checked(path)}
    each = sum(costs.values()) / number
    shares: list[list[str]] = [[]]
    before = 0
    for path in filter(project.is_checked, project.paths):
        cost = costs.get(path, 0)
        if shares[-1] and before + cost / 2 > each * len(shares) and len(shares) < number:
            shares.append([])
        shares[-1].append(path)
        before += cost
    return [tuple(share) for share in shares if share]


def ask_in_processes(
    project: Project, rules: Sequence[Rule], jobs: int, begins: Callable[[Rule], None] | None = None
) -> list[RuleAnswer]:
    """As `ask`, with up to ``jobs`` shares checked at the same time."""
    shares = shares_of(project, jobs) if jobs > 1 and can_fork() else []
    if len(shares) < 2:
        return ask(project, rules, begins)
    ask(project.checking(()), rules)  # what every share needs to know of the rest is found once
    run = _Run(project, rules, begins, [_Process(project.checking(share)) for share in shares])
    told = [_noted(project, each.told) or ask(each.part, rules) for each in run.ended()]
    return [_joined(project, rule, [answers[at] for answers in told]) for at, rule in enumerate(rules)]


def _noted(project: Project, told: Told | None) -> list[RuleAnswer]:
    """The answers of a process; what it left out and parsed is noted here."""
    if told is None:
        return []
    answers, skipped, parsed = told
    project.note(skipped, parsed)
    return answers


def _joined(project: Project, rule: Rule, answers: Sequence[RuleAnswer]) -> RuleAnswer:
    if any(answer.failure for answer in answers):
        return ask(project, [rule])[0]
    return RuleAnswer(tuple(finding for answer in answers for finding in answer.findings))


@dataclass(slots=True)
class _Process:
    """One share, and the process that checks it."""

    part: Project
    id: int = 0
    pipe: int = -1
    data: bytearray = field(default_factory=bytearray)
    begun: int = 0
    """How many rules it has begun with."""
    told: Told | None = None
    """What it told; None when it ended before that."""

    def start(self, rules: Sequence[Rule]) -> None:
        self.pipe, out = os.pipe()
        self.id = os.fork()
        if self.id == 0:
            os.close(self.pipe)
            _check(self.part, rules, out)
        os.close(out)

    def take(self, data: bytes) -> None:
        """What it wrote since: a mark for each rule, then all that it has to tell."""
        if not self.data:
            rest = data.lstrip(BEGUN)
            self.begun += len(data) - len(rest)
            data = rest
        self.data += data

    def end(self) -> None:
        """See how it ended, once it has closed the pipe."""
        os.close(self.pipe)
        _, status = os.waitpid(self.id, 0)
        self.id = 0
        if status == 0 and self.data.startswith(DONE):
            self.told = pickle.loads(bytes(self.data[1:]))  # written by a fork of this process
        self.data.clear()

    def stop(self) -> None:
        if self.id > 0:
            os.kill(self.id, signal.SIGKILL)
            os.waitpid(self.id, 0)


def _check(part: Project, rules: Sequence[Rule], out: int) -> NoReturn:
    """The life of a process. It never returns, and ends when nobody reads what it writes."""
    code = 1
    try:
        gc.freeze()  # what came with the fork is shared as long as nothing writes to it
        answers = ask(part, rules, lambda _: _write(out, BEGUN))
        _write(out, DONE + pickle.dumps((answers, part.skipped, part.parsed), pickle.HIGHEST_PROTOCOL))
        sys.stderr.flush()
        code = 0
    finally:
        os._exit(code)


def _write(out: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(out, view) :]


@dataclass(slots=True)
class _Run:
    project: Project
    rules: Sequence[Rule]
    begins: Callable[[Rule], None] | None
    processes: list[_Process]
    _shown: int = 0

    def ended(self) -> list[_Process]:
        """The processes, when all have ended; none is left when this one is interrupted."""
        try:
            sys.stderr.flush()
            with selectors.DefaultSelector() as reading:
                for each in self.processes:
                    each.start(self.rules)
                    reading.register(each.pipe, selectors.EVENT_READ, each)
                while reading.get_map():
                    for key, _ in reading.select():
                        self._read(key.data, reading)
        except BaseException:
            for each in self.processes:
                each.stop()
            raise
        return self.processes

    def _read(self, process: _Process, reading: selectors.BaseSelector) -> None:
        data = os.read(process.pipe, 1 << 16)
        if data:
            process.take(data)
            self._show()
            return
        reading.unregister(process.pipe)
        process.end()

    def _show(self) -> None:
        """Tell of a rule when as many have begun as if all processes had come so far."""
        if self.begins is None:
            return
        begun = sum(each.begun for each in self.processes)
        while self._shown < min(begun // len(self.processes), len(self.rules)):
            self.begins(self.rules[self._shown])
            self._shown += 1
