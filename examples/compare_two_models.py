"""Compare two models of the same people: without the attribute sex, decisions do not flip, but the gap remains."""

from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import evenhand

data = evenhand.datasets.load_dataset("german")
schema = data.schema.with_protected(["sex"])
train, held_out = data.frame[:700], data.frame[700:]


def fit_model(columns):
    """Fit a logistic regression on some columns."""
    model = make_pipeline(
        make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
            remainder=StandardScaler(),
        ),
        LogisticRegression(max_iter=500),
    )
    return model.fit(train[columns], train[schema.target.name])


names = list(schema.names)
models = {"with sex": names, "without sex": [name for name in names if name != "sex"]}
for name, columns in models.items():
    result = evenhand.audit(fit_model(columns), held_out, schema=schema, model_name=name)
    (by_sex,) = result.groups.breakdowns
    flips = result.individual.rate(("sex",), "data").rate
    gap = by_sex.gap("demographic_parity_difference").value
    print(f"{name:<18} flips: {evenhand.stats.format_quantity(flips)}")
    print(f"{'':<18} gap:   {evenhand.stats.format_quantity(gap)}")
