"""``migrate --interactive``: asking before each fix."""
