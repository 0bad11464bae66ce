"""Statistics of rankings: ratios of sums over lists, and permutation ranges."""
