"""Where a project states a precision, and which place wins."""
