"""Whether a launcher may give the weights of a script float32 copies: DeepSpeed, or FSDP as accelerate opens it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..formats.text import TextEntry
from ..python.class_fields import FIELD_CALLS
from ..python.names import ModuleNames, last_name
from ..python.scopes import is_off
from ..source.documents import FileKind
from ..source.project import Project
from ..trainers.reading.configs import opened
from ..trainers.reading.launch_flags import truth_of

HOLDING = ("deepspeed", "fsdp", "FSDP")
"""Words of launchers' files and of launch lines by which the weights get float32 copies."""
STARTED = ("ccelerat", "Trainer", "TrainingArguments")
"""Words of scripts whose launcher may hold the weights without a word in the code."""
PLAIN = ("--multi_gpu", "--multi-gpu")
"""The flag with which accelerate asks no configuration of the user for DeepSpeed or FSDP."""
LAUNCHES = (FileKind.SHELL, FileKind.NOTEBOOK)
TEXTS = (FileKind.YAML, FileKind.JSON, FileKind.TOML)


def is_held(project: Project, module: ModuleNames, *launchers: str) -> bool:
    """Whether DeepSpeed or FSDP may hold the weights: the script or a text that starts it says so, or names a launcher.

    Of a script that no text names, nobody knows how it is started: then any such configuration of the project
    counts, where code of it calls what would read one.
    """
    if says_held(module):
        return True
    path = "/".join(module.path.split("/")[-2:])
    spellings = (path, path.removesuffix(".py").replace("/", "."))
    launches = [document for kind in LAUNCHES for document in project.documents(kind, spellings)]
    if launches:
        texts = [item.text for item in launches]
        unknown = any(word in text and not any(item in text for item in PLAIN) for text in texts for word in launchers)
        return unknown or any(word in text for text in texts for word in HOLDING)
    return any(True for _ in project.python_documents((*STARTED, *HOLDING))) and configures(project)


def configures(project: Project) -> bool:
    """Whether a configuration asks for DeepSpeed or FSDP; a key without a value (``fsdp:``) asks for nothing."""
    documents = (item for kind in TEXTS for item in project.documents(kind, HOLDING))
    texts = (opened(project, document) for document in documents)
    return any(not text or any(_asks(entry) for item in text for entry in item.text.entries) for text in texts)


def _asks(entry: TextEntry) -> bool:
    said = " ".join(map(str, (*entry.key, entry.value))).lower()
    is_empty = entry.value in (None, "") or truth_of(entry.value) is False
    return not entry.container and not is_empty and any(word.lower() in said for word in HOLDING)


def says_held(module: ModuleNames) -> bool:
    """Whether a script speaks of DeepSpeed or FSDP otherwise than as an option that is off by default.

    Docstrings and comments count in scripts that accelerate or a trainer may start, which need not name either in code.
    """
    text = module.document.text
    if not _counted(text):
        return False
    if not any(word in text for word in STARTED):
        text = ast.unparse(module.tree)
        remarks = (item.value for item in module.of_type(ast.Expr) if isinstance(item.value, ast.Constant))
        return _counted(text) > sum(map(_counted, (*map(ast.unparse, remarks), *_switched_off(module))))
    return _counted(text) > sum(map(_counted, _switched_off(module)))


def _counted(text: str) -> int:
    return sum(text.count(word) for word in HOLDING)


def _switched_off(module: ModuleNames) -> Iterator[str]:
    """What a script says of DeepSpeed and FSDP where it leaves them off, as options without a default do."""
    options = {name: node for node in (*module.of_type(ast.AnnAssign), *module.calls) if (name := _option_off(node))}
    yield from map(ast.unparse, options.values())
    yield from (item.attr for item in module.of_type(ast.Attribute) if item.attr in options)
    for item in (keyword for call in module.calls for keyword in call.keywords):
        names = [part.attr for part in ast.walk(item.value) if isinstance(part, ast.Attribute)]
        given = [part.value for part in ast.walk(item.value) if isinstance(part, ast.Constant)]
        if item.arg and not any(given) and all(name in options for name in names if _counted(name)):
            yield item.arg


def _option_off(node: ast.AST) -> str:
    """The name of an option or field for DeepSpeed or FSDP that is off where nobody gives it."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        name, given = node.target.id, node.value
    elif isinstance(node, ast.Call) and node.args and ast.unparse(node.func).endswith("add_argument"):
        first = node.args[0]
        name, given = (str(first.value) if isinstance(first, ast.Constant) else ""), node
    else:
        return ""
    defaults = [item.value for item in getattr(given, "keywords", ()) if item.arg in ("default", "default_factory")]
    default = given if isinstance(given, ast.Constant) else next(iter(defaults), None)
    off = default is None or is_off(default)
    return name.lstrip("-").replace("-", "_") if off and _counted(name) and not _is_filled(given) else ""


def _is_filled(given: ast.expr) -> bool:
    """Whether an option is on without a ``default=``: ``action="store_false"``, an object in place of a field."""
    if not isinstance(given, ast.Call):
        return False
    name = last_name(given.func)
    negative = any(item.arg == "action" and "store_false" in ast.unparse(item.value) for item in given.keywords)
    return negative if name == "add_argument" else name not in FIELD_CALLS
