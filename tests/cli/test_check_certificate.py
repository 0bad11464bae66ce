"""``evenhand check-certificate`` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from evenhand.cli.main import app

SCHEMA = """
target: {name: hired, favourable: 1, values: [0, 1]}
attributes:
  - {name: years, kind: integer, lower: 0, upper: 30}
  - {name: sex, kind: categorical, values: [f, m], protected: true, encoding: code}
"""


def test_certify_and_check(tmp_path: Path) -> None:
    """An honest certificate gives 0, the same about another model 1, no certificate 2."""
    schema, model, other, file = (tmp_path / name for name in ("s.yaml", "m.npz", "o.npz", "c.cert"))
    schema.write_text(SCHEMA)
    weights = {"W0": [[0.1, -0.2], [0.5, 0.3]], "b0": [-1.0, 2.0], "W1": [[1.0], [-1.0]], "b1": [0.5]}
    np.savez(model, **{name: np.array(value) for name, value in weights.items()})
    np.savez(other, **{name: np.array(value) * (1 + 2.0**-40) for name, value in weights.items()})
    runner = CliRunner()
    made = runner.invoke(app, ["certify", str(model), "--schema", str(schema), "--certificate", str(file), "--quiet"])
    assert made.exit_code == 0, made.output
    good = runner.invoke(
        app, ["check-certificate", str(file), str(model), "--schema", str(schema), "--all", "--json", "-"]
    )
    assert good.exit_code == 0, good.output
    answer = json.loads(good.stdout)
    assert answer["kind"] == "certificate-check"
    assert answer["verdict"] == "confirmed"
    assert answer["draws"] is None
    stated = runner.invoke(app, ["check-certificate", str(file), str(model)])
    assert stated.exit_code == 4, stated.output
    assert "domain: as the certificate states it" in " ".join(stated.stdout.split())
    same = runner.invoke(app, ["check-certificate", str(file), str(model), "--schema", str(schema), "--sample", "20"])
    assert same.exit_code == 0, same.output
    assert "confirmed: sex of" in same.stdout
    bad = runner.invoke(app, ["check-certificate", str(file), str(other)])
    assert bad.exit_code == 1
    assert "another model" in bad.stdout
    none = runner.invoke(app, ["check-certificate", str(schema), str(model)])
    assert none.exit_code != 0
    assert "not a certificate" in str(none.exception)
