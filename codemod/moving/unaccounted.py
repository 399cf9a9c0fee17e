"""What the code and the files of a run say of precision, and nothing accounts for: a move is proved without it.

A precision has a source: a dtype, a word, a switch that is on, code of others that is named for it. Each source in what
a run may use has to be an entry of its ledger, or of one of the classes below, which decide nothing. What only passes a
value on is as good as its source.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence

from ..flow.contexts import OWN_METHODS
from ..half.weighed_ledger import run_of
from ..model import Place
from ..outcome import Target
from ..purpose.files import CONFIG_ENDINGS, purpose_of
from ..purpose.flagged import is_run_at, is_stated_run
from ..purpose.targets import compute_dtype
from ..python.identifiers import words_of as parts_of
from ..python.names import (
    FunctionNode,
    ModuleNames,
    defaults_in,
    definition_of,
    last_name,
    modules_at,
    modules_with,
    string_of,
)
from ..python.paths import guards
from ..python.precision_words import DTYPES, SWITCHING
from ..source.facts import memo
from ..source.project import Project
from ..torch.api import WEIGHT_CASTS
from ..torch.autocast import Autocast, autocasts_in, dtype_scenarios
from ..torch.dtypes import DTYPE_WORDS, Constant, Dtype, as_dtype
from ..torch.dtypes import HALVES as HALF_DTYPES
from ..trainers.reading.configs import opened
from ..trainers.reading.documented import DOCUMENTED
from ..trainers.reading.hydra_picks import counts_in
from ..trainers.reading.program_files import words_of_script
from ..trainers.reading.reach_of_runs import may_use
from ..trainers.reading.region_switches import ENABLED
from ..trainers.reading.run_settings import loads_file
from ..trainers.reading.setting_reads import names_read
from ..trainers.reading.stated_words import (
    ABLE,
    OTHER_WORDS,
    TURNING,
    dtype_of,
    named_attribute,
    speaks,
    stated_by,
    text_of,
)
from .asks_hardware import is_of_gpu
from .left_behind import CODE, TRUTH, last_part, named_by, other_halves
from .pairs import RunPair
from .spelled import IN_TEXT, MIXING, is_prose

WORDS = (*SWITCHING, "precision", "dtype", "16")
ON = frozenset((*TRUTH, "16", "o1", "o2", "o3", "amp", "mixed"))
"""Values of a setting that is named for precision which switch something on."""
KNOWN = ("compute", "quantization", DOCUMENTED, "scaler", "island", "parameter", "fallback", "constant", "variable")
"""Roles of what is judged elsewhere, and of values that others may replace: the last word is an entry of its own."""
SHOWING = frozenset(("print", "info", "debug", "warning", "warn", "error", "log", "write", "add_argument", "help"))
"""Calls whose texts people read, and the parser's definition of an option, which the ledger reads by itself."""
ASKING = {"isinstance": 2, "issubclass": 2, "hasattr": 2, "getattr": 2, "setattr": 2, "get": 1, "pop": 1}
"""Calls whose words and types ask, or say which name is meant, and how many arguments do."""
TELLING = frozenset((*ABLE, "is", "get", "check", "enabled", "custom"))
"""Words of functions that tell what is, and of ``custom_fwd`` and ``custom_bwd``, which follow the region around."""


def unaccounted(
    after: Project, pair: RunPair, target: Target, modules: Sequence[str], built: Collection[str] = ()
) -> Iterator[Place]:
    """The places of a run, in its new texts, that may decide its precision, and that nothing accounts for."""
    wanted = compute_dtype(target.regime)
    conditions = (item.condition for item in pair.declared if item.condition.startswith(ENABLED))
    switches = [f"if {item.removeprefix(ENABLED)} else" for item in conditions]
    told = (item for item in pair.declared if not any(switch in item.value for switch in switches))
    stated = {(item.path, item.span.row): item.role for item in told}
    modules = modules or [pair.before.path]
    used = [*modules_at(after, dict.fromkeys((*modules, *built)))]
    regions = [(module, item.node) for module in used for item in autocasts_in(after, module)]
    asked = (item.test for module, node in regions for item in guards(module, node) if item.holds)
    named = (node for test in asked for node in ast.walk(test) if isinstance(node, ast.Attribute | ast.Name))
    states = {last_name(node) for node in named}
    for module in used:
        for node in _sources(after, module, wanted) if not purpose_of(module.path).is_left_alone else ():
            span = module.document.span(node)
            roles = {stated.get((module.path, row), "") for row in range(span.row, span.end_row + 1)} - {""}
            is_stated = bool(roles) and not (roles == {"constant"} and is_of_gpu(after, module, node))
            is_own = not is_stated and (module.path in built or may_use(after, modules[0], module, node))
            holder = next((item for item in module.ancestors(node) if isinstance(item, ast.Lambda)), node)
            is_taken = is_own and not _is_said_again(module, node)
            if is_taken and (_brings_about(module, node, states) or is_stated_run(after, module, holder)):
                yield module.place(node, _said(_named(module, node), around(module, node)))
    yield from _in_files(after, pair, wanted, modules)
    for entry in pair.entries:
        item = entry.declaration
        is_cast = item.role == "cast" and item.condition.startswith("if ") and wanted in HALF_DTYPES
        names = {last_part(word) for word in re.findall(r"[\w.]+", item.condition)} if is_cast else set()
        if is_cast and named_by(item) in other_halves(target) and not _given(pair).isdisjoint(names):
            yield Place(item.path, item.span, _said(named_by(item), item.key))
            continue
        is_known = entry.status or item.regime or item.condition or item.feeds or item.role in KNOWN
        is_followed = wanted in HALF_DTYPES or item.path.endswith(CODE)  # ``--amp``: the regions say what it means
        is_open = is_followed and named_by(item) is None
        is_left = purpose_of(item.path).is_left_alone or not asks(last_part(item.key), item.value, wanted)
        if not (is_known or is_open or is_left) and is_run_at(after, item.path, item.span):
            yield Place(item.path, item.span, _said(named_by(item), item.said))


