"""Circles of calls: what a function is found to do does not depend on which function of the circle is asked first."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from itertools import permutations

import pytest
from precfix.codemod.flow.circles import Circles
from precfix.codemod.source.looks import Looks

CALLS = {
    "alone": [],
    "a": ["b", "alone"],
    "b": ["a", "c"],
    "c": ["c", "d"],
    "d": ["b"],
    "outside": ["a", "d"],
}


class Summaries:
    """A question per function: which functions it reaches, told so that the order of a cut shows."""

    def __init__(self) -> None:
        self.circles = Circles(Looks())
        self.computed: list[str] = []

    def of(self, name: str) -> str:
        return self.circles.answer(name, self._computing(name), "cut")

    def _computing(self, name: str) -> Callable[[], str]:
        def compute() -> str:
            self.computed.append(name)
            return f"{name}({' '.join(self.of(each) for each in CALLS[name])})"

        return compute


@pytest.mark.parametrize("order", [*permutations(CALLS, 3)], ids=" ".join)
def test_answers_are_the_same_whoever_asks_first(order: tuple[str, ...]) -> None:
    expected = {name: Summaries().of(name) for name in CALLS}
    summaries = Summaries()
    for name in order:
        summaries.of(name)
    assert {name: summaries.of(name) for name in CALLS} == expected


def test_a_circle_is_cut_where_it_comes_back() -> None:
    assert Summaries().of("c") == "c(cut d(b(a(cut alone()) cut)))"


def test_what_is_in_no_circle_is_computed_once() -> None:
    summaries = Summaries()
    for _ in range(2):
        for name in CALLS:
            summaries.of(name)
    assert summaries.computed.count("alone") == summaries.computed.count("outside") == 1
    assert summaries.computed.count("a") <= len(CALLS)


def test_what_was_found_with_the_same_cuts_is_not_computed_again() -> None:
    """A constructor that calls all methods, each of which reads what it sets."""
    methods = [f"m{number}" for number in range(8)]
    calls = {"made": methods, **{name: ["made"] for name in methods}}

    def asked(names: Iterable[str]) -> tuple[dict[str, str], list[str]]:
        circles, computed = Circles(Looks()), list[str]()

        def of(name: str) -> str:
            def compute() -> str:
                computed.append(name)
                return f"{name}({' '.join(map(of, calls[name]))})"

            return circles.answer(name, compute, "cut")

        return {name: of(name) for name in names}, computed

    found, computed = asked(methods)
    assert found == {name: asked([name])[0][name] for name in methods}
    assert max(computed.count(name) for name in methods) == 2


def test_what_was_cut_short_is_looked_for_again() -> None:
    circles = Circles(Looks())
    asked: list[str] = []

    def deep() -> str:
        asked.append("deep")
        circles.cut_short()
        return "not looked for"

    circles.answer("first", lambda: circles.answer("deep", deep, ""), "")
    circles.answer("second", lambda: circles.answer("deep", deep, ""), "")
    assert asked == ["deep", "deep"]
    assert not circles.may_answer("deep")


def test_an_answer_that_fails_leaves_no_trace() -> None:
    circles = Circles(Looks())

    def fail() -> str:
        raise RecursionError

    def ask_back_and_fail() -> str:
        circles.answer("b", lambda: circles.answer("a", fail, "cut"), "")
        return fail()

    with pytest.raises(RecursionError):
        circles.answer("a", ask_back_and_fail, "")
    assert not circles.may_answer("b")
    assert circles.answer("a", lambda: "found", "") == "found"


@pytest.mark.parametrize("seed", range(40))
def test_any_graph_of_calls(seed: int) -> None:
    """Generated: every function is asked in every order after two others, and always says the same."""
    generator = random.Random(seed)
    names = "abcdef"
    calls = {name: generator.sample(names, generator.randint(0, 3)) for name in names}

    def summaries(order: Iterable[str]) -> dict[str, str]:
        circles = Circles(Looks())

        def of(name: str) -> str:
            return circles.answer(name, lambda: f"{name}({' '.join(map(of, calls[name]))})", "cut")

        for name in order:
            of(name)
        return {name: of(name) for name in names}

    expected = {name: summaries([name])[name] for name in names}
    for order in permutations(names, 2):
        assert summaries(order) == expected
