"""What a project says about its own options: flags of argparse and click, fields of classes, configuration nodes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ..source.facts import memo
from ..source.project import Project
from .class_fields import default_of_field
from .commands import command_parameters
from .converters import Conversion, conversion_by, read_by_python
from .identifiers import words_of
from .limits import MAX_OPTION_FILES, MAX_OPTIONS
from .names import ModuleNames, attribute_chain, last_name, names_of, string_of
from .precision_words import CHOOSING, SAID

SPEAKING = frozenset(
    (
        *CHOOSING,
        *("dtypes", "fp32", "float32", "amp", "autocast", "device", "devices", "accelerator"),
    )
)
"""Words of the names of options that are looked for anywhere in a project."""
SETTINGS = frozenset(
    ("args", "opt", "opts", "cfg", "config", "conf", "options", "hparams", "flags", "params", "settings", "hps")
)
"""What is in the names of objects that hold a program's options."""
NUMBERS = ("int", "float")
"""Types of options that take no other word."""
NODE_ROOTS = ("_C", "__C", "C", "cfg", "config", "_CN")
"""What the roots of configuration trees are called (yacs and its relatives)."""
SCALARS = ("str", "int", "float", "bool")
"""Types of fields that a parser fills, where they have no default."""
SWITCHES = {"store_true": False, "store_false": True}
"""argparse's actions without a word of their own, and the value where the flag is absent."""


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    module: ModuleNames
    node: ast.AST
    kind: Literal["option", "field"]
    """Of a command line; of a class or of a configuration tree."""
    name: str
    flags: tuple[str, ...] = ()
    """Its spellings on a command line."""
    default: ast.expr | None = None
    choices: tuple[ast.expr, ...] = ()
    """Every value it accepts, where the declaration lists them."""
    switch: bool | None = None
    """The value of an option without a word of its own, where the flag is absent."""
    negated: tuple[str, ...] = ()
    """Spellings that switch it off: ``--no-amp``."""
    function: ast.AST | None = None
    """The function whose parameter it is."""

    is_truth: bool = False
    """Whether its value is a truth value that is given as a word."""
    is_guessed: bool = False
    """Whether it stands in one of several files of which a run picks one by a name that nobody sees."""
    is_of_command: bool = False
    """Whether the parser of one of several commands takes it: ``commands.add_parser("tune")``."""
    is_number: bool = False
    """Whether a word that is no number is refused: ``type=int``."""
    conversion: Conversion = ""
    """What a function of the project makes of its words: ``type=to_dtype``."""

    def is_on_with(self, flag: str) -> bool:
        """The value of a switch where ``flag`` stands on the command line."""
        return flag not in self.negated if self.negated else not self.switch

    def flag_for(self, value: bool) -> str:
        """The flag that gives a switch this value; empty where it has to be left out for that."""
        flags = self.negated if self.negated and not value else self.flags
        if not self.negated and value == bool(self.switch):
            return ""
        return next((flag for flag in flags if flag.startswith("--")), flags[0] if flags else "")

    @property
    def value_when_absent(self) -> bool:
        """The value of a switch that is left out."""
        default = self.default.value if isinstance(self.default, ast.Constant) else self.switch
        return default if isinstance(default, bool) else bool(self.switch)

    @property
    def value(self) -> ast.expr | None:
        """What code reads where nobody gives it; of a string that is converted only the declaration is known."""
        is_text = isinstance(self.default, ast.Constant) and isinstance(self.default.value, str)
        return self.node if self.conversion and is_text and isinstance(self.node, ast.expr) else self.default

    @property
    def is_switched(self) -> bool:
        """Whether its flag changes anything: ``action="store_true", default=True`` is on with and without it."""
        return self.switch is not None and (bool(self.negated) or self.value_when_absent is bool(self.switch))

    @property
    def words(self) -> frozenset[str]:
        """The words that it takes, where its declaration lists them; numbers as they are written."""
        taken = [item.value for item in self.choices if isinstance(item, ast.Constant)]
        words = [str(item) for item in taken if isinstance(item, str | int) and not isinstance(item, bool)]
        return frozenset(words) if len(words) == len(self.choices) else frozenset()

    def why_not(self, word: str) -> str:
        """Why it does not take ``word``; empty where it does, as far as its declaration says."""
        if self.words and word not in self.words:
            return f"{self.name} takes only {', '.join(sorted(self.words))}"
        return f"{self.name} takes only numbers" if self.is_number and not word.isdigit() else ""

    @property
    def is_setting(self) -> bool:
        """Whether the declaration alone tells a setting from any other attribute of a class."""
        return self.kind == "option" or bool(self.flags) or self.name.isupper()


