"""Plain data from a framework's YAML text, which may be hostile: bounded in depth and size, no aliases, no tags."""

from __future__ import annotations

from ..model import UsageError

MAX_DEPTH = 30
MAX_EVENTS = 5_000
"""Scalars, and beginnings and ends of lists and mappings; the largest table that comes with precfix has a thousand."""
MAX_SCALAR = 2_000
"""Characters of one key or value."""


class FrameworkInvalid(UsageError):
    """A framework's file does not follow the schema."""


def plain_data(text: str, origin: str) -> object:
    """What the YAML text says: mappings, lists and scalars. Raises FrameworkInvalid."""
    import yaml

    # Not libyaml's loader where it is missing; both refuse to construct anything but plain data.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_events(text, origin)  # first: the composer recurses, in C
        return yaml.load(text, Loader=loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{origin}:{mark.line + 1}" if mark is not None else origin
        problem = str(getattr(error, "problem", None) or error)
        if "nesting depth" in problem:  # a bound that newer releases of libyaml have
            raise FrameworkInvalid(f"{where}: nested deeper than {MAX_DEPTH} levels") from error
        raise FrameworkInvalid(f"{where}: not YAML: {problem}") from error
    except (ValueError, OverflowError) as error:  # numbers and dates that Python does not have
        raise FrameworkInvalid(f"{origin}: not YAML: {error}") from error


def _check_events(text: str, origin: str) -> None:
    """Raise FrameworkInvalid for what a loader would do too much for."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    depth = 0
    for number, event in enumerate(yaml.parse(text, Loader=loader)):
        where = f"{origin}:{event.start_mark.line + 1}" if event.start_mark is not None else origin
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent):
            raise FrameworkInvalid(f"{where}: YAML aliases are not read")
        if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) and event.tag is not None:
            raise FrameworkInvalid(f"{where}: YAML tags are not read")
        if isinstance(event, yaml.ScalarEvent) and len(event.value) > MAX_SCALAR:
            raise FrameworkInvalid(f"{where}: a string longer than {MAX_SCALAR:,} characters")
        if depth > MAX_DEPTH:
            raise FrameworkInvalid(f"{where}: nested deeper than {MAX_DEPTH} levels")
        if number > MAX_EVENTS:
            raise FrameworkInvalid(f"{where}: more than {MAX_EVENTS:,} entries")
