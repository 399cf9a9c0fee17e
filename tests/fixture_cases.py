"""Fixture cases: where they lie, how one is run, and how its outcome is written down for review.

A case is a folder with an ``input/`` tree; fixtures/README.md describes it. What must hold is in test_fixtures.py.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path

import tomlkit
import yaml
from precfix.codemod import engine
from precfix.codemod.model import Finding, Place, Rule, Span
from precfix.codemod.moving.carrying import move
from precfix.codemod.observed.observation import Observation
from precfix.codemod.observed.observed_file import load_observation
from precfix.codemod.outcome import Report, Skipped, Target
from precfix.codemod.profiles.profile import Profile
from precfix.codemod.profiles.profile_file import load as load_profile
from precfix.codemod.report.diff import unified_diff
from precfix.codemod.screening.suppressing import silence
from precfix.codemod.source.project import Project
from precfix.transforms import load
from precfix.transforms.frameworks import load_frameworks

REPOSITORY = Path(__file__).resolve().parent.parent
FIXTURES = REPOSITORY / "fixtures"
TARGET = Target("auto", "fixture")
FINDINGS, DIFF, SETTINGS = "expected.findings.txt", "expected.diff", "settings.toml"
OBSERVED = "observed.json"
NOTHING = "nothing\n"
"""What ``expected.findings.txt`` holds for a look-alike: silence is an expectation too."""
KNOWN_SETTINGS = {"select", "unsafe_fixes", "fix", "example", "variants", "run", "error", "profile", "to", "observed"}


@dataclass(frozen=True, slots=True)
class Settings:
    """``settings.toml`` of a case; every key may be left out."""

    select: tuple[str, ...] = ()
    """Codes of the rules to run; empty: the rule the folder is named for, in ``projects/`` all of them."""
    unsafe_fixes: bool = False
    fix: Mapping[str, str] | None = None
    """Rule code -> name of the alternative fix, as ``--fix`` takes it."""
    example: bool = False
    """Shown as the example in the rule's manual page."""
    variants: tuple[str, ...] | None = None
    """The byte variants that make sense for this case; None: all of them."""
    run: str = ""
    """A script that runs on a CPU: it must run, and print the same, after the fix as before."""
    error: str = ""
    """Words of the error that ``run`` dies with before the fix; it must run afterwards."""
    to: str = ""
    """The target, as ``--to`` takes it; empty: the project's own regime."""
    profile: str = ""
    """The machine: a file of ``fixtures/profiles`` without its ending; empty: no machine is known."""
    observed: bool = False
    """Whether ``observed.json`` beside the input says what a rehearsal of it saw."""


@dataclass(frozen=True, slots=True)
class Case:
    """One folder below ``fixtures/rules/<mistake>/`` or ``fixtures/projects/``."""

    folder: Path
    settings: Settings

    @property
    def id(self) -> str:
        return self.folder.relative_to(FIXTURES).as_posix()

    @property
    def input(self) -> Path:
        return self.folder / "input"

    @property
    def mistake(self) -> str | None:
        """The rule's name for a rule's case; None for a whole project."""
        parts = self.folder.relative_to(FIXTURES).parts
        return parts[1] if parts[0] == "rules" else None

    def options(self, rules: Sequence[Rule]) -> engine.Options:
        """What the settings of the case allow, with the comments in its files heard."""
        return engine.Options(
            unsafe_fixes=self.settings.unsafe_fixes,
            chosen=self.settings.fix or {},
            screen=lambda project, found: silence(project, found, rules, all_rules()),
        )

    def project(self, root: Path) -> Project:
        """The project at ``root``, on the machine of this case."""
        profile = profile_named(self.settings.profile) if self.settings.profile else None
        project = Project.open([root], profile=profile).with_frameworks(load_frameworks())
        project = project.with_target(self.settings.to or None)
        return project.with_observation(self.observation()) if self.settings.observed else project

    def observation(self) -> Observation:
        """What was seen of the files as they lie in ``input``."""
        found = load_observation(self.folder / OBSERVED)
        files = {path: hashlib.sha256(data).hexdigest() for path, data in files_of(self.input).items()}
        return replace(found, files=files)

    def rules(self) -> tuple[Rule, ...]:
        """The rules this case is about, of those that exist."""
        if self.settings.select:
            return tuple(rule for rule in all_rules() if rule.code in self.settings.select)
        return tuple(rule for rule in all_rules() if self.mistake in (None, rule.name))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What migrating a case yields, as it is compared with the expectations."""

    report: Report
    findings: str
    diff: bytes


@cache
def profile_named(name: str) -> Profile:
    """A profile of ``fixtures/profiles``."""
    return load_profile(FIXTURES / "profiles" / f"{name}.json")


@lru_cache(maxsize=1)
def all_rules() -> tuple[Rule, ...]:
    return load()


@lru_cache(maxsize=1)
def cases() -> tuple[Case, ...]:
    """Every fixture case, by id."""
    folders = [*FIXTURES.glob("rules/*/*/input"), *FIXTURES.glob("projects/*/input")]
    return tuple(Case(found.parent, _settings(found.parent)) for found in sorted(folders))


def _settings(folder: Path) -> Settings:
    path = folder / SETTINGS
    if not path.is_file():
        return Settings()
    read = tomlkit.parse(path.read_text("utf-8")).unwrap()
    unknown = set(read) - KNOWN_SETTINGS
    if unknown:
        raise ValueError(f"{path}: unknown settings {sorted(unknown)}")
    variants = read.get("variants")
    return Settings(
        select=tuple(read.get("select", ())),
        unsafe_fixes=bool(read.get("unsafe_fixes", False)),
        fix=dict(read.get("fix", {})),
        example=bool(read.get("example", False)),
        variants=None if variants is None else tuple(variants),
        run=str(read.get("run", "")),
        error=str(read.get("error", "")),
        profile=str(read.get("profile", "")),
        to=str(read.get("to", "")),
        observed=bool(read.get("observed", False)),
    )


def files_of(root: Path) -> dict[str, bytes]:
    """Relative path -> bytes of every regular file below ``root``."""
    found = (path for path in sorted(root.rglob("*")) if path.is_file() and not path.is_symlink())
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in found}


def write_files(root: Path, files: Mapping[str, bytes]) -> Path:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def copied(case: Case, folder: Path) -> Path:
    """A copy of the case's input below ``folder``, so that no run can touch the fixture itself."""
    root = folder / case.id.replace("/", "--")
    shutil.copytree(case.input, root, symlinks=True)
    return root