@memo
def options_in(project: Project, module: ModuleNames) -> dict[str, list[Option]]:
    found: dict[str, list[Option]] = {}
    for option in (
        *_flags(project, module),
        *_defined(module),
        *_parameters(module),
        *_fields(module),
        *_nodes(module),
    ):
        found.setdefault(option.name, []).append(option)
    for call in module.calls_by_name.get("set_defaults", ()):
        for keyword in call.keywords:
            if keyword.arg in found:
                found[keyword.arg] = list(_with_default(call, keyword.value, found[keyword.arg]))
    return found


def _with_default(call: ast.Call, default: ast.expr, declared: Sequence[Option]) -> Iterator[Option]:
    """The options after ``parser.set_defaults(precision=16)``; of a parser that may be another one both defaults."""
    for option in declared:
        other = replace(option, default=default)
        if option.kind != "option" or not isinstance(option.node, ast.Call):
            yield option
        elif not _is_of_same(call, option.node, option.module):
            yield from (option, other)
        elif option.default is None or option.node.lineno < call.lineno:
            yield other
        else:
            yield option  # what is said before gives way to the argument's own default


def _is_of_same(call: ast.Call, other: ast.Call, module: ModuleNames) -> bool:
    """Whether two statements of one block call methods of one object."""
    one, two = module.parents.get(call), module.parents.get(other)
    owners = [ast.unparse(each.func.value) for each in (call, other) if isinstance(each.func, ast.Attribute)]
    same_block = one is not None and two is not None and module.parents.get(one) is module.parents.get(two)
    return same_block and len(owners) == 2 and owners[0] == owners[1]


@memo
def speaking_options(project: Project, module: ModuleNames) -> dict[str, list[Option]]:
    """The settings of a module whose name speaks of precision or of the device, by their name in lower case."""
    found: dict[str, list[Option]] = {}
    for name, options in options_in(project, module).items():
        if _speaks(name):
            found.setdefault(name.lower(), []).extend(item for item in options if item.is_setting)
    return found


def options_named(project: Project, module: ModuleNames, name: str) -> Sequence[Option]:
    """How the option ``name`` is declared: by ``module`` itself, else anywhere; empty when too many say something."""
    if not _speaks(name):
        return []
    chosen = speaking_options(project, module).get(name.lower()) or project.memo(_options_anywhere, name.lower())
    return chosen if len(chosen) <= MAX_OPTIONS else []


def options_read(project: Project, module: ModuleNames, node: ast.Attribute) -> Sequence[Option]:
    """How the option that ``node`` reads is declared; the ``dtype`` and ``device`` of a tensor are not options."""
    if node.attr.lower() in ("dtype", "device") and not _holds_options(node.value):
        return []
    return options_named(project, module, node.attr)


def _options_anywhere(project: Project, name: str) -> list[Option]:
    """The declarations of the option ``name``; empty where the name stands in too many files."""
    spellings = (name, name.upper(), name.replace("_", "-"))
    documents = project.python_documents(SAID, spellings)
    found: list[Option] = []
    for count, document in enumerate(documents):
        if count >= MAX_OPTION_FILES:
            return []
        found += speaking_options(project, names_of(project, document)).get(name, [])
    return found


