"""Torch as the judge: model code that runs, dtype mistakes planted in it, and what precfix makes of them.

``python -m tests.mutation --help``. Not a part of the test suite: it needs transformers, diffusers and timm, whose code
it reads where it is installed and never stores, and it takes minutes.
"""
