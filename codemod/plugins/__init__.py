"""Rules of other distributions."""
