"""What has to be known before a fix may be called safe, and the one function that decides it."""
