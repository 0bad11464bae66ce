"""Data sets about justice: COMPAS, Communities and Crime."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.datasets.entry import (
    DatasetEntry,
    cast_to_floats,
    cast_to_schema,
    categorical_attribute,
    decision_schema,
    integer_attribute,
    lacks_header,
    parse_published,
    real_attribute,
    require_columns,
)
from evenhand.schema import Attribute, Schema

if TYPE_CHECKING:
    import pandas as pd

FILTER = ("days_b_screening_arrest", "is_recid")


def compas_schema() -> Schema:
    """Return the schema: 8 attributes; sex and race are protected."""
    return decision_schema(
        "two_year_recid", 1, 0, favourable=0,
        attributes=(
            categorical_attribute("sex", "Female", "Male", protected=True),
            integer_attribute("age", 18, 96),
            categorical_attribute(
                "race", "African-American", "Asian", "Caucasian", "Hispanic", "Native American", "Other",
                protected=True,
            ),
            integer_attribute("juv_fel_count", 0, 20),
            integer_attribute("juv_misd_count", 0, 13),
            integer_attribute("juv_other_count", 0, 9),
            integer_attribute("priors_count", 0, 38),
            categorical_attribute("c_charge_degree", "F", "M"),
        ),
    )  # fmt: skip


def prepare_compas(data: bytes, location: str) -> pd.DataFrame:
    """Keep the rows that ProPublica's analysis keeps, and the columns that the analysis of a decision needs."""
    frame = _parse_repeated_columns(data, location)
    require_columns(frame, [*FILTER, *COMPAS.columns()], location)
    frame = cast_to_floats(frame, FILTER, location)
    kept = (
        frame["days_b_screening_arrest"].between(-30, 30)
        & (frame["is_recid"] != -1)
        & (frame["c_charge_degree"] != "O")
        & frame["score_text"].notna()
    )
    return cast_to_schema(frame.loc[kept, list(COMPAS.columns())].reset_index(drop=True), compas_schema(), location)


def _parse_repeated_columns(data: bytes, location: str) -> pd.DataFrame:
    """Parse a table in which the publisher repeats two column names; the second of each gets a number."""
    head, separator, rest = data.partition(b"\n")
    names: list[bytes] = []
    for name in head.rstrip(b"\r").split(b","):
        names.append(name + b".1" if name in names else name)
    return parse_published(b",".join(names) + separator + rest, location)


COMPAS = DatasetEntry(
    name="compas",
    title="COMPAS recidivism (ProPublica)",
    about="6,172 defendants in Broward County, Florida, scored by the risk assessment COMPAS; is a person charged "
    "with a new crime within two years?",
    origin="Public records of Broward County, 2013 and 2014, obtained and joined by ProPublica for the article "
    "Machine Bias (2016)",
    publisher="https://github.com/propublica/compas-analysis",
    licence="public records; the publisher states no explicit licence",
    citation="Angwin, J., Larson, J., Mattu, S., Kirchner, L. (2016). Machine Bias. ProPublica",
    rows=6_172,
    preparation="ProPublica's own filter: charge date within 30 days of the arrest (days_b_screening_arrest), "
    "is_recid known (not -1), no ordinary traffic offences (c_charge_degree not O), score_text given; 6,172 of 7,214 "
    "rows stay. Names, birth dates and case numbers are dropped. decile_score and score_text (COMPAS's own answers) "
    "stay in the frame but are not attributes. Labels are new charges, which depend on policing.",
    schema=compas_schema,
    prepare=prepare_compas,
    extra=("decile_score", "score_text"),
    sha256="1f82adf67ba7a40fd3eb98b5bb636e58f1734f7bb33a1d408a8dcb99d276cd9a",
    files=("compas-scores-two-years.csv", "compas_two_years.csv", "compas.csv"),
    urls=("https://raw.githubusercontent.com/propublica/compas-analysis/master/compas-scores-two-years.csv",),
)


RATE = "ViolentCrimesPerPop"