def migrate(root: Path, case: Case, rules: Sequence[Rule]) -> Report:
    return _moved(case.project(root), case, rules)


def _moved(project: Project, case: Case, rules: Sequence[Rule]) -> Report:
    """With a target as the command line does it: run by run, and judged by the ledger of the new texts."""
    target = Target(case.settings.to, "fixture") if case.settings.to else TARGET
    return move(project, rules, target, case.options(rules), all_rules())


def outcome(root: Path, case: Case, rules: Sequence[Rule] | None = None) -> Outcome:
    """Migrate a copy of the case, with its own rules unless others are given, and write down what happened."""
    project = case.project(root)
    rules = case.rules() if rules is None else rules
    report = _moved(project, case, rules)
    return Outcome(report, _findings_text(project, report) or NOTHING, unified_diff(report.changes))


# --- the text of expected.findings.txt --------------------------------------------------------------------------------


def _findings_text(project: Project, report: Report) -> str:
    applied = {(finding, fix.name) for finding, fix in report.applied}
    blocks = ["\n".join(_finding_lines(project, item, applied)) + "\n" for item in report.findings]
    notes = [*_skipped_lines(report.skipped), *_skipped_lines(report.failed_rules), *_value_lines(report)]
    notes += [f"run {each.path}:{each.row} {each.before} -> {each.after}: {each.state.value}" for each in report.moves]
    if notes:
        blocks.append("\n".join(notes) + "\n")
    return "\n".join(blocks)


def _finding_lines(project: Project, finding: Finding, applied: set[tuple[Finding, str]]) -> Iterator[str]:
    yield f"{_at(project, finding.path, finding.span)} {finding.code} {finding.message}"
    for place in finding.evidence:
        yield f"    because {_place(project, place)}"
    for fix in finding.fixes:
        used = ", applied" if (finding, fix.name) in applied else ""
        yield f"    fix {fix.name} [{fix.applicability.value}]{used}"


def _place(project: Project, place: Place) -> str:
    return f"{_at(project, place.path, place.span)} {place.message}"


def _at(project: Project, path: str, span: Span) -> str:
    document = project.document(path)
    cell = document.cell_of(span.row) if document is not None else None
    row = f"cell {cell[0]}:{cell[1]}" if cell else str(span.row)
    return f"{path}:{row}:{span.column}"


def _skipped_lines(skipped: Sequence[Skipped]) -> Iterator[str]:
    for item in skipped:
        yield f"skipped {item.path}: {item.reason.partition(': ')[0]}"  # what follows differs between Pythons


def _value_lines(report: Report) -> Iterator[str]:
    """Every value of a configuration file that is not what it was."""
    for change in report.changes:
        before, after = config_values(change.path, change.before), config_values(change.path, change.after)
        for key in sorted({*before, *after}):
            if before.get(key) != after.get(key):
                yield f"value {change.path} {key}: {before.get(key, '(none)')} -> {after.get(key, '(none)')}"


def config_values(path: str, data: bytes) -> dict[str, str]:
    """Dotted key -> JSON text of every leaf of a JSON, YAML or TOML file; empty for other files."""
    try:
        text = data.decode("utf-8-sig")
        if path.endswith(".json"):
            return dict(_leaves("", json.loads(text)))
        if path.endswith((".yaml", ".yml")):
            return dict(_leaves("", list(yaml.safe_load_all(io.StringIO(text)))))
        if path.endswith(".toml"):
            return dict(_leaves("", tomlkit.parse(text).unwrap()))
    except (ValueError, yaml.YAMLError):
        pass
    return {}


def _leaves(prefix: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(f"{prefix}.{key}" if prefix else str(key), item)
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from _leaves(f"{prefix}[{index}]", item)
    else:
        yield prefix, json.dumps(value, default=str)
