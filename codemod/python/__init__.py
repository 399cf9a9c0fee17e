"""What Python code says: names, scopes, values, callers, paths."""
