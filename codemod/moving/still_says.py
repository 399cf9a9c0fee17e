"""What the code and the files of a run still say of the other 16-bit type, where nothing that is followed explains it.

The net below the ledger: a run counts as moved by what is known to decide it, and a place that nobody follows may still
ask for the old type. Such a place is told; whether it counts, a person has to see.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from ..model import Place
from ..outcome import Declaration, MoveState, RunMove, Target
from ..purpose.files import purpose_of
from ..source.project import Project
from ..torch.dtypes import Dtype
from ..trainers.reading.auditing import CHOSEN
from ..trainers.reading.code_declarations import TORCH
from ..trainers.reading.documented import DOCUMENTED
from ..trainers.reading.launch_flags import truth_of
from ..trainers.reading.scopes import AUTO
from ..trainers.reading.stated_casts import WIDENED
from ..trainers.reading.stated_words import is_switch
from .left_behind import CODE, SECTION, dtype_of, named_by, other_halves, section_dtype
from .pairs import RunPair
from .unaccounted import unaccounted

EXPLAINED = ("parameter", "option", "fallback", "variable", "constant")
"""Roles of values that others may replace; where such a value is the last word, the ledger follows it."""
MODEL = "model"
"""The framework of the configuration that lies beside a published model."""
FP32 = "fp32"
MAX_PLACES = 10
"""How many places one run names."""


def still_saying(
    after: Project, pair: RunPair, target: Target, modules: Sequence[str], built: Collection[str] = ()
) -> tuple[Place, ...]:
    """The places of a run that is left to the user, in its new texts, that name the 16-bit type that it was to leave.

    Also what a switch of it brings about: that has to change with the switch; and what its users type. ``built`` are
    modules that it imports by their names.
    """
    others = other_halves(target)
    found = unaccounted(after, pair, target, modules, built) if others else ()
    known: dict[tuple[str, int], Place | None] = {}
    for entry in pair.entries:
        item = entry.declaration
        if item.role == DOCUMENTED or (item.role == "constant" and " " in item.value):
            continue  # a choice: the code tells whether it is taken
        is_told = named_by(item) in others and entry.status != "overridden" and not _is_explained(item)
        known[item.path, item.span.row] = _told(item) if is_told else known.get((item.path, item.span.row))
    places = {**{(place.path, place.span.row): place for place in found}, **known}
    kept = (place for place in places.values() if place is not None and not purpose_of(place.path).is_left_alone)
    said = sorted(kept, key=lambda place: (place.path, place.span))[:MAX_PLACES]
    return (*said, *shown_to_users(pair, target))


def not_known(
    after: Project, pair: RunPair, target: Target, modules: Sequence[str], built: Collection[str] = ()
) -> tuple[Place, ...]:
    """The same for the table of runs, with what users type that start the program."""
    found = islice(unaccounted(after, pair, target, modules, built), MAX_PLACES)
    return (*found, *shown_to_users(pair, target))


def shown_to_users(pair: RunPair, target: Target) -> Iterator[Place]:
    """What users read, and type, that starts the program of a run with the 16-bit type that it was to leave."""
    for item in (entry.declaration for entry in pair.entries):
        is_on = target.regime == "fp32" and bool(item.condition) and truth_of(item.value) is not False
        if item.role == DOCUMENTED and (is_on or named_by(item) in other_halves(target)):
            option = item.key if item.value == "true" else f"{item.key} {item.value}"
            where = "a text in this file" if item.path.endswith(CODE) else "a read-me"
            yield Place(item.path, item.span, f"{where} still starts the program with {option}")


def as_edited(project: Project, after: Project, places: Iterable[Place]) -> Iterator[Place]:
    """The same places; what only the edits bring about does not "still" say anything."""
    for place in places:
        old, new = project.document(place.path), after.document(place.path)
        is_there = old is None or new is None or new.line(place.span.row) in old.text.splitlines()
        said, _, where = place.message.removeprefix("still ").partition(": ")
        yield place if is_there else place.saying(f"{said} after the edits: {where}")


def other_regions(pair: RunPair, regimes: Collection[str]) -> Iterator[Place]:
    """What computes in none of these regimes, in a run of which nobody can tell what it goes through."""
    for item in (entry.declaration for entry in pair.entries if entry.status != "overridden"):
        if item.role == "compute" and item.regime not in ("", *regimes) and not purpose_of(item.path).is_left_alone:
            under = f", {item.condition}" if item.condition else ""
            yield Place(item.path, item.span, f"still says {item.regime}: {item.said}{under}")
        elif FP32 in regimes and _is_switched_on(item):
            yield _switching(item)


def _is_switched_on(item: Declaration) -> bool:
    return item.role == "flag" and item.value == "true" and is_switch(item.key)


def _switching(item: Declaration) -> Place:
    return Place(item.path, item.span, f"still switches mixed precision on: {item.key}")


def loose_entries(pair: RunPair, target: Target, *, in_code: bool = False) -> tuple[Place, ...]:
    """What a file that nothing is seen to read says of the other 16-bit type, as other files of its kind do.

    Flags also in code, which starts a program with words that are not followed; where they are asked for, the dtypes
    of loads.
    """
    others = other_halves(target)
    items = [entry.declaration for entry in pair.entries]
    flags = [item for item in items if item.role == "flag" and named_by(item) in others]
    told = (item for item in items if _names_one(item, others))
    weights = [item for item in items if in_code and item.framework == TORCH and item.role == "weights"]
    held = {item.value for item in weights}
    told = (item for item in told if not item.path.endswith(CODE) or item in weights or item.key in held)
    switches = (_switching(item) for item in items if target.regime == FP32 and _is_switched_on(item))
    return (*(_told(item) for item in dict.fromkeys((*flags, *told)) if item.framework != MODEL), *switches)


def of_no_run(row: RunMove, pair: RunPair, target: Target) -> RunMove:
    """The dtypes of loads that no run is found to use: told where there is nothing else to tell."""
    still = () if purpose_of(row.path).is_left_alone else loose_entries(pair, target, in_code=True)
    return replace(row, state=MoveState.LOOSE, why=(), still=still)


def _names_one(item: Declaration, others: Collection[Dtype]) -> bool:
    """Whether an entry names one of these dtypes, or has a section for one that the trainer switches on."""
    if item.role == "scaler":
        return False  # ``initial_scale_power: 16`` is no dtype
    is_filled = item.value == AUTO and item.key.endswith(SECTION)
    return dtype_of(item) in others or (is_filled and section_dtype(item) in others)


def _is_explained(item: Declaration) -> bool:
    is_choice = " " in item.value and not item.key.endswith(SECTION)
    return item.condition in (WIDENED, CHOSEN) or item.role in EXPLAINED or is_choice


def _told(item: Declaration) -> Place:
    named = named_by(item)
    said = named.name if isinstance(named, Dtype) else item.value
    return Place(item.path, item.span, f"still says {said}: {item.said}")
