"""Plain words are read as typer reads them; what is not plain is left to typer."""

from __future__ import annotations

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from precfix.codemod.cli.commands import AuditRequest, CheckRequest, MigrateRequest, Request
from precfix.codemod.cli.for_typer import taking
from precfix.codemod.cli.options import Argument, FlagOption
from precfix.codemod.cli.typed_words import names_of, options_of, request_of

from .nightly import examples

KINDS = (AuditRequest, CheckRequest, MigrateRequest)
VALUES = ("a.py", "PF101", "text", "json", "markdown", "bf16-mixed", "never", "", "-", "-x", "a=b", "ü", "--", "[x]")


def by_typer(kind: type[Request], words: list[str]) -> Request | None:
    """What typer makes of the words; None where it complains or shows its help."""
    asked: list[Request] = []

    def run(request: Request) -> int:
        """Keep what was asked."""
        asked.append(request)
        return 0

    app = typer.Typer(rich_markup_mode=None)
    app.command()(taking(kind, run))
    with pytest.raises(SystemExit):
        app(words)
    return asked[0] if asked else None


def every_name(kind: type[Request]) -> list[str]:
    options = options_of(kind)
    return [
        name
        for field, option in options.items()
        if not isinstance(option, Argument)
        for name in names_of(field, option)
    ]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(150))
@given(data=st.data())
def test_plain_words_are_read_as_typer_reads_them(kind: type[Request], data: st.DataObject) -> None:
    names = every_name(kind)
    word = st.one_of(
        st.sampled_from(names),
        st.sampled_from(VALUES),
        st.builds("{}={}".format, st.sampled_from(names), st.sampled_from(VALUES)),
        st.sampled_from(["--help", "--quie", "-qv", "--no-such"]),
    )
    words = data.draw(st.lists(word, max_size=6))
    mine = request_of(kind, words)
    assert mine is None or mine == by_typer(kind, words)


@pytest.mark.parametrize("kind", KINDS)
def test_every_option_can_be_typed_plainly(kind: type[Request]) -> None:
    for field, option in options_of(kind).items():
        if isinstance(option, Argument):
            continue
        for name in names_of(field, option):
            value = [] if isinstance(option, FlagOption) else [_fitting(option.metavar)]
            words = ["project", name, *value]
            assert request_of(kind, words) == by_typer(kind, words) is not None, words


def _fitting(metavar: str | None) -> str:
    choice = metavar[1:].partition("|")[0] if metavar and metavar.startswith("[") else "some"
    return "2" if metavar == "N" else choice


@pytest.mark.parametrize(
    "words", [[], ["--help"], ["a", "--quie"], ["a", "-qv"], ["a", "--color", "blue"], ["a", "--", "b"], ["a", "--to"]]
)
def test_what_is_not_plain_is_left_to_typer(words: list[str]) -> None:
    assert request_of(MigrateRequest, words) is None
