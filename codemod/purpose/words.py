"""What the names of files and folders say about the code in them: the words, and why each group is read so."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Purpose(Enum):
    """What a file is for, as far as its path says."""

    TEST = "test"
    DOCUMENTATION = "documentation"
    BENCHMARK = "benchmark"
    VENDORED = "vendored"
    TRAINING = "training"
    EVALUATION = "evaluation"
    INFERENCE = "inference"
    EXPORT = "export"
    RETIRED = "retired"
    UNSTATED = "unstated"

    @property
    def is_foreign(self) -> bool:
        """Whether no run of the project itself is meant: other people's code, tests, documentation, benchmarks."""
        return self in FOREIGN

    @property
    def is_left_alone(self) -> bool:
        """Whether the code keeps its precision when training moves: foreign code, and what runs after training."""
        return self in FOREIGN or self in AFTER_TRAINING


FOREIGN = frozenset({Purpose.TEST, Purpose.DOCUMENTATION, Purpose.BENCHMARK, Purpose.VENDORED})
AFTER_TRAINING = frozenset({Purpose.EVALUATION, Purpose.INFERENCE, Purpose.EXPORT})


@dataclass(frozen=True, slots=True)
class Words:
    """Words that give a file its purpose."""

    purpose: Purpose
    reason: str
    folders: frozenset[str] = frozenset()
    """Whole names of folders above the file."""
    names: frozenset[str] = frozenset()
    """Words of the file's own name."""


def _words(purpose: Purpose, reason: str, folders: str = "", names: str = "") -> Words:
    return Words(purpose, reason, frozenset(folders.split()), frozenset(names.split()))


FOREIGN_WORDS = (
    _words(
        Purpose.TEST,
        "what pytest and unittest collect; a folder that only contains the letters (latest, contest) is not one",
        folders="test tests testing unittest unittests",
    ),
    _words(Purpose.DOCUMENTATION, "Sphinx and MkDocs projects keep their examples there", folders="doc docs"),
    _words(
        Purpose.BENCHMARK,
        "measures both precisions on purpose",
        folders="benchmark benchmarks benchmarking",
        names="benchmark benchmarks bench profiling",
    ),
    _words(
        Purpose.VENDORED,
        "the usual names for copies of other projects (pip's _vendor, Chromium's third_party, git submodules)",
        folders="third_party thirdparty 3rdparty third-party vendor vendored _vendor external extern submodules "
        "site-packages node_modules deps",
    ),
)
"""Purposes that a training word in the file's name does not change."""
COPIED_LIBRARIES = {
    "mmcv": "ControlNet 1.0 holds a copy in annotator/uniformer/mmcv",
    "mmseg": "ControlNet 1.0 holds a copy in annotator/uniformer/mmseg",
}
"""Libraries whose copies lie inside other packages without a folder that says so, and where one was seen."""
TEST_WORDS = frozenset({"test", "tests"})
"""The first or last of several words of a test's name (``test_net.py``, ``net_test.py``): what pytest collects.

Alone, ``test.py`` is the usual name of an evaluation script, and ``train_test_split.py`` tests nothing."""
TEST_NAMES = frozenset({"conftest", "tests"})
TRAINING_WORDS = ("train", "tune", "tuning")
"""Parts of words that say training (``pretraining``, ``finetune``); before all purposes that follow training, as
``train_export.py`` still trains."""
NOT_TRAINING = ("strain", "fortune")
"""Parts of words that hold the letters of one of these by chance: ``constraints.py``, ``restrain.py``."""
AFTER_TRAINING_WORDS = (
    _words(
        Purpose.EVALUATION,
        "measures a trained model",
        folders="evaluation evaluate",
        names="evaluate evaluation eval",
    ),
    _words(
        Purpose.INFERENCE,
        "runs a trained model for its users",
        folders="inference infer deploy deployment serve serving demo demos webui gradio app api colab",
        names="inference infer predict prediction sample sampling generate generation demo webui gradio app serve "
        "server api chat",
    ),
    _words(
        Purpose.EXPORT,
        "rewrites a trained model for another program",
        folders="export onnx",
        names="export onnx tensorrt convert quantize",
    ),
)
REWRITES = frozenset({"merge", "fuse"})
"""The first of several words of a script that rewrites finished weights (``merge_lora.py``): export. Elsewhere in a
name they are model code (token merging, fused layers)."""
RETIRED_WORDS = frozenset({"old", "bak", "backup", "deprecated", "legacy", "archive", "archived", "unused", "outdated"})
"""Words in a path that say: kept, but not used any more."""
WRITTEN_FOLDERS = frozenset({".hydra", "lightning_logs", "mlruns"})
"""Folders that runs write: Hydra's, Lightning's and MLflow's own."""
WRITTEN = r"checkpoint-\d+|global_step_?\d+|(?:offline-)?run-\d{8}_\d{6}-\w+"
"""What the HF Trainer, DeepSpeed and wandb name the folders of runs."""
NUMBERED = r"version_\d+|\d{4}-\d{2}-\d{2}(?:[_-]\d{2}-\d{2}-\d{2})?"
"""What Lightning and Hydra name them, below `LOGS`; people name folders of experiments so, too."""
LOGS = frozenset({"logs", "log", "outputs", "multirun"})
WRITTEN_NAMES = frozenset({"args", "hparams", "train_args", "training_args", "trainer_state"})
"""What runs name what they save of their settings beside checkpoints."""
RESULTS = frozenset({"output", "outputs", "result", "results"})
"""Words of folders in which a program's ``config.json`` tells what it ran with: people write theirs elsewhere."""
CHECKPOINTS = frozenset({"checkpoint", "checkpoints", "ckpt", "ckpts"})
