"""Fixes that go against what a comment or an option of the project says are not offered."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from precfix.codemod.model import Finding, Fix, Place, Span
from precfix.codemod.proof.intent import as_intended
from precfix.codemod.python.names import names_of

from .rule_runs import written

KEPT = {
    "no comment": "vae.to(MARK)",
    "a comment about something else": "# move it to the device\nvae.to(MARK)",
    "a comment above another statement": "# float32 to avoid NaN\nunet.half()\nvae.to(MARK)",
    "an option about something else": "if args.use_vae:\n    vae.to(MARK)",
    "a test of the value": "if vae is not None:\n    vae.to(MARK)",
    "more than the cast": "if args.upcast_vae:\n    vae.to(MARK)\n    vae.eval()",
}
WITHHELD = {
    "a comment above": "# The VAE is in float32 to avoid NaN losses\nvae.to(MARK)",
    "a comment of several rows": "# The VAE stays in float32:\n# half of it gives black images\nvae.to(MARK)",
    "a comment beside": "vae.to(MARK)  # overflows in fp16",
    "an option": "if args.upcast_vae:\n    vae.to(MARK)",
    "both arms": "if args.stable_vae:\n    vae.to(dtype=MARK)\nelse:\n    vae.to(dtype=weight_dtype)",
    "a conditional expression": "dtype = MARK if args.vae_in_full else weight_dtype",
}


def offered(folder: Path, code: str, new: str) -> Finding:
    project = written(folder, {"train.py": dedent(code).replace("MARK", "torch.float32")})
    document = project.document("train.py")
    assert document is not None
    module = names_of(project, document)
    node = module.attribute_loads["float32"][0]
    fix = Fix.unsafe("lower", "lower it", module.replace(node, new))
    return as_intended(project, Finding("PF999", "trial", "a trial", "train.py", Span(1, 1, 1, 2), (), (fix,)))


@pytest.mark.parametrize("name", KEPT)
def test_fixes_that_stay(name: str, tmp_path: Path) -> None:
    assert len(offered(tmp_path, KEPT[name], "weight_dtype").fixes) == 1


@pytest.mark.parametrize("name", WITHHELD)
def test_fixes_that_are_withheld(name: str, tmp_path: Path) -> None:
    finding = offered(tmp_path, WITHHELD[name], "weight_dtype")
    assert finding.fixes == ()
    (place,) = finding.evidence
    assert isinstance(place, Place)
    assert place.message in ("this comment says why", "this chooses float32")


def test_what_keeps_float32_is_no_business_of_the_comment(tmp_path: Path) -> None:
    assert len(offered(tmp_path, WITHHELD["a comment above"], "device, dtype=torch.float32").fixes) == 1
