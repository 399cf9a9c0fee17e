"""The comments that silence precfix, as far as they are mistakes themselves."""
