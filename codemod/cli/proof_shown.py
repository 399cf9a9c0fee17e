"""The proof of a migration on the screen and in JSON."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .proving import Proof


def show_proof(proof: Proof, *, to_stdout: bool) -> None:
    """The table; on stderr where stdout holds something else."""
    from ..report.proof_lines import proof_lines
    from ..report.text import show

    lines = proof_lines(proof.comparison, proof.taken_out, [change.path for change in proof.report.changes])
    show(lines, sys.stdout if to_stdout else sys.stderr, color=False)


def with_proof(text: str, proof: Proof) -> str:
    """A JSON report with the proof as one more field."""
    import json

    from ..report.proof_lines import proof_json

    return json.dumps({**json.loads(text), "proof": proof_json(proof.comparison, proof.taken_out)}, indent=2) + "\n"
