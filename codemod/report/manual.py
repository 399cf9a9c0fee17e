"""The manual of the rules, rendered from their docstrings: rows of a table, and one Markdown text per rule."""

from __future__ import annotations

import re

from ..model import Rule
from ..trainers.framework import Action, Contradiction, Framework

_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_NAME = re.compile(r"`([a-z0-9-]+)`")
_FIX_NAMES = re.compile(r"(`[a-z0-9-]+`(?:(?:,|,? and|,? or)\s+`[a-z0-9-]+`)*)\s+\[(safe|unsafe|display-only)\]")


def fixes_of(rule: Rule) -> tuple[tuple[str, str], ...]:
    """(name, applicability) of the fixes in the ``Fix`` section: ```drop` [safe]``, ```a` and `b` [unsafe]``."""
    named = _FIX_NAMES.findall(sections_of(rule).get("Fix", ""))
    return tuple(dict.fromkeys((name, level) for names, level in named for name in _NAME.findall(names)))


def sections_of(rule: Rule) -> dict[str, str]:
    """Heading -> text of the sections of a rule's manual, in order."""
    _, *parts = _HEADING.split(rule.docs)
    return {heading.strip(): text.strip() for heading, text in zip(parts[::2], parts[1::2], strict=True)}


def manual_of(rule: Rule) -> str:
    """The whole manual of a rule as Markdown, with a final newline."""
    body = rule.docs.partition("\n")[2].strip()
    return f"# {rule.code} {rule.name}\n\n**{rule.title}**\n\n{body}\n"


def contradiction_manual(framework: Framework, item: Contradiction) -> str:
    """What is known of one contradiction of a framework's table, as Markdown with a final newline."""
    lines = [f"# {item.id} ({item.rule})", "", f"**{framework.title}: {item.message}**", "", "## When", ""]
    lines += [f"- `{condition.text}`" for condition in item.when]
    if framework.packages:
        lines += ["", f"Its releases are those of {', '.join(framework.packages)}, as the project pins them."]
    lines += ["", "## Fix", ""]
    for regime, actions in item.patches:
        steps = "; ".join(f"`{_action_text(action)}`" for action in actions)
        lines.append(f"- {'any target' if regime == 'any' else regime}: {steps}")
    if not item.patches:
        lines.append("reported only")
    lines += ["", "## Sources", ""]
    lines += [f"- {source}" for source in item.sources or framework.sources]
    return "\n".join(lines) + "\n"


def _action_text(action: Action) -> str:
    said = f"{action.verb} {action.key}={action.value}" if action.verb in ("set", "put", "rename") else action.verb
    if action.verb == "drop":
        said = f"drop {action.key}"
    elif action.verb == "report":
        said = action.value
    if action.only_from:
        said += f" from {', '.join(action.only_from)}"
    conditions = " and ".join(condition.text for condition in action.conditions)
    return f"{said} if {conditions}" if conditions else said
