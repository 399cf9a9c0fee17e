"""Which rules are meant by codes, beginnings of codes and names: on the command line, in settings, in comments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..model import Rule, UsageError
from ..settings.settings import ProjectSettings


def matches(selector: str, code: str, name: str) -> bool:
    """Whether ``selector`` (``PF101``, ``PF1``, ``grad-scaler-under-bf16``) means the rule, letter case aside."""
    return code.startswith(selector.upper()) or name == selector.lower()


def _weight(selectors: Iterable[str], rule: Rule) -> int:
    """How exactly the rule is meant: 0 not at all; a longer beginning, and a name, is more exact."""
    return max(
        (len(rule.code) if each.lower() == rule.name else len(each) for each in selectors if _means(each, rule)),
        default=0,
    )


def _means(selector: str, rule: Rule) -> bool:
    return matches(selector, rule.code, rule.name)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which rules run. The more exact selector decides (``ignore PF1, select PF101``: PF101 runs), then ``ignore``."""

    select: tuple[str, ...] | None = None
    """None: all rules but those that are off by default."""
    ignore: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, settings: ProjectSettings, select: Sequence[str] | None = None, ignore: Sequence[str] = ()
    ) -> Selection:
        """What settings say. ``select`` of the command line takes the place of all that, ``ignore`` comes on top."""
        if select is not None:
            return cls(tuple(select), tuple(ignore))
        chosen = settings.select
        if chosen is None and settings.extend_select:
            chosen = ("",)  # every rule that is on by default, and these more exactly
        kept = None if chosen is None else (*chosen, *settings.extend_select)
        return cls(kept, (*settings.ignore, *settings.extend_ignore, *ignore))

    def takes(self, rule: Rule) -> bool:
        ignored = _weight(self.ignore, rule)
        if self.select is None:
            return not ignored and not rule.is_opt_in
        wanted = any(_means(each, rule) for each in self.select if each or not rule.is_opt_in)
        return wanted and (not ignored or _weight(self.select, rule) > ignored)


def require_known(selectors: Iterable[str], rules: Sequence[Rule], where: str = "") -> None:
    """Raise UsageError for a selector that means no rule; ``where`` tells the place it was written."""
    for selector in selectors:
        if not selector or not any(_means(selector, rule) for rule in rules):
            raise UsageError(f"{where}: no rule {selector[:80]!r}; {_similar_rule(selector, rules)}".removeprefix(": "))


def _similar_rule(word: str, rules: Sequence[Rule]) -> str:
    return similar(word[:80], [each for rule in rules for each in (rule.code, rule.name)])


def similar(word: str, known: Sequence[str]) -> str:
    """``did you mean PF101?``, or how to see what there is."""
    begun = [item for item in known if word and item.startswith(word.upper())]  # PF10: one digit is still to come
    close = begun or _closest(word.upper(), known, 0.78) or _closest(word.lower(), known, 0.6)
    return f"did you mean {close[0]}?" if close else "`precfix rules` lists them"


def _closest(word: str, known: Sequence[str], likeness: float) -> list[str]:
    """Similar words, first the one with the most letters in the same places: of PF101 and PF211, ``PF1O1`` is PF101."""
    from difflib import get_close_matches

    close = get_close_matches(word, known, len(known) or 1, likeness)  # as many may be equally close

    def in_place(other: str) -> int:
        return sum(mine == theirs for mine, theirs in zip(word, other, strict=False))

    return sorted(close, key=lambda each: (-in_place(each), each))


def fix_selectors(selectors: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """``PF302=dtype`` as rule and name of a fix; without a name all fixes of the rule."""
    parts = (each.partition("=") for each in selectors)
    return tuple((rule.strip(), name.strip()) for rule, _, name in parts)


def validate_settings(settings: ProjectSettings, rules: Sequence[Rule]) -> None:
    """Raise UsageError for a rule in the settings that does not exist."""
    lists = {
        "select": settings.select or (),
        "ignore": settings.ignore,
        "extend-select": settings.extend_select,
        "extend-ignore": settings.extend_ignore,
        "fixable": settings.fixable or (),
        "unfixable": settings.unfixable,
        "extend-safe-fixes": tuple(rule for rule, _ in fix_selectors(settings.extend_safe_fixes)),
        "extend-unsafe-fixes": tuple(rule for rule, _ in fix_selectors(settings.extend_unsafe_fixes)),
        "per-file-ignores": tuple(code for _, codes in settings.per_file_ignores for code in codes),
    }
    for key, selectors in lists.items():
        require_known(selectors, rules, f"{settings.path}: {key}")
    for code, name in settings.fix:
        _require_fix(f"{settings.path}: fix", [rule_named(code, rules, f"{settings.path}: fix: ")], name)
    trusted = {"extend-safe-fixes": settings.extend_safe_fixes, "extend-unsafe-fixes": settings.extend_unsafe_fixes}
    for key, entries in trusted.items():
        for selector, name in fix_selectors(entries):
            _require_fix(f"{settings.path}: {key}", [rule for rule in rules if _means(selector, rule)], name)


def rule_named(text: str, rules: Sequence[Rule], where: str = "") -> Rule:
    """The rule with this code or name; raises UsageError with the closest one."""
    for rule in rules:
        if text.upper() == rule.code or text.lower() == rule.name:
            return rule
    raise UsageError(f"{where}no rule {text[:80]!r}; {_similar_rule(text, rules)}")


def _require_fix(where: str, rules: Sequence[Rule], name: str) -> None:
    """Raise UsageError unless one of the rules offers the fix; a rule whose manual lists none may offer any."""
    from ..report.manual import fixes_of

    offered = [{fix for fix, _ in fixes_of(rule)} for rule in rules]
    if name and all(offered) and not any(name in names for names in offered):
        codes, known = ", ".join(rule.code for rule in rules), ", ".join(sorted(set().union(*offered)))
        raise UsageError(f"{where}: no fix {name[:80]!r} of {codes}; there are {known}")
