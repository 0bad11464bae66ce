from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

SCHEMA = """
target: {name: hired, favourable: "yes", values: ["no", "yes"]}
attributes:
  - {name: grade, kind: integer, lower: 0, upper: 20}
  - {name: sex, kind: categorical, values: [f, m], protected: true, encoding: code}
  - {name: region, kind: categorical, values: [north, south, west], encoding: code}
"""


@dataclass(frozen=True)
class Case:
    """A small case on disk: people, schema, and a network that prefers men."""

    folder: Path
    data: Path
    schema: Path
    model: Path

    @property
    def arguments(self) -> list[str]:
        return [str(self.model), str(self.data), "--schema", str(self.schema)]


@pytest.fixture(scope="session")
def case(tmp_path_factory) -> Case:
    folder = tmp_path_factory.mktemp("case")
    rng = np.random.default_rng(0)
    n = 400
    frame = pd.DataFrame(
        {
            "grade": rng.integers(0, 21, n),
            "sex": rng.choice(["f", "m"], n),
            "region": rng.choice(["north", "south", "west"], n),
        }
    )
    frame["hired"] = np.where(frame["grade"] + rng.normal(0, 3, n) > 10, "yes", "no")
    frame.to_csv(folder / "people.csv", index=False)
    (folder / "schema.yaml").write_text(SCHEMA)
    hidden = np.array([[1.0, -1.0], [3.0, 0.0], [0.5, 0.2]])
    np.savez(
        folder / "model.npz",
        W0=hidden.astype(np.float32),
        b0=np.array([-10.0, 8.0], dtype=np.float32),
        W1=np.array([[1.0], [-0.5]], dtype=np.float32),
        b1=np.array([-0.25], dtype=np.float32),
    )
    return Case(folder, folder / "people.csv", folder / "schema.yaml", folder / "model.npz")


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def refuses(evenhand) -> Callable[..., None]:
    """Check that a command is refused with one clear error, and that it changes no file in the current folder."""

    def check(complaints: str | list[str], *arguments: object) -> None:
        before = _files(Path.cwd())
        ran = evenhand(*arguments, code=2)
        assert ran.out == ""
        assert ran.err.startswith(("error: ", "Usage: "))
        assert ran.err.count("error: ") <= 1
        assert "Traceback" not in ran.err
        for complaint in [complaints] if isinstance(complaints, str) else complaints:
            assert complaint in ran.err or complaint in " ".join(ran.err.split())
        assert _files(Path.cwd()) == before

    return check
