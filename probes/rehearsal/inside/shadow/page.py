"""The picture per layer: one HTML page that needs nothing else."""

from __future__ import annotations

import math
from html import escape

from .places import Findings, LayerLoss, LossPlace

MAX_LAYERS = 2000
"""Rows drawn; a larger model's other layers are in the JSON."""
STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #1f2328; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0 2rem; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid #d0d7de; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.bar { width: 30%; } code { font-size: 13px; }
.bar span { display: block; height: .45rem; margin: .15rem 0; border-radius: 2px; min-width: 1px; }
.output { background: #0969da; } .gradient { background: #bc4c00; }
@media (prefers-color-scheme: dark) { body { background: #0d1117; color: #e6edf3; } th, td { border-color: #30363d; } }
"""
DECADES = 6
"""Bars are logarithmic: from an error of 1e-6 (nothing) to 1 (full width)."""


def page(findings: Findings, title: str) -> str:
    """The worst places and a bar for each module's output and gradient, as HTML."""
    shown = findings.layers[:MAX_LAYERS]
    rest = len(findings.layers) - len(shown)
    more = f"<p>{rest} more modules are in the JSON.</p>" if rest else ""
    return (
        f"<!doctype html>\n<html lang=en><meta charset=utf-8><title>{escape(title)}</title><style>{STYLE}</style>\n"
        f"<h1>{escape(title)}</h1>\n<p>{findings.steps} optimizer steps beside a float64 shadow.</p>\n"
        f"{_worst(findings.worst)}<h2>Modules</h2>\n<p>Relative error of the output (blue) and of its gradient "
        f"(orange), on a logarithmic scale from 1e-{DECADES} to 1.</p>\n"
        f"<table><tr><th>module<th>class<th>dtype<th>output<th>gradient<th></tr>\n"
        f"{''.join(_layer(layer) for layer in shown)}</table>{more}\n</html>\n"
    )


def _worst(places: tuple[LossPlace, ...]) -> str:
    if not places:
        return "<p>Nothing is lost beyond the noise of rounding.</p>\n"
    rows = "".join(_place(place) for place in places)
    return f"<h2>Worst places</h2>\n<table><tr><th>what<th>where<th>dtype<th>measured</tr>\n{rows}</table>\n"


def _place(place: LossPlace) -> str:
    line = f"{place.line[0]}:{place.line[1]}" if place.line else ""
    where = " ".join(f"<code>{escape(part)}</code>" for part in (place.name, line) if part)
    return f"<tr><td>{place.loss.value}<td>{where}<td>{escape(place.dtype)}<td>{escape(place.detail)}</tr>\n"


def _layer(layer: LayerLoss) -> str:
    bars = f"<span class=output style='width:{_width(layer.output)}%'></span>"
    bars += f"<span class=gradient style='width:{_width(layer.gradient)}%'></span>"
    return (
        f"<tr><td><code>{escape(layer.name)}</code><td>{escape(layer.kind)}<td>{escape(layer.dtype)}"
        f"<td class=number>{layer.output:.2g}<td class=number>{layer.gradient:.2g}<td class=bar>{bars}</tr>\n"
    )


def _width(error: float) -> int:
    if error <= 0:
        return 0
    return round(100 * min(1.0, max(0.0, 1 + math.log10(error) / DECADES)))
