"""A pipeline searched, trained again on what was found, and tested on people whom neither model has seen."""

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
known, aside = data.frame[:600], data.frame[600:]

model = make_pipeline(
    make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
        remainder=StandardScaler(),
    ),
    LogisticRegression(max_iter=500),
)
model.fit(known[list(schema.names)], known[schema.target.name])

people = encode(schema, known)
subject = evenhand.models.Subject(model, people)
found = search.search(subject.scorer, people, seeds=20, local=20, samples=0)
done = mitigation.mitigate(
    subject, findings=[found], test=encode(schema, aside), rounds=1, accuracy_loss=0.02, certify_effort=0
)
for candidate in done.result.candidates:
    print(f"{candidate.method}: {candidate.words}")
    for line in candidate.lines[:3]:
        print(f"  {line.words}: {evenhand.stats.format_quantity(line.after)}, {line.verdict}")
