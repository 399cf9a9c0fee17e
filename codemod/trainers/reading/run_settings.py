"""Which followed settings a run has: its own command line's, those of the files that it loads, and the defaults."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from ...formats.shell_variables import variable_of
from ...formats.text import CommandLine
from ...outcome import Declaration
from ...python.names import modules_at
from ...source.project import Project
from .configs import opened
from .followed import acts_in
from .hydra_picks import counts_in
from .loaded_files import is_named_in, is_passed_only, loaders_of
from .program_files import file_named, files_named, words_of_script
from .region_switches import ENABLED
from .run_files import naming_options
from .run_members import Run
from .setting_reads import names_read
from .stated_casts import ASIDE
from .taken_whole import taken_whole

OF_WEIGHTS = ("bf16-true", "fp16-true")
HOLDING = re.compile(r"\s*(?:export\s+|local\s+|readonly\s+|declare\s+(?:-\w+\s+)?)?(?P<name>\w+)\+?=[(\"\']")
"""How a shell script puts words into a variable or an array."""
PASSED_ON = ("$@", "$*", "${@", "${*")
"""How words begin that pass on what a script is given."""
SHELL = "shell"
"""The framework of what stands in shell texts alone."""
NOTEBOOK = ".ipynb"
"""Its cells are no code of the programs that its ``!`` lines start."""
LOWERING = ("torch", "apex")
"""The frameworks whose calls in plain code lower the precision of what stands in them, or of all that follows."""
TEXT = "text"
"""The framework of entries of which only the name says what they are about."""


def settings_of(project: Project, run: Run, code: Mapping[str, Sequence[Declaration]]) -> Iterator[Declaration]:
    """What is followed from the code of a run to its launch line and to configuration files."""
    launch = run.place.path
    if run.command is not None and launch not in run.modules:
        told = (item for item in code.get(launch, ()) if item.feeds or not launch.endswith(NOTEBOOK))
        yield from (item for item in told if _is_of_line(project, run, item))
        yield from _of_callers(project, run, code)
    modules = frozenset(run.modules)
    for path, items in code.items():
        fed = [item for item in items if item.feeds] if path != launch and path not in modules else []
        lines = project.memo(_lines_of, path) if fed else ()  # of other runs: a sweep in YAML
        fed = [item for item in fed if not any(row <= item.span.row for row, _ in lines)]
        if fed and loads_file(project, run, path):
            words = words_of_script(run.command) if run.command is not None else ()
            fed = [item for item in fed if counts_in(project, run.modules, words, path, item.key)]
            is_named = _names(project, run, path) or not is_passed_only(project, path)
            for item in fed:
                of_text = item.framework == TEXT
                if (is_named and _reads(project, run, item)) if of_text else acts_in(project, item, modules):
                    yield item


def _of_callers(project: Project, run: Run, code: Mapping[str, Sequence[Declaration]]) -> Iterator[Declaration]:
    """What another script gives the one of this run, which passes it on: ``bash train.sh cfg.yaml $PREC``."""
    written = run.command.written if run.command is not None else ()
    if not any(word.startswith(PASSED_ON) for word in written):
        return
    for path, items in code.items():
        given = [item for item in items if item.framework == SHELL and item.feeds] if path != run.place.path else []
        for _, command in project.memo(_lines_of, path) if given else ():
            if file_named(project, path, command.script) == run.place.path:
                held = ((item, _variable_around(project, item, item.span.row - 1)) for item in given)
                yield from (item for item, variable in held if variable and _holds(command, variable))


def regime_of_settings(run: Run, items: Iterable[Declaration]) -> str:
    """What the strongest of the followed settings say together; empty where they say nothing, or several things."""
    strongest = {item.regime for item in next(iter(_by_strength(run, items)), ())}
    return next(iter(strongest)) if len(strongest) == 1 else ""


def off_by(run: Run, items: Sequence[Declaration]) -> tuple[Declaration, ...]:
    """What counts of the switches in this run, where all of its regions have one and each says no; else nothing."""
    regions = [item for item in items if item.framework in LOWERING and item.role == "compute" and not item.feeds]
    found: list[Declaration] = []
    given_words = (item for item in items if item.feeds and item.role != "option" and not is_switch(item))
    on = {name for item in given_words if item.regime not in ("", "fp32") for name in (name_of(item), _reader(item))}
    written = run.command.written if run.command is not None else ()
    passed = ((flag, variable_of(word)) for flag, word in pairwise(written) if flag.startswith("--"))
    on |= {flag[2:].replace("-", "_") for flag, name in passed if name in on}
    for condition in sorted({item.condition for item in regions}):
        given = strongest_switches(run, [item for item in items if item.condition == condition])
        if not given or any(item.regime != "fp32" for item in given):
            return ()
        if any(item.role == "option" and not on.isdisjoint((name_of(item), _reader(item))) for item in given):
            return ()  # the default of a word that the run is given, which is followed to the dtype of the region
        found += given
    return tuple(found)


def name_of(item: Declaration) -> str:
    """The name of an option, or of an entry, without the sections that it stands in."""
    return item.key.lstrip("-").replace("-", "_").rpartition(".")[2]


def _reader(item: Declaration) -> str:
    """What in the code reads a setting, where that is told: ``args.precision``."""
    first = item.feeds.partition(",")[0].partition(" (")[0]
    return first if "." in first else ""


def files_that_switch_on(run: Run, items: Sequence[Declaration]) -> tuple[str, ...]:
    """Of the files that a run goes through those that switch its regions on, where others of them do not."""
    found: dict[str, None] = {}
    for condition in sorted({item.condition for item in items if is_switch(item)}):
        given = strongest_switches(run, [item for item in items if item.condition == condition])
        on = {item.path: None for item in given if item.regime != "fp32"}
        if len(on) < len({item.path for item in given}) and run.place.path not in on:
            found |= on
    return tuple(found)


def strongest_switches(run: Run, items: Sequence[Declaration]) -> list[Declaration]:
    """Those of the switches among the declarations that count in this run."""
    return next(iter(_strongest(run, [item for item in items if is_switch(item)])), [])


def is_switch(item: Declaration) -> bool:
    """Whether a setting decides if regions are on: ``--amp`` of ``autocast(enabled=args.amp)``."""
    return bool(item.feeds and item.regime) and item.condition.startswith(ENABLED)


def standing_of(run: Run, items: Iterable[Declaration]) -> dict[Declaration, str]:
    """Of each followed setting whether it wins in the run, or by which place it is overridden."""
    first, *weaker = _by_strength(run, items) or [[]]
    found = dict.fromkeys(first, "wins")
    for item in (item for group in weaker for item in group):
        if item.regime not in {other.regime for other in first}:
            found[item] = f"by {first[0].path}:{first[0].span.row}"
    return found


def _by_strength(run: Run, items: Iterable[Declaration]) -> list[list[Declaration]]:
    """The command line's settings, those of files, and defaults, as far as there are any; of weights only if alone."""
    given = [item for item in items if item.feeds and not is_switch(item)]
    # What a variable holds that nobody follows may be anything.
    followed = [item for item in given if item.regime or item.value.lstrip('"').startswith("$")]
    steering = [item for item in followed if item.condition not in ASIDE]
    return _strongest(run, [item for item in steering if item.regime not in OF_WEIGHTS] or steering)


