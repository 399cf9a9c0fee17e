"""One way a project is started, and the places that have a say in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ...formats.text import CommandLine
from ...model import Place
from ..framework import FAMILIES
from .handed import HandedSetting
from .scopes import SettingScope

SCRIPT = 6
"""The rank of calls and dictionaries of the script."""
DEFAULTS = 100
"""The depth of variables of a script that its command line, or a file that this names, may set again."""


@dataclass(frozen=True, slots=True, eq=False)
class RunMember:
    """One scope of a run."""

    scope: SettingScope
    rank: int
    """6 call or dictionary in the script · 5 its flags · 4 its configuration file · 3 launcher's flags · 2 environment
    · 1 launcher's file."""
    link: str
    """How it belongs to the run, in words."""
    depth: int = 0
    """Of files that build on each other: how many say more than this one."""
    handed: tuple[HandedSetting, ...] = ()
    """For calls: the places that its settings have their values from, in this run."""
    is_picked: bool = False
    """Whether it is one of the branches between which a word for a precision chooses: it decides nothing itself."""

    @property
    def regime(self) -> str | None:
        """The one regime it asks for; for values from elsewhere, what is given in this run."""
        if self.is_picked:
            return None
        if not self.handed:
            return self.scope.regime
        regimes = {item.regime for item in self.effective_handed if item.regime is not None}
        if self._is_of_several_files:
            return None
        regimes |= {regime for regime, setting in self.scope.regimes.items() if setting is not None}
        if len(regimes) > 1:
            regimes.discard("fp32")
        return regimes.pop() if len(regimes) == 1 else None

    @property
    def is_open(self) -> bool:
        """Whether a call is passed a precision that nobody follows: what is weaker may count or not."""
        leading = [item for item in self.scope.effective() if item.key.means and item.value is None]
        given = {item.setting: item.value for item in self.effective_handed}
        is_open = any("$" in given.get(item, "$") or not given.get(item) for item in leading)
        return self.scope.kind == "call" and not self.is_picked and (is_open or self._is_of_several_files)

    @property
    def _is_of_several_files(self) -> bool:
        """Whether files that say different things give it its precision: a run reads one, and nobody sees which."""
        found = {item.source.path: item.regime for item in self.effective_handed if item.source.kind == "entry"}
        return len({*found.values()} - {None}) > 1

    @property
    def regime_without_bf16(self) -> str:
        """What it asks for on a machine without bfloat16, where a test of the machine decides; else empty."""
        decided = [item for item in self.effective_handed if item.without]
        asked = {item.setting.key.meaning(item.without) for item in decided} - {None, "fp32"}
        return (asked.pop() or "" if len(asked) == 1 else "fp32") if decided and len(asked) < 2 else ""

    @property
    def effective_handed(self) -> tuple[HandedSetting, ...]:
        """Of several places for one setting those that count: flags, then files, then defaults."""
        best: dict[str, list[HandedSetting]] = {}
        for item in sorted(self.handed, key=lambda item: item.source.strength):
            listed = best.setdefault(item.setting.name, [])
            if not listed or listed[0].source.strength == item.source.strength:
                listed.append(item)
        return tuple(item for listed in best.values() for item in listed)


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One way the project is started."""

    title: str
    place: Place
    members: tuple[RunMember, ...]
    """The strongest first."""
    command: CommandLine | None
    """What starts it; None for a script or a file that no command line names."""
    modules: tuple[str, ...] = ()
    """The Python files that run: the script, what it imports of the project, and ``configured``."""
    configured: frozenset[str] = frozenset()
    """Those whose classes a configuration names by their path, and what they import."""

    @property
    def winner(self) -> RunMember | None:
        """The member whose regime counts; None when none states one."""
        stating = [member for member in self.members if member.regime is not None]
        offered = self.offered
        found = next((member for member in stating if member not in offered), None)
        others = (member for member in self.members if found is not None and member.rank > found.rank)
        return None if any(member.is_open for member in others) else found

    @property
    def offered(self) -> tuple[RunMember, ...]:
        """Calls of one framework with different precisions: code that has both to choose from decides neither."""
        calls = [member for member in self.members if member.rank == SCRIPT and member.regime is not None]
        asked: dict[str, set[str]] = {}
        for member in calls:
            asked.setdefault(member.scope.framework.title, set()).add(FAMILIES[member.regime or ""])
        return tuple(member for member in calls if len(asked[member.scope.framework.title] - {"fp32"}) > 1)

    def counts(self, member: RunMember) -> bool:
        """Whether a member is no branch beside others."""
        return not member.is_picked and member not in self.offered

    def says_over(self, scope: SettingScope, names: Iterable[str]) -> bool:
        """Whether files that build on this one say all of these settings over it, or switch mixed precision off."""
        depth = next((member.depth for member in self.members if member.scope is scope), 0)
        nearer = (item for item in self.members if item.depth < depth and item.scope.framework is scope.framework)
        settings = [item for member in nearer if member.scope.kind == scope.kind for item in member.scope.settings]
        off = any(item.key.meaning(item.value) == "fp32" for item in settings if item.key.means and item.value)
        return off or {item.name for item in settings}.issuperset(names)

    def overridden(self) -> Iterator[tuple[RunMember, RunMember]]:
        """Members that ask for another precision than a stronger one, no defaults: (the weaker, the one that wins)."""
        pairs = ((member, winner) for member, winner in self._weaker() if member.rank != winner.rank)
        return ((member, winner) for member, winner in pairs if member.depth < DEFAULTS)

    def superseded(self) -> Iterator[tuple[RunMember, RunMember]]:
        """The same, and files that the winner builds on, which say something else on purpose."""
        return ((member, winner) for member, winner in self._weaker() if _order(member) != _order(winner))

    def _weaker(self) -> Iterator[tuple[RunMember, RunMember]]:
        winner = self.winner
        offered = self.offered
        for member in self.members if winner is not None and winner not in offered else ():
            regime = member.regime
            if winner is None or member in offered or regime is None:
                continue
            if FAMILIES[regime] != FAMILIES[winner.regime or regime] and FAMILIES[regime] != "fp32":
                yield member, winner


def _order(member: RunMember) -> tuple[int, int]:
    return member.rank, member.depth
