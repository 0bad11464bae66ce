"""The same people, two models: leaving protected attributes out ends the flips, not the gap between groups."""

from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import evenhand

data = evenhand.datasets.load_dataset("german")
schema = data.schema.with_protected(["sex"])
train, held_out = data.frame[:700], data.frame[700:]


def forest(columns):
    """A random forest that sees these columns alone."""
    model = make_pipeline(
        make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
            remainder="passthrough",
        ),
        RandomForestClassifier(n_estimators=50, min_samples_leaf=5, random_state=0),
    )
    return model.fit(train[columns], train[schema.target.name])


everything = list(schema.names)
unaware = [name for name in everything if name != "sex"]
for name, columns in {"sees sex": everything, "does not see sex": unaware}.items():
    result = evenhand.audit(forest(columns), held_out, schema=schema, model_name=name, time_limit=20)
    (by_sex,) = result.groups.breakdowns
    flips = result.individual.rate(("sex",), "data").rate
    gap = by_sex.gap("demographic_parity_difference").value
    print(f"{name:<18} flips: {evenhand.stats.format_quantity(flips)}")
    print(f"{'':<18} gap:   {evenhand.stats.format_quantity(gap)}")
