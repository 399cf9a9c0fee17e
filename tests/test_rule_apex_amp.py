"""PF307: uses of apex.amp, once a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from .rule_runs import findings, rule_of, written

RULE = rule_of("autocast.apex_amp")

TRAIN = """
    def train(args, model, optimizer):
        if args.fp16:
            from apex import amp
            model, optimizer = amp.initialize(model, optimizer, opt_level="O2")
        for loss in model:
            with amp.scale_loss(loss, optimizer) as scaled:
                scaled.backward()
            clip(amp.master_params(optimizer))
"""


def test_one_finding_at_initialize_with_evidence(tmp_path: Path) -> None:
    (found,) = findings(RULE, written(tmp_path, {"train.py": TRAIN}))
    assert found.span.row == 4
    assert [place.span.row for place in found.evidence] == [6, 8]
    assert not found.fixes
    assert "GradScaler" in found.message


FOUND = {
    "import apex": "import apex\nmodel, opt = apex.amp.initialize(model, opt, opt_level='O1')\n",
    "fp16_utils": "from apex.fp16_utils import FP16_Optimizer\nopt = FP16_Optimizer(opt)\n",
    "required": (
        "import torch\nwith torch.autocast('cuda'): pass\ntry:\n    from apex import amp\nexcept ImportError:\n"
        "    raise ImportError('install apex')\nm, o = amp.initialize(m, o)\n"
    ),
    "no other path": "try:\n    from apex import amp\nexcept ImportError:\n    pass\nm, o = amp.initialize(m, o)\n",
}
SILENT = {
    "other parts": "from apex.optimizers import FusedAdam\nfrom apex.normalization import FusedRMSNorm\nFusedAdam(p)\n",
    "import only": "from apex import amp\n",
    "torch's amp": "from torch.cuda import amp  # not apex\namp.GradScaler()\n",
    "text": "# apex.amp.initialize\nx = 'apex.amp'\n",
}


@pytest.mark.parametrize("name", FOUND)
def test_found(tmp_path: Path, name: str) -> None:
    assert len(findings(RULE, written(tmp_path, {"a.py": FOUND[name]}))) == 1


@pytest.mark.parametrize("name", SILENT)
def test_silent(tmp_path: Path, name: str) -> None:
    assert findings(RULE, written(tmp_path, {"a.py": SILENT[name]})) == ()


def test_a_package_of_the_project_called_apex(tmp_path: Path) -> None:
    files = {
        "apex/__init__.py": "",
        "apex/amp.py": "def initialize(): ...\n",
        "a.py": "from apex import amp\namp.initialize()\n",
    }
    assert findings(RULE, written(tmp_path, files)) == ()