def _holds_options(owner: ast.expr) -> bool:
    chain = attribute_chain(owner.func if isinstance(owner, ast.Call) else owner) or [""]
    return not SETTINGS.isdisjoint(chain[-1].lower().split("_"))


def _speaks(name: str) -> bool:
    return not SPEAKING.isdisjoint(words_of(name))


def _flags(project: Project, module: ModuleNames) -> Iterator[Option]:
    """``parser.add_argument("--amp-dtype", default=...)`` and ``@click.option("--amp-dtype", default=...)``."""
    calls = [*module.calls_by_name.get("add_argument", []), *module.calls_by_name.get("option", [])]
    for call in calls:
        words = [item.value for item in call.args if isinstance(item, ast.Constant) and isinstance(item.value, str)]
        given = {item.arg: item.value for item in call.keywords if item.arg is not None}
        spelled = [part for word in words if word.startswith("-") for part in word.split("/")]
        negated = _negated(given.get("action"), spelled)
        flags = tuple(flag for flag in spelled if flag not in negated)
        destination = string_of(given.get("dest")) or next((word for word in words if not word.startswith("-")), "")
        long = next((flag for flag in flags if flag.startswith("--")), flags[0] if flags else "")
        name = destination or long.lstrip("-").replace("-", "_")
        listed = given.get("choices")
        choices = tuple(listed.elts) if isinstance(listed, ast.List | ast.Tuple | ast.Set) else ()
        if name:
            switch = SWITCHES.get(string_of(given.get("action")) or "")
            if switch is None and negated:
                switch = False
            kind = given.get("type")
            default = read_by_python(module, kind, given.get("default"))
            yield Option(
                *(module, call, "option", name, flags, default, choices or _choices(kind), switch, negated),
                is_truth=switch is None and (_is_truth(default) or _text_of(kind) == "bool"),
                is_number=_text_of(kind) in NUMBERS,
                is_of_command=_is_of_command(module, call),
                conversion=conversion_by(project, module, kind),
            )


def _is_of_command(module: ModuleNames, call: ast.Call) -> bool:
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    made = (owner, *(item.value for item in module.bindings_of(owner))) if owner is not None else ()
    return any(isinstance(item, ast.Call) and last_name(item.func) == "add_parser" for item in made)


def _is_truth(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, bool)


def _text_of(node: ast.expr | None) -> str:
    return ast.unparse(node) if node is not None else ""


def _choices(kind: ast.expr | None) -> tuple[ast.expr, ...]:
    """Every value of ``click.Choice([...])``, or of an annotation ``Literal[...]``."""
    if isinstance(kind, ast.Call) and (attribute_chain(kind.func) or [""])[-1] == "Choice" and kind.args:
        listed = kind.args[0]
        return tuple(listed.elts) if isinstance(listed, ast.List | ast.Tuple | ast.Set) else ()
    if isinstance(kind, ast.Subscript) and (attribute_chain(kind.value) or [""])[-1] == "Literal":
        return tuple(kind.slice.elts) if isinstance(kind.slice, ast.Tuple) else (kind.slice,)
    return ()


def _negated(action: ast.expr | None, spelled: Sequence[str]) -> tuple[str, ...]:
    """The flags that switch an option off: ``--no-x`` of argparse's BooleanOptionalAction, ``--x/--no-x`` of click."""
    if action is not None and (attribute_chain(action) or [""])[-1] == "BooleanOptionalAction":
        return tuple(f"--no-{flag[2:]}" for flag in spelled if flag.startswith("--"))
    return tuple(flag for flag in spelled[1:] if flag.startswith(("--no-", "--no_", "--disable-", "--without-")))


