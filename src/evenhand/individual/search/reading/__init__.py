"""Reading a search: severity, kinds of people, attributes that matter, distance to real people, diversity."""

from evenhand.individual.search.reading.distance import Gower, k_medoids
from evenhand.individual.search.reading.parts import AttributeReading, KindOfPeople, Reading, Share
from evenhand.individual.search.reading.read import Read, read
from evenhand.individual.search.reading.severity import Ranked, rank, weigh

__all__ = [
    "AttributeReading",
    "Gower",
    "KindOfPeople",
    "Ranked",
    "Read",
    "Reading",
    "Share",
    "k_medoids",
    "rank",
    "read",
    "weigh",
]
