"""From a setting that is a number to the places that give it its value: options, files, launch lines, read-mes."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from ...model import Edit, EditRefused, ReplaceExpression
from ...python.names import ModuleNames, attribute_chain, string_of
from ...python.numbers import number_of
from ...python.trace import Domain, Trace
from ...source.documents import FileKind
from ...source.project import Project
from ...torch.dtypes import Constant
from .launch_flags import other_word, truth_of
from .links import HERE, LITERALS, MAX_PLACES, sources
from .setting_reads import is_of_settings, read_of
from .shown_lines import shown_sources
from .source import ValueSource, as_number

CONVERTING = ("float", "int", "eval")


def _numeral(question: Trace[ValueSource], module: ModuleNames, node: ast.expr) -> Iterable[ValueSource] | None:
    """``2e-5``, ``-1``, ``0.1 * 3``, ``float(x)``; what computes anything else has no value."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CONVERTING:
        return question.of(module, node.args[0]) if len(node.args) == 1 else ()
    if isinstance(node, ast.Constant | ast.UnaryOp | ast.BinOp):
        number = number_of(question.project, module, node)
        text = string_of(node)
        document, span = module.document, module.document.span(node)
        value = number if number is not None else text
        return (ValueSource(HERE, module.path, span, "", value, document.source(span)),)
    stored = list(_stored(module, node)) if isinstance(node, ast.Attribute) else []
    if stored:
        return [*_shown(question, module, node), *(_computed(question, module, value) for value in stored)]
    return LITERALS.leaf(question, module, node)


def _computed(question: Trace[ValueSource], module: ModuleNames, node: ast.expr) -> ValueSource:
    """What is stored counts as if a caller passed it, also where it is no number."""
    number = number_of(question.project, module, node)
    span = module.document.span(node)
    return ValueSource("argument", module.path, span, "", number, module.document.source(span))


def _stored(module: ModuleNames, node: ast.Attribute) -> Iterator[ast.expr]:
    """What the file that reads ``args.lr`` stores there: ``args.lr = args.lr * processes``."""
    chain = attribute_chain(node)
    for owner, value, _ in module.attribute_stores.get(node.attr, ()) if chain is not None else ():
        if owner and value is not None and chain is not None and chain[-2:-1] == owner[-1:] != ["self"]:
            yield value


def _shown(question: Trace[ValueSource], module: ModuleNames, node: ast.expr) -> Iterator[ValueSource]:
    """What an option is given, in the launch lines of read-mes too; not what stands there for a number: ``<LR>``."""
    yield from LITERALS.setting(question, module, node)  # type: ignore[arg-type]
    read = read_of(module, node)
    if read is not None and not read.of_environment and is_of_settings(question.project, read):
        for source in shown_sources(question.project, module, read.name, (FileKind.TEXT,)):
            if as_number(source.value) is not None:
                yield source


NUMERALS: Domain[ValueSource] = Domain(
    _numeral, LITERALS.gap, LITERALS.carried, _shown, follows_returns=False, every_default=True, most=MAX_PLACES
)
"""A number that a setting has its value from; what is computed, and not certain, has no value."""


def truths(project: Project, module: ModuleNames, node: ast.expr) -> tuple[ValueSource, ...]:
    """The `sources` of a switch; numbers (``--amp 1``) are truth values, where all that is known are such.

    So is a word that is given for an entry of a configuration: ``train.amp=True``.
    """
    plain = tuple(_as_word(item) for item in sources(project, module, node))
    found = [item for item in sources(project, module, node, NUMERALS) if not _is_shown(project, item)]
    if any(isinstance(item.value, bool) for item in plain) or not {as_number(item.value) for item in found} <= {0, 1}:
        return plain
    return tuple(replace(item, value=item.value in (1, "1"), respelling=partial(_as_digit, item)) for item in found)


def _is_shown(project: Project, source: ValueSource) -> bool:
    """Whether a read-me says it: of switches that is told apart."""
    document = project.document(source.path)
    return document is not None and document.kind is FileKind.TEXT


def _as_word(source: ValueSource) -> ValueSource:
    is_given = source.entry is not None and source.entry.kind == "override" and isinstance(source.value, str)
    if not is_given or str(source.value).lower() not in ("true", "false"):
        return source
    return replace(source, value=truth_of(source.value), respelling=partial(_other_word, source))


def _other_word(source: ValueSource, value: Constant) -> Edit:
    word = str(source.value) if truth_of(source.value) is value else other_word(str(source.value))
    if source.config is None or source.entry is None or word is None:
        raise EditRefused(f"{source.key} is no truth value")
    return source.config.edit(source.config.text.set(source.entry, word))


def _as_digit(source: ValueSource, value: Constant) -> Edit:
    if not isinstance(value, bool) or source.text.strip("'\"") not in ("0", "1"):
        raise EditRefused(f"{source.text or source.key} is no digit")
    if source.option is None or not source.option.is_number:
        raise EditRefused(f"{source.key} may be a text, and every text is true")
    if source.config is not None and source.entry is not None:
        return source.config.edit(source.config.text.set(source.entry, str(int(value))))
    return Edit(source.path, ReplaceExpression(source.span, (str(int(value)),)))
