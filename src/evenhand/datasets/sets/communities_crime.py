"""Communities and Crime: is a community's rate of violent crime below the median?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.datasets.entry import Entry, decision, headerless, numbers, real, require
from evenhand.datasets.tables import parse
from evenhand.schema import Attribute, Schema

if TYPE_CHECKING:
    import pandas as pd

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

COLUMNS = tuple(NAMES.split())
"""The publisher's columns in order."""

PLACES = frozenset({"state", "county", "community", "communityname", "fold"})
"""What names a community or splits the data, and says nothing about it."""

INCOMPLETE = frozenset(
    {"OtherPerCap", "PolicReqPerOffic", "PolicPerPop", "RacialMatchCommPol", "PctPolicWhite", "PctPolicBlack",
     "PctPolicHisp", "PctPolicAsian", "PctPolicMinor", "OfficAssgnDrugUnits", "NumKindsDrugsSeiz", "PolicAveOTWorked",
     "PolicCars", "PolicOperBudg", "PolicBudgPerPop"}
    | {name for name in COLUMNS if name.startswith("Lemas") and name != "LemasPctOfficDrugUn"}
)  # fmt: skip
"""Columns with missing values: 22 about the police are missing for 1,675 of 1,994 communities, OtherPerCap for one."""

MEASURES = tuple(name for name in COLUMNS if name not in PLACES | INCOMPLETE and name != RATE)

SHARE_EDGES = (0.0, 0.065, 1.0)
"""Shares are given to two decimals: at most 0.06, or above, as in Kamiran, Zliobaite and Calders (2013)."""


def schema() -> Schema:
    """99 attributes, all scaled to 0..1 by the publisher; the share of Black residents is protected, in two bins."""
    return decision(
        "crime", "high", "low", favourable="low",
        attributes=[_measure(name) for name in MEASURES],
    )  # fmt: skip


def _measure(name: str) -> Attribute:
    if name == "racepctblack":
        return Attribute(
            name=name, kind="ordinal", edges=SHARE_EDGES, values=("at most 0.06", "above 0.06"), protected=True
        )
    return real(name, 0, 1)


def prepare(data: bytes, where: str) -> pd.DataFrame:
    """Complete columns only, with or without a line of names, and the rate cut at its median."""
    frame = parse(data, where=where, names=COLUMNS if headerless(data) else None)
    require(frame, [*MEASURES, RATE], where)
    frame = numbers(frame[[*MEASURES, RATE]], [*MEASURES, RATE], where)
    return frame.assign(crime=frame[RATE].gt(frame[RATE].median()).map({True: "high", False: "low"}))


ENTRY = Entry(
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
    "rate stays in the frame but is no attribute. Dropped: state, county, community, communityname and fold, and the "
    "23 columns with missing values. racepctblack is protected as two groups, at most 0.06 and above.",
    schema=schema,
    prepare=prepare,
    extra=(RATE,),
    sha256="47e7f9df6ab0414403c1ec91503bdbb545bf83d0d9f8416a44875b568d80b5f6",
    files=("communities.data", "communities_crime.csv", "communities-crime.csv"),
    urls=(
        "https://archive.ics.uci.edu/static/public/183/communities+and+crime.zip",
        "https://archive.ics.uci.edu/ml/machine-learning-databases/communities/communities.data",
    ),
    member="communities.data",
)
