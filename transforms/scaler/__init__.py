"""Mistakes made with gradient scalers."""