def _given(pair: RunPair) -> set[str]:
    """The switches that something says are on: ``--fp16``, ``load(half=True)``."""
    told = (item for item in pair.declared if item.value.lower() == "true" and item.role != DOCUMENTED)
    return {last_part(item.key.rpartition("(")[2].removesuffix("=)")).replace("-", "_") for item in told}


def asks(name: str, value: Constant, wanted: Constant) -> bool:
    """Whether a value, under this name, asks for another 16-bit dtype than the target's, or for one left open."""
    named = as_dtype(value)
    if isinstance(named, Dtype) and (speaks(name) or str(value) not in ("16", "half")):
        return named in HALF_DTYPES and named != wanted
    if not speaks(name) or value is None or str(value).lower() not in ON:
        return False
    meant = {DTYPE_WORDS[word] for word in parts_of(name) if word in DTYPES}
    return not meant or wanted not in meant


def _said(named: Constant, text: str) -> str:
    return f"still says {named.name}: {text}" if isinstance(named, Dtype) else f"nothing accounts for {text}"


def around(module: ModuleNames, node: ast.expr) -> str:
    """The call that a dtype stands in, or the dtype alone."""
    calls = (item for item in (node, *module.ancestors(node)) if isinstance(item, ast.Call | ast.stmt))
    call = next(calls, None)
    return text_of(call if isinstance(call, ast.Call) else node)


def _named(module: ModuleNames, node: ast.expr) -> Constant:
    """The dtype that a source names, if it names one."""
    cast = WEIGHT_CASTS.get(last_name(node)) if _is_called(module, node) else None
    return cast or as_dtype(dtype_of(module, node) or string_of(node))


def _brings_about(module: ModuleNames, node: ast.expr, states: Collection[str]) -> bool:
    """Whether a block switches on a state that a region of the run asks for: a run that needs the one has the other."""
    statement = next(item for item in module.ancestors(node) if isinstance(item, ast.stmt))
    block = getattr(module.parents.get(statement), "body", ()) if states else ()
    stores = [item for item in block if isinstance(item, ast.Assign) and item is not statement in block]
    on = (item for item in stores if not (isinstance(item.value, ast.Constant) and not item.value.value))
    return any(last_name(target) in states for item in on for target in item.targets)


def _is_said_again(module: ModuleNames, node: ast.expr) -> bool:
    """Whether a test around asks for the same word: ``if kind == "fp16": mixed = "fp16"``; what is asked decides."""
    named = _named(module, node)
    asked = (item.test for item in guards(module, node) if item.holds)
    words = (string_of(word) for test in asked if isinstance(test, ast.Compare) for word in ast.walk(test))
    return isinstance(named, Dtype) and any(as_dtype(word) == named for word in words)