def _defined(module: ModuleNames) -> Iterator[Option]:
    """absl: ``flags.DEFINE_string("dtype", "float16", "...")``."""
    for name, calls in module.calls_by_name.items():
        for call in calls if name.startswith("DEFINE_") else ():
            known = dict(zip(("name", "default", "enum_values"), call.args, strict=False))
            given = known | {item.arg: item.value for item in call.keywords if item.arg is not None}
            option, listed = string_of(given.get("name")), given.get("enum_values")
            choices = listed.elts if name == "DEFINE_enum" and isinstance(listed, ast.List | ast.Tuple) else ()
            if option and "default" in given:
                is_switch = name in ("DEFINE_boolean", "DEFINE_bool")
                negated = (f"--no{option}",) if is_switch else ()
                flags = (f"--{option}", f"-{option}")
                yield Option(
                    *(module, call, "option", option, flags, given["default"], tuple(choices), None, negated),
                    is_number=name in ("DEFINE_integer", "DEFINE_float"),
                )


def _parameters(module: ModuleNames) -> Iterator[Option]:
    """Parameters of functions that fire, typer, tyro or jsonargparse make a command line of."""
    for item in command_parameters(module):
        is_truth = _is_truth(item.default)
        yield Option(
            *(module, item.function, "option", item.name, item.flags, item.default, _choices(item.annotation)),
            negated=item.negated if is_truth else (),
            function=item.function,
            is_truth=is_truth,
            is_number=_text_of(item.annotation) in NUMBERS,
        )


def _fields(module: ModuleNames) -> Iterator[Option]:
    """``amp_dtype: str = "bf16"`` in a class body, also as ``field(default="bf16")``; such a class may be a parser."""
    for name, stores in module.attribute_stores.items():
        for receiver, value, statement in stores:
            owner = module.scope_of(statement).node
            if receiver is not None or value is None or isinstance(owner, ast.Module) or is_enumeration(owner):
                continue
            default = default_of_field(value)
            flags = (f"--{name}", f"--{name.replace('_', '-')}") if isinstance(statement, ast.AnnAssign) else ()
            annotation = statement.annotation if isinstance(statement, ast.AnnAssign) else None
            is_truth = _is_truth(default) or _text_of(annotation) == "bool"
            switch = _switch_of(module, owner, default) if annotation is not None else None
            yield Option(
                *(module, statement, "field", name, flags, default, _choices(annotation), switch),
                is_truth=is_truth and switch is None,
                is_number=_text_of(annotation) in NUMBERS,
            )
    for statement in module.of_type(ast.AnnAssign):
        required = statement.value is None and _text_of(statement.annotation) in SCALARS
        if required and isinstance(statement.target, ast.Name) and _is_in_class(module, statement):
            name = statement.target.id
            flags = (f"--{name}", f"--{name.replace('_', '-')}")
            is_truth = _text_of(statement.annotation) == "bool"
            is_number = _text_of(statement.annotation) in NUMBERS
            yield Option(module, statement, "field", name, flags, is_truth=is_truth, is_number=is_number)


def _switch_of(module: ModuleNames, owner: ast.AST, default: ast.expr | None) -> bool | None:
    """The value of a truth value in a class of typed-argument-parser without its flag, which takes no word there."""
    bases = owner.bases if isinstance(owner, ast.ClassDef) else []
    if not isinstance(default, ast.Constant) or not isinstance(default.value, bool):
        return None
    if not any(module.qualified(base) == "tap.Tap" for base in bases):
        return None
    explicit = any(item.arg == "explicit_bool" for call in module.calls for item in call.keywords)
    return None if explicit else default.value


def is_enumeration(owner: ast.AST) -> bool:
    """Whether the names in a class body are its members, not settings."""
    bases = owner.bases if isinstance(owner, ast.ClassDef) else []
    return any((attribute_chain(base) or [""])[-1].endswith(("Enum", "Flag")) for base in bases)


def _is_in_class(module: ModuleNames, statement: ast.stmt) -> bool:
    return isinstance(module.parents.get(statement), ast.ClassDef)


def _nodes(module: ModuleNames) -> Iterator[Option]:
    """``_C.TRAIN.AMP_DTYPE = "bf16"``: the defaults of a configuration tree."""
    for name, stores in module.attribute_stores.items():
        for receiver, value, statement in stores:
            if receiver and receiver[0] in NODE_ROOTS and value is not None:
                yield Option(module, statement, "field", name, (), value)
