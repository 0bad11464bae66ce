"""Search for individual discriminatory instances: people and texts decided differently for what is protected alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand import doors

if TYPE_CHECKING:
    from evenhand.individual.search.analysis import forecast_queries, search
    from evenhand.individual.search.config import SearchConfig, TextSearchConfig
    from evenhand.individual.search.findings import FindingCollector
    from evenhand.individual.search.methods import METHODS, MethodOptions, load_method
    from evenhand.individual.search.methods.gradient import (
        SlopePlan,
        estimate_slopes,
        move_along_boundary,
        move_to_boundary,
    )
    from evenhand.individual.search.oracle import ModelAnswers, Oracle
    from evenhand.individual.search.result import Example, SampledFlipRate, SearchResult
    from evenhand.individual.search.save import replay_profiles, replay_texts, save_table, save_tests, save_text_tests
    from evenhand.individual.search.space import ProfileSpace
    from evenhand.individual.search.texts import CategoryFlipCount, TextSearchResult, search_texts

__all__ = [
    "METHODS",
    "CategoryFlipCount",
    "Example",
    "FindingCollector",
    "MethodOptions",
    "ModelAnswers",
    "Oracle",
    "ProfileSpace",
    "SampledFlipRate",
    "SearchConfig",
    "SearchResult",
    "SlopePlan",
    "TextSearchConfig",
    "TextSearchResult",
    "estimate_slopes",
    "forecast_queries",
    "load_method",
    "move_along_boundary",
    "move_to_boundary",
    "replay_profiles",
    "replay_texts",
    "save_table",
    "save_tests",
    "save_text_tests",
    "search",
    "search_texts",
]

__getattr__, __dir__ = doors.open_when_used(__name__)
