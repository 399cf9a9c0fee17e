"""The order of imports and the weight of modules are as docs/architecture.md says; read from the source, not run."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from inspect import getsource
from pathlib import Path
from textwrap import dedent

import pytest
import tomlkit
from precfix.codemod.flow.classes import ProjectClass
from precfix.codemod.flow.lattice import Atom, DtypeSource, Value
from precfix.codemod.python.functions import FunctionTarget
from precfix.codemod.python.scopes import Binding
from precfix.codemod.python.started import StartedFunction

from .fixture_cases import REPOSITORY

LAYERS = (
    ("version", "cache", "model"),
    ("outcome",),
    ("profiles", "trainers.framework"),
    ("observed",),
    ("source",),
    ("trainers", "formats"),
    ("purpose.words",),
    ("purpose.files", "torch.tables"),
    ("python", "torch.dtypes", "torch.api"),
    ("releases",),
    ("torch",),
    ("purpose",),
    ("proof",),
    ("torch.weights", "torch.scaler_edits", "flow"),
    ("trainers.parsers",),
    ("trainers.reading",),
    (
        "purpose.runs",
        "purpose.decided",
        "purpose.filled_in",
        "purpose.given",
        "purpose.lightning",
        "purpose.entered",
        "purpose.flagged",
        "purpose.flag_sources",
    ),
    ("half",),
    ("trainers.writing",),
    ("rewrite",),
    ("asking", "rehearsed"),
    ("processes", "incremental"),
    ("engine",),
    ("moving",),
    ("plugins", "report"),
    ("diagnosis",),
    ("applying",),
    ("settings",),
    ("screening",),
    ("interactive",),
    ("cli",),
    ("__main__",),
)
"""codemod's modules and packages, lowest first: each imports only from its own layer's members or from below."""
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
FOR_RULES = {unit for layer in LAYERS[: LAYERS.index(("rewrite",))] for unit in layer}
"""What transforms may use of codemod: the words, the project they are given, facts, and where values stand."""
ONLY_IN = {"libcst": "codemod/rewrite", "typer": "codemod/cli", "rich": "codemod"}
LAZY = {"torch", "libcst", "rich", "yaml", "tomlkit", "typer", "pathspec", "numpy"}
MAX_MODULE_LINES = 350
MAX_FUNCTION_LINES = 60


@dataclass(frozen=True)
class Import:
    """One imported module, as a dotted name below ``precfix`` or of another distribution."""

    path: str
    target: str
    at_module_level: bool

    def __str__(self) -> str:
        return f"{self.path} imports {self.target}"


def sources() -> list[Path]:
    return sorted(
        path for folder in ("codemod", "transforms", "probes") for path in (REPOSITORY / folder).rglob("*.py")
    )


def _dotted(path: Path) -> str:
    """``transforms/dtype/casts.py`` -> ``transforms.dtype.casts``; a package by its folder."""
    parts = path.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@dataclass(frozen=True)
class Source:
    """What the tests ask of one file; its tree is not kept."""

    imports: tuple[Import, ...]
    long: tuple[str, ...]
    """What is longer than it may be."""
    safe: tuple[str, ...]
    """Where a fix is made safe by hand."""
    stores: tuple[tuple[str, str], ...]
    """(what an attribute is stored into, its name); "*" where `setattr` computes it."""
    types: tuple[str, ...]
    """The public classes and type aliases that it defines."""


@cache
def product() -> dict[str, Source]:
    """Every file of the product, parsed once for all tests."""
    found = {}
    for path in sources():
        name, tree = path.relative_to(REPOSITORY).as_posix(), ast.parse(path.read_bytes())
        imported, long = tuple(imports_of(path, tree)), tuple(_long(path, tree))
        found[name] = Source(imported, long, tuple(_safe(name, tree)), tuple(_stores(tree)), tuple(_types(tree)))
    return found


def imports_of(path: Path, tree: ast.Module) -> Iterator[Import]:
    name = path.relative_to(REPOSITORY).as_posix()
    package = ["precfix", *path.relative_to(REPOSITORY).parent.parts]
    for node, lazy in _import_nodes(tree, False):
        if isinstance(node, ast.Import):
            yield from (Import(name, alias.name, not lazy) for alias in node.names)
        elif node.level == 0:
            yield Import(name, node.module or "", not lazy)
        else:
            base = package[: len(package) - node.level + 1] + (node.module.split(".") if node.module else [])
            yield from (Import(name, ".".join([*base, alias.name]), not lazy) for alias in node.names)


def _import_nodes(node: ast.AST, lazy: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """The imports below a node, but for those under ``if TYPE_CHECKING``."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, lazy
        elif isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        elif not isinstance(child, ast.expr):
            yield from _import_nodes(child, lazy or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))


