"""Individuals whose decision flips with a protected attribute: how many there are, and who."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand import doors

if TYPE_CHECKING:
    from evenhand.individual.analysis import FlipConfig, measure_flips
    from evenhand.individual.changes import (
        ChangeConfig,
        ChangedPerson,
        ChangeResult,
        NumberChange,
        change_answers,
        change_blocks,
        measure_changes,
        write_number,
    )
    from evenhand.individual.flips import (
        CLOSE,
        Variants,
        build_variants,
        find_flips,
        labels_by_assignment,
        merge_by_unprotected,
    )
    from evenhand.individual.noise import find_confirmed_flips
    from evenhand.individual.number_search import NumberSearchResult, search_numbers
    from evenhand.individual.result import (
        Assignment,
        CounterpartRate,
        FlipRate,
        IndividualResult,
        Profile,
        explain_comparison,
        flip_answers,
        noise_notes,
        noise_sentences,
        pair_blocks,
        rate_blocks,
    )
    from evenhand.individual.search.config import NumberSearchConfig
    from evenhand.individual.search.findings import ProfileTable
    from evenhand.individual.search.methods import MethodOptions
    from evenhand.individual.search.reading import AttributeReading, PeopleCluster, ValueShare
    from evenhand.individual.search.result import (
        Example,
        SampledFlipRate,
        SearchResult,
        describe_kind,
        search_answer,
        search_blocks,
    )
    from evenhand.individual.search.save import TABLES, check_table, save_table
    from evenhand.individual.search.space import ProfileSpace
    from evenhand.individual.search.texts import TextSearchResult

__all__ = [
    "CLOSE",
    "TABLES",
    "Assignment",
    "AttributeReading",
    "ChangeConfig",
    "ChangeResult",
    "ChangedPerson",
    "CounterpartRate",
    "Example",
    "FlipConfig",
    "FlipRate",
    "IndividualResult",
    "MethodOptions",
    "NumberChange",
    "NumberSearchConfig",
    "NumberSearchResult",
    "PeopleCluster",
    "Profile",
    "ProfileSpace",
    "ProfileTable",
    "SampledFlipRate",
    "SearchResult",
    "TextSearchResult",
    "ValueShare",
    "Variants",
    "build_variants",
    "change_answers",
    "change_blocks",
    "check_table",
    "describe_kind",
    "explain_comparison",
    "find_confirmed_flips",
    "find_flips",
    "flip_answers",
    "labels_by_assignment",
    "measure_changes",
    "measure_flips",
    "merge_by_unprotected",
    "noise_notes",
    "noise_sentences",
    "pair_blocks",
    "rate_blocks",
    "save_table",
    "search_answer",
    "search_blocks",
    "search_numbers",
    "write_number",
]

__getattr__, __dir__ = doors.open_when_used(__name__)
