"""Which rules a selection takes: exactness, the command line over the settings, names, and words that mean no rule."""

from __future__ import annotations

from pathlib import Path

import pytest
from precfix.codemod.model import Rule, UsageError
from precfix.codemod.screening.selection import Selection, fix_selectors, matches, require_known, validate_settings
from precfix.codemod.settings.settings import ProjectSettings

MANUAL = "Title.\n\n## Fix\n\n- `drop` [safe]: drops.\n- `disable` [unsafe]: disables.\n"
RULES = [
    Rule("PF101", "grad-scaler-under-bf16", MANUAL, lambda project: ()),
    Rule("PF102", "fp16-autocast-without-scaler", "Title.", lambda project: ()),
    Rule("PF201", "mask-concat-dtype", "Title.", lambda project: ()),
    Rule("XX100", "of-a-plugin", "Title.", lambda project: ()),
]


def taken(selection: Selection) -> list[str]:
    return [rule.code for rule in RULES if selection.takes(rule)]


ALL = [rule.code for rule in RULES]


@pytest.mark.parametrize(
    ("select", "ignore", "codes"),
    [
        (None, (), ALL),
        ((), (), []),
        (("PF1",), (), ["PF101", "PF102"]),
        (("pf101",), (), ["PF101"]),
        (("Mask-Concat-Dtype",), (), ["PF201"]),
        (("mask",), (), []),
        (None, ("PF",), ["XX100"]),
        (("PF101",), ("PF1",), ["PF101"]),
        (("PF1",), ("PF101",), ["PF102"]),
        (("PF1",), ("PF1",), []),
        (("PF",), ("PF1",), ["PF201"]),
        (("grad-scaler-under-bf16",), ("PF10",), ["PF101"]),
        (("PF101",), ("grad-scaler-under-bf16",), []),
    ],
)
def test_the_more_exact_word_decides_and_then_ignore(
    select: tuple[str, ...] | None, ignore: tuple[str, ...], codes: list[str]
) -> None:
    assert taken(Selection(select, ignore)) == codes


def test_extending_adds_to_what_is_selected() -> None:
    assert taken(Selection.of(ProjectSettings(select=("PF2",), extend_select=("PF102",)))) == ["PF102", "PF201"]
    assert taken(Selection.of(ProjectSettings(ignore=("PF1",), extend_select=("PF102",)))) == [
        "PF102",
        "PF201",
        "XX100",
    ]
    assert taken(Selection.of(ProjectSettings(select=("PF",), extend_ignore=("PF1",)))) == ["PF201"]
    assert taken(Selection.of(ProjectSettings(ignore=("PF2",), extend_ignore=("PF1",)))) == ["XX100"]


def test_select_on_the_command_line_takes_the_place_of_all_settings() -> None:
    settings = ProjectSettings(select=("PF2",), ignore=("PF101",), extend_select=("XX",), extend_ignore=("PF102",))
    assert taken(Selection.of(settings, ["PF1"])) == ["PF101", "PF102"]
    assert taken(Selection.of(settings, ["PF1"], ["PF101"])) == ["PF102"]


def test_ignore_on_the_command_line_comes_on_top_of_the_settings() -> None:
    """What a team ignores does not come back because somebody ignores one rule more."""
    settings = ProjectSettings(ignore=("PF101",), extend_ignore=("XX",))
    assert taken(Selection.of(settings, None, ["PF201"])) == ["PF102"]
    assert taken(Selection.of(ProjectSettings(select=("PF1",)), None, ["PF102"])) == ["PF101"]


def test_a_beginning_is_not_a_part() -> None:
    assert matches("PF1", "PF101", "a")
    assert matches("pf", "PF101", "a")
    assert not matches("F101", "PF101", "a")
    assert not matches("PF1011", "PF101", "a")


@pytest.mark.parametrize(
    ("word", "hint"), [("PF11", "PF10"), ("PF999", ""), ("grad-scaler-under-bf61", "grad-scaler-under-bf16"), ("", "")]
)
def test_words_that_mean_no_rule_are_told_with_a_suggestion(word: str, hint: str) -> None:
    with pytest.raises(UsageError, match=f"somewhere: no rule {word!r}") as caught:
        require_known([word], RULES, "somewhere")
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (ProjectSettings(select=("PF9",)), "select: no rule 'PF9'"),
        (ProjectSettings(ignore=("PF101", "PF999")), "ignore: no rule 'PF999'"),
        (ProjectSettings(extend_select=("PF9",)), "extend-select: no rule"),
        (ProjectSettings(extend_ignore=("PF9",)), "extend-ignore: no rule"),
        (ProjectSettings(fixable=("PF9",)), "fixable: no rule"),
        (ProjectSettings(unfixable=("PF9",)), "unfixable: no rule"),
        (ProjectSettings(extend_safe_fixes=("PF9=drop",)), "extend-safe-fixes: no rule 'PF9'"),
        (ProjectSettings(extend_safe_fixes=("=drop",)), "extend-safe-fixes: no rule ''"),
        (ProjectSettings(extend_safe_fixes=("PF101=dorp",)), "no fix 'dorp' of PF101; there are disable, drop"),
        (ProjectSettings(extend_unsafe_fixes=("PF101=dorp",)), "extend-unsafe-fixes: no fix 'dorp'"),
        (ProjectSettings(fix=(("PF1", "drop"),)), "fix: no rule 'PF1'; did you mean PF101?"),
        (ProjectSettings(fix=(("PF101", "dorp"),)), "fix: no fix 'dorp' of PF101"),
    ],
)
def test_settings_that_name_what_does_not_exist_are_refused(settings: ProjectSettings, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        validate_settings(settings, RULES)
    assert said in str(caught.value)


def test_right_settings_are_accepted() -> None:
    validate_settings(
        ProjectSettings(
            select=("PF",),
            extend_safe_fixes=("PF101=disable", "PF2", "PF1 = drop"),
            fix=(("grad-scaler-under-bf16", "disable"), ("XX100", "anything")),
        ),
        RULES,
    )
    assert fix_selectors(["PF1 = drop", "PF2"]) == (("PF1", "drop"), ("PF2", ""))


def test_unknown_words_in_settings_are_told_with_the_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"precfix\.toml: select"):
        validate_settings(ProjectSettings(path=tmp_path / "precfix.toml", select=("PF9",)), RULES)


def test_a_rule_that_is_off_by_default_runs_only_where_a_selector_means_it() -> None:
    quiet = Rule("PF603", "half-on-cpu", "Title.\n\n## Off by default\n\nWhy.\n", lambda _: ())
    assert not Selection().takes(quiet)
    assert not Selection.of(ProjectSettings(extend_select=("PF1",))).takes(quiet)
    for selector in ("PF603", "PF6", "half-on-cpu"):
        assert Selection.of(ProjectSettings(extend_select=(selector,))).takes(quiet)
        assert Selection.of(ProjectSettings(), [selector]).takes(quiet)
    assert not Selection.of(ProjectSettings(), ["PF6"], ["PF603"]).takes(quiet)
