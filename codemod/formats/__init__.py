"""Where a value stands in a configuration text, and how to respell it without touching any other character."""
