"""Search a pipeline, retrain it on the findings, and compare both models on held-out people."""

from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import evenhand
from evenhand import mitigation
from evenhand.individual import search
from evenhand.schema import encode

data = evenhand.datasets.load_dataset("german")
schema = data.schema.with_protected(["sex"])
train, test = data.frame[:600], data.frame[600:]

model = make_pipeline(
    make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
        remainder=StandardScaler(),
    ),
    LogisticRegression(max_iter=500),
)
model.fit(train[list(schema.names)], train[schema.target.name])

people = encode(schema, train)
subject = evenhand.models.Subject(model, people)
findings = search.search(subject.scorer, people, seeds=20, local=20, samples=0)
result = mitigation.mitigate(
    subject, findings=[findings], test=encode(schema, test), rounds=1, accuracy_loss=0.02, certify_effort=0
)
for candidate in result.result.candidates:
    print(f"{candidate.method}: {candidate.words}")
    for line in candidate.lines[:3]:
        print(f"  {line.words}: {evenhand.stats.format_quantity(line.after)}, {line.verdict}")
