"""YAML scalars: what PyYAML's safe loader reads, and spellings that YAML 1.1 and 1.2 readers agree on."""

from __future__ import annotations

import math
import re

import yaml

from ..model import EditRefused
from .text import Scalar

_CORE = "tag:yaml.org,2002:"
_PLAIN = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./+-]*(?: [A-Za-z0-9_./+-]+)*")
_NUMBER = re.compile(r"[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?|0o[0-7]+|0x[0-9a-fA-F]+|[-+]?\.(?:inf|nan)", re.I)
_WORDS = {"true", "false", "yes", "no", "on", "off", "y", "n", "null", "~", ""}
_OPPOSITES = ("true", "false"), ("yes", "no"), ("on", "off")


def scalar_value(tag: str, text: str) -> Scalar:
    """The value of a scalar with the resolved ``tag``; text for dates, unknown tags and impossible numbers."""
    node = yaml.ScalarNode(tag, text)
    reader = yaml.constructor.SafeConstructor()
    try:
        if tag == _CORE + "bool":
            return bool(reader.construct_yaml_bool(node))
        if tag == _CORE + "int":
            return int(reader.construct_yaml_int(node))
        if tag == _CORE + "float":
            return float(reader.construct_yaml_float(node))
    except (ValueError, KeyError, IndexError, OverflowError):
        return text
    return None if tag == _CORE + "null" else text


def implicit_tag(text: str) -> str:
    """The tag that YAML 1.1 reads into a plain scalar; empty for text."""
    resolvers = yaml.SafeLoader.yaml_implicit_resolvers.get(text[:1], [])
    return next((tag for tag, pattern in resolvers if pattern.match(text)), "")


def spell(value: Scalar, style: str, raw: str, tag: str) -> str:
    """``value`` in the present ``style`` with ``raw``'s habits. Raises EditRefused when ``tag`` would change it."""
    _fits_tag(value, tag)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return _spell_bool(value, raw if style == "plain" else "")
    if isinstance(value, int | float):
        return _spell_number(value)
    return _spell_text(value, style)


def is_plain_text(text: str) -> bool:
    """Whether every reader takes ``text`` without quotes as this very string."""
    if not _PLAIN.fullmatch(text) or set(text) <= {"."} or text.lower() in _WORDS or _NUMBER.fullmatch(text):
        return False
    return not implicit_tag(text)


def _fits_tag(value: Scalar, tag: str) -> None:
    if not tag or tag == "!":
        fits = not tag or isinstance(value, str)
    else:
        kinds = {"str": str, "bool": bool, "int": int, "float": float, "null": type(None)}
        fits = tag.startswith(_CORE) and type(value) is kinds.get(tag[len(_CORE) :])
    if not fits:
        raise EditRefused(f"the value carries the tag {tag}")


def _spell_bool(value: bool, raw: str) -> str:
    words = next((pair for pair in _OPPOSITES if raw.lower() in pair), _OPPOSITES[0])
    word = words[0] if value else words[1]
    if len(raw) > 1 and raw.isupper():
        return word.upper()
    return word.capitalize() if raw[:1].isupper() and raw.lower() in words else word


def _spell_number(value: int | float) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    mantissa, mark, exponent = repr(value).partition("e")
    if not mark:
        return mantissa
    # YAML 1.1 reads an exponent only behind a dot and with a sign.
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{exponent if exponent[0] in '+-' else '+' + exponent}"


def _spell_text(value: str, style: str) -> str:
    printable = all(" " <= char <= "~" or char.isprintable() for char in value)
    if style == "double" or not printable:
        return '"' + "".join(map(_escaped, value)) + '"'
    if style == "single" or not is_plain_text(value):
        return "'" + value.replace("'", "''") + "'"
    return value


def _escaped(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    if char.isprintable():
        return char
    if "\ud800" <= char <= "\udfff":
        raise EditRefused("the string has characters that no file can hold")
    return f"\\x{ord(char):02x}" if char <= "\xff" else f"\\U{ord(char):08x}"
