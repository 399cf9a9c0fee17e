"""What the project's own programs accept: which options, whose fields, from which files."""