def imports() -> list[Import]:
    """Every import of the product."""
    return [each for source in product().values() for each in source.imports]


def unit_of(path: str) -> str:
    """``codemod/python/names.py`` -> ``python``; ``codemod/trainers/reading/runs.py`` -> ``trainers.reading``."""
    return _unit(Path(path).with_suffix("").parts[1:])


def codemod_unit(target: str) -> str | None:
    parts = target.split(".")
    return _unit(parts[2:]) if parts[:2] == ["precfix", "codemod"] and len(parts) > 2 else None


def _unit(parts: Sequence[str]) -> str:
    nested = ".".join(parts[:2])
    return nested if nested in LEVEL else parts[0]


def test_every_module_of_codemod_has_its_layer() -> None:
    units = {unit_of(path.relative_to(REPOSITORY).as_posix()) for path in sources() if "codemod" in path.parts}
    assert units - {"__init__"} <= set(LEVEL), "put the new module into its layer of LAYERS"


def test_codemod_imports_run_one_way() -> None:
    wrong = [
        str(each)
        for each in imports()
        if each.path.startswith("codemod/")
        and (unit := codemod_unit(each.target)) is not None
        and unit in LEVEL
        and LEVEL[unit] > LEVEL.get(unit_of(each.path), 0)
    ]
    assert wrong == []


def test_only_the_command_line_knows_rules_and_probes() -> None:
    wrong = [
        str(each)
        for each in imports()
        if each.path.startswith("codemod/")
        and each.target.startswith(("precfix.transforms", "precfix.probes"))
        and unit_of(each.path) not in ("cli", "__main__")
    ]
    assert wrong == []


def test_nobody_imports_the_command_line() -> None:
    wrong = [
        str(each)
        for each in imports()
        if codemod_unit(each.target) == "cli" and unit_of(each.path) not in ("cli", "__main__")
    ]
    assert wrong == []


def test_rules_use_words_and_facts_only() -> None:
    wrong = [
        str(each)
        for each in imports()
        if each.path.startswith("transforms/")
        and (each.target.startswith("precfix.probes") or (codemod_unit(each.target) or "model") not in FOR_RULES)
    ]
    assert wrong == []


def test_probes_use_the_profile_only() -> None:
    wrong = [
        str(each)
        for each in imports()
        if each.path.startswith("probes/")
        and each.target.startswith("precfix.")
        and not each.target.startswith(("precfix.probes", "precfix.codemod.profiles.profile", "precfix.codemod.model"))
    ]
    assert wrong == []


def _holds_rule(path: Path) -> bool:
    return "\nrule = Rule" in path.read_text("utf-8")


MODULES = {_dotted(path): path for path in sources()}
ROOMS = {name for name, path in MODULES.items() if name.startswith("transforms.") and _holds_rule(path)}
"""The rules: a module or a package each."""


def room_of(module: str) -> str | None:
    """The rule that a module is, or is a private part of."""
    parts = module.split(".")
    return next((name for at in range(3, len(parts) + 1) if (name := ".".join(parts[:at])) in ROOMS), None)


def uses_inside() -> Iterator[tuple[str, str]]:
    """(module, what it imports) within the product, modules by their dotted names."""
    for each in imports():
        target = each.target.removeprefix("precfix.")
        named = target if target in MODULES else target.rpartition(".")[0]
        if named in MODULES:
            yield _dotted(REPOSITORY / each.path), named


def test_no_family_of_rules_imports_another() -> None:
    pairs = [(one, other) for one, other in uses_inside() if one.startswith("transforms.") and other.count(".") > 1]
    wrong = [pair for pair in pairs if pair[1].startswith("transforms.") and _family(pair[0]) != _family(pair[1])]
    assert wrong == []


def test_the_private_parts_of_a_rule_are_private() -> None:
    wrong = [
        (one, other)
        for one, other in uses_inside()
        if (room := room_of(other)) is not None and room_of(one) != room and not one.startswith("precfix.tests")
    ]
    assert wrong == []


