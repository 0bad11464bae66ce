"""Identity terms in texts: corresponding words of the groups of a category."""

from evenhand.datasets.identity.lists import (
    IdentityCategory,
    TermRow,
    categories_named,
    category_names,
    collection_names,
    read_categories,
    read_category,
)

__all__ = [
    "IdentityCategory",
    "TermRow",
    "categories_named",
    "category_names",
    "collection_names",
    "read_categories",
    "read_category",
]