def _in_files(after: Project, pair: RunPair, wanted: Constant, modules: Sequence[str]) -> Iterator[Place]:
    """What stands in files that say something of the run, or that it loads, in sections that it reads."""
    run = run_of(after, pair.after or pair.before)
    words = words_of_script(run.command) if run is not None and run.command is not None else ()
    names = {name for module in modules_at(after, modules) for name in names_read(module)}
    stated = {(item.path, item.span.row) for item in pair.declared}
    files = {path.rpartition("/")[2].partition(".")[0] for path in after.paths}  # what they say is looked at itself
    configs = [path for path in after.paths if path.endswith(CONFIG_ENDINGS)]
    loaded = [path for path in configs if run is not None and loads_file(after, run, path)]
    for path in sorted({path for path in (*pair.paths, *loaded) if not path.endswith(CODE)}):
        document = after.document(path) if not purpose_of(path).is_left_alone else None
        for config in opened(after, document) if document is not None else ():
            by_name = any(entry.key[0] in names for entry in config.text.entries)
            for entry in config.text.entries if not config.is_data else ():
                row, sections = config.span(entry).row, entry.key[:-1]
                is_own = (path, row) not in stated and (path != pair.before.path or row in pair.rows)
                is_unread = by_name and bool(sections) and names.isdisjoint(sections)
                if not is_own or is_unread or not entry.is_scalar or entry.value in files or is_prose(entry):
                    continue
                name = str(sections[-1]) if sections and entry.name == "enabled" else last_part(entry.name)
                key = ".".join(map(str, entry.key))
                if asks(name, entry.value, wanted) and counts_in(after, modules, words, path, key):
                    yield config.place(entry, _said(as_dtype(entry.value), f"{name} is {entry.value}"))


@memo
def _sources(project: Project, module: ModuleNames, wanted: Constant) -> tuple[ast.expr, ...]:
    """The expressions of a module that a precision may come from, without those that decide nothing."""
    if not any(word in module.document.text.lower() for word in WORDS):
        return ()
    nodes = (*module.of_type(ast.Attribute), *module.of_type(ast.Name), *module.of_type(ast.Constant))
    found = [node for node in nodes if _is_source(project, module, node, wanted) and not _decides_nothing(module, node)]
    regions = autocasts_in(project, module) if found else ()
    fitting = {item.reference for item in regions if item.switched_off or _values(project, item) == {wanted}}
    return tuple(node for node in found if node not in fitting)


def _values(project: Project, region: Autocast) -> set[Constant]:
    return {scenario.value for scenario in dtype_scenarios(project, region)}


def _is_source(project: Project, module: ModuleNames, node: ast.expr, wanted: Constant) -> bool:
    if isinstance(node, ast.Constant):
        return _is_value(module, node, wanted)
    if not isinstance(node, ast.Attribute | ast.Name) or not isinstance(node.ctx, ast.Load):
        return False
    name = last_name(node)
    parts = parts_of(name)
    parts = parts if parts.isdisjoint(TURNING) else parts - {"half"}
    if parts.isdisjoint(SWITCHING) or isinstance(module.parents.get(node), ast.Attribute):
        return False
    call = module.parents.get(node) if _is_called(module, node) else None
    is_cast = isinstance(node, ast.Attribute) and isinstance(call, ast.Call) and not call.args
    named = as_dtype(dtype_of(module, node)) if call is None else DTYPE_WORDS.get(name) if is_cast else None
    if isinstance(named, Dtype):
        return named in HALF_DTYPES and named != wanted
    return _is_of_others(project, module, node, name) and parts.isdisjoint(TELLING)


def _is_called(module: ModuleNames, node: ast.expr) -> bool:
    parent = module.parents.get(node)
    return isinstance(parent, ast.Call) and parent.func is node


def _is_plainly_called(module: ModuleNames, node: ast.expr) -> bool:
    call = module.parents.get(node)
    given = [*call.args, *(item.value for item in call.keywords)] if isinstance(call, ast.Call) else []
    handlers = (isinstance(item, ast.Call) and _is_handler(module, item.func) for item in given)
    return isinstance(call, ast.Call) and call.func is node and all(handlers)


def _is_handler(module: ModuleNames, node: ast.expr) -> bool:
    """accelerate's ``AutocastKwargs``, which can only leave a region out that the trainer's own setting opens."""
    name = module.qualified(node) or ""
    return name.startswith("accelerate.") and name.endswith(".AutocastKwargs")


def _is_of_others(project: Project, module: ModuleNames, node: ast.expr, name: str) -> bool:
    """Whether a name is code of another package: imported from there, or a method that no class here has.

    Not a region that a trainer opens by its own setting (``accelerator.autocast()``), which the ledger follows.
    """
    if isinstance(node, ast.Attribute) and name in OWN_METHODS and _is_plainly_called(module, node):
        return (module.qualified(node) or "").startswith("torch.")
    call = next((item for item in module.ancestors(node) if isinstance(item, ast.Call) and item.func is not node), None)
    if _is_handler(module, node) and call is not None and _is_plainly_called(module, call.func):
        return last_name(call.func) not in OWN_METHODS
    if module.qualified(node) is not None:
        return definition_of(project, module, node) is None
    return isinstance(node, ast.Attribute) and _is_called(module, node) and not _is_defined(project, name)


@memo
def _is_defined(project: Project, name: str) -> bool:
    """Whether the project defines a function of this name, or stores something under it."""
    for module in modules_with(project, (name,)):
        functions = (node.name for node in module.scopes if isinstance(node, FunctionNode))
        if name in module.attribute_stores or name in functions:
            return True
    return False


