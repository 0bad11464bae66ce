"""Statistics of rankings: ratios of sums over lists, what orders by chance give, and tests of prefixes."""

from evenhand.stats.ranked.even import EvenOrders, even_orders
from evenhand.stats.ranked.prefixes import PrefixTable, prefix_p_values, prefix_table
from evenhand.stats.ranked.ratios import ClusteredRatios, SummedLists, clustered_ratios

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
