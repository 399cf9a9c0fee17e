"""A trainer's spelling of precision as data: how to recognize its files, its keys, what clashes, how to reach a target.

One YAML file holds one framework (docs/frameworks.md is the manual of the schema; `framework_file` reads it). Nothing
here looks at a project.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase

REGIMES = ("fp32", "fp16-mixed", "bf16-mixed", "fp16-true", "bf16-true")
"""What a value of a leading key may mean."""
TARGETS = ("bf16-mixed", "bf16-true", "fp16-mixed", "fp32", "portable")
"""The regimes a framework says how to reach; ``portable`` is decided by the machine, at run time."""
FAMILIES = {"bf16-mixed": "bf16", "bf16-true": "bf16", "fp16-mixed": "fp16", "fp16-true": "fp16", "fp32": "fp32"}
"""Regime -> the word that patches of contradictions are listed under."""
ROLES = (
    "compute",
    "weights",
    "gradients",
    "reduce",
    "optimizer",
    "save",
    "scaler",
    "evaluation",
    "storage",
    "tf32",
    "quantization",
    "context",
)
"""What a key decides. ``storage``: of quantized weights; ``context``: no precision, but conditions speak of it."""
SEVERITIES = ("crash", "surprise", "ignored", "quality", "deprecated", "info")


@dataclass(frozen=True, slots=True)
class Condition:
    """One test of a declaration, of a package's version, or several alternatives of them."""

    text: str
    operator: str
    """``== != in not-in present absent truthy falsy is`` · ``package`` · ``place`` · ``program`` · ``any-of``
    · ``none-of``."""
    key: str = ""
    values: tuple[str, ...] = ()
    quantifier: str = "any"
    """For keys that stand at several places: ``any`` or ``all`` of them."""
    alternatives: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Action:
    """One step on the way to a regime."""

    verb: str
    """``set`` (where present) · ``put`` (also where absent) · ``add`` (even where keys may come from elsewhere) ·
    ``drop`` · ``rename`` · ``report``."""
    key: str = ""
    value: str = ""
    """The new value, the new name of ``rename``, the sentence of ``report``; ``bf16|fp16`` is chosen by the machine."""
    only_from: tuple[str, ...] = ()
    """Globs of the present values that ``set`` may replace; empty: all."""
    conditions: tuple[Condition, ...] = ()
    """All must hold."""


def by_machine(value: str) -> tuple[str, ...]:
    """The values of ``bf16|fp16|no``: for native bfloat16, for CUDA without it, and where there is no CUDA device.

    The third one is the first one where it is left out. Empty for a plain value.
    """
    parts = value.split("|")
    return (parts[0], parts[1], parts[-1] if len(parts) == 3 else parts[0]) if len(parts) in (2, 3) else ()


