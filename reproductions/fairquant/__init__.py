"""FairQuant (ICSE 2025): how much of a domain is certified for 32 networks, and the paper's running example."""

from reproductions.fairquant.tables import PAPER

__all__ = ["PAPER"]
