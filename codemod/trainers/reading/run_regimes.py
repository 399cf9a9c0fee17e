"""What a run computes in where no trainer's setting decides: its autocast regions, its weights, its switches.

Only what all of the run's own code agrees on counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise

from ...outcome import Declaration, RunEntry
from ...purpose.files import is_test
from ...source.project import Project
from ...torch.dtypes import FP32, TRUE, Dtype, as_dtype
from .followed import BY_MACHINE, NOT_GIVEN, OF_COMMAND, OR_FLOAT32
from .left_open import ELSEWHERE
from .listed_commands import VARIABLE
from .loaded_files import serves_inference
from .programs_started import is_program
from .run_members import Run
from .run_settings import OF_WEIGHTS, files_that_switch_on, name_of, off_by, regime_of_settings
from .scopes import SettingScope, TextOrigin
from .stated_casts import ASIDE, PARTS

IDLE = (None, "false", "null", "no", "auto")
"""Values of settings that leave it to others what is computed in."""
SAID = ("weights", "option", "constant", "argument", "entry", "flag", "island")
"""Roles of what states a precision without saying where it acts."""
MAX_FILES = 3
"""Files that are named of those between which a run goes through."""
UNSET = ("None", "null")
OFF = ("false", "no", "off", "float32", "fp32", "float64", "32")
NOTHING = "nothing given"
"""The key of what a trainer does where nobody says anything."""


def regime_of_code(items: Sequence[Declaration]) -> str:
    """The one regime that these declarations state together; ``unknown`` where they do not agree, or leave it open."""
    items = [item for item in items if not _is_left_out(item, items)]
    regions = {item.regime for item in items if item.role == "compute" and item.regime}
    if regions:
        return regions.pop() if len(regions) == 1 else "unknown"
    if any(item.role == "compute" for item in items):
        return "unknown"
    constants: dict[str, str] = {}
    for item in (item for item in items if item.role == "constant"):
        half = as_dtype(constants.get(item.key, item.value))
        is_other = half in TRUE and as_dtype(item.value) in TRUE and half != as_dtype(item.value)
        constants[item.key] = "" if is_other or constants.get(item.key) == "" else item.value
    weights = [item for item in items if item.role == "weights" and item.condition not in ASIDE]
    weights = weights or [item for item in items if item.role == "weights"]
    if any(item.feeds for item in weights):  # what they feed says the same once more
        weights = [item for item in weights if item.feeds or _dtype(item, constants) is not None]
    followed = {item.regime for item in items if item.feeds and item.regime in OF_WEIGHTS}
    stated = {_dtype(item, constants) for item in weights}
    if stated == {None} and len(followed) == 1:
        return followed.pop()
    halves = [TRUE[dtype] for dtype in stated if dtype is not None and dtype in TRUE]
    if halves:
        return halves[0] if len(stated) == 1 else "unknown"
    others = [item for item in items if item.role in SAID and item.role != "weights"]
    feeding = ", ".join(item.feeds for item in others)  # a place that is given what a setting says adds nothing
    weights = [item for item in weights if f" ({item.path}:{item.span.row})" not in feeding]
    said = [item for item in (*weights, *others) if item.role != "island" or item.regime]
    said = [item for item in said if item.condition not in ASIDE and item.value not in UNSET]
    return "fp32" if said and all(map(_is_off, said)) else "unknown"


def _is_off(item: Declaration) -> bool:
    return item.regime == "fp32" or item.value.strip("'\"").lower() in OFF


def _names_float32(item: Declaration) -> bool:
    """Whether an option is a word for a dtype, as regions in 16 bits have one: its default is a choice."""
    return as_dtype(item.value.strip("'\"")) == FP32


def otherwise(run: Run, items: Sequence[Declaration], regime: str) -> tuple[str, str]:
    """What a program runs by default, where ``regime`` is not it, and what else it can run.

    With an option that is off by default, where no launch line says what is passed; on another machine.
    """
    options = {item.key: None for item in off_by(run, items)} if run.command is None else {}
    if options and regime not in ("fp32", "unknown"):
        return "fp32", f"{regime} with {' and '.join(options)}"
    files = files_that_switch_on(run, items) if regime not in ("fp32", "unknown") else ()
    if files:
        more = f" and {len(files) - MAX_FILES} more" if len(files) > MAX_FILES else ""
        return "fp32", f"{regime} with {', '.join(files[:MAX_FILES])}{more}"
    for said, other in ((BY_MACHINE, "fp16-mixed"), (OR_FLOAT32, "fp32")):
        chosen = any(item.regime == regime and said in (item.condition, *item.value.split(" ", 1)) for item in items)
        if chosen and regime == "bf16-mixed":
            return "", f"{other} where the machine has no bfloat16"
    return "", ""


def regime_of_run(run: Run, items: Sequence[Declaration]) -> str:
    """The same for a run: of settings that are followed the strongest count, if what is fixed does not differ."""
    given = {*_given_on_line(run)}
    items = [item for item in items if item.role != "option" or item.feeds or name_of(item) not in given]
    off = off_by(run, items)
    if _is_open_word(off, items) or _is_by_command(items) or _is_given_unfollowed(given, items):
        return "unknown"
    if off and (run.command is not None or any(item.role != "option" or _names_float32(item) for item in off)):
        return "fp32"  # of a program that no launch line starts a read-me may tell to pass a switch
    items = [item for item in items if item.value != NOT_GIVEN]
    steered = regime_of_settings(run, items)
    fixed = {item.regime for item in items if item.role == "compute" and item.regime and not item.feeds}
    if steered and not (steered in OF_WEIGHTS and any(item.role == "compute" for item in items)):
        return steered if fixed <= {steered} else "unknown"
    return regime_of_code([item for item in items if not item.feeds] if fixed else items)


def _is_open_word(off: Sequence[Declaration], items: Sequence[Declaration]) -> bool:
    """Whether only defaults, which are words, leave a run off, and its line gives a word that is not known: ``$1``."""
    words = [item for item in off if item.role == "option" and item.value.strip("'\"").lower() not in ("true", "false")]
    return bool(off) and len(words) == len(off) and any(item.feeds and item.value.startswith("$") for item in items)


def _is_given_unfollowed(given: Collection[str], items: Sequence[Declaration]) -> bool:
    """Whether only defaults leave a run off, and its line gives such an option something else, or words of a list."""
    followed = [item for item in items if item.feeds and item.regime]
    defaults = {name_of(item) for item in followed} if all(map(_is_default_off, followed)) else set()
    return bool(defaults) and (VARIABLE in given or not defaults.isdisjoint(given))


def _given_on_line(run: Run) -> Iterator[str]:
    """The names of the options that a launch line gives what does not say off; a list of words that is not followed."""
    words = run.command.words if run.command is not None else ()
    for before, word in pairwise((*words, "")):
        flag, equals, value = before.partition("=")
        if flag.startswith("--") and (value if equals else word).lower() not in OFF:
            yield flag[2:].replace("-", "_")
        elif word == VARIABLE and not flag.startswith("-"):
            yield VARIABLE


def _is_default_off(item: Declaration) -> bool:
    return item.role == "option" and item.regime == "fp32"


def _is_by_command(items: Sequence[Declaration]) -> bool:
    """Whether parsers of several commands give one option other defaults, and nothing is given for it."""
    given = {name_of(item) for item in items if item.feeds and item.role != "option"}
    defaults: dict[tuple[str, str], set[str]] = {}
    for item in (item for item in items if item.feeds.endswith(OF_COMMAND) and name_of(item) not in given):
        defaults.setdefault((item.path, item.key), set()).add(item.value.strip("'\""))
    return any(len(values) > 1 for values in defaults.values())


def _is_left_out(item: Declaration, items: Sequence[Declaration]) -> bool:
    """Whether weights are cast under an option that is off and that nothing gives: ``if use_bf16: model.to(...)``."""
    kind, _, test = item.condition.rpartition(" ")
    if item.role != "weights" or kind != "if" or not test.replace(".", "").isidentifier():
        return False
    name = test.rpartition(".")[2]
    told = [each for each in items if name_of(each) == name]
    return any(each.role == "option" for each in told) and all(each.value.lower() in OFF for each in told)


def _dtype(item: Declaration, constants: Mapping[str, str]) -> Dtype | None:
    """The dtype of weights: as it stands there, as the variable there is set, or as the switch there is called."""
    if item.condition == PARTS:
        return None
    value = constants.get(item.value, item.value)
    named = as_dtype(item.key.partition("(")[2].removesuffix("=)") if value == "true" else value)
    return named if isinstance(named, Dtype) else None


def by_default(run: Run) -> Iterator[RunEntry]:
    """What a run computes in because its trainer does where nobody says anything; also where that is not known."""
    winner = run.winner
    for member in run.members if winner is None else ():
        scope = member.scope
        if scope.is_left_open and not scope.regimes and scope.is_decided:
            place = (scope.path, scope.span, scope.framework.id, NOTHING, "compute")
            yield RunEntry(Declaration(*place, ELSEWHERE), member.link, "", "")
    regime = winner.regime if winner is not None and not winner.handed else None
    if winner is not None and regime is not None and winner.scope.regimes == {regime: None}:
        scope, value = winner.scope, f"{regime} (the default)"
        place = (scope.path, scope.span, scope.framework.id, NOTHING, "compute")
        yield RunEntry(Declaration(*place, value, regime), winner.link, "wins")


def is_started(project: Project, run: Run | None, path: str, regime: str) -> bool:
    """Whether somebody starts this: a launch line, a program's own entry, or a file that configures a whole run."""
    if run is not None and run.command is not None:
        return True
    if is_test(path) or (run is not None and not run.modules and serves_inference(project, path)):
        return False
    if path.endswith(".ipynb") or (run is not None and any(_configures(member.scope) for member in run.members)):
        return True
    return is_program(project, path) if path.endswith(".py") else run is not None and regime != "unknown"


def _configures(scope: SettingScope) -> bool:
    """Whether a place switches something on as soon as it is read: a file, or a call at the top of a module."""
    said = any(setting.key.means and setting.value not in IDLE for setting in scope.effective())
    if not (said or scope.is_left_open):
        return False
    if isinstance(scope.origin, TextOrigin):
        return True
    module, call = scope.origin.module, scope.call
    return call is None or module.scope_of(call) is module.module_scope