def _is_value(module: ModuleNames, node: ast.Constant, wanted: Constant) -> bool:
    """Whether a constant asks for a precision by itself, or under the name that it is given."""
    value = node.value
    if not isinstance(value, str | bool | int):
        return False
    name, parent = _name_over(module, node), module.parents.get(node)
    if isinstance(parent, ast.Call) and named_attribute(parent) is node:  # ``getattr(torch, "half")``
        return as_dtype(value) in HALF_DTYPES and as_dtype(value) != wanted
    if not isinstance(value, str) or speaks(name):
        return asks(name, value, wanted) and as_dtype(value) != DTYPE_WORDS.get(name.lower())  # ``FP16 = "fp16"``
    if " " in value.strip() or "\n" in value:
        return IN_TEXT.search(value) is not None and as_dtype(IN_TEXT.findall(value)[0]) != wanted
    named, is_path = as_dtype(value), "/" in value or re.search(r"\w\.\w", value) is not None
    if value.isdigit() or value.lower() == "half" or is_path:
        return False
    is_open = parts_of(value) <= MIXING and not parts_of(value).isdisjoint(("amp", "autocast", "mixed"))
    is_passed = isinstance(parent, ast.Call | ast.keyword)
    return (is_open and is_passed) or (named in HALF_DTYPES and named != wanted)


def _name_over(module: ModuleNames, node: ast.expr) -> str:
    """The name that a value is given: of a keyword, a target, a parameter, a key; ``setattr(args, "fp16", True)``."""
    parent = module.parents.get(node)
    if isinstance(parent, ast.keyword):
        return parent.arg or ""
    if isinstance(parent, ast.Assign | ast.AnnAssign):
        target = parent.targets[0] if isinstance(parent, ast.Assign) else parent.target
        return string_of(target.slice) or "" if isinstance(target, ast.Subscript) else last_name(target)
    if isinstance(parent, ast.Dict) and node in parent.values:
        key = string_of(parent.keys[parent.values.index(node)]) or ""
        return _name_over(module, parent) if key == "enabled" else key  # ``"fp16": {"enabled": True}``
    if isinstance(parent, ast.arguments):
        return next((name for name, default in defaults_in(parent).items() if default is node), "")
    if isinstance(parent, ast.Call) and node in parent.args[1:]:
        return string_of(parent.args[parent.args.index(node) - 1]) or ""
    return ""


def _decides_nothing(module: ModuleNames, node: ast.expr) -> bool:
    """Whether a place asks, shows or declares, or is one of several that a setting picks by its word."""
    child: ast.AST = node
    for above in module.ancestors(node) if not _is_called(module, node) else ():
        if isinstance(above, ast.Compare) and child is node and isinstance(module.parents.get(above), ast.If):
            return not _is_for_it_alone(module, above, node)
        if isinstance(above, ast.Compare | ast.MatchValue | ast.Raise | ast.Assert | ast.ExceptHandler):
            return True
        if isinstance(above, ast.JoinedStr):
            return "--" not in ast.unparse(above)
        if isinstance(above, ast.Subscript) and child is above.slice:
            return True
        if isinstance(above, ast.List | ast.Tuple | ast.Set):
            return sum(stated_by(module, item) is not None for item in above.elts) > 1
        if isinstance(above, ast.arg | ast.AnnAssign) and child is above.annotation:
            return True
        if isinstance(above, FunctionNode):
            return child is above.returns
        if isinstance(above, ast.Dict) and child in above.keys:
            return True
        if isinstance(above, ast.Dict):
            keys = [string_of(key) if key is not None else None for key in above.keys]
            at = next(number for number, item in enumerate(zip(above.keys, above.values, strict=True)) if child in item)
            return isinstance(as_dtype(keys[at]), Dtype) or keys[at] in OTHER_WORDS
        if isinstance(above, ast.Call) and child is not above.func:
            called = last_name(above.func)
            is_asked = child in above.args[: ASKING.get(called, 0)] and named_attribute(above) is not child
            return called in SHOWING or is_asked
        if isinstance(above, ast.stmt):
            return isinstance(above, ast.Expr) and child is node and isinstance(node, ast.Constant)
        child = above
    return False


def _is_for_it_alone(module: ModuleNames, test: ast.Compare, node: ast.expr) -> bool:
    """Whether a branch is there for a setting that is this very dtype, and no other one for another."""
    branch, asked = module.parents[test], ast.unparse(test.left)
    is_one = isinstance(branch, ast.If) and not branch.orelse and isinstance(test.ops[0], ast.Eq | ast.Is)
    return is_one and isinstance(node, ast.Attribute) and node is not test.left and not asked.endswith(".dtype")
