"""The published methods to compare with, each selectable by name."""

from evenhand.subgroups.methods import linear, sampled, themis
from evenhand.subgroups.methods.published import PublishedMethod, StoppingRule, sample_until_margin

METHODS: dict[str, PublishedMethod] = {
    "linear": linear.audit_linear,
    "sampled": sampled.search_sampled,
    "themis": themis.search_themis,
}
"""What each name runs."""

__all__ = ["METHODS", "PublishedMethod", "StoppingRule", "sample_until_margin"]
