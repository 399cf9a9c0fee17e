"""A run that trains and states no precision: a move names it, and says what a person has to add."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from precfix.codemod.outcome import MoveState

from .fixture_cases import all_rules
from .project_tree import write_tree
from .test_cli import precfix
from .test_moving import moved

LOOP = """
    import torch


    def main():
        net = torch.nn.Linear(8, 8).cuda()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            loss = net(torch.randn(4, 8).cuda()).square().mean()
            loss.backward()
            optimizer.step()


    if __name__ == "__main__":
        main()
"""
LIGHTNING = """
    import torch
    from lightning import LightningModule, Trainer


    class Net(LightningModule):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Linear(4, 1)

        def training_step(self, batch, idx):
            return self.net(batch).square().mean()


    def main():
        trainer = Trainer(max_epochs=10, accelerator="gpu")
        trainer.fit(Net())


    if __name__ == "__main__":
        main()
"""
HYDRA = """
    import hydra

    from net import Net


    @hydra.main(version_base="1.3", config_path="configs", config_name="train.yaml")
    def main(cfg):
        hydra.utils.instantiate(cfg.trainer).fit(Net())


    if __name__ == "__main__":
        main()
"""
ACCELERATE = LOOP.replace("import torch\n", "import torch\n    from accelerate import Accelerator\n", 1).replace(
    "loss.backward()", "Accelerator().backward(loss)"
)
COMPOSED = {
    "train.py": HYDRA,
    "net.py": LIGHTNING[: LIGHTNING.index("    def main")],
    "configs/train.yaml": "defaults:\n  - _self_\n  - trainer: default\n",
    "configs/trainer/default.yaml": "_target_: lightning.pytorch.trainer.Trainer\naccelerator: gpu\n# precision: 16\n",
}
SILENT = {
    "a plain loop": ({"train.py": LOOP}, "train.py:9", "this training step needs autocast in bfloat16"),
    "a Trainer of Lightning": ({"train.py": LIGHTNING}, "train.py:15", "Trainer(...) can be set to bf16-mixed"),
    "a Trainer composed by Hydra": (COMPOSED, "configs/trainer/default.yaml:2", "can be set to bf16-mixed"),
    "an Accelerator": ({"train.py": ACCELERATE}, "train.py:10", "Accelerator(...) can be set to bf16-mixed"),
}


@pytest.mark.parametrize(("files", "where", "said"), SILENT.values(), ids=SILENT)
def test_a_run_that_states_nothing_is_left(files: dict[str, str], where: str, said: str, tmp_path: Path) -> None:
    report, runs = moved(tmp_path, all_rules(), files)
    row = runs["train.py"]
    assert (row.state, row.is_left) == (MoveState.LEFT, True)
    assert row.before == row.after == ("unknown" if files["train.py"] == ACCELERATE else "fp32")
    (place,) = row.why
    assert f"{place.path}:{place.span.row}" == where
    assert said in place.message
    assert not report.changes


def test_such_a_run_is_at_float32(tmp_path: Path) -> None:
    _, runs = moved(tmp_path, all_rules(), {"train.py": LOOP}, "fp32")
    assert (runs["train.py"].state, runs["train.py"].after) == (MoveState.THERE, "fp32")


def test_weights_that_are_loaded_may_have_any_dtype(tmp_path: Path) -> None:
    loads = LOOP.replace("torch.nn.Linear(8, 8)", 'AutoModel.from_pretrained("m")')
    _, runs = moved(
        tmp_path / "fp32", all_rules(), {"train.py": "    from transformers import AutoModel\n" + loads}, "fp32"
    )
    assert (runs["train.py"].state, runs["train.py"].after) == (MoveState.UNSTATED, "unknown")


@pytest.mark.parametrize(
    ("regime", "needs"),
    [
        ("bf16-mixed", "autocast in bfloat16 around its forward pass"),
        ("fp16-mixed", "autocast in float16 around its forward pass and a gradient scaler"),
    ],
)
def test_what_has_to_be_added_fits_the_target(regime: str, needs: str, tmp_path: Path) -> None:
    _, runs = moved(tmp_path, all_rules(), {"train.py": LOOP}, regime)
    assert runs["train.py"].why[0].message.endswith(f"this training step needs {needs}")


EVALUATION = """
    import torch


    def main():
        with torch.no_grad():
            print(torch.nn.Linear(2, 2)(torch.ones(2)))


    if __name__ == "__main__":
        main()
"""
OF_INPUTS = LOOP.replace("            optimizer.step()\n", "")
TOKENIZER = EVALUATION.replace("torch\n", "torch\n    from tokenizers import trainers\n", 1).replace(
    "print(", "print(trainers.BpeTrainer(), "
)
ELSEWHERE = (
    LOOP.replace("import torch\n", "import jax\n")
    .replace("def main", "def train_step")
    .replace(" main()", " train_step()")
)
APART = {
    "an evaluation": (EVALUATION, "show.py"),
    "gradients of an input": (OF_INPUTS, "saliency.py"),
    "a tokenizer": (TOKENIZER, "vocabulary.py"),
    "another library": (ELSEWHERE, "loop.py"),
    "a test": (LOOP, "tests/test_loop.py"),
    "a library": (LOOP.partition("    if __name__")[0], "loop.py"),
}


@pytest.mark.parametrize(("code", "path"), APART.values(), ids=APART)
def test_what_trains_nothing_or_is_not_started_has_no_row(code: str, path: str, tmp_path: Path) -> None:
    report, _ = moved(tmp_path, all_rules(), {path: code})
    assert not report.moves


def test_the_exit_code_tells_of_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(tmp_path, {"train.py": textwrap.dedent(LOOP)})
    told = precfix(capfd, monkeypatch, "migrate", "--dry-run", "--to", "bf16-mixed", tmp_path)
    assert (told.code, "nothing changed; 1 run left" in told.err) == (1, True)
    assert precfix(capfd, monkeypatch, "migrate", "--dry-run", "--to", "fp32", tmp_path).code == 0
