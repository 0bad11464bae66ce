"""Statistics of rankings: ratios of sums over lists, permutation ranges, and tests of prefixes."""