NAMES = """
state county community communityname fold population householdsize racepctblack racePctWhite racePctAsian
racePctHisp agePct12t21 agePct12t29 agePct16t24 agePct65up numbUrban pctUrban medIncome pctWWage pctWFarmSelf
pctWInvInc pctWSocSec pctWPubAsst pctWRetire medFamInc perCapInc whitePerCap blackPerCap indianPerCap AsianPerCap
OtherPerCap HispPerCap NumUnderPov PctPopUnderPov PctLess9thGrade PctNotHSGrad PctBSorMore PctUnemployed PctEmploy
PctEmplManu PctEmplProfServ PctOccupManu PctOccupMgmtProf MalePctDivorce MalePctNevMarr FemalePctDiv TotalPctDiv
PersPerFam PctFam2Par PctKids2Par PctYoungKids2Par PctTeen2Par PctWorkMomYoungKids PctWorkMom NumIlleg PctIlleg
NumImmig PctImmigRecent PctImmigRec5 PctImmigRec8 PctImmigRec10 PctRecentImmig PctRecImmig5 PctRecImmig8
PctRecImmig10 PctSpeakEnglOnly PctNotSpeakEnglWell PctLargHouseFam PctLargHouseOccup PersPerOccupHous
PersPerOwnOccHous PersPerRentOccHous PctPersOwnOccup PctPersDenseHous PctHousLess3BR MedNumBR HousVacant
PctHousOccup PctHousOwnOcc PctVacantBoarded PctVacMore6Mos MedYrHousBuilt PctHousNoPhone PctWOFullPlumb
OwnOccLowQuart OwnOccMedVal OwnOccHiQuart RentLowQ RentMedian RentHighQ MedRent MedRentPctHousInc
MedOwnCostPctInc MedOwnCostPctIncNoMtg NumInShelters NumStreet PctForeignBorn PctBornSameState PctSameHouse85
PctSameCity85 PctSameState85 LemasSwornFT LemasSwFTPerPop LemasSwFTFieldOps LemasSwFTFieldPerPop LemasTotalReq
LemasTotReqPerPop PolicReqPerOffic PolicPerPop RacialMatchCommPol PctPolicWhite PctPolicBlack PctPolicHisp
PctPolicAsian PctPolicMinor OfficAssgnDrugUnits NumKindsDrugsSeiz PolicAveOTWorked LandArea PopDens
PctUsePubTrans PolicCars PolicOperBudg LemasPctPolicOnPatr LemasGangUnitDeploy LemasPctOfficDrugUn
PolicBudgPerPop ViolentCrimesPerPop
"""

COMMUNITIES_COLUMNS = tuple(NAMES.split())
"""The publisher's columns in order."""

PLACES = frozenset({"state", "county", "community", "communityname", "fold"})
"""What names a community or splits the data, and says nothing about it."""

INCOMPLETE = frozenset(
    {"OtherPerCap", "PolicReqPerOffic", "PolicPerPop", "RacialMatchCommPol", "PctPolicWhite", "PctPolicBlack",
     "PctPolicHisp", "PctPolicAsian", "PctPolicMinor", "OfficAssgnDrugUnits", "NumKindsDrugsSeiz", "PolicAveOTWorked",
     "PolicCars", "PolicOperBudg", "PolicBudgPerPop"}
    | {name for name in COMMUNITIES_COLUMNS if name.startswith("Lemas") and name != "LemasPctOfficDrugUn"}
)  # fmt: skip
"""Columns with missing values: 22 about the police are missing for 1,675 of 1,994 communities, OtherPerCap for one."""

MEASURES = tuple(name for name in COMMUNITIES_COLUMNS if name not in PLACES | INCOMPLETE and name != RATE)

SHARE_EDGES = (0.0, 0.065, 1.0)
"""Shares are given to two decimals: at most 0.06, or above, as in Kamiran, Zliobaite and Calders (2013)."""


def communities_crime_schema() -> Schema:
    """99 attributes, all scaled to 0..1 by the publisher; the share of Black residents is protected, in two bins."""
    return decision_schema(
        "crime", "high", "low", favourable="low",
        attributes=[_measure_attribute(name) for name in MEASURES],
    )  # fmt: skip


def _measure_attribute(name: str) -> Attribute:
    if name == "racepctblack":
        return Attribute(
            name=name, kind="ordinal", edges=SHARE_EDGES, values=("at most 0.06", "above 0.06"), protected=True
        )
    return real_attribute(name, 0, 1)


def prepare_communities_crime(data: bytes, location: str) -> pd.DataFrame:
    """Complete columns only, with or without a line of names, and the rate cut at its median."""
    frame = parse_published(data, location, COMMUNITIES_COLUMNS if lacks_header(data) else None)
    require_columns(frame, [*MEASURES, RATE], location)
    frame = cast_to_floats(frame[[*MEASURES, RATE]], [*MEASURES, RATE], location)
    return frame.assign(crime=frame[RATE].gt(frame[RATE].median()).map({True: "high", False: "low"}))


COMMUNITIES_CRIME = DatasetEntry(
    name="communities-crime",
    title="Communities and Crime",
    about="1,994 communities of the United States; is the rate of violent crime per inhabitant above the median of "
    "all communities ('high') or not ('low')?",
    origin="Michael Redmond, from the census of 1990, the LEMAS survey of police of 1990 and the FBI's crime reports "
    "of 1995; donated in 2009",
    publisher="https://archive.ics.uci.edu/dataset/183/communities+and+crime",
    licence="CC BY 4.0",
    citation="Redmond, M. (2002). Communities and Crime. UCI Machine Learning Repository. doi:10.24432/C53W3X",
    rows=1_994,
    preparation="The label crime is 'high' where ViolentCrimesPerPop is above its median, else 'low' (favourable); the "
    "rate stays in the frame but is not an attribute. Dropped: state, county, community, communityname and fold, and "
    "the 23 columns with missing values. racepctblack is protected as two groups, at most 0.06 and above.",
    schema=communities_crime_schema,
    prepare=prepare_communities_crime,
    extra=(RATE,),
    sha256="47e7f9df6ab0414403c1ec91503bdbb545bf83d0d9f8416a44875b568d80b5f6",
    files=("communities.data", "communities_crime.csv", "communities-crime.csv"),
    urls=(
        "https://archive.ics.uci.edu/static/public/183/communities+and+crime.zip",
        "https://archive.ics.uci.edu/ml/machine-learning-databases/communities/communities.data",
    ),
    member="communities.data",
)
