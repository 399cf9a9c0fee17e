"""Which versions of a library a project allows."""
