"""What a shadow found, as text and as JSON."""

from __future__ import annotations

from typing import Any

from .modules import Layer
from .places import Place
from .shadow import Findings
from .storages import Line

VERSION = 1
LAYERS_TOLD = 10


def as_json(findings: Findings) -> dict[str, Any]:
    """Versioned; rows are 1-based, errors are relative, shares are between 0 and 1."""
    return {
        "version": VERSION,
        "steps": findings.steps,
        "seconds": round(findings.seconds, 2),
        "losses": [{"program": real, "shadow": wide} for real, wide in findings.losses],
        "worst": [_place(place) for place in findings.worst],
        "modules": [_layer(layer) for layer in findings.layers],
        "restarted": [{"operation": name, "count": count} for name, count in findings.restarted],
    }


def _place(place: Place) -> dict[str, Any]:
    return {
        "loss": place.loss.value,
        "amount": place.amount,
        "name": place.name,
        "others": place.others,
        "dtype": place.dtype,
        "place": _row(place.line),
        "narrowed": _row(place.since),
        "detail": place.detail,
    }


def _row(line: Line | None) -> dict[str, Any] | None:
    return {"filename": line[0], "row": line[1]} if line else None


def _layer(layer: Layer) -> dict[str, Any]:
    return {
        "name": layer.name,
        "class": layer.kind,
        "dtype": layer.dtype,
        "input_error": layer.input,
        "output_error": layer.output,
        "gradient_error": layer.gradient,
    }


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


def _told(place: Place) -> str:
    more = f" and {place.others} more" if place.others else ""
    where = [place.name + more] if place.name else []
    if place.line:
        where.append(f"{place.line[0]}:{place.line[1]}")
    since = f"; in 16 bits since {place.since[0]}:{place.since[1]}" if place.since and place.since != place.line else ""
    return f"{place.loss.value}: {', '.join(where)} [{place.dtype}]\n     {place.detail}{since}"


def _losses(findings: Findings) -> list[str]:
    if not findings.losses:
        return []
    rows = [f"{number:>5}  {real:>12.6g}  {wide:>12.6g}" for number, (real, wide) in enumerate(findings.losses[:10], 1)]
    more = [f"       ... {len(findings.losses) - 10} more"] if len(findings.losses) > 10 else []
    return ["", " step       program        shadow", *rows, *more]
