"""``precfix rules`` and ``precfix explain``: what is known, for reading."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from ..model import Rule
from .known_rules import installed_rules, rule_named
from .options import RulesFormat
from .output import INTERNAL


def list_rules(chosen: RulesFormat, color: bool | None) -> int:
    """Write the list of rules; returns the exit code, 3 when rules of another package are broken."""
    from ..report.text import show

    known, problems = installed_rules()
    if chosen is RulesFormat.JSON:
        print(_as_json(known))
    else:
        width = max(36, *(len(rule.name) for rule in known))
        lines = [((rule.code, "rule"), (f"  {rule.name:<{width}}  ", "place"), (rule.title, "text")) for rule in known]
        show(lines, sys.stdout, color=color)
    for problem in problems:
        print(f"precfix: {problem.path}: {problem.reason}", file=sys.stderr)
    return INTERNAL if problems else 0


def _as_json(known: Sequence[Rule]) -> str:
    from ..report.manual import fixes_of

    rows = [
        {
            "code": rule.code,
            "name": rule.name,
            "title": rule.title,
            "fixes": [{"name": name, "applicability": level} for name, level in fixes_of(rule)],
            "url": rule.url or None,
        }
        for rule in known
    ]
    return json.dumps(rows, indent=2)


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
