"""What a shadow found, as text."""

from __future__ import annotations

from .places import Findings, LossPlace

LOSSES_TOLD = 10


def as_text(findings: Findings) -> str:
    """A table of the worst places, then what the steps' losses were."""
    lines = [_summary(findings)]
    lines += [f"{number:>3}. {text}" for number, place in enumerate(findings.worst, 1) for text in [_told(place)]]
    lines += _losses(findings)
    if findings.restarted:
        names = ", ".join(name for name, _ in findings.restarted)
        lines.append(f"Not done in float64, so their errors are not counted: {names}")
    return "\n".join(lines) + "\n"


def _summary(findings: Findings) -> str:
    steps = "1 optimizer step" if findings.steps == 1 else f"{findings.steps} optimizer steps"
    if findings.worst:
        return f"Beside a float64 shadow, over {steps}, the worst places are:"
    return f"Beside a float64 shadow, over {steps}, nothing is lost beyond the noise of rounding."


def _told(place: LossPlace) -> str:
    more = f" and {place.others} more" if place.others else ""
    where = [place.name + more] if place.name else []
    if place.line:
        where.append(f"{place.line[0]}:{place.line[1]}")
    since = f"; in 16 bits since {place.since[0]}:{place.since[1]}" if place.since and place.since != place.line else ""
    return f"{place.loss.value}: {', '.join(where)} [{place.dtype}]\n     {place.detail}{since}"


def _losses(findings: Findings) -> list[str]:
    if not findings.losses:
        return []
    told = enumerate(findings.losses[:LOSSES_TOLD], 1)
    rows = [f"{number:>5}  {real:>12.6g}  {wide:>12.6g}" for number, (real, wide) in told]
    rest = len(findings.losses) - LOSSES_TOLD
    more = [f"       ... {rest} more"] if rest > 0 else []
    return ["", " step       program        shadow", *rows, *more]
