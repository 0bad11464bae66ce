"""MEPS 2015, panel 19: does a person use medical care often?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.datasets.entry import Entry, decision, integer, nominal, numbers, ordinal, real, require, typed
from evenhand.datasets.tables import parse
from evenhand.errors import DataError
from evenhand.schema import Attribute, Schema

if TYPE_CHECKING:
    import pandas as pd

XPORT = b"HEADER RECORD*******LIBRARY HEADER RECORD"
"""How a SAS transport file begins."""

PANEL = 19
VISITS = ("OBTOTV15", "OPTOTV15", "ERTOT15", "IPNGTD15", "HHTOTD15")
"""Office visits, outpatient visits, emergency visits, nights in hospital, days of home care in 2015."""

SOURCE = {
    "REGION": "REGION53", "AGE": "AGE53X", "MARRY": "MARRY53X", "FTSTU": "FTSTU53X", "ACTDTY": "ACTDTY53",
    "HONRDC": "HONRDC53", "RTHLTH": "RTHLTH53", "MNHLTH": "MNHLTH53", "CHBRON": "CHBRON53", "JTPAIN": "JTPAIN53",
    "PREGNT": "PREGNT53", "WLKLIM": "WLKLIM53", "ACTLIM": "ACTLIM53", "SOCLIM": "SOCLIM53", "COGLIM": "COGLIM53",
    "EMPST": "EMPST53", "POVCAT": "POVCAT15", "INSCOV": "INSCOV15",
}  # fmt: skip
"""Columns that carry a round or year in the publisher's file; every other column keeps its name there."""

ONLY_FILTERED = ("EDUCYR", "HIDEG")
"""Columns that decide who is kept, but are no attributes."""

CHUNK = 2000


def schema() -> Schema:
    """41 attributes; RACE and SEX are protected. Codes are the publisher's; -1 is "does not apply"."""
    return decision(
        "UTILIZATION", 0, 1, favourable=1,
        attributes=(
            nominal("REGION", 1, 2, 3, 4),
            integer("AGE", 0, 85),
            nominal("SEX", 1, 2, protected=True),
            nominal("RACE", "Non-White", "White", protected=True),
            nominal("MARRY", *range(1, 11)),
            nominal("FTSTU", -1, 1, 2, 3),
            nominal("ACTDTY", -1, 1, 2, 3, 4),
            nominal("HONRDC", -1, 1, 2, 3, 4),
            nominal("RTHLTH", -1, 1, 2, 3, 4, 5),
            nominal("MNHLTH", -1, 1, 2, 3, 4, 5),
            *(_diagnosis(name) for name in (
                "HIBPDX", "CHDDX", "ANGIDX", "MIDX", "OHRTDX", "STRKDX", "EMPHDX", "CHBRON", "CHOLDX", "CANCERDX",
                "DIABDX", "JTPAIN", "ARTHDX",
            )),
            nominal("ARTHTYPE", -1, 1, 2, 3),
            nominal("ASTHDX", 1, 2),
            *(_diagnosis(name) for name in (
                "ADHDADDX", "PREGNT", "WLKLIM", "ACTLIM", "SOCLIM", "COGLIM", "DFHEAR42", "DFSEE42", "ADSMOK42",
            )),
            real("PCS42", -9, 100),
            real("MCS42", -9, 100),
            integer("K6SUM42", -9, 24),
            integer("PHQ242", -1, 6),
            nominal("EMPST", -1, 1, 2, 3, 4),
            ordinal("POVCAT", 1, 2, 3, 4, 5),
            nominal("INSCOV", 1, 2, 3),
        ),
    )  # fmt: skip


def _diagnosis(name: str) -> Attribute:
    return nominal(name, -1, 1, 2)


def prepare(data: bytes, where: str) -> pd.DataFrame:
    """Panel 19, those with usable answers, in the field's usual columns."""
    names = {SOURCE.get(name, name): name for name in (*schema().names, *ONLY_FILTERED) if name != "RACE"}
    wanted = [*names, "RACEV2X", "HISPANX", "PANEL", "PERWT15F", *VISITS]
    frame = _transport(data, wanted, where) if data.startswith(XPORT) else parse(data, where=where)
    require(frame, wanted, where)
    frame = numbers(frame[wanted], wanted, where)
    frame = frame[frame["PANEL"] == PANEL].rename(columns=names)
    answered = frame[["REGION", "AGE", "MARRY", "ASTHDX"]].ge(0).all(axis=1)
    # The two summary scores keep their codes for "not ascertained", as the field does.
    scores = ("PCS42", "MCS42", "K6SUM42")
    known = [name for name in names.values() if name not in (*scores, "SEX")]
    frame = frame[answered & frame[known].ge(-1).all(axis=1)].reset_index(drop=True)
    white = (frame["RACEV2X"] == 1) & (frame["HISPANX"] == 2)
    frame = frame.assign(
        RACE=white.map({True: "White", False: "Non-White"}),
        UTILIZATION=frame[list(VISITS)].sum(axis=1).ge(10),
    )
    return typed(frame[list(ENTRY.columns())], schema(), where)


def _transport(data: bytes, wanted: list[str], where: str) -> pd.DataFrame:
    """The wanted columns of a SAS transport file, read in pieces since the file has some 1,800 columns."""
    import io

    import pandas as pd

    try:
        with pd.read_sas(io.BytesIO(data), format="xport", chunksize=CHUNK) as pieces:
            parts = []
            for piece in pieces:
                require(piece, wanted, where)
                parts.append(piece[wanted])
    except DataError:
        raise
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise DataError(f"this is no readable SAS transport file: {error}", where=where) from None
    if not parts:
        raise DataError("there are no rows", where=where)
    return pd.concat(parts, ignore_index=True)


ENTRY = Entry(
    name="meps15",
    title="Medical Expenditure Panel Survey 2015, panel 19",
    about="15,830 people of the United States; does a person use medical care at least ten times in a year?",
    origin="Agency for Healthcare Research and Quality, full year consolidated file HC-181 of 2015",
    publisher="https://meps.ahrq.gov/mepsweb/data_stats/download_data_files_detail.jsp?cboPufNumber=HC-181",
    licence="public use file under AHRQ's data use agreement (no attempt to identify anybody; no linking): read it at "
    "the publisher's page first",
    citation="Agency for Healthcare Research and Quality. MEPS HC-181: 2015 Full Year Consolidated Data File",
    rows=15_830,
    preparation="Panel 19; people with unusable codes (below -1) left out, as AIF360 and the papers after it do. RACE "
    "is 'White' for non-Hispanic whites and 'Non-White' otherwise. UTILIZATION is 1 (favourable) where office, "
    "outpatient and emergency visits, nights in hospital and days of home care add up to 10 or more. Columns lose the "
    "round or year in their names (REGION53 is REGION). PERWT15F, a sampling weight, stays in the frame but is no "
    "attribute. Read from the publisher's SAS transport file h181.ssp or from a CSV of it (h181.csv, as written by "
    "AIF360's generate_data.R).",
    schema=schema,
    prepare=prepare,
    extra=("PERWT15F",),
    files=("h181.csv", "h181.ssp", "meps15.csv"),
    urls=(
        "https://meps.ahrq.gov/mepsweb/data_files/pufs/h181ssp.zip",
        "https://meps.ahrq.gov/mepsweb/data_files/pufs/h181/h181ssp.zip",
    ),
    member="h181.ssp",
)
