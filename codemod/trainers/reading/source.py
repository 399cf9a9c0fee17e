"""One place that gives a setting its value, and how to respell it there."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from ...formats.text import TextEntry
from ...model import Edit, EditRefused, Place, ReplaceExpression, Span
from ...python.names import ModuleNames
from ...python.options import Option
from ...torch.dtypes import TORCH_DTYPES, UNKNOWN, Constant, Dtype, Unknown
from .configs import ConfigFile

NUMBERS = (16, 32, 64)
"""Numbers that name a precision: ``Trainer(precision=16)``. As values they are texts, as in a file."""
SourceKind: TypeAlias = Literal[
    "", "constant", "argument", "parameter", "fallback", "field", "option", "entry", "flag", "variable"
]
"""Empty: it stands in the expression itself · ``constant``: a variable or attribute of the code · ``argument``: what a
caller passes · ``parameter``: a default · ``fallback``: of ``cfg.get("key", default)``, where a configuration may say
otherwise · ``field``: of a class body · ``option``: the default of a command-line option · ``entry``: of a file
· ``flag``: on a command line · ``variable``: of a shell or the environment."""
GIVEN: tuple[SourceKind, ...] = ("argument", "flag", "variable", "entry")
"""What a run is given; the others are what counts where it is given nothing."""

STRENGTH: dict[SourceKind, int] = {
    "argument": 0,
    "flag": 1,
    "variable": 2,
    "entry": 3,
    "option": 4,
    "parameter": 5,
    "field": 6,
    "constant": 7,
}
"""Kinds of sources, the strongest first."""


@dataclass(frozen=True, slots=True, eq=False)
class ValueSource:
    """A literal that a setting gets its value from."""

    kind: SourceKind
    path: str
    span: Span
    """Of the value; in configuration files from the key to the value."""
    key: str
    """The setting's name at this place."""
    value: Constant
    """A dtype for ``torch.float16`` and its like."""
    text: str
    """The value as written; empty where nothing is (a bare flag)."""
    config: ConfigFile | None = None
    entry: TextEntry | None = None
    is_switch: bool = False
    """An option that takes no value: absent it has the value given here."""
    picked_by: str = ""
    """For a branch of ``"fp16" if args.amp else "no"``: the test that picks it."""
    quote: str = ""
    """For ``"bfloat16" if supported() else "float16"``, whose value is that of its first branch: how it quotes."""
    respelling: Callable[[Constant], Edit] | None = None
    """How another value is written, where that is not a matter of replacing this one."""
    flag: str = ""
    """The flag that switches it on, for switches of a command line."""
    via: tuple[str, ...] = ()
    """The calls that pass the value on, the last one first: ``train.py:13``."""
    calls: tuple[int, ...] = ()
    """For what a command line gives: the command lines of its text, by number, that get it, as far as it shows."""
    is_guessed: bool = False
    """An entry of a file that nothing is seen to read: only its keys are like those that the code reads."""
    is_negated: bool = False
    """Whether what stands there is the opposite: of ``not args.bf16``."""
    provided: tuple[tuple[ValueSource, ...], ...] = ()
    """What has to be on beside it in the same run, each with its places: the rest of ``a.fp16 and not a.bf16``."""
    machine: tuple[bool, bool] | None = None
    """What the machine says to it besides: where it has bfloat16, and where it has not."""
    word: str = ""
    """What stands there, where code picks the value for a word."""
    offered: tuple[Constant, ...] = ()
    """What the words that are known there pick."""
    option: Option | None = None
    """The option that takes it."""

    @property
    def is_reference(self) -> bool:
        """Whether it only names what the value is taken from: ``${base.precision}``, ``{{ precision }}``."""
        return isinstance(self.value, str) and (("${" in self.value and ":-" not in self.value) or "{{" in self.value)

    @property
    def is_of_line(self) -> bool:
        """Whether it stands on a command line, or in a variable of the text that has some."""
        return bool(self.calls) or self.kind in ("flag", "variable")

    @property
    def is_left_open(self) -> bool:
        """Whether a command line gives it by a variable that nobody follows: ``--dtype $1`` of a function."""
        return self.is_of_line and isinstance(self.value, str) and self.value.startswith("$")

    @property
    def strength(self) -> int:
        """The smaller the stronger; an override on the run's own line (``trainer.precision=16``) counts as a flag."""
        return STRENGTH.get("flag" if self.kind == "entry" and self.is_of_line else self.kind, len(STRENGTH))

    @property
    def lines(self) -> frozenset[tuple[object, int]]:
        """The command lines that give it, each as its text and its place there; empty for what stands elsewhere."""
        return frozenset((self.config or self.path, number) for number in self.calls)

    @property
    def is_tested(self) -> bool:
        """Whether a test picks one of two strings."""
        return bool(self.quote)

    @property
    def believed(self) -> ValueSource:
        """The same as if the code were seen to load its file: what is written then needs leave."""
        return replace(self, is_guessed=False)

    def place(self, message: str) -> Place:
        return Place(self.path, self.span, message)

    def respelled(self, value: Constant) -> Edit:
        """The edit that writes ``value`` here in the present style. Raises EditRefused."""
        if self.is_guessed:
            raise EditRefused(f"nothing is seen to read {self.path}")
        refused = self.option.why_not(value) if self.option is not None and isinstance(value, str) else ""
        if refused:
            raise EditRefused(refused)
        if self.respelling is not None:
            return self.respelling(value)
        if self.config is not None and self.entry is not None:
            if isinstance(value, Dtype | Unknown):
                raise EditRefused("a configuration file holds no dtypes")
            if not self.text:
                raise EditRefused("nothing is written that could be respelled")
            return self.config.edit(self.config.text.set(self.entry, value))
        if self.is_switch:
            raise EditRefused(f"{self.key} is a switch of the command line")
        return Edit(self.path, ReplaceExpression(self.span, (self._python(value),)))

    def _python(self, value: Constant) -> str:
        if isinstance(value, Dtype):
            return self._dtype(value)
        if isinstance(value, str):
            return self._string(value)
        if isinstance(value, bool) and isinstance(self.value, bool):
            return str(value)
        raise EditRefused(f"{self.text} cannot become {value!r}")

    def _dtype(self, value: Dtype) -> str:
        owner, dot, _ = self.text.rpartition(".")
        if not isinstance(self.value, Dtype) or not dot or not owner.replace(".", "").isidentifier():
            raise EditRefused(f"{self.text} is not an attribute of torch")
        return f"{owner}.{value.name}"

    def _string(self, value: str) -> str:
        if self.text.isdigit() and self.config is None:
            if self.kind != "constant":
                raise EditRefused(f"what reads {self.key} may need a number")
            return value if value.isdigit() else f'"{value}"'
        quote = self.quote or self.text[:1]
        plain = bool(self.quote) or (quote in ("'", '"') and self.text.endswith(quote) and self.text.count(quote) == 2)
        if not plain or not value.isprintable() or quote in value or "\\" in value:
            raise EditRefused(f"{self.text} is not a plain string")
        return f"{quote}{value}{quote}"


