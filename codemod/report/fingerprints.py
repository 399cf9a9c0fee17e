"""What names a finding from one run to the next: baselines and code-scanning services compare by it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ..model import Finding
from . import SourceOf
from .tally import in_order


def fingerprint(finding: Finding, source_of: SourceOf) -> str:
    """32 hex digits from the rule, the file and the text of the finding's first row, blanks aside.

    Stable while lines move and other lines change. Equal lines of one file have equal fingerprints.
    """
    import hashlib

    source = source_of(finding.path)
    text = " ".join(source.line(finding.span.row).split()) if source is not None else ""
    whole = "\0".join((finding.code, finding.path, text))
    return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def unique_fingerprints(findings: Iterable[Finding], source_of: SourceOf) -> dict[Finding, str]:
    """Fingerprints in which equal ones are numbered in order of their places: ``<hex>``, ``<hex>:2``, ``<hex>:3``."""
    seen: Counter[str] = Counter()
    out: dict[Finding, str] = {}
    for finding in in_order(findings):
        base = fingerprint(finding, source_of)
        seen[base] += 1
        out[finding] = base if seen[base] == 1 else f"{base}:{seen[base]}"
    return out
