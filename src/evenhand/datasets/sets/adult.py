"""Adult (Census Income): does a person earn more than 50,000 dollars a year?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.datasets.entry import Entry, decision, integer, nominal
from evenhand.datasets.tables import parse
from evenhand.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship",
    "race", "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income",
)  # fmt: skip
"""The publisher's columns in order, with underscores."""

COUNTRIES = (
    "Cambodia", "Canada", "China", "Columbia", "Cuba", "Dominican-Republic", "Ecuador", "El-Salvador", "England",
    "France", "Germany", "Greece", "Guatemala", "Haiti", "Holand-Netherlands", "Honduras", "Hong", "Hungary", "India",
    "Iran", "Ireland", "Italy", "Jamaica", "Japan", "Laos", "Mexico", "Nicaragua", "Outlying-US(Guam-USVI-etc)",
    "Peru", "Philippines", "Poland", "Portugal", "Puerto-Rico", "Scotland", "South", "Taiwan", "Thailand",
    "Trinadad&Tobago", "United-States", "Vietnam", "Yugoslavia",
)  # fmt: skip


def schema() -> Schema:
    """13 attributes; sex and race are protected.

    "?" (not stated) is a value like any other and stands last, as does Never-worked: published networks were
    trained without these people, on codes in alphabetical order, and keep their codes this way.
    """
    return decision(
        "income", "<=50K", ">50K", favourable=">50K",
        attributes=(
            integer("age", 17, 90),
            nominal(
                "workclass", "Federal-gov", "Local-gov", "Private", "Self-emp-inc", "Self-emp-not-inc", "State-gov",
                "Without-pay", "Never-worked", "?",
            ),
            nominal(
                "education", "10th", "11th", "12th", "1st-4th", "5th-6th", "7th-8th", "9th", "Assoc-acdm",
                "Assoc-voc", "Bachelors", "Doctorate", "HS-grad", "Masters", "Preschool", "Prof-school",
                "Some-college",
            ),
            integer("education_num", 1, 16),
            nominal(
                "marital_status", "Divorced", "Married-AF-spouse", "Married-civ-spouse", "Married-spouse-absent",
                "Never-married", "Separated", "Widowed",
            ),
            nominal(
                "occupation", "Adm-clerical", "Armed-Forces", "Craft-repair", "Exec-managerial", "Farming-fishing",
                "Handlers-cleaners", "Machine-op-inspct", "Other-service", "Priv-house-serv", "Prof-specialty",
                "Protective-serv", "Sales", "Tech-support", "Transport-moving", "?",
            ),
            nominal(
                "relationship", "Husband", "Not-in-family", "Other-relative", "Own-child", "Unmarried", "Wife"
            ),
            nominal(
                "race", "Amer-Indian-Eskimo", "Asian-Pac-Islander", "Black", "Other", "White", protected=True
            ),
            nominal("sex", "Female", "Male", protected=True),
            integer("capital_gain", 0, 99999),
            integer("capital_loss", 0, 4356),
            integer("hours_per_week", 1, 99),
            nominal("native_country", *COUNTRIES, "?"),
        ),
    )  # fmt: skip


def prepare(data: bytes, where: str) -> pd.DataFrame:
    """The bundled table is prepared already."""
    return parse(data, where=where)[list(ENTRY.columns())]


def combine(train: bytes, test: bytes) -> pd.DataFrame:
    """The bundled table from the publisher's ``adult.data`` and ``adult.test``."""
    import pandas as pd

    test = test.split(b"\n", 1)[1]  # the first line of adult.test is a remark
    parts = [
        parse(part, where=name, names=COLUMNS).assign(split=split)
        for part, name, split in ((train, "adult.data", "train"), (test, "adult.test", "test"))
    ]
    frame = pd.concat(parts, ignore_index=True)
    return frame.assign(income=frame["income"].str.removesuffix("."))


ENTRY = Entry(
    name="adult",
    title="Adult (Census Income)",
    about="48,842 people of the United States; does a person earn more than 50,000 dollars a year?",
    origin="Extracted by Barry Becker from the 1994 census database of the United States; donated in 1996 by "
    "Ronny Kohavi and Barry Becker",
    publisher="https://archive.ics.uci.edu/dataset/2/adult",
    licence="CC BY 4.0",
    citation="Becker, B., Kohavi, R. (1996). Adult. UCI Machine Learning Repository. doi:10.24432/C5XW20",
    rows=48_842,
    preparation="adult.data and adult.test one after the other, told apart by the column split; the full stop after "
    "the labels of adult.test removed; hyphens in column names became underscores. '?' (not stated) is kept as a "
    "value, so that nobody is left out. fnlwgt (a sampling weight) and split are no attributes.",
    schema=schema,
    prepare=prepare,
    extra=("fnlwgt", "split"),
    bundled="adult.csv.xz",
)
