"""Terms that tests of texts look for, and a model that decides as if at random."""

import hashlib

from evenhand.datasets import IdentityCategory
from evenhand.datasets.identity.lists import TermRow


def plain(name, *terms):
    return IdentityCategory(name=name, groups=terms, rows=(TermRow(words=terms),))


COLOURS = plain("colour", "red", "green", "blue")
PETS = plain("pet", "cat", "dog")


def chance(rate, salt=""):
    """A model that decides by the text alone, as if at random."""

    def decide(texts):
        numbers = [int(hashlib.md5(f"{salt}{one}".encode()).hexdigest()[:8], 16) / 16**8 for one in texts]
        return [float(number < rate) for number in numbers]

    return decide