@dataclass(frozen=True, slots=True)
class FrameworkKey:
    """One key of a framework, under all its spellings."""

    name: str
    role: str
    places: tuple[str, ...]
    """Dotted globs of its place in a mapping: ``*`` is one part, ``**`` any number."""
    flags: tuple[str, ...]
    """Its command-line flags."""
    variables: tuple[str, ...] = ()
    """Its environment variables."""
    arguments: tuple[str, ...] = ()
    """Its keyword arguments in the framework's Python calls."""
    launcher_flags: tuple[str, ...] = ()
    """Flags of the launcher in front of the script that conditions speak of under this name."""
    means: tuple[tuple[str, str], ...] = ()
    """Value -> the regime that it asks for; only leading keys have these."""
    yields_to: tuple[str, ...] = ()
    """Keys beside which its own meaning does not count: ``amp: true`` beside ``amp_dtype: bfloat16``; off, it silences
    theirs."""
    choices: tuple[str, ...] = ()
    """Globs of the values that the framework accepts; empty: not known."""
    default: str | None = None
    """What holds where the key is absent."""
    is_switch: bool = False
    """A flag without a value."""
    since: tuple[tuple[str, str], ...] = ()
    """Value -> the release of the framework's package that first took it."""

    def meaning(self, value: str) -> str | None:
        """The regime ``value`` asks for; None when it asks for none."""
        return next((regime for known, regime in self.means if fnmatchcase(value, known)), None)

    def release(self, value: str) -> str | None:
        """The release that first took ``value``; None where every one that matters does."""
        return next((release for known, release in self.since if fnmatchcase(value, known)), None)

    def accepts(self, value: str) -> bool:
        """Whether the framework takes ``value``, as far as is known."""
        return not self.choices or any(fnmatchcase(value, known) for known in self.choices)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Declarations that do not go together."""

    id: str
    rule: str
    """The code of the rule that reports it."""
    when: tuple[Condition, ...]
    message: str
    """What happens, in one or two sentences."""
    severity: str
    patches: tuple[tuple[str, tuple[Action, ...]], ...] = ()
    """``bf16 fp16 fp32``, or ``any`` -> what mends it in a project of that regime."""
    applicability: str = ""
    """``safe unsafe display-only``; empty: by severity."""
    sources: tuple[str, ...] = ()

    def patch(self, regime: str | None) -> tuple[Action, ...]:
        """What mends it under a regime; empty when that is not known."""
        known = dict(self.patches)
        return known.get(FAMILIES.get(regime or "", ""), known.get("any", ()))


@dataclass(frozen=True, slots=True)
class Recognition:
    """By what a framework's texts are told."""

    files: tuple[str, ...] = ()
    """Path globs: a match is worth 3 points."""
    unasked: tuple[str, ...] = ()
    """Path globs of files that the framework's own launcher reads without being given their name."""
    strong: tuple[str, ...] = ()
    """Dotted globs of keys, flags or variables (``key: value-glob`` also looks at the value): 3 points each."""
    weak: tuple[str, ...] = ()
    """The same, 1 point each."""
    sections: tuple[str, ...] = ()
    """Places of mappings inside other files that hold such a section: a trainer's file with a launcher's section."""
    unless: tuple[str, ...] = ()
    """Marks of texts that are not for training: with one of them a text is not this framework's."""
    programs: tuple[str, ...] = ()
    """Globs of the script, module or program on a command line: its flags are read."""
    launchers: tuple[str, ...] = ()
    """Programs that start another one and whose own flags, before the script, are read (``accelerate``)."""
    calls: tuple[str, ...] = ()
    """Qualified names of calls whose keyword arguments are keys."""
    mappings: tuple[str, ...] = ()
    """``module``: the variables of a Python module may be keys. ``dict``: so may those of any dictionary."""
    generic: bool = False
    """Its marks are also those of other frameworks: it only gets what no other one claims."""


@dataclass(frozen=True, slots=True)
class Framework:
    id: str
    title: str
    formats: tuple[str, ...]
    recognize: Recognition
    keys: tuple[FrameworkKey, ...]
    contradictions: tuple[Contradiction, ...] = ()
    targets: tuple[tuple[str, tuple[Action, ...]], ...] = ()
    default_regime: str | None = None
    """What runs when no leading key is given; None: unknown."""
    default_since: str = ""
    """The release of its first package that brought this default; empty: any."""
    default_unless: tuple[str, ...] = ()
    """Keys beside which nobody knows it, if they are on."""
    packages: tuple[str, ...] = ()
    """Its distributions, whose pinned versions decide spellings."""
    sources: tuple[str, ...] = ()
    aside: tuple[Condition, ...] = ()
    """Any of these: the place computes on a CPU, or trains nothing, and no move concerns it."""
    parsed_by_scripts: bool = False
    """Whether its files and flags are the fields of classes, of which the user's own scripts make a parser."""
    since_by_pins: bool = False
    """Releases of values are so old that they count only where a manifest names one of ``packages``."""
    scales_loss: bool = True
    """Whether it scales the loss itself in float16; a mere choice of dtypes does not."""
    origin: str = field(default="", compare=False)
    """The file it was read from."""

    @property
    def is_of_python_files(self) -> bool:
        """Whether it is configured by the variables of Python files that a program is passed."""
        return "module" in self.recognize.mappings

    def key(self, name: str) -> FrameworkKey | None:
        """The key of this canonical name."""
        return next((key for key in self.keys if key.name == name), None)

    def actions(self, target: str) -> tuple[Action, ...] | None:
        """How to reach ``target``; None when the framework does not say."""
        return dict(self.targets).get(target)
