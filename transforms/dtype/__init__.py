"""Mistakes of the dtype family: where tensors of different precision meet, and what 16 bits cannot hold."""
