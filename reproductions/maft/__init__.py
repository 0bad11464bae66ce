"""MAFT (ICSE 2024): individual discrimination by zero-order gradients, on ten of fourteen benchmarks."""

from reproductions.maft.paper import PAPER

__all__ = ["PAPER"]
