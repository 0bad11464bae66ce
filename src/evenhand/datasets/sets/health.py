"""Data sets about health: Diabetes, Heart Disease, MEPS 2015 (panel 19)."""

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
    ordinal_attribute,
    parse_published,
    real_attribute,
    require_columns,
)
from evenhand.errors import DataError
from evenhand.schema import Attribute, Schema

if TYPE_CHECKING:
    import pandas as pd


def diabetes_schema() -> Schema:
    """Return the schema: 8 attributes; age is protected."""
    return decision_schema(
        "Outcome", 1, 0, favourable=0,
        attributes=(
            integer_attribute("Pregnancies", 0, 17),
            integer_attribute("Glucose", 0, 199),
            integer_attribute("BloodPressure", 0, 122),
            integer_attribute("SkinThickness", 0, 99),
            integer_attribute("Insulin", 0, 846),
            real_attribute("BMI", 0, 67.1),
            real_attribute("DiabetesPedigreeFunction", 0.078, 2.42),
            integer_attribute("Age", 21, 81, protected=True),
        ),
    )  # fmt: skip


def prepare_diabetes(data: bytes, location: str) -> pd.DataFrame:
    """Return the table as published, with or without a line of names."""
    names = DIABETES.columns() if lacks_header(data) else None
    return DIABETES.take_columns(parse_published(data, location, names), location)


DIABETES = DatasetEntry(
    name="diabetes",
    title="Pima Indians Diabetes",
    about="768 women of Pima heritage near Phoenix, Arizona, at least 21 years old; does a woman show signs of "
    "diabetes within five years?",
    origin="National Institute of Diabetes and Digestive and Kidney Diseases; donated in 1990 by Vincent Sigillito",
    publisher="https://www.kaggle.com/datasets/uciml/pima-indians-diabetes-database",
    licence="CC0 as published on Kaggle; withdrawn from the UCI repository",
    citation="Smith, J. W., Everhart, J. E., Dickson, W. C., Knowler, W. C., Johannes, R. S. (1988). Using the ADAP "
    "learning algorithm to forecast the onset of diabetes mellitus. Symposium on Computer Applications in Medical Care",
    rows=768,
    preparation="As published. Zeros in Glucose, BloodPressure, SkinThickness, Insulin and BMI stand for values that "
    "were not measured; they are kept. Favourable is the absence of diabetes (Outcome 0).",
    schema=diabetes_schema,
    prepare=prepare_diabetes,
    sha256="c980e5e01dc1c554a358102b773f34b29599d0051ec5cf5b56ad1c6fcb3a23b0",
    files=("pima-indians-diabetes.data.csv", "diabetes.csv"),
    urls=("https://raw.githubusercontent.com/jbrownlee/Datasets/master/pima-indians-diabetes.data.csv",),
)


HEART_COLUMNS = (
    "age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak", "slope", "ca", "thal",
    "num",
)  # fmt: skip
"""The publisher's columns in order."""

UNMEASURED = ("ca", "thal")


def heart_schema() -> Schema:
    """Return the schema: 13 attributes; sex (1 is male) and age are protected."""
    return decision_schema(
        "disease", "yes", "no", favourable="no",
        attributes=(
            integer_attribute("age", 29, 77, protected=True),
            categorical_attribute("sex", 0, 1, protected=True),
            categorical_attribute("cp", 1, 2, 3, 4),
            integer_attribute("trestbps", 94, 200),
            integer_attribute("chol", 126, 564),
            categorical_attribute("fbs", 0, 1),
            categorical_attribute("restecg", 0, 1, 2),
            integer_attribute("thalach", 71, 202),
            categorical_attribute("exang", 0, 1),
            real_attribute("oldpeak", 0, 6.2),
            ordinal_attribute("slope", 1, 2, 3),
            categorical_attribute("ca", "0", "1", "2", "3", "?"),
            categorical_attribute("thal", "3", "6", "7", "?"),
        ),
    )  # fmt: skip


def prepare_heart(data: bytes, location: str) -> pd.DataFrame:
    """Return whole numbers as such, '?' kept as a value, and the grades of disease (num 1 to 4) taken together."""
    frame = parse_published(data, location, HEART_COLUMNS if lacks_header(data) else None)
    require_columns(frame, HEART_COLUMNS, location)
    frame = frame.assign(
        **{name: frame[name].map(_format_code) for name in UNMEASURED},
        disease=frame["num"].ne(0).map({True: "yes", False: "no"}),
    )
    return cast_to_schema(frame[list(HEART.columns())], heart_schema(), location)


def _format_code(value: object) -> str:
    return str(value).strip().removesuffix(".0")


