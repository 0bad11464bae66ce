"""Selection rates of groups whose membership is only known as a probability."""

from __future__ import annotations

from evenhand.groups.breakdown import Breakdown

ASSUMPTION = (
    "The estimates assume that the probabilities are calibrated, and that among people with the same inputs of the "
    "proxy (name, address) the decision does not depend on the group. Otherwise they are biased. The bounds only "
    "assume calibrated probabilities."
)


class ProxyRates(Breakdown):
    """Selection rates of groups whose membership is only known as a probability, and their largest difference.

    Attributes:
        groups: Groups, with the ``selection_rate`` under the assumption and its bounds. The interval includes the
            uncertainty of memberships. Sizes are sums of probabilities (and weights), rounded; effective sizes are
            Kish's, of probabilities and weights.
        gaps: ``probable_selection_rate_difference``, simultaneous over all pairs of groups, as are its bounds. Unknown
            if fewer than two groups are large enough.
        unknown: Number of excluded people without probabilities.
        people: Number of people with known probabilities.
        assumption: Assumption of the estimates.
    """

    people: int
    assumption: str = ASSUMPTION