def test_what_serves_one_rule_lies_in_its_package() -> None:
    users: dict[str, set[str]] = {}
    for one, other in uses_inside():
        users.setdefault(other, set()).add(one)
    parts = {name for name in MODULES if MODULES[name].name != "__init__.py" and _is_shared(name)}
    serving = {name: _served(name, users) for name in parts}
    assert {name: served for name, served in serving.items() if len(served) < 2 and served <= ROOMS} == {}


def _is_shared(module: str) -> bool:
    """Whether it is a fact, or a part of a family that belongs to none of its rules."""
    if module.startswith("codemod."):
        return (codemod_unit(f"precfix.{module}") or "") in FOR_RULES
    return module.startswith("transforms.") and module.count(".") > 1 and not room_of(module)


def _served(name: str, users: Mapping[str, set[str]]) -> set[str]:
    """The rules that use a module, by whatever way, and modules of the engine that do."""
    served, seen, waiting = set(), {name}, [name]
    while waiting:
        for user in users.get(waiting.pop(), set()) - seen:
            seen.add(user)
            end = room_of(user) or (user if user.startswith("codemod.") and not _is_shared(user) else None)
            served |= {end} if end else set()
            waiting += [] if end else [user]
    return served


def _family(module: str) -> str:
    return module.split(".")[1]


def test_only_the_proof_makes_safe_fixes() -> None:
    """A rule says what its fix needs; ``proved`` decides. The engine, reports and settings only read the word."""
    assert [
        each for name, source in product().items() if not name.startswith(READING_SAFE) for each in source.safe
    ] == []


