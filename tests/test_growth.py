"""Twice the code costs about twice the work, whatever it holds: counted, never timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path

import pytest
from precfix.codemod.half.half_classes import certain_casts
from precfix.codemod.model import RemoveStatement, Span
from precfix.codemod.purpose.set_elsewhere import given_elsewhere
from precfix.codemod.python.names import names_of
from precfix.codemod.rewrite import rewrite
from precfix.codemod.source.discovery import Limits, discover
from precfix.codemod.source.documents import FileKind
from precfix.codemod.source.project import Project
from precfix.codemod.source.question import FileQuestion
from precfix.codemod.source.store import FileStore

from . import growth
from .growth import Shape, Work, work_of
from .nightly import NIGHTLY

AT_MOST = 2.3
PARSING = ("codemod/source/parsing.py", "parse_python")
READING = ("codemod/source/reading.py", "read_regular_file")
GLOBBING = ("codemod/trainers/reading/recognition.py", "stands_at")
INTERPRETING = ("codemod/flow/analysis.py", "_run")

SIZES: dict[Shape, tuple[int, int]] = {
    growth.autocasts: (200, 1000),
    growth.autocasts_in_a_function: (150, 1000),
    growth.kept_regions: (100, 1000),
    growth.losses_in_a_function: (150, 500),
    growth.scalers: (40, 500),
    growth.modules: (40, 500),
    growth.callers: (80, 1000),
    growth.filled_lists: (150, 1000),
    growth.angles: (40, 500),
    growth.a_long_function: (80, 500),
    growth.plain_lines: (200, 1700),
    growth.files: (120, 5000),
    growth.configurations: (20, 100),
    growth.run_logs: (40, 3000),
    growth.sections: (200, 1000),
}
"""The smaller size of each shape, by day and at night: then there are 2,000 autocasts in a file, 10,000 files,
or a file of 30,000 lines."""


@pytest.fixture(params=[pytest.param(shape, id=shape.__name__) for shape in SIZES], scope="module")
def works(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Work, Work]:
    """The work on a project and on one of twice the size, after one that fills what is kept between runs."""
    shape: Callable[[int], Mapping[str, str]] = request.param
    number = SIZES[request.param][NIGHTLY]
    work_of(tmp_path_factory.mktemp("first"), shape(2))
    one, two = (work_of(tmp_path_factory.mktemp("sized"), shape(size)) for size in (number, 2 * number))
    return one, two


def test_work_grows_with_the_project_and_not_with_its_square(works: tuple[Work, Work]) -> None:
    one, two = works
    assert two.calls <= AT_MOST * one.calls, growth.fastest_growing(one, two)


def test_files_are_read_and_parsed_a_fixed_number_of_times(works: tuple[Work, Work]) -> None:
    one, two = works
    for each in (PARSING, READING, INTERPRETING):
        assert two.of(*each) <= AT_MOST * max(one.of(*each), 1), each
    assert two.of(*PARSING) >= 1, "nothing was parsed: the count means nothing"


def test_keys_that_no_glob_names_are_compared_with_none(tmp_path: Path) -> None:
    few, many = (work_of(tmp_path / str(keys), growth.run_logs(20, keys)) for keys in (10, 100))
    assert many.of(*GLOBBING) == few.of(*GLOBBING) > 0


def test_the_fixes_of_a_file_share_what_it_is_parsed_to() -> None:
    """A report asks for each fix by itself, as if it were the only one."""
    lines = [f"shared_{number} = 1\n" for number in range(1, 6)]
    work = growth.counted(
        lambda: [rewrite("".join(lines), [RemoveStatement(Span(row, 1, row, 13))]) for row in range(1, 6)]
    )
    assert work.of("codemod/rewrite/locate.py", "_parse_cst") == 1
    assert work.of("codemod/rewrite/__init__.py", "rewrite") == 5


@pytest.mark.parametrize(("made", "is_asked"), [("torch.zeros(3)", False), ("x * 2", False), ("Net()", True)])
def test_callers_are_asked_about_casts_of_what_may_be_a_model(tmp_path: Path, made: str, is_asked: bool) -> None:
    """What is cast is looked at first: of what a tensor is cast to, nobody asks all who call the function."""
    (tmp_path / "run.py").write_text(
        f"import torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x\n\n\n"
        f"def step(x, dtype):\n    y = {made}\n    y = y.to(dtype)\n    return y.forward(x)\n\n\n"
        f"step(1, torch.bfloat16)\n"
    )
    work = growth.counted(lambda: [*certain_casts(Project.open([tmp_path]))])
    assert work.of("codemod/half/half_classes.py", "_may_be_entered") == 1
    assert bool(work.of("codemod/python/callers.py", "callers_of")) is is_asked


@pytest.mark.parametrize(("parsed", "searched"), [(1, 2), (3, 0)])
def test_only_texts_that_nobody_parsed_are_searched_for_what_they_store(
    tmp_path: Path, parsed: int, searched: int
) -> None:
    (tmp_path / "a.py").write_text("amp = False\n")
    for name in "bc":
        (tmp_path / f"{name}.py").write_text("import a\n\na.amp = True\n")
    project = Project.open([tmp_path])
    module, *_ = (names_of(project, document) for document in islice(project.python_documents(), parsed))
    work = growth.counted(lambda: given_elsewhere(project, module, module.module_scope, "amp"))
    assert work.of("codemod/python/glimpses.py", "may_set") == searched
    assert work.findings == 2


def test_the_count_sees_a_square(tmp_path: Path) -> None:
    """The counter itself: a comparison of each with each is seen."""

    def compared(number: int) -> Work:
        return growth.counted(lambda: [str(a) for a in range(number) for b in range(number) if divmod(a, b + 1)] and [])

    one, two = compared(40), compared(80)
    assert two.calls > 3.5 * one.calls


def test_large_files_of_data_are_searched_in_their_vocabulary(tmp_path: Path) -> None:
    """Read for the precision words, then for what is asked besides; from then on only for words with a space."""
    text = '{"answer": "Some Plain words, float16 among them"}\n' * 10_000
    (tmp_path / "answers.json").write_text(text)
    limits = Limits()
    store = FileStore(discover([tmp_path], (), limits), limits)
    words = ("float16", "plain", "absent", "answer", "compute_environment", "bfloat16", "lain w")
    asked = [FileQuestion.of((FileKind.JSON,), (word,)) for word in words]
    work = growth.counted(lambda: [item.words[0] for item in asked if store.paths_for(item)])
    assert [item.words[0] for item in asked if store.paths_for(item)] == ["float16", "plain", "answer", "lain w"]
    assert work.of(*READING) == 3
