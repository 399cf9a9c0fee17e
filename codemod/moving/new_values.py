"""What the new value of a setting comes to in the code of a run: a table or a cascade that does not know it, and a
branch of 16 bits that is taken in place of the old one.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..model import Place
from ..outcome import Target
from ..purpose.targets import compute_dtype
from ..python.conditions import conditions_in
from ..python.names import ModuleNames, last_name, modules_at, string_of
from ..python.paths import leaving_statement, tries
from ..python.trace import TABLES, trace
from ..source.project import Project
from ..torch.api import LOAD_KEYS, LOADERS, QUANTIZED_KEYS
from ..torch.dtype_values import scenarios_of
from ..torch.dtypes import FP16, FP32, HALVES, TORCH_DTYPES, Constant, Dtype, TextCondition, as_dtype
from ..trainers.reading.reach_of_runs import may_use
from ..trainers.reading.run_members import Run
from ..trainers.reading.stated_casts import is_model
from ..trainers.reading.stated_words import is_precision_word, shortened, text_of
from .left_behind import other_halves
from .run_values import RunValues

REGIONS = ("autocast", "custom_fwd")
"""What is given a dtype that counts only where it is switched on: the ledger follows it."""
AS_SAVED = "loads the weights without a dtype then, in float32 or as their checkpoint has them"


def misses(project: Project, after: Project, old: Run | None, new: Run | None, target: Target) -> Iterator[Place]:
    """The places in the code of a run that the new values come to, and that are not made for them."""
    found = _Comes(after, new, target).found() if new is not None and new.modules else {}
    known = _Comes(project, old, target).found() if found and old is not None and old.modules else {}
    yield from (place for said, place in found.items() if said not in known)


@dataclass(frozen=True, slots=True)
class _Comes(RunValues):
    """What the code of one run does with the values that its settings have."""

    target: Target

    def found(self) -> Mapping[tuple[str, ...], Place]:
        found: dict[tuple[str, ...], Place] = {}
        modules = [*modules_at(self.project, self.run.modules)]
        tables = {name for module in modules for name in _tables_of_words(module)}
        for module in modules:
            for node, text in (
                *self._looked_up(module, tables),
                *self._cascades(module),
                *self._stopped(module),
                *self._taken(module),
            ):
                if may_use(self.project, self.run.modules[0], module, node) and self.is_reached(module, node):
                    found[module.path, ast.unparse(node), text] = module.place(node, text)
        return found

    def _looked_up(self, module: ModuleNames, tables: Collection[str]) -> Iterator[tuple[ast.expr, str]]:
        """``DTYPES[args.precision]`` and ``getattr(torch, args.precision)`` that do not know a word."""
        for node in module.of_type(ast.Subscript):
            is_table = isinstance(node.value, ast.Dict) or last_name(node.value) in tables
            if is_table and isinstance(node.ctx, ast.Load) and not isinstance(node.slice, ast.Constant | ast.Slice):
                shown = trace(self.project, module, node.value, TABLES)
                if len(shown) == 1 and shown[0] is not None and not any(tries(module, node)):
                    yield from self._unknown(module, node, node.slice, {*_keys(shown[0][1]), *_added(module, node)})
        for call in module.calls_by_name.get("getattr", ()):
            if len(call.args) == 2 and module.qualified(call.args[0]) == "torch" and not any(tries(module, call)):
                yield from self._unknown(module, call, call.args[1], {name.rpartition(".")[2] for name in TORCH_DTYPES})

    def _unknown(
        self, module: ModuleNames, node: ast.expr, key: ast.expr, known: Collection[object]
    ) -> Iterator[tuple[ast.expr, str]]:
        if known:
            for word in self.words(module, key):
                if word not in known:
                    yield node, f"{text_of(node)} does not know {word!r}, which {text_of(key)} is then"

    def _cascades(self, module: ModuleNames) -> Iterator[tuple[ast.expr, str]]:
        """Tests of a word one after the other, none of which takes it, or of which one refuses it."""
        for cascade in _cascades_of(self.project, module):
            for word in self.words(module, cascade.node):
                said = f"{word!r}, which {text_of(cascade.node)} is then"
                body = cascade.taken(word)
                leaving = leaving_statement(module, body) if body else None
                if isinstance(leaving, ast.Raise | ast.Expr):
                    yield cascade.node, f"{shortened(ast.unparse(leaving))} refuses {said}"
                elif not body and (name := cascade.unset(module)):
                    yield cascade.node, f"no test sets {name} for {said}"
        for node in module.of_type(ast.Assert):
            given = conditions_in(self.project, module).given(node.test, False)
            for word in self.words(module, given[0].node) if len(given) == 1 and _names_precision(given) else ():
                if (word in given[0].values) is given[0].equal:
                    yield node.test, f"{shortened(ast.unparse(node))} refuses {word!r}"

    def _stopped(self, module: ModuleNames) -> Iterator[tuple[ast.expr, str]]:
        """``if not args.fp16: raise ...``: what is raised for a switch that is not as it was."""
        conditions = conditions_in(self.project, module)
        for node in (*module.of_type(ast.Raise), *module.of_type(ast.Assert)):
            given = [*conditions.path_given(node)]
            given += conditions.given(node.test, False) if isinstance(node, ast.Assert) else ()
            if given and all(item.values == (True,) and self.holds(module, item) for item in given):
                is_on = "on" if given[-1].equal else "off"
                yield given[-1].node, f"{shortened(ast.unparse(node))} stops it, as {given[-1].text} is {is_on} then"

    def _taken(self, module: ModuleNames) -> Iterator[tuple[ast.expr, str]]:
        """What is cast to, or made in, 16 bits, or float32 in their place, by the branch that a switch leaves over."""
        wanted = compute_dtype(self.target.regime)
        told = {*other_halves(self.target), *({FP16} & {wanted}), *({FP32} if wanted in HALVES else ())}
        calls = module.calls if "16" in module.document.text and "torch" in module.document.text else ()
        for call in calls:
            name = last_name(call.func)
            is_load = name in LOADERS and not any(item.arg in QUANTIZED_KEYS for item in call.keywords)
            given = [item.value for item in call.keywords if item.arg in LOAD_KEYS and name not in REGIONS]
            given += call.args if name == "to" else []
            for node in (item for item in given if "device" not in ast.unparse(item)):
                for scenario in scenarios_of(self.project, module, node) if told else ():
                    dtype = as_dtype(scenario.value)
                    is_plain = dtype is None and is_load and wanted in HALVES
                    if not is_plain and (not isinstance(dtype, Dtype) or dtype not in told):
                        continue
                    answers = [self.holds(module, item) for item in scenario.given]
                    is_meant = dtype in (wanted, FP32, None) and _is_meant(call, scenario.given, dtype)
                    if True in answers and False not in answers and not is_meant:
                        said = f"is {dtype.name} then" if isinstance(dtype, Dtype) else AS_SAVED
                        yield node, f"{said}: {text_of(call)}"


@dataclass(frozen=True, slots=True)
class _Cascade:
    """``if args.precision == "fp16": ... elif ...``, ``match args.precision: ...``."""

    node: ast.expr
    arms: tuple[tuple[tuple[Constant, ...], bool, Sequence[ast.stmt]], ...]
    """The words that a test names, whether it asks for them or for others, and what is done then."""
    otherwise: Sequence[ast.stmt]
    whole: ast.stmt

    def taken(self, word: str) -> Sequence[ast.stmt]:
        taken = (body for words, equal, body in self.arms if (word in words) is equal)
        return next(taken, self.otherwise)

    def unset(self, module: ModuleNames) -> str:
        """A name that every test sets, nothing else does, and something below reads."""
        scope = module.scope_of(self.node)
        inside = {*ast.walk(self.whole)}
        each = [{name.id for name in _stored(body)} for _, _, body in self.arms]
        for name in sorted(set.intersection(*each)):
            bindings = scope.bindings.get(name, ())
            is_read = any(item not in inside for item in module.name_loads.get(name, ()))
            if bindings and all(item.node in inside for item in bindings) and is_read:
                return name
        return ""


def _cascades_of(project: Project, module: ModuleNames) -> Iterator[_Cascade]:
    for node in module.of_type(ast.If):
        parent = module.parents.get(node)
        if not (isinstance(parent, ast.If) and parent.orelse == [node]):
            tests, otherwise = [node], node.orelse
            while len(otherwise) == 1 and isinstance(otherwise[0], ast.If):
                tests.append(otherwise[0])
                otherwise = otherwise[0].orelse
            given = [conditions_in(project, module).given(item.test, True) for item in tests]
            alone = [item[0] for item in given if len(item) == 1]
            if len(alone) == len(tests) and len({item.text for item in alone}) == 1 and _names_precision(alone):
                arms = ((item.values, item.equal, test.body) for item, test in zip(alone, tests, strict=True))
                yield _Cascade(alone[0].node, tuple(arms), otherwise, node)
    for match in module.of_type(ast.Match):
        words = [(case, [*_words_of(case.pattern)]) for case in match.cases if case.guard is None]
        otherwise = next((case.body for case, found in words if not found), [])
        if any(is_precision_word(word) for _, found in words for word in found):
            known = ((tuple(found), True, case.body) for case, found in words if found)
            yield _Cascade(match.subject, tuple(known), otherwise, match)


def _words_of(pattern: ast.pattern) -> Iterator[str]:
    for item in pattern.patterns if isinstance(pattern, ast.MatchOr) else [pattern]:
        if isinstance(item, ast.MatchValue) and (word := string_of(item.value)) is not None:
            yield word


def _names_precision(given: Sequence[TextCondition]) -> bool:
    return any(isinstance(word, str) and is_precision_word(word) for item in given for word in item.values)


def _stored(body: Sequence[ast.stmt]) -> Iterator[ast.Name]:
    for statement in body:
        yield from (
            item for item in ast.walk(statement) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)
        )


def _tables_of_words(module: ModuleNames) -> Iterator[str]:
    """The names of dictionaries whose keys are words for a precision."""
    for node in module.of_type(ast.Dict):
        if any(isinstance(key, str) and is_precision_word(key) for key in _keys(node)):
            above = module.parents.get(node)
            targets = above.targets if isinstance(above, ast.Assign) else [getattr(above, "target", None)]
            yield from (last_name(target) for target in targets if target is not None)


def _keys(table: ast.Dict) -> Iterator[object]:
    """The keys of a table; none where one of them is not written out."""
    if all(isinstance(key, ast.Constant) for key in table.keys):
        yield from (key.value for key in table.keys if isinstance(key, ast.Constant))


def _added(module: ModuleNames, node: ast.Subscript) -> Iterator[object]:
    """The keys that are stored under the same name: ``DTYPES["no"] = torch.float32``."""
    for other in module.of_type(ast.Subscript):
        is_alike = isinstance(other.ctx, ast.Store) and last_name(other.value) == last_name(node.value)
        yield from (part.value for part in [other.slice] if is_alike and isinstance(part, ast.Constant))


def _is_meant(call: ast.Call, given: Sequence[TextCondition], dtype: Constant) -> bool:
    """Whether the type that a run computes in is asked for at a place, or no weights are cast to it there."""
    asked = any(item.equal and as_dtype(item.text.rpartition(".")[2]) in HALVES for item in given)
    asked = asked or any(item.equal and any(as_dtype(word) in HALVES for word in item.values) for item in given)
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    cast = owner is not None and (is_model(owner) or (isinstance(owner, ast.Attribute) and is_model(owner.value)))
    return asked or (dtype in HALVES and not cast)
