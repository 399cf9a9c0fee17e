"""What precfix costs beside ruff, Python's own parser and a plain read; see README.md."""
