"""From what a run wrote to the mistake behind it: a log reader, a catalog of messages, a decision, a report."""
