"""Groups known by probability alone: rates, differences and bounds, and how they are said."""

from evenhand.groups.proxies.rates import measure_proxies
from evenhand.groups.proxies.result import ProxyDifference, ProxyRate, ProxyRates
from evenhand.groups.proxies.wording import proxy_answers, proxy_blocks, proxy_sentences

__all__ = [
    "ProxyDifference",
    "ProxyRate",
    "ProxyRates",
    "measure_proxies",
    "proxy_answers",
    "proxy_blocks",
    "proxy_sentences",
]
