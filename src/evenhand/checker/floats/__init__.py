"""Proofs in float64, rounded to the safe side: bounds, counts, and how far both may be from exact numbers."""
