"""Proofs in float64 with outward rounding: bounds, counts, and their rounding errors."""
