"""Statistics of rankings: ratios of sums over lists, what orders by chance give, and tests of prefixes."""

from evenhand.stats.ranked.prefixes import PrefixTable, prefix_p_values, prefix_table
from evenhand.stats.ranked.ratios import ClusteredRatios, EvenOrders, SummedLists, clustered_ratios, even_orders

__all__ = [
    "ClusteredRatios",
    "EvenOrders",
    "PrefixTable",
    "SummedLists",
    "clustered_ratios",
    "even_orders",
    "prefix_p_values",
    "prefix_table",
]
