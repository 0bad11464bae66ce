"""Families of rule sets that are too many for one count cube, with the permutations of the outcome inside."""

from evenhand.subgroups.deep.depth_first import (
    DepthFirstConfig,
    DepthFirstResult,
    PermutedOutcomes,
    compile_kernels,
    largest_permuted_gaps,
    list_candidates,
    permute_outcomes,
    search_depth_first,
)
from evenhand.subgroups.deep.top import TopGroups

__all__ = [
    "DepthFirstConfig",
    "DepthFirstResult",
    "PermutedOutcomes",
    "TopGroups",
    "compile_kernels",
    "largest_permuted_gaps",
    "list_candidates",
    "permute_outcomes",
    "search_depth_first",
]
