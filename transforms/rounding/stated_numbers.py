"""The numbers that a setting is given in code, options, configuration files and launch lines."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ...codemod.formats.text import Entry
from ...codemod.model import Place
from ...codemod.purpose.decided import CERTAIN, Decided, has_run, stated
from ...codemod.python.names import ModuleNames, attribute_chain, names_of, string_of
from ...codemod.python.numbers import number_of
from ...codemod.python.trace import Domain, Trace
from ...codemod.source.documents import FileKind
from ...codemod.source.project import Project
from ...codemod.trainers.reading.links import HERE, LITERALS, MAX_PLACES, sources
from ...codemod.trainers.reading.scopes import TextOrigin
from ...codemod.trainers.reading.setting_reads import is_of_settings, read_of
from ...codemod.trainers.reading.shown_lines import shown_sources
from ...codemod.trainers.reading.source import GIVEN, Source, as_number

RESULTS = (".json", ".jsonl")
"""What programs write their results to, with the settings that they had."""
CONVERTING = ("float", "int", "eval")


@dataclass(frozen=True, slots=True)
class Stated:
    """A number, and where it is written."""

    value: float
    place: Place


def stated_numbers(
    project: Project, module: ModuleNames, node: ast.expr, name: str, known: Decided = CERTAIN
) -> tuple[Stated, ...]:
    """Every number that ``node`` is in the runs of ``known``; empty where any value is not a number.

    ``name`` is what the messages call it. None of defaults that a file may overrule which nothing is seen to read, and
    which is no result of another program.
    """
    every = sources(project, module, node, NUMERALS)
    seen = [item for item in every if not item.is_guessed and not _is_off(project, item)]
    near = [item for item in seen if item.lines & known.lines]
    given = near or stated([item for item in seen if not (item.lines and known.lines)])
    found = [(source, as_number(source.value)) for source in given]
    is_guessed = any(item.is_guessed and not item.path.endswith(RESULTS) for item in every)
    is_overruled = is_guessed and not any(item.kind in GIVEN for item, _ in found)
    if is_overruled or any(value is None for _, value in found):
        return ()
    return tuple(
        Stated(value, source.place(f"{name} is {value:g} here")) for source, value in found if value is not None
    )


def _is_off(project: Project, source: Source) -> bool:
    """Whether what is computed is computed only with an option that is off: ``if args.scale_lr: args.lr = ...``."""
    document = project.document(source.path) if source.value is None else None
    if document is None or document.kind is not FileKind.PYTHON:
        return False
    module = names_of(project, document)
    every = (item for item in module.nodes if isinstance(item, ast.expr))
    node = next((item for item in every if module.span(item) == source.span), None)
    return node is not None and not has_run(project, module, node)


def options_in(origin: TextOrigin) -> dict[str, Entry]:
    """What one place of a file, or a launch line, says, by the names without dashes."""
    return {item.name.lstrip("-"): item for item in origin.config.text.entries if origin.holds(item)}


def rate_in(origin: TextOrigin) -> Stated | None:
    """The learning rate that it says."""
    entry = options_in(origin).get("learning_rate")
    value = as_number(entry.value) if entry is not None else None
    if entry is None or value is None:
        return None
    return Stated(value, origin.config.place(entry, f"the learning rate is {value:g} here"))


def largest(numbers: tuple[Stated, ...]) -> Stated | None:
    """The largest of several numbers."""
    return max(numbers, key=lambda item: item.value, default=None)


def ends(numbers: Sequence[Stated]) -> tuple[Stated, ...]:
    """The smallest and the largest of several numbers; one where they are the same."""
    by_value = {item.value: item for item in sorted(numbers, key=lambda item: item.value)}
    return tuple(by_value[value] for value in dict.fromkeys((min(by_value), max(by_value))))


def _numeral(question: Trace[Source], module: ModuleNames, node: ast.expr) -> Iterable[Source] | None:
    """``2e-5``, ``-1``, ``0.1 * 3``, ``float(x)``; what computes anything else has no value."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CONVERTING:
        return question.of(module, node.args[0]) if len(node.args) == 1 else ()
    if isinstance(node, ast.Constant | ast.UnaryOp | ast.BinOp):
        number = number_of(question.project, module, node)
        text = string_of(node)
        document, span = module.document, module.document.span(node)
        value = number if number is not None else text
        return (Source(HERE, module.path, span, "", value, document.source(span)),)
    stored = list(_stored(module, node)) if isinstance(node, ast.Attribute) else []
    if stored:
        return [*_shown(question, module, node), *(_computed(question, module, value) for value in stored)]
    return LITERALS.leaf(question, module, node)


def _computed(question: Trace[Source], module: ModuleNames, node: ast.expr) -> Source:
    """What is stored counts as if a caller passed it, also where it is no number."""
    number = number_of(question.project, module, node)
    span = module.document.span(node)
    return Source("argument", module.path, span, "", number, module.document.source(span))


def _stored(module: ModuleNames, node: ast.Attribute) -> Iterator[ast.expr]:
    """What the file that reads ``args.lr`` stores there: ``args.lr = args.lr * processes``."""
    chain = attribute_chain(node)
    for owner, value, _ in module.attribute_stores.get(node.attr, ()) if chain is not None else ():
        if owner and value is not None and chain is not None and chain[-2:-1] == owner[-1:] != ["self"]:
            yield value


def _shown(question: Trace[Source], module: ModuleNames, node: ast.expr) -> Iterator[Source]:
    """What an option is given, in the launch lines of read-mes too; not what stands there for a number: ``<LR>``."""
    yield from LITERALS.setting(question, module, node)  # type: ignore[arg-type]
    read = read_of(module, node)
    if read is not None and not read.of_environment and is_of_settings(question.project, read):
        for source in shown_sources(question.project, module, read.name, (FileKind.TEXT,)):
            if as_number(source.value) is not None:
                yield source


NUMERALS: Domain[Source] = Domain(
    _numeral, LITERALS.gap, LITERALS.carried, _shown, follows_returns=False, every_default=True, most=MAX_PLACES
)
"""A number that a setting has its value from; what is computed, and not certain, has no value."""
