"""Edits of gradient scalers: add, drop, disable, and what has to hold for each."""
