"""What a project says about its own options: flags of argparse and click, fields of classes, configuration nodes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..source.project import Project
from .limits import MAX_OPTION_FILES, MAX_OPTIONS
from .names import ModuleNames, attribute_chain, names_of

SPEAKING = ("dtype", "precision", "bf16", "fp16", "float16", "amp", "half", "device", "accelerator")
"""What is in the names of options that are looked for anywhere in a project."""
WORDS = ("autocast", "scaler", "bfloat16", "float16", "bf16", "fp16", "precision")
"""What files say that can declare such options."""
SETTINGS = frozenset(
    ("args", "opt", "opts", "cfg", "config", "conf", "options", "hparams", "flags", "params", "settings", "hps")
)
"""What is in the names of objects that hold a program's options."""
NODE_ROOTS = ("_C", "__C", "C", "cfg", "config", "_CN")
"""What the roots of configuration trees are called (yacs and its relatives)."""
SWITCHES = {"store_true": False, "store_false": True}
"""argparse's actions without a word of their own, and the value where the flag is absent."""


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """One declaration of an option."""

    module: ModuleNames
    node: ast.AST
    kind: str
    """``option`` of a command line, ``field`` of a class or of a configuration tree."""
    name: str
    flags: tuple[str, ...] = ()
    """Its spellings on a command line."""
    default: ast.expr | None = None
    choices: tuple[ast.expr, ...] = ()
    """Every value it accepts, where the declaration lists them."""
    switch: bool | None = None
    """The value of an option without a word of its own, where the flag is absent."""

    @property
    def is_setting(self) -> bool:
        """Whether the declaration alone tells a setting from any other attribute of a class."""
        return self.kind == "option" or bool(self.flags) or self.name.isupper()


def options_in(project: Project, module: ModuleNames) -> dict[str, list[Option]]:
    """The options that one module declares, by name."""
    return project.memo(_options_in, module)


def _options_in(project: Project, module: ModuleNames) -> dict[str, list[Option]]:
    found: dict[str, list[Option]] = {}
    for option in (*_flags(module), *_fields(module), *_nodes(module)):
        found.setdefault(option.name, []).append(option)
    return found


def speaking_options(project: Project, module: ModuleNames) -> dict[str, list[Option]]:
    """The settings of a module whose name speaks of precision or of the device, by their name in lower case."""
    return project.memo(_speaking_options, module)


def _speaking_options(project: Project, module: ModuleNames) -> dict[str, list[Option]]:
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
    documents = project.python_documents(WORDS, spellings)
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
    return any(word in name.lower() for word in SPEAKING)


# --- declarations -----------------------------------------------------------------------------------------------------


def _flags(module: ModuleNames) -> Iterator[Option]:
    """``parser.add_argument("--amp-dtype", default=...)`` and ``@click.option("--amp-dtype", default=...)``."""
    calls = [*module.calls_by_name.get("add_argument", []), *module.calls_by_name.get("option", [])]
    for call in calls:
        words = [item.value for item in call.args if isinstance(item, ast.Constant) and isinstance(item.value, str)]
        given = {item.arg: item.value for item in call.keywords if item.arg is not None}
        flags = tuple(word for word in words if word.startswith("-"))
        destination = _text(given.get("dest")) or next((word for word in words if not word.startswith("-")), "")
        long = next((flag for flag in flags if flag.startswith("--")), flags[0] if flags else "")
        name = destination or long.lstrip("-").replace("-", "_").partition("/")[0]
        listed = given.get("choices")
        choices = tuple(listed.elts) if isinstance(listed, ast.List | ast.Tuple | ast.Set) else ()
        if name:
            switch = SWITCHES.get(_text(given.get("action")))
            yield Option(module, call, "option", name, flags, given.get("default"), choices, switch)


def _text(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _fields(module: ModuleNames) -> Iterator[Option]:
    """``amp_dtype: str = "bf16"`` in a class body, also as ``field(default="bf16")``; such a class may be a parser."""
    for name, stores in module.attribute_stores.items():
        for receiver, value, statement in stores:
            if receiver is not None or value is None or isinstance(module.scope_of(statement).node, ast.Module):
                continue
            default = value
            if isinstance(value, ast.Call):
                default = next((item.value for item in value.keywords if item.arg == "default"), value)
            flags = (f"--{name}", f"--{name.replace('_', '-')}") if isinstance(statement, ast.AnnAssign) else ()
            yield Option(module, statement, "field", name, flags, default)


def _nodes(module: ModuleNames) -> Iterator[Option]:
    """``_C.TRAIN.AMP_DTYPE = "bf16"``: the defaults of a configuration tree."""
    for name, stores in module.attribute_stores.items():
        for receiver, value, statement in stores:
            if receiver and receiver[0] in NODE_ROOTS and value is not None:
                yield Option(module, statement, "field", name, (), value)
