"""Writing all files or none, the journal, undo."""
