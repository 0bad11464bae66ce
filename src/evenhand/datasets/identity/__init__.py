"""Words by which texts say who somebody is, by category: words that stand for each other, one per group."""

from evenhand.datasets.identity.lists import (
    IdentityCategory,
    TermRow,
    bundled_category,
    categories_named,
    category_names,
    collection_names,
    read_categories,
    read_category,
)

__all__ = [
    "IdentityCategory",
    "TermRow",
    "bundled_category",
    "categories_named",
    "category_names",
    "collection_names",
    "read_categories",
    "read_category",
]
