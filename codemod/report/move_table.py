"""The runs of a project on the way to a target: what each computed in, what it computes in now, and what is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from ..outcome import MoveState, RunMove
from .frame import OutputLine
from .printable import printable
from .tally import counted

RowPlace: TypeAlias = "Callable[[str, int], str]"
"""Path and row of a document to what a reader sees."""
COLUMNS = ("run", "before", "after", "")
WIDEST = 56
"""How many characters of a run are shown; where it starts is always shown in full."""
SHORTEST = 8
"""With how little room a title is left out."""
MAX_MOVED = 20
"""How many runs are listed that have arrived, the others are counted; what is left is listed in full."""
COUNTED = {
    MoveState.MOVED: "moved",
    MoveState.THERE: "as before",
    MoveState.UNSTATED: "that state nothing",
    MoveState.LOOSE: "that nothing is seen to read",
    MoveState.APART: "without training or on a CPU",
}
HALF = ("bf16-mixed", "fp16-mixed", "bf16-true", "fp16-true")
MAX_APART = 8
"""How many runs are named that no move is for."""
MAX_STILL = 20
"""How many places are listed that still name the other 16-bit type."""
WORDS = {
    MoveState.MOVED: ("moved", "good"),
    MoveState.THERE: ("as before", "note"),
    MoveState.LEFT: ("left", "bad"),
    MoveState.WITHDRAWN: ("left: its edits were withdrawn", "bad"),
    MoveState.PARTLY: ("moved in part", "bad"),
    MoveState.UNSTATED: ("states nothing", "note"),
    MoveState.LOOSE: ("nothing is seen to read it", "note"),
    MoveState.APART: ("stays: no training, or on a CPU", "note"),
}


def move_lines(moves: Sequence[RunMove], target: str, where: RowPlace, *, planned: bool) -> Iterator[OutputLine]:
    """The table, then one line that counts; nothing where there is no run. ``planned``: nothing is written yet."""
    if not moves:
        return
    shown = list(_shown(moves))
    if shown:
        said = f"What a move to {target} would do:" if planned else f"What the move to {target} did:"
        yield ((said, "place"),)
        yield from _rows(shown, where)
    unlisted = sum(each.state is MoveState.MOVED for each in moves) - MAX_MOVED
    if unlisted > 0:
        yield ((f"  and {counted(unlisted, 'run')} more that moved", "note"),)
    yield from _still(moves, where)
    yield from _apart(moves, target, where)
    yield _count(moves, target)


def _shown(moves: Sequence[RunMove]) -> Iterator[RunMove]:
    """All that is left, and the first of what has arrived; runs that were there before are only counted."""
    moved = 0
    for each in moves:
        moved += each.state is MoveState.MOVED
        if each.is_left or (each.state is MoveState.MOVED and moved <= MAX_MOVED):
            yield each


def _rows(moves: Sequence[RunMove], where: RowPlace) -> Iterator[OutputLine]:
    moves = _grouped(moves)
    names = [_name(each, where) for each in moves]
    width = max(len(name) for name in [COLUMNS[0], *names])
    before = max(len(text) for text in [COLUMNS[1], *(each.before for each in moves)])
    after = max(len(text) for text in [COLUMNS[2], *(each.after for each in moves)])
    yield ((f"  {COLUMNS[0]:<{width}}  {COLUMNS[1]:<{before}}  {COLUMNS[2]}", "note"),)
    for name, each, following in zip(names, moves, [*moves[1:], None], strict=True):
        word, style = WORDS[each.state]
        yield (f"  {name:<{width}}  {each.before:<{before}}  {each.after:<{after}}  ", "text"), (word, style)
        if following is not None and following.why == each.why:
            continue
        alike = sum(other.why == each.why for other in moves)
        if each.why and alike > 1:
            yield ((f"    all {alike} of them:", "note"),)
        for line in dict.fromkeys(f"    {where(place.path, place.span.row)} {place.message}" for place in each.why):
            yield ((printable(line), "note"),)


def _grouped(moves: Sequence[RunMove]) -> list[RunMove]:
    """The runs with those beside each other that have the same reasons, which are then told once."""
    first: dict[object, int] = {}
    for number, each in enumerate(moves):
        first.setdefault(each.why or number, number)
    order = sorted(range(len(moves)), key=lambda number: (first[moves[number].why or number], number))
    return [moves[number] for number in order]


def _still(moves: Sequence[RunMove], where: RowPlace) -> Iterator[OutputLine]:
    """What names the other 16-bit type in runs that were to move, each place once and not where the table names it."""
    named = {(place.path, place.span.row) for each in moves for place in each.why}
    places = {(place.path, place.span.row): place for each in moves for place in each.still}
    left = [place for key, place in sorted(places.items()) if key not in named]
    if left:
        yield (("Not followed, see whether it has to move as well:", "place"),)
    for place in left[:MAX_STILL]:
        yield ((printable(f"    {where(place.path, place.span.row)} {place.message}"), "note"),)
    if len(left) > MAX_STILL:
        yield ((f"    and {len(left) - MAX_STILL} more", "note"),)


def _apart(moves: Sequence[RunMove], target: str, where: RowPlace) -> Iterator[OutputLine]:
    """The runs in another 16-bit regime that no move is for, so that nobody has to look for them."""
    stays = [each for each in moves if each.state is MoveState.APART and each.before in HALF and each.before != target]
    named = [printable(where(each.path, each.row)) for each in stays[:MAX_APART]]
    if named:
        more = f" and {len(stays) - len(named)} more" if len(stays) > len(named) else ""
        why = "no training was found there, it is named as a test, or it is on a CPU"
        yield ((f"Not moved, as {why}: {', '.join(named)}{more}", "note"),)


def _name(each: RunMove, where: RowPlace) -> str:
    start = printable(where(each.path, each.row))
    title = "" if each.title == each.path else printable(each.title)
    room = WIDEST - len(start) - 1
    if not title or room < min(len(title), SHORTEST):
        return start
    return f"{start} {title}" if len(title) <= room else f"{start} {title[: room - 3]}..."


def _count(moves: Sequence[RunMove], target: str) -> OutputLine:
    left = sum(each.is_left for each in moves)
    counts = [(left, "left")]
    counts += [(sum(each.state is state for each in moves), word) for state, word in COUNTED.items()]
    parts = ", ".join(f"{number} {word}" for number, word in counts if number)
    return ((f"{target}: {counted(len(moves), 'run')}: {parts}.", "bad" if left else "good"),)


def cells_of(each: RunMove, where: RowPlace) -> tuple[str, ...]:
    """A row for tables of other kinds: where, run, before, after, what became of it, why."""
    why = "; ".join(dict.fromkeys(f"{where(place.path, place.span.row)} {place.message}" for place in each.why))
    return where(each.path, each.row), each.title, each.before, each.after, WORDS[each.state][0], why
