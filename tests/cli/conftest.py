from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from support import draw_frame

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
    frame = draw_frame(rng, n, grade=(0, 20), sex="f m", region="north south west")
    frame["hired"] = np.where(frame["grade"] + rng.normal(0, 3, n) > 10, "yes", "no")
    frame.to_csv(folder / "people.csv", index=False)
    (folder / "schema.yaml").write_text(SCHEMA)
    hidden = np.array([[1.0, -1.0], [3.0, 0.0], [0.5, 0.2]])
    layers = {"W0": hidden, "b0": [-10.0, 8.0], "W1": [[1.0], [-0.5]], "b1": [-0.25]}
    np.savez(folder / "model.npz", **{name: np.array(numbers, dtype=np.float32) for name, numbers in layers.items()})
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
