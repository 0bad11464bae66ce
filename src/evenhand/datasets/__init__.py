"""The field's data sets by name, each with its schema, and reading tables of people in general."""

from evenhand.datasets.catalogue import Dataset, card, cards, load, names
from evenhand.datasets.description import Card
from evenhand.datasets.tables import read_frame

__all__ = ["Card", "Dataset", "card", "cards", "load", "names", "read_frame"]