HEART = DatasetEntry(
    name="heart",
    title="Heart Disease (Cleveland)",
    about="303 patients of the Cleveland Clinic examined by angiography; does a patient have a heart disease?",
    origin="Cleveland Clinic Foundation, Robert Detrano, 1981 to 1984; donated in 1988",
    publisher="https://archive.ics.uci.edu/dataset/45/heart+disease",
    licence="CC BY 4.0",
    citation="Janosi, A., Steinbrunn, W., Pfisterer, M., Detrano, R. (1989). Heart Disease. UCI Machine Learning "
    "Repository. doi:10.24432/C52P4X",
    rows=303,
    preparation="processed.cleveland.data with named columns. The label disease is 'no' where num is 0 (favourable) "
    "and 'yes' where it is 1 to 4. '?' in ca (4 people) and thal (2) is kept as a value. Sex is 1 for male.",
    schema=heart_schema,
    prepare=prepare_heart,
    sha256="a88979e65c0e63029f845c51678988536b575db360471d13d0460885eca1d3bd",
    files=("processed.cleveland.data", "heart.csv"),
    urls=(
        "https://archive.ics.uci.edu/static/public/45/heart+disease.zip",
        "https://archive.ics.uci.edu/ml/machine-learning-databases/heart-disease/processed.cleveland.data",
    ),
    member="processed.cleveland.data",
)


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
"""Columns that decide who is kept, but are not attributes."""

CHUNK = 2000


def meps15_schema() -> Schema:
    """41 attributes; RACE and SEX are protected. Codes are the publisher's; -1 is "does not apply"."""
    return decision_schema(
        "UTILIZATION", 0, 1, favourable=1,
        attributes=(
            categorical_attribute("REGION", 1, 2, 3, 4),
            integer_attribute("AGE", 0, 85),
            categorical_attribute("SEX", 1, 2, protected=True),
            categorical_attribute("RACE", "Non-White", "White", protected=True),
            categorical_attribute("MARRY", *range(1, 11)),
            categorical_attribute("FTSTU", -1, 1, 2, 3),
            categorical_attribute("ACTDTY", -1, 1, 2, 3, 4),
            categorical_attribute("HONRDC", -1, 1, 2, 3, 4),
            categorical_attribute("RTHLTH", -1, 1, 2, 3, 4, 5),
            categorical_attribute("MNHLTH", -1, 1, 2, 3, 4, 5),
            *(_diagnosis_attribute(name) for name in (
                "HIBPDX", "CHDDX", "ANGIDX", "MIDX", "OHRTDX", "STRKDX", "EMPHDX", "CHBRON", "CHOLDX", "CANCERDX",
                "DIABDX", "JTPAIN", "ARTHDX",
            )),
            categorical_attribute("ARTHTYPE", -1, 1, 2, 3),
            categorical_attribute("ASTHDX", 1, 2),
            *(_diagnosis_attribute(name) for name in (
                "ADHDADDX", "PREGNT", "WLKLIM", "ACTLIM", "SOCLIM", "COGLIM", "DFHEAR42", "DFSEE42", "ADSMOK42",
            )),
            real_attribute("PCS42", -9, 100),
            real_attribute("MCS42", -9, 100),
            integer_attribute("K6SUM42", -9, 24),
            integer_attribute("PHQ242", -1, 6),
            categorical_attribute("EMPST", -1, 1, 2, 3, 4),
            ordinal_attribute("POVCAT", 1, 2, 3, 4, 5),
            categorical_attribute("INSCOV", 1, 2, 3),
        ),
    )  # fmt: skip


def _diagnosis_attribute(name: str) -> Attribute:
    return categorical_attribute(name, -1, 1, 2)


def prepare_meps15(data: bytes, location: str) -> pd.DataFrame:
    """Return Panel 19, those with usable answers, in the field's usual columns."""
    names = {SOURCE.get(name, name): name for name in (*meps15_schema().names, *ONLY_FILTERED) if name != "RACE"}
    wanted = [*names, "RACEV2X", "HISPANX", "PANEL", "PERWT15F", *VISITS]
    frame = _read_transport(data, wanted, location) if data.startswith(XPORT) else parse_published(data, location)
    require_columns(frame, wanted, location)
    frame = cast_to_floats(frame[wanted], wanted, location)
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
    return cast_to_schema(frame[list(MEPS15.columns())], meps15_schema(), location)


def _read_transport(data: bytes, wanted: list[str], location: str) -> pd.DataFrame:
    """Return the wanted columns of a SAS transport file, read in pieces since the file has some 1,800 columns."""
    import io

    import pandas as pd

    try:
        with pd.read_sas(io.BytesIO(data), format="xport", chunksize=CHUNK) as pieces:
            parts = []
            for piece in pieces:
                require_columns(piece, wanted, location)
                parts.append(piece[wanted])
    except DataError:
        raise
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise DataError(f"this is not a readable SAS transport file: {error}", location=location) from None
    if not parts:
        raise DataError("there are no rows", location=location)
    return pd.concat(parts, ignore_index=True)


MEPS15 = DatasetEntry(
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
    "round or year in their names (REGION53 is REGION). PERWT15F, a sampling weight, stays in the frame but is not an "
    "attribute. Read from the publisher's SAS transport file h181.ssp or from a CSV of it (h181.csv, as written by "
    "AIF360's generate_data.R).",
    schema=meps15_schema,
    prepare=prepare_meps15,
    extra=("PERWT15F",),
    files=("h181.csv", "h181.ssp", "meps15.csv"),
    urls=(
        "https://meps.ahrq.gov/mepsweb/data_files/pufs/h181ssp.zip",
        "https://meps.ahrq.gov/mepsweb/data_files/pufs/h181/h181ssp.zip",
    ),
    member="h181.ssp",
)