def literal_source(kind: SourceKind, module: ModuleNames, node: ast.expr, key: str) -> ValueSource | None:
    """The source that a literal (a string, a truth value, None, 16, a torch dtype) of ``module`` is, or None."""
    document = module.document
    span = document.span(node)
    value: Constant = UNKNOWN
    if isinstance(node, ast.Constant) and (isinstance(node.value, str | bool) or node.value is None):
        value = node.value
    elif isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value in NUMBERS:
        value = str(node.value)
    elif isinstance(node, ast.Attribute | ast.Name):
        value = TORCH_DTYPES.get(module.qualified(node) or "", UNKNOWN)
    if isinstance(value, Unknown):
        return None
    return ValueSource(kind, document.path, span, key, value, document.source(span))


def tested_source(kind: SourceKind, module: ModuleNames, node: ast.IfExp, key: str) -> ValueSource | None:
    """``"bfloat16" if torch.cuda.is_bf16_supported() else "float16"`` as one source; None for other shapes."""
    branches = [item.value for item in (node.body, node.orelse) if isinstance(item, ast.Constant)]
    if not isinstance(node.test, ast.Call | ast.BoolOp) or len(branches) != 2:
        return None
    first, second = branches
    if not isinstance(first, str) or not isinstance(second, str):
        return None
    document = module.document
    span = document.span(node)
    quote = document.source(document.span(node.body))[:1]
    quote = quote if quote in ("'", '"') else '"'
    return ValueSource(kind, document.path, span, key, first, document.source(span), quote=quote)


def entry_source(config: ConfigFile, entry: TextEntry) -> ValueSource:
    """The source that an entry of a configuration text is; a bare flag has the value True."""
    kind: SourceKind = "flag" if entry.kind == "flag" else "variable" if entry.kind == "assignment" else "entry"
    bare = entry.kind == "flag" and entry.style == "absent"
    value: Constant = True if bare else entry.value
    key = ".".join(map(str, entry.key))
    calls = (entry.call, *entry.also) if entry.call is not None else ()
    place = (kind, config.document.path, config.span(entry), key)
    return ValueSource(*place, value, entry.raw, config, entry, calls=calls)


def only_fallbacks(found: Iterable[ValueSource]) -> bool:
    """Whether all that is known of a setting is what holds where the configuration does not name it.

    A file that nothing is seen to read may be that configuration.
    """
    kinds = {item.kind for item in found if not item.is_guessed}
    return kinds == {"fallback"}


def unused_defaults(found: Iterable[ValueSource]) -> frozenset[ValueSource]:
    """The field defaults among the sources of one setting that configuration files override."""
    listed = tuple(found)
    if not any(item.kind == "entry" for item in listed):
        return frozenset()
    return frozenset(item for item in listed if item.kind == "field")


def as_number(value: Constant) -> float | None:
    """The number that a constant, or the text of a setting, is: ``2e-5``, a shell's ``${LR:-2e-5}``; no truth value."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    text = value.removeprefix("${").removesuffix("}") if isinstance(value, str) else ""
    try:
        number = float(text.partition(":-")[2] if ":-" in text else value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
