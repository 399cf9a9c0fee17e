"""Findings that outlive a run: only what an edit can have changed is asked again."""
