"""Heart Disease (Cleveland): does a patient have a heart disease?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.datasets.entry import Entry, decision, headerless, integer, nominal, ordinal, real, require, typed
from evenhand.datasets.tables import parse
from evenhand.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak", "slope", "ca", "thal",
    "num",
)  # fmt: skip
"""The publisher's columns in order."""

UNMEASURED = ("ca", "thal")


def schema() -> Schema:
    """13 attributes; sex (1 is male) and age are protected."""
    return decision(
        "disease", "yes", "no", favourable="no",
        attributes=(
            integer("age", 29, 77, protected=True),
            nominal("sex", 0, 1, protected=True),
            nominal("cp", 1, 2, 3, 4),
            integer("trestbps", 94, 200),
            integer("chol", 126, 564),
            nominal("fbs", 0, 1),
            nominal("restecg", 0, 1, 2),
            integer("thalach", 71, 202),
            nominal("exang", 0, 1),
            real("oldpeak", 0, 6.2),
            ordinal("slope", 1, 2, 3),
            nominal("ca", "0", "1", "2", "3", "?"),
            nominal("thal", "3", "6", "7", "?"),
        ),
    )  # fmt: skip


def prepare(data: bytes, where: str) -> pd.DataFrame:
    """Whole numbers as such, '?' kept as a value, and the grades of disease (num 1 to 4) taken together."""
    frame = parse(data, where=where, names=COLUMNS if headerless(data) else None)
    require(frame, COLUMNS, where)
    frame = frame.assign(
        **{name: frame[name].map(_code) for name in UNMEASURED},
        disease=frame["num"].ne(0).map({True: "yes", False: "no"}),
    )
    return typed(frame[list(ENTRY.columns())], schema(), where)


def _code(value: object) -> str:
    return str(value).strip().removesuffix(".0")


ENTRY = Entry(
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
    schema=schema,
    prepare=prepare,
    sha256="a88979e65c0e63029f845c51678988536b575db360471d13d0460885eca1d3bd",
    files=("processed.cleveland.data", "heart.csv"),
    urls=(
        "https://archive.ics.uci.edu/static/public/45/heart+disease.zip",
        "https://archive.ics.uci.edu/ml/machine-learning-databases/heart-disease/processed.cleveland.data",
    ),
    member="processed.cleveland.data",
)