def _safe(name: str, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "SAFE" and ast.unparse(node.value) == "Applicability":
            yield f"{name}:{node.lineno} names Applicability.SAFE"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Fix":
            yield f"{name}:{node.lineno} makes a Fix by hand"
        if isinstance(node, ast.keyword) and node.arg == "applicability" and name.startswith("transforms/"):
            yield f"{name}:{node.value.lineno} gives an applicability"


READING_SAFE = (
    "codemod/model.py",
    "codemod/proof/",
    "codemod/engine.py",
    "codemod/moving/shown_by_check.py",
    "codemod/report/",
    "codemod/screening/screen.py",
    "codemod/trainers/writing/contradictions.py",
)


NEVER_CHANGED = (Value, Atom, DtypeSource, Binding, ProjectClass, FunctionTarget, StartedFunction)
"""Classes whose objects are shared and kept, and that are not frozen, as there are many to make."""
OTHER_OBJECTS = {
    ("codemod/formats/nesting.py", "node.value"): "a node of a configuration file",
    ("codemod/formats/yaml_nodes.py", "node.value"): "a node of a configuration file",
    ("codemod/report/junit.py", "said.text"): "an element of XML",
    ("codemod/trainers/writing/counterparts.py", "keyword.value"): "a copy of a call",
    ("transforms/deferred.py", "object.*"): "an object of its own class",
}
"""Stores into what only has an attribute of the same name, and what it is."""


def test_nobody_changes_what_is_shared() -> None:
    shared = {item.name for kind in NEVER_CHANGED for item in fields(kind)} | {"*"}
    inside = {name: source for name, source in product().items() if not name.startswith("probes/")}
    found = {
        (name, f"{holder}.{attribute}")
        for name, source in inside.items()
        for holder, attribute in source.stores
        if attribute in shared and holder != "self"
    }
    assert found == set(OTHER_OBJECTS)


def test_classes_of_what_is_shared_do_not_change_it_themselves() -> None:
    for kind in NEVER_CHANGED:
        tree = ast.parse(dedent(getsource(kind)))
        assert list(_stores(tree)) == [], kind


def _stores(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            yield ast.unparse(node.value), node.attr
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("setattr", "delattr", "setattr__")):
            holder = node.func.value if isinstance(node.func, ast.Attribute) else node.args[0]
            yield ast.unparse(holder), "*"


NOT_PYTHON = {
    "codemod/purpose/files.py": "names of files",
    "codemod/purpose/switches.py": "launch lines and configuration files",
    "codemod/python/glimpses.py": "files that are not parsed",
    "codemod/python/identifiers.py": "one name, into words",
    "codemod/releases/manifests.py": "requirements in instructions",
    "codemod/trainers/framework_file.py": "the conditions of the tables",
    "codemod/trainers/reading/configs.py": "how answers of accelerate begin",
    "codemod/trainers/reading/copied_files.py": "commands and variables of shell scripts",
    "codemod/trainers/reading/launch_flags.py": "statements of shell scripts",
    "codemod/trainers/reading/program_files.py": "shell variables in names of files",
    "codemod/trainers/reading/programs_started.py": "commands in manifests",
    "codemod/trainers/reading/recognition.py": "patterns of the tables, against keys and command lines",
    "codemod/trainers/reading/run_settings.py": "variables of shell scripts",
    "codemod/trainers/reading/shown_lines.py": "words of read-mes",
    "codemod/trainers/reading/entry_tokens.py": "expressions in values of configuration files",
    "codemod/trainers/reading/text_scopes.py": "references in values of configuration files",
    "codemod/trainers/writing/alternatives.py": "names of checkpoints",
    "codemod/trainers/writing/doubts.py": "variables that shell scripts set",
    "codemod/trainers/writing/handed_deepspeed.py": "shell variables on command lines",
    "codemod/trainers/writing/handed_values.py": "tests of shell scripts",
    "codemod/trainers/writing/text_editing.py": "numbers in configuration files",
    "transforms/regime/precision_off_target/left_to_owner.py": "machines that jobs ask for",
    "transforms/trainer/misspelled_precision/misspellings.py": "one word",
}
"""Modules of facts and rules that match something else than Python source with regular expressions, and what."""


def test_facts_and_rules_read_python_from_syntax_trees() -> None:
    facts = ("codemod/python/", "codemod/torch/", "codemod/flow/", "codemod/purpose/", "codemod/releases/")
    using = {each.path for each in imports() if each.target == "re"}
    reading = {path for path in using if path.startswith((*facts, "codemod/trainers/", "transforms/"))}
    assert reading == set(NOT_PYTHON)


INSIDE_THE_PROGRAM = ("probes/rehearsal/inside/shadow/",)
"""What is imported only by the user's program, which has torch."""


def test_torch_is_imported_by_probes_alone_and_lazily() -> None:
    loads = [each for each in imports() if each.target.partition(".")[0] == "torch"]
    inside = [each for each in loads if each.path.startswith(INSIDE_THE_PROGRAM)]
    assert [str(each) for each in loads if not each.path.startswith("probes/")] == []
    assert [str(each) for each in loads if each.at_module_level and each not in inside] == []


@pytest.mark.parametrize(("module", "folder"), ONLY_IN.items())
def test_heavy_libraries_keep_to_their_place(module: str, folder: str) -> None:
    loads = [each for each in imports() if each.target.partition(".")[0] == module]
    assert [str(each) for each in loads if not each.path.startswith(folder)] == []


def test_the_engine_starts_without_heavy_libraries() -> None:
    """Reading rules and engine must stay cheap: what is slow to import comes in when it is needed."""
    program = (
        "import sys\nimport precfix.codemod.engine, precfix.transforms\nprecfix.transforms.load()\n"
        f"print(sorted({LAZY - {'pathspec'}!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_modules_and_functions_stay_readable() -> None:
    """A coarse upper bound; the aim is 300 lines and 15."""
    assert [each for source in product().values() for each in source.long] == []


def _long(path: Path, tree: ast.Module) -> Iterator[str]:
    lines = path.read_text("utf-8").count("\n")
    if lines > MAX_MODULE_LINES:
        yield f"{path.name}: {lines} lines"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.body[0].lineno + 1
            if lines > MAX_FUNCTION_LINES:
                yield f"{path.name}: {node.name} has {lines} lines"


def test_a_type_name_means_one_thing() -> None:
    """Private ones aside, which nobody else reads: a second `Run` or `Source` is called after what it is of."""
    places: dict[str, list[str]] = {}
    for path, source in product().items():
        for name in source.types:
            places.setdefault(name, []).append(path)
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def _types(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield from () if node.name.startswith("_") else (node.name,)
    for statement in tree.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        for target in targets:
            if isinstance(target, ast.Name) and target.id[0].isupper() and not target.id.isupper():
                yield target.id


def test_every_package_is_installed() -> None:
    """A folder that pyproject.toml does not name is missing from the wheel, while an editable install hides it."""
    pyproject = tomlkit.parse((REPOSITORY / "pyproject.toml").read_text("utf-8")).unwrap()
    listed = set(pyproject["tool"]["setuptools"]["packages"])
    present = {
        ".".join(("precfix", *path.parent.relative_to(REPOSITORY).parts))
        for path in sources()
        if path.name == "__init__.py"
    }
    assert present == listed
