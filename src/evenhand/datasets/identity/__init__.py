"""Words by which texts say who somebody is, by category: words that stand for each other, one per group."""

from evenhand.datasets.identity.lists import (
    Category,
    Row,
    categories,
    category,
    collections,
    named,
    read_categories,
    read_category,
)

__all__ = [
    "Category",
    "Row",
    "categories",
    "category",
    "collections",
    "named",
    "read_categories",
    "read_category",
]
