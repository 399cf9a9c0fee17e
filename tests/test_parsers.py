"""What a program accepts, and what it does not; where the values that it passes on act."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from precfix.codemod.python.identifiers import words_of
from precfix.codemod.python.names import names_of
from precfix.codemod.python.options import speaking_options
from precfix.codemod.source.project import Project
from precfix.codemod.trainers.parsers.interface import Interface
from precfix.codemod.trainers.parsers.programs import interface_of
from precfix.codemod.trainers.reading.declarations import scopes_of
from precfix.codemod.trainers.reading.followed import followed_declarations
from precfix.codemod.trainers.reading.known_readers import reader_is_known
from precfix.codemod.trainers.reading.launch_flags import other_word, truth_of
from precfix.codemod.trainers.reading.loaded_files import loaders_of
from precfix.codemod.trainers.writing.moves import moves_of
from precfix.transforms.frameworks import load_frameworks

from .project_tree import write_tree

HF = """
    from dataclasses import dataclass
    from transformers import HfArgumentParser, TrainingArguments

    @dataclass
    class ModelArguments:
        path: str = "gpt2"

    KINDS = (ModelArguments, TrainingArguments)
"""


def opened(folder: Path, files: dict[str, str]) -> Project:
    return Project.open([write_tree(folder, files)]).with_frameworks(load_frameworks())


def interface(folder: Path, program: str) -> Interface:
    found = interface_of(opened(folder, {"train.py": program}), "train.py")
    assert found is not None
    return found


@pytest.mark.parametrize(
    "call",
    [
        "HfArgumentParser((ModelArguments, TrainingArguments))",
        "HfArgumentParser([ModelArguments, TrainingArguments])",
        "HfArgumentParser(dataclass_types=(ModelArguments, TrainingArguments))",
        "HfArgumentParser(KINDS)",
    ],
)
def test_a_parser_over_classes_takes_their_fields_and_the_trainers(tmp_path: Path, call: str) -> None:
    found = interface(tmp_path, f"{HF}\n    PARSER = {call}\n")
    assert found.framework is not None
    assert found.framework.id == "hf_trainer"
    assert found.is_closed
    assert all(found.takes(name, found.framework) for name in ("fp16", "--bf16", "path"))
    assert not found.takes("torch_dtype", found.framework)


def test_a_subclass_of_the_trainers_class_and_of_the_parser_count(tmp_path: Path) -> None:
    program = f"""{HF}
    class Arguments(TrainingArguments):
        load_dtype: str = "auto"

    class Parser(HfArgumentParser):
        pass

    PARSER = Parser(Arguments)
    """
    found = interface(tmp_path, program)
    assert found.framework is not None
    assert found.takes("load_dtype", found.framework)
    assert found.takes("bf16", found.framework)
    assert found.file_flags == {""}


def test_a_class_that_is_not_seen_leaves_the_parser_open(tmp_path: Path) -> None:
    program = (
        "from transformers import HfArgumentParser\nfrom elsewhere import Arguments\nHfArgumentParser(Arguments)\n"
    )
    assert not interface(tmp_path, program).is_closed


@pytest.mark.parametrize(("parse", "is_closed"), [("parser.parse_args()", True), ("parser.parse_known_args()", False)])
def test_single_options(tmp_path: Path, parse: str, is_closed: bool) -> None:
    program = f"""
    import argparse
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--bf16", action=argparse.BooleanOptionalAction)
    parser = argparse.ArgumentParser(parents=[common])
    fit = parser.add_subparsers().add_parser("fit")
    fit.add_argument("-p", "--amp-dtype", dest="kind")
    args = {parse}
    """
    found = interface(tmp_path, program)
    assert {"bf16", "no_bf16", "amp_dtype", "kind"} <= found.names
    assert found.is_closed is is_closed


def test_a_parser_that_only_runs_with_its_own_script_is_not_another_programs(tmp_path: Path) -> None:
    files = {
        "train.py": "import tool\nimport argparse\nargparse.ArgumentParser().parse_args()\n",
        "tool.py": f"{HF}\n    if __name__ == '__main__':\n        HfArgumentParser(KINDS)\n",
    }
    project = opened(tmp_path, files)
    found, other = interface_of(project, "train.py"), interface_of(project, "tool.py")
    assert found is not None
    assert found.framework is None
    assert other is not None
    assert other.framework is not None


@pytest.mark.parametrize("name", ["missing.py", "model.py"])
def test_no_program(tmp_path: Path, name: str) -> None:
    assert interface_of(opened(tmp_path, {"model.py": "import torch\n"}), name) is None


def test_flags_and_keys_that_a_closed_parser_lacks_are_no_settings(tmp_path: Path) -> None:
    files = {
        "train.py": f"{HF}\n    HfArgumentParser(ModelArguments).parse_yaml_file('a.yaml')\n",
        "a.yaml": "per_device_train_batch_size: 1\noutput_dir: out\nfp16: true\n",
        "run.sh": "python train.py --output_dir out --per_device_train_batch_size 1 --fp16 True\n",
    }
    assert [scope.path for scope in scopes_of(opened(tmp_path, files))] == []


def test_words_of_names() -> None:
    assert "amp" in words_of("useAmp") & words_of("--amp-dtype") & words_of("TRAIN.AMP")
    assert not any("amp" in words_of(name) for name in ("sample", "clamp", "timestamp", "--num-samples"))


@pytest.mark.parametrize(
    ("word", "other"), [("no", "yes"), ("True", "False"), ("0", "1"), ("OFF", "ON"), ("F", "T"), ("maybe", None)]
)
def test_truth_words(word: str, other: str | None) -> None:
    assert other_word(word) == other
    assert truth_of(word) is (None if other is None else word in ("True",))


def test_options_without_precision_in_their_words_are_not_listed(tmp_path: Path) -> None:
    text = "import argparse\np = argparse.ArgumentParser()\n"
    names = ("sample", "clamp", "timestamp", "amp", "use_fp16")
    text += "".join(f"p.add_argument('--{name}', action='store_true')\n" for name in names)
    project = opened(tmp_path, {"a.py": text})
    document = project.document("a.py")
    assert document is not None
    assert set(speaking_options(project, names_of(project, document))) == {"amp", "use_fp16"}


def test_the_row_of_a_flag_says_what_it_feeds(tmp_path: Path) -> None:
    files = {
        "train.py": """
            import argparse
            import torch
            from loop import train

            parser = argparse.ArgumentParser()
            parser.add_argument("--kind", default="bfloat16")
            args = parser.parse_args()
            train(getattr(torch, args.kind))
            """,
        "loop.py": """
            import torch

            def train(dtype):
                with torch.autocast("cuda", dtype=dtype):
                    loss = step()
                loss.backward()
            """,
        "run.sh": "python train.py --kind float16\npython other.py --kind float16\n",
    }
    found = {(item.path, item.span.row): item for item in followed_declarations(opened(tmp_path, files))}
    assert set(found) == {("run.sh", 1), ("train.py", 6)}
    flag, default = found["run.sh", 1], found["train.py", 6]
    assert flag.feeds == "feeds args.kind (train.py:8), autocast (loop.py:4)"
    assert (flag.regime, default.regime) == ("fp16-mixed", "bf16-mixed")


def test_a_file_is_loaded_where_code_or_a_launch_line_names_it(tmp_path: Path) -> None:
    files = {
        "train.py": "import yaml\nimport lib\nyaml.safe_load(open('conf/a.yaml'))\n",
        "lib.py": "x = 1\n",
        "app.py": "import hydra\n\n@hydra.main(config_path='hydra_conf', config_name='base')\ndef main(cfg): ...\n",
        "two.py": "import both\n",
        "three.py": "import both\n",
        "both.py": "x = 1\n",
        "run.sh": "accelerate launch --config_file acc.yaml train.py --config b.yaml\n"
        "python two.py d.yaml\npython three.py e.yaml\n",
        **dict.fromkeys(("conf/a.yaml", "b.yaml", "acc.yaml", "c.yaml", "d.yaml", "e.yaml"), "dtype: float16\n"),
        **dict.fromkeys(("hydra_conf/base.yaml", "hydra_conf/m/x.yaml", "hydra_conf/y.yaml"), "dtype: float16\n"),
    }
    project = opened(tmp_path, files)
    assert loaders_of(project, "conf/a.yaml") == {"train.py"}
    assert loaders_of(project, "b.yaml") == {"train.py", "lib.py"}
    assert loaders_of(project, "d.yaml") == {"two.py"}
    assert loaders_of(project, "hydra_conf/base.yaml") == {"app.py"}
    assert loaders_of(project, "hydra_conf/m/x.yaml") == {"app.py"}
    assert not loaders_of(project, "hydra_conf/y.yaml")
    assert not loaders_of(project, "acc.yaml")
    assert not loaders_of(project, "c.yaml")


def test_a_vocabulary_is_no_configuration(tmp_path: Path) -> None:
    words = [
        "mixed_precision",
        "distributed_type",
        "compute_environment",
        *(f"word{number}" for number in range(1_000)),
    ]
    texts = {
        "vocab.json": json.dumps(dict.fromkeys(words, "fp16")),
        "acc.json": json.dumps(dict.fromkeys(words[:3], "fp16")),
    }
    found = {scope.path for scope in scopes_of(opened(tmp_path, texts))}
    assert found == {"acc.json"}


def test_a_file_with_common_marks_that_nothing_reads_is_only_reported(tmp_path: Path) -> None:
    files = {
        "train.py": f"{HF}\n    HfArgumentParser(KINDS).parse_args_into_dataclasses()\n",
        "old/a.yaml": "per_device_train_batch_size: 1\noutput_dir: out\nfp16: true\n",
    }
    (move,) = moves_of(opened(tmp_path, files).with_target("bf16-mixed"))
    assert move.edits == ()
    assert "nothing here is known to read this file" in move.message


@pytest.mark.parametrize("line", ["python train.py conf/train.yaml", "python3.10 -m train conf/train.yaml"])
def test_a_file_that_a_read_me_passes_to_a_parser_of_classes_is_read(line: str, tmp_path: Path) -> None:
    code = """
        import sys
        from transformers import HfArgumentParser, Trainer, TrainingArguments

        (args,) = HfArgumentParser((TrainingArguments,)).parse_yaml_file(sys.argv[1])
        Trainer(args=args).train()
    """
    files = {"train.py": code, "conf/train.yaml": "output_dir: out\nbf16: true\n", "README.md": f"```\n{line}\n```\n"}
    project = opened(tmp_path, files)
    (scope,) = (scope for scope in scopes_of(project) if scope.kind == "file")
    assert (scope.path, scope.regime, reader_is_known(project, scope)) == ("conf/train.yaml", "bf16-mixed", True)
