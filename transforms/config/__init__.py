"""Mistakes made in configuration files and launch scripts."""
