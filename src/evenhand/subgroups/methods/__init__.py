"""Published methods, selectable by name."""

from evenhand.subgroups.methods import sampled, themis
from evenhand.subgroups.methods.published import PublishedMethod, StoppingRule, sample_until_margin

METHODS: dict[str, PublishedMethod] = {
    "sampled": sampled.search_sampled,
    "themis": themis.search_themis,
}
"""Methods by name."""

__all__ = ["METHODS", "PublishedMethod", "StoppingRule", "sample_until_margin"]
