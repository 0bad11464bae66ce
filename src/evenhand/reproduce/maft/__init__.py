"""MAFT (ICSE 2024): individual discrimination by zero-order gradients, on ten of fourteen benchmarks."""

from evenhand.reproduce.maft.paper import PAPER

__all__ = ["PAPER"]
