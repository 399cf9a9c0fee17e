"""Packages that have nothing to do with the precision of a run."""

from __future__ import annotations

OF_OTHER_THINGS = frozenset({
    "absl", "addict", "aim", "albumentations", "attr", "attrs", "av", "clearml", "click", "codecarbon", "colorama",
    "comet_ml", "configargparse", "cv2", "dacite", "decord", "dotenv", "easydict", "fire", "fsspec", "ftfy",
    "future", "git", "google", "GPUtil", "gym", "gymnasium", "h5py", "hydra", "hydra_zen", "imageio", "ipdb",
    "IPython", "jieba", "jiwer", "joblib", "jsonargparse", "librosa", "lightning_utilities", "lmdb", "loguru",
    "marshmallow", "matplotlib", "ml_collections", "mlflow", "mpi4py", "munch", "natsort", "neptune", "networkx",
    "nibabel", "nltk", "numpy", "omegaconf", "optuna", "packaging", "pandas", "PIL", "pkg_resources", "plotly",
    "prettytable", "psutil", "ptflops", "pycocotools", "pydantic", "pydicom", "pynvml", "rasterio", "ray", "regex",
    "requests", "rich", "rouge", "rouge_score", "ruamel", "sacrebleu", "scipy", "seaborn", "sentencepiece",
    "setuptools", "simple_parsing", "SimpleITK", "six", "skimage", "sklearn", "soundfile", "spacy", "submitit",
    "swanlab", "tabulate", "tensorboard", "tensorboardX", "termcolor", "thop", "tiktoken", "toml", "tqdm", "typer",
    "typing_extensions", "tyro", "wandb", "webdataset", "yacs", "yaml", "zarr",
})  # fmt: skip
"""Packages that take no tensor from a model, or make arrays of it, which is told apart."""
