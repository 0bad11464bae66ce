"""Sequential statistics: betting, alpha spending and confidence sequences."""