def _strongest(run: Run, followed: Sequence[Declaration]) -> list[list[Declaration]]:
    given = [item for item in followed if item.role != "option"]
    groups = (
        [item for item in given if item.path == run.place.path],
        [item for item in given if item.path != run.place.path],
        [item for item in followed if item.role == "option"],
    )
    return [group for group in groups if group]


def _is_of_line(project: Project, run: Run, item: Declaration) -> bool:
    """Whether a flag stands on the run's own command line, and a variable on it if it stands on one of the file."""
    lines = project.memo(_lines_of, item.path)
    if not _is_flag(item):
        rows = [row for row, command in lines if _holds(command, item.key)]
        return not rows or run.place.span.row in rows
    before = [row for row, _ in lines if row <= item.span.row]
    held_in = _variable_around(project, item, before[-1] if before else 0)
    if held_in and run.command is not None:
        return _holds(run.command, held_in)
    return not before or before[-1] == run.place.span.row


def _holds(command: CommandLine, variable: str) -> bool:
    words = " ".join((*command.words, *command.written))
    return re.search(rf"\$\{{?{re.escape(variable)}\b", words) is not None


def _variable_around(project: Project, item: Declaration, above: int) -> str:
    """The variable that a flag is put into, below the command at row ``above``: ``ARGS+=(--amp)``; empty for none."""
    document = project.document(item.path)
    lines = document.text.splitlines()[above : item.span.row] if document is not None else []
    held = (HOLDING.match(line) for line in reversed(lines))
    return next((found["name"] for found in held if found is not None), "")


def _is_flag(item: Declaration) -> bool:
    return item.key.startswith("-") or (bool(item.feeds) and not item.key.isupper())


def _lines_of(project: Project, path: str) -> list[tuple[int, CommandLine]]:
    """The command lines of a file, in the order of the rows in which they begin."""
    document = project.document(path)
    texts = opened(project, document) if document is not None else ()
    lines = [(text.document.position(item.start)[0], item) for text in texts for item in text.text.commands]
    return sorted(lines, key=lambda line: line[0])


def loads_file(project: Project, run: Run, path: str) -> bool:
    """Whether the run's command line names the file, or its code does.

    What only command lines name is read by those runs, and by programs that are a part of one that is passed it.
    """
    loaders, modules = loaders_of(project, path), frozenset(run.modules)
    if loaders.isdisjoint(modules):
        return False
    if _names(project, run, path):
        return True
    if is_named_in(project, path, modules):
        return run.command is None or not _is_replaced(project, run.command, modules, path)
    return run.command is None and run.modules[0] in loaders


def _is_replaced(project: Project, command: CommandLine, modules: frozenset[str], path: str) -> bool:
    """Whether a file is only the default of options for which a command line gives others."""
    given = {word.partition("=")[0].replace("_", "-") for word in words_of_script(command)}
    options = [named for module in sorted(modules) for named in project.memo(naming_options, (module, path))]
    return bool(options) and all(not given.isdisjoint(names) for names in options)


def _reads(project: Project, run: Run, item: Declaration) -> bool:
    """Whether the run's code reads anything under the name of an entry, or a load of it takes the whole section."""
    if (item.path, item.span.row) in taken_whole(project):
        return True
    name = item.key.rpartition(".")[2]
    modules = modules_at(project, run.modules)
    return any(name in names_read(module) for module in modules)


def _names(project: Project, run: Run, path: str) -> bool:
    """Whether the run's command line names the file."""
    named = [word.rpartition("=")[2] for word in words_of_script(run.command)] if run.command is not None else []
    return any(path in files_named(project, run.place.path, word) for word in named)
