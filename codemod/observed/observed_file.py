"""Observations as files: the JSON object that ``precfix rehearse --save`` writes (docs/rehearsal.md).

A scanned project may hold such a file: it is taken as hostile. It is bounded, every field is checked, and paths that
lead out of the project are refused. Fields that this version does not know are passed over.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from ..model import Place, Span
from ..profiles.json_object import JsonObject, Malformed, SavedKind
from .observation import Birth, Failure, FailureKind, Observation, SeenOperand, SeenValue, TrainingSeen

VERSION = 1
MAX_BYTES = 64 << 20
MAX_ENTRIES = 200_000
"""Values of one observation."""
MAX_FAILURES = 2_000
MAX_OPERANDS = 64
MAX_BIRTHS = MAX_CALLS = 32
MAX_TEXT = 4_000
"""Characters of an error that are kept."""
MAX_NUMBER = 10_000_000
"""The last row or column."""


def _observation(read: JsonObject) -> Observation:
    device = read.object("device")
    files, died = read.object("files"), read.object("died")
    return Observation(
        command=read.texts("command"),
        torch=read.text("torch"),
        python=read.text("python"),
        device=device.text("profile"),
        simulated=device.flag("simulated") or False,
        files={_path(name): files.object(name).text("sha256") for name in list(files.rest)},
        steps=read.integer("steps") or 0,
        ended=read.text("ended"),
        error=read.text("error")[:MAX_TEXT],
        died=_failure(died) if _has_place(died) else None,
        values=tuple(_value(each) for each in _bounded(read, "values", MAX_ENTRIES)),
        failures=tuple(_failure(each) for each in _bounded(read, "failures", MAX_FAILURES)),
        training=_training(read.object("training")),
        notes=read.texts("notes"),
    )


def _bounded(read: JsonObject, key: str, most: int) -> list[JsonObject]:
    found = read.items(key)
    if len(found) > most:
        raise Malformed(f"{read.path(key)} holds more than {most:,} entries")
    return found


def _value(read: JsonObject) -> SeenValue:
    return SeenValue(
        path=_path(read.text("filename")),
        span=_span(read),
        dtypes=read.texts("dtypes"),
        count=read.integer("count") or 0,
    )


def _has_place(read: JsonObject) -> bool:
    """Whether it stands in a file of the user: what happens in libraries alone has no place."""
    return read.rest.get("location") is not None or bool(read.rest.get("row"))


def _failure(read: JsonObject) -> Failure:
    placed = _has_place(read)
    autocast = read.object("autocast")
    is_open = autocast.flag("enabled") or False
    return Failure(
        kind=read.word("kind", FailureKind) or FailureKind.OTHER,
        path=_path(read.text("filename")) if placed else "",
        span=_span(read) if placed else Span(1, 1, 1, 1),
        error=read.text("error")[:MAX_TEXT],
        error_type=read.text("error_type")[:MAX_TEXT],
        op=read.text("op"),
        phase=read.text("phase"),
        step=read.integer("step") or 0,
        operands=tuple(_operand(each) for each in _bounded(read, "operands", MAX_OPERANDS)),
        stack=tuple(_call(each) for each in _bounded(read, "stack", MAX_CALLS) if _has_place(each)),
        module=read.text("module"),
        module_class=read.text("module_class"),
        autocast=autocast.text("dtype") if is_open else "",
        count=read.integer("count") or 0,
        assumed=read.flag("assumed") or False,
    )


def _call(read: JsonObject) -> Place:
    return Place(_path(read.text("filename")), _span(read), "")


def _operand(read: JsonObject) -> SeenOperand:
    return SeenOperand(
        dtype=read.text("dtype"),
        shape=_numbers(read, "shape"),
        device=read.text("device"),
        born=tuple(_birth(each) for each in _bounded(read, "born", MAX_BIRTHS) if _has_place(each))[::-1],
        role=read.text("role"),
        names=read.texts("names"),
    )


def _birth(read: JsonObject) -> Birth:
    path = _path(read.text("filename"))
    return Birth(path, _number(read, "row"), _number(read, "column"), read.text("message")[:MAX_TEXT])


def _training(read: JsonObject) -> TrainingSeen:
    scaler = read.object("scaler")
    is_enabled = scaler.flag("enabled") or False
    return TrainingSeen(
        losses=_floats(read, "losses"),
        loss_dtypes=read.texts("loss_dtypes"),
        parameter_dtypes=_counts(read.object("parameter_dtypes")),
        gradient_dtypes=_counts(read.object("gradient_dtypes")),
        optimizer_state_dtypes=_counts(read.object("optimizer_state_dtypes")),
        autocast=_counts(read.object("autocast")),
        skipped_steps=(scaler.integer("skipped_steps") or 0) if is_enabled else None,
        skipped_losses=_numbers(read, "skipped_losses"),
    )


def _counts(read: JsonObject) -> dict[str, int]:
    return {name: read.integer(name) or 0 for name in sorted(read.rest)}


def _numbers(read: JsonObject, key: str) -> tuple[int, ...]:
    found = read.values(key)
    if not all(isinstance(each, int) and not isinstance(each, bool) for each in found):
        raise Malformed(f"{read.path(key)} holds something else than whole numbers")
    return tuple(each for each in found if isinstance(each, int))


def _floats(read: JsonObject, key: str) -> tuple[float | None, ...]:
    """Numbers; None for those that JSON cannot hold (NaN, infinity)."""
    found = read.values(key)
    return tuple(float(each) if isinstance(each, int | float) and abs(each) < 1e300 else None for each in found)


def _span(read: JsonObject) -> Span:
    first, last = read.object("location"), read.object("end_location")
    row, column = _number(first, "row"), _number(first, "column")
    if not last.rest:
        return Span(row, column, row, column)
    return Span(row, column, _number(last, "row"), _number(last, "column"))


def _number(read: JsonObject, key: str) -> int:
    value = read.integer(key)
    if value is None or not 1 <= value <= MAX_NUMBER:
        raise Malformed(f"{read.path(key)} is not a row or column")
    return value


def _path(text: str) -> str:
    """A path below the root, with forward slashes; raises `Malformed` for one that leads elsewhere."""
    path = PurePosixPath(text)
    if not text or path.is_absolute() or ".." in path.parts or "\0" in text or "\\" in text:
        raise Malformed(f"{text[:60]!r} is not a path below the project")
    return path.as_posix()


_SAVED = SavedKind(
    "observation",
    VERSION,
    ("version", "failures"),
    MAX_BYTES,
    "precfix rehearse --save FILE -- COMMAND",
    _observation,
)
load_observation, parse_observation = _SAVED.load, _SAVED.parse
