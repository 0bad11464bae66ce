"""A shield at work: decisions, labels, what is guaranteed from here on, and logs that can be replayed."""
