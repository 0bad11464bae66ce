"""A small network as an ``.npz`` file, certified for everybody in the domain and for people like those in the data."""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import evenhand

schema = evenhand.Schema.parse(
    {
        "target": {"name": "hired", "favourable": "yes", "values": ["no", "yes"]},
        "attributes": [
            {"name": "grade", "kind": "integer", "lower": 0, "upper": 20},
            {"name": "interviews", "kind": "integer", "lower": 0, "upper": 5},
            {"name": "sex", "kind": "categorical", "values": ["f", "m"], "encoding": "code", "protected": True},
        ],
    }
)

# Two hidden units; the weight 1.5 in the last row is what makes sex matter.
arrays = {
    "W0": np.array([[1.0, -1.0], [2.0, -0.5], [1.5, 0.0]]),
    "b0": np.array([-12.3, 9.1]),
    "W1": np.array([[1.0], [-0.5]]),
    "b1": np.array([0.0]),
}
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "hiring.npz"
    np.savez(path, **arrays)
    network = evenhand.models.extract_white_box(evenhand.models.load_model(path, schema))

rng = np.random.default_rng(0)
grades = np.clip(rng.normal(8, 3, 500).round(), 0, 20)
applicants = {"grade": grades, "interviews": rng.integers(0, 6, 500), "sex": rng.choice(["f", "m"], 500)}

people = evenhand.schema.encode(schema, pd.DataFrame(applicants))
for population in (evenhand.population.uniform_population(schema), evenhand.population.product_of_marginals(people)):
    certificate = evenhand.certification.certify(network, population=population, time_limit=2)
    print(certificate.summary())
    for pair in certificate.counterexamples[:1]:
        print("  for example", pair.unprotected, pair.first, pair.first_label, "but", pair.second, pair.second_label)
