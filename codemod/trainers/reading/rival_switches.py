"""Switches that decide together: ``float16 if args.fp16 else bfloat16 if args.bf16 else float32``.

On a launch line with ``--fp16`` one that says ``--bf16`` besides changes nothing: the one takes the other's place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from ...model import Edit, EditRefused, ReplaceText
from ...torch.dtypes import Constant
from .source import Source


def beside_rivals(found: Iterable[Source], rivals: Sequence[tuple[Source, ...]]) -> Iterator[Source]:
    """The sources of a switch, each with what it takes to switch it on where others may be on."""
    on = [source for sources in rivals for source in sources if source.value is True]
    is_known = all(rivals)
    for source in found:
        if source.value is not False:
            yield source
            continue
        beside = [other for other in on if source.kind != "flag" or line_of(other) == line_of(source)]
        if not beside and is_known:
            yield source
        elif len(beside) == 1 and is_known and _is_bare(beside[0]) and source.flag:
            yield replace(source, span=beside[0].span, respelling=partial(_exchanged, beside[0], source.flag))
        else:
            yield replace(source, respelling=_refused)


def line_of(source: Source) -> tuple[str, int]:
    """The file and the row of the command line that a flag stands on, or is missing from."""
    config, entry = source.config, source.entry
    if config is None or entry is None or entry.call is None:
        return source.path, source.span.row
    return source.path, config.document.position(config.text.commands[entry.call].start)[0]


def _is_bare(source: Source) -> bool:
    return source.kind == "flag" and source.entry is not None and not source.text


def _exchanged(other: Source, flag: str, value: Constant) -> Edit:
    if value is not True or other.config is None or other.entry is None:
        raise EditRefused(f"{other.key} is on")
    return other.config.edit(ReplaceText(other.entry.key_start, other.entry.key_end, flag))


def _refused(_value: Constant) -> Edit:
    raise EditRefused("another switch decides as well")
