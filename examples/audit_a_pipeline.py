"""Audit a scikit-learn pipeline on people that it was not trained on, and write the report."""

from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import evenhand

data = evenhand.datasets.load_dataset("german")
attributes, target = list(data.schema.names), data.schema.target.name
train, held_out = data.frame[:700], data.frame[700:]

model = make_pipeline(
    make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include="number")),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
    ),
    LogisticRegression(max_iter=1000),
)
model.fit(train[attributes], train[target])

result = evenhand.audit(
    model,
    held_out,
    schema=data.schema,
    protected=["sex"],
    time_limit=20,
    data_name="German Credit, the last 300",
)
print(result.summary())
for path in evenhand.view.write_report(result, "german-report"):
    print("written:", path)
