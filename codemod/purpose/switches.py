"""What a project's launch lines, configurations and code set: options, and words that choose a branch."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..python.glimpses import may_set
from ..python.names import ModuleNames, modules_at, names_of
from ..python.options import Option, options_in
from ..python.scopes import is_off
from ..source.documents import FileKind
from ..source.facts import fact
from ..source.project import Project

MAX_DECLARING_FILES = 12
"""Files that may declare the options of one name; a name that stands in more is a common word."""
LAUNCHING = (FileKind.SHELL, FileKind.TEXT, FileKind.YAML, FileKind.JSON, FileKind.TOML, FileKind.ENV)
"""Files in which a run is started or configured."""
DECLARING = ("add_argument", "option", "add_option")
"""Methods that declare an option."""
OF_TRAINER = ("fp16", "bf16")
"""The switches of transformers' arguments, which are off where nothing is said."""
STATED = re.compile(
    r"""(?:--(?:fp16|bf16)(?![\w-])(?:[ \t]+|=)?|(?<![\w.-])["']?(?:fp16|bf16)["']?[ \t]*[:=](?!=)\s*"""
    r"""(?:\{\s*["']?enabled["']?\s*:\s*)?)["']?([^\s"',}]*)"""
)
"""What a launch line or a configuration gives one of them, also DeepSpeed's section of that name."""
OFF, UNSAID = ("false", "0", "no", "none", "null"), ("auto",)


def declared_options(project: Project, asked: tuple[ModuleNames, str]) -> tuple[Option, ...]:
    """The declarations of an option: in this file, or else wherever its name stands."""
    module, name = asked
    here = _command_options(project, module, name)
    if here:
        return here
    paths = project.python_paths((name, name.replace("_", "-")), ("add_argument", "@dataclass", "option("))
    if len(paths) > MAX_DECLARING_FILES:
        return ()
    documents = project.python_documents_at(paths)
    return tuple(
        item for document in documents for item in _command_options(project, names_of(project, document), name)
    )


def _command_options(project: Project, module: ModuleNames, name: str) -> tuple[Option, ...]:
    return tuple(item for item in options_in(project, module).get(name, ()) if item.is_setting)


def is_set(project: Project, name: str) -> bool:
    """Whether a launch line, a manual, a notebook or a configuration names the option."""
    spellings = (name, name.replace("_", "-"))
    for kind in LAUNCHING:
        for document in project.documents(kind, spellings):
            if any(_names(document.text, spelling) for spelling in spellings):
                return True
    if any(_names(item.text, spellings[1]) for item in project.documents(FileKind.NOTEBOOK, spellings)):
        return True
    return _is_set_by_code(project, name)


def _is_set_by_code(project: Project, name: str) -> bool:
    documents = project.python_documents((name, name.replace("_", "-")), where=lambda text: may_set(text, name))
    return any(_is_set_in(names_of(project, document), name) for document in documents)


def _is_set_in(module: ModuleNames, name: str) -> bool:
    """``args.amp = True``, ``Namespace(amp=True)``, ``["train.py", "--amp"]``."""
    flag = f"--{name.replace('_', '-')}"
    if any(owner not in (None, ["self"]) for owner, *_ in module.attribute_stores.get(name, [])):
        return True
    for call in module.calls:
        declares = getattr(call.func, "attr", "") in DECLARING
        passed = [item.value for item in call.keywords if item.arg == name]
        if not declares and not all(map(is_off, passed)):
            return True
    texts = (node for node in module.of_type(ast.Constant) if isinstance(node.value, str) and "--" in node.value)
    return any(_names(str(node.value).replace("_", "-"), flag[2:]) and not _declares(module, node) for node in texts)


@fact
def trainer_switches_are_off(project: Project) -> bool:
    """Whether launch lines or files give the switches of transformers' arguments, and all that gives them is off."""
    kinds = (*LAUNCHING, FileKind.NOTEBOOK)
    texts = (item.text for kind in kinds for item in project.documents(kind, OF_TRAINER))
    stated = [found[1].lower() for text in texts for found in STATED.finditer(text)]
    given = [value for value in stated if value not in UNSAID]
    return (
        bool(given)
        and all(value in OFF for value in given)
        and not any(_is_set_by_code(project, name) for name in OF_TRAINER)
    )


def is_spelled(project: Project, word: str) -> bool:
    """Whether a configuration, a launch line or a value in code holds a word."""
    return not word or _is_launched_with(project, word) or any(True for _ in _values_with(project, word))


def is_asked_for(project: Project, word: str) -> bool:
    """Whether a run has the word: as `is_spelled`, but to be one choice of an option, or in its help, is not enough."""
    return _is_launched_with(project, word) or any(
        not _is_offered(module, node) for module, node in _values_with(project, word)
    )


def _is_launched_with(project: Project, word: str) -> bool:
    return any(_names(document.text, word) for kind in LAUNCHING for document in project.documents(kind, (word,)))


def _values_with(project: Project, word: str) -> Iterator[tuple[ModuleNames, ast.Constant]]:
    for path in project.python_paths((word,)):
        yield from project.memo(_values_at, (path, word))


def _values_at(project: Project, asked: tuple[str, str]) -> tuple[tuple[ModuleNames, ast.Constant], ...]:
    path, word = asked
    return tuple(
        (module, node)
        for module in modules_at(project, (path,))
        for node in module.of_type(ast.Constant)
        if isinstance(node.value, str) and _names(node.value, word) and not _only_asks(module, node)
    )


def _is_offered(module: ModuleNames, node: ast.Constant) -> bool:
    """Whether a string stands in the declaration of an option or of a type, and is no default there."""
    below: ast.AST = node
    for parent in module.ancestors(node):
        if isinstance(parent, ast.Call) and getattr(parent.func, "attr", "") in DECLARING:
            return not (isinstance(below, ast.keyword) and below.arg in ("default", "const"))
        if isinstance(parent, ast.Subscript) and ast.unparse(parent.value).endswith("Literal"):
            return True
        below = parent
    return False


def _only_asks(module: ModuleNames, node: ast.Constant) -> bool:
    """Whether a string stands in a comparison, or says nothing that runs."""
    parent = module.parents.get(node)
    listed = isinstance(parent, ast.Tuple | ast.List | ast.Set)
    return isinstance(module.parents.get(parent) if listed and parent is not None else parent, ast.Compare | ast.Expr)


def _declares(module: ModuleNames, node: ast.Constant) -> bool:
    """Whether a string stands in the declaration of an option: its flag, or its help."""
    above = (item for item in module.ancestors(node) if isinstance(item, ast.Call))
    return any(getattr(item.func, "attr", "") in DECLARING for item in above) or isinstance(
        module.parents.get(node), ast.Expr
    )


def _names(text: str, spelling: str) -> bool:
    begin = text.find(spelling)
    while begin >= 0:
        before, after = text[begin - 1 : begin], text[begin + len(spelling) : begin + len(spelling) + 1]
        if not (before.isalnum() or before == "_") and not (after.isalnum() or after in ("_", "-")):
            return True
        begin = text.find(spelling, begin + 1)
    return False
