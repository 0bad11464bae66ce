"""Which deadlines can be kept for ever, against a generator that shows whatever harms most."""
