"""What ``rehearse --shadow`` prints and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...probes.rehearsal.inside.shadow.places import Findings
    from ...probes.rehearsal.record import Record


def losses_told(record: Record) -> bool:
    """Whether the shadow shows a loss beyond the noise of rounding."""
    findings = _findings(record)
    return findings is not None and bool(findings.worst)


def shadow_lines(record: Record) -> list[str]:
    """The table of the worst places; nothing when no shadow was asked for."""
    from ...probes.rehearsal.inside.shadow.report import as_text

    findings = _findings(record)
    return as_text(findings).splitlines() if findings is not None else []


def page_of(record: Record) -> str:
    """The picture per layer; of a program that never came to torch it says that."""
    from ...probes.rehearsal.inside.shadow.page import page
    from ...probes.rehearsal.inside.shadow.places import Findings

    title = f"Shadow of {' '.join(record.command)}"
    return page(_findings(record) or Findings((), (), (), 0, (), 0.0), title)


def _findings(record: Record) -> Findings | None:
    from ...probes.rehearsal.inside.shadow.places import Findings

    return None if record.shadow is None else Findings.of_json(record.shadow)
