"""``precfix rules`` and ``precfix explain``: what is known, for reading."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from ..model import Rule
from ..screening.selection import rule_named
from .known_rules import installed_rules
from .options import Format
from .output import INTERNAL


def list_rules(chosen: Format, color: bool | None) -> int:
    """Write the list of rules; returns the exit code, 3 when rules of another package are broken."""
    from ..report.text import show

    known, problems = installed_rules()
    if chosen is Format.JSON:
        print(_as_json(known))
    else:
        width = max(36, *(len(rule.name) for rule in known))
        lines = [
            ((rule.code, "rule"), (f"  {rule.name:<{width}}  ", "place"), (f"{rule.title}{_off(rule)}", "text"))
            for rule in known
        ]
        show(lines, sys.stdout, color=color)
    for problem in problems:
        print(f"precfix: {problem.path}: {problem.reason}", file=sys.stderr)
    return INTERNAL if problems else 0


def _off(rule: Rule) -> str:
    return " [off by default]" if rule.is_opt_in else ""


def _as_json(known: Sequence[Rule]) -> str:
    return json.dumps([_described(rule) for rule in known], indent=2)


def _described(rule: Rule) -> dict[str, object]:
    from ..report.manual import fixes_of

    return {
        "code": rule.code,
        "name": rule.name,
        "title": rule.title,
        "default": not rule.is_opt_in,
        "fixes": [{"name": name, "applicability": level} for name, level in fixes_of(rule)],
        "url": rule.url or None,
    }


def manual_as_json(text: str) -> str:
    """The manual that `manual_named` gives as one JSON object, with what ``rules`` says of its rule."""
    explanation = manual_named(text)
    rules = [rule for rule in installed_rules()[0] if rule.code in explanation.partition("\n")[0]]
    data = {"version": 1, **(_described(rules[0]) if rules else {}), "explanation": explanation}
    return json.dumps(data, indent=2) + "\n"


def manual_named(text: str) -> str:
    """The manual of a rule (by code or name) or of a contradiction (``ds-bf16-loss-scale``); raises UsageError."""
    from ...transforms.frameworks import load_frameworks
    from ..report.manual import contradiction_manual, manual_of

    wanted = text.strip("[]")
    for framework in load_frameworks():
        for item in framework.contradictions:
            if item.id == wanted:
                return contradiction_manual(framework, item)
    known, _ = installed_rules()
    if "-" in wanted:
        for rule in known:
            if f"`{wanted}`" in rule.docs and rule.name != wanted:
                return manual_of(rule)
    return manual_of(rule_named(text, known))
