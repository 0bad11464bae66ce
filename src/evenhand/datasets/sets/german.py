"""German Credit (Statlog): is a borrower a good risk?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.datasets.entry import Entry, decision, integer, nominal, ordinal
from evenhand.datasets.tables import parse
from evenhand.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "status", "duration", "credit_history", "purpose", "credit_amount", "savings", "employment_since",
    "installment_rate", "personal_status_sex", "other_debtors", "residence_since", "property", "age",
    "other_installment_plans", "housing", "existing_credits", "job", "people_liable", "telephone", "foreign_worker",
    "class",
)  # fmt: skip
"""The publisher's columns in order."""

SEX = {"A91": "male", "A92": "female", "A93": "male", "A94": "male", "A95": "female"}


def schema() -> Schema:
    """20 attributes; sex and age are protected. Codes are the publisher's (A11: account below 0 DM, ...)."""
    return decision(
        "class", 2, 1, favourable=1,
        attributes=(
            nominal("status", "A11", "A12", "A13", "A14"),
            integer("duration", 4, 72),
            nominal("credit_history", "A30", "A31", "A32", "A33", "A34"),
            nominal("purpose", "A40", "A41", "A42", "A43", "A44", "A45", "A46", "A48", "A49", "A410"),
            integer("credit_amount", 250, 18424),
            nominal("savings", "A61", "A62", "A63", "A64", "A65"),
            ordinal("employment_since", "A71", "A72", "A73", "A74", "A75"),
            integer("installment_rate", 1, 4),
            nominal("other_debtors", "A101", "A102", "A103"),
            integer("residence_since", 1, 4),
            nominal("property", "A121", "A122", "A123", "A124"),
            integer("age", 19, 75, protected=True),
            nominal("sex", "female", "male", protected=True),
            nominal("other_installment_plans", "A141", "A142", "A143"),
            nominal("housing", "A151", "A152", "A153"),
            integer("existing_credits", 1, 4),
            nominal("job", "A171", "A172", "A173", "A174"),
            integer("people_liable", 1, 2),
            nominal("telephone", "A191", "A192"),
            nominal("foreign_worker", "A201", "A202"),
        ),
    )  # fmt: skip


def prepare(data: bytes, where: str) -> pd.DataFrame:
    """The bundled table is prepared already."""
    return parse(data, where=where)[list(ENTRY.columns())]


def derive(data: bytes) -> pd.DataFrame:
    """The bundled table from the publisher's ``german.data``."""
    frame = parse(data.replace(b" ", b","), where="german.data", names=COLUMNS)
    return frame.assign(sex=frame["personal_status_sex"].map(SEX))


ENTRY = Entry(
    name="german",
    title="German Credit (Statlog)",
    about="1,000 borrowers of a bank in southern Germany; is a borrower a good risk (700) or a bad one (300)?",
    origin="Collected by Hans Hofmann, Hamburg, from credits of 1973 to 1975; donated in 1994",
    publisher="https://archive.ics.uci.edu/dataset/144/statlog+german+credit+data",
    licence="CC BY 4.0",
    citation="Hofmann, H. (1994). Statlog (German Credit Data). UCI Machine Learning Repository. doi:10.24432/C5NC77",
    rows=1_000,
    preparation="Columns named. sex is derived from personal_status_sex (A91, A93, A94 male; A92, A95 female), which "
    "stays in the frame but is no attribute. Later research (Grömping 2019) found that the published meaning of "
    "several codes, of sex among them, does not match the original survey: read findings about sex with care.",
    schema=schema,
    prepare=prepare,
    extra=("personal_status_sex",),
    bundled="german.csv.xz",
)
