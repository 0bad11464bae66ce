"""Statistics of rankings: ratios of sums over lists, what orders by chance give, and tests of prefixes."""
