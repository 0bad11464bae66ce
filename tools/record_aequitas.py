#!/usr/bin/env python3
"""Record what aequitas says of the decisions that tests compare it with, in tests/groups/aequitas.json.

Aequitas needs pandas 2 and so cannot be installed beside what the tests install. In an environment of its own:

    python3 -m venv .venv-aequitas && .venv-aequitas/bin/pip install . 'aequitas==1.1.0'
    EVENHAND_DATA_HOME=FOLDER .venv-aequitas/bin/python tools/record_aequitas.py

where FOLDER holds a copy of the data set ``compas``.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "tests" / "groups" / "aequitas.json"


def main() -> None:
    """Measure the decisions about each data set by group, and write one row per group."""
    import aequitas
    from aequitas.bias import Bias
    from aequitas.group import Group

    from evenhand import datasets

    sys.path.insert(0, str(PLACE.parent))
    from decided import decide

    columns = (*Group.all_group_metrics[1:], "pprev_disparity", "group_size")
    found: dict[str, Any] = {"made by": f"tools/record_aequitas.py with aequitas {aequitas.__version__}"}
    for name in ("german", "adult", "compas"):
        people = decide(datasets.load_dataset(name))
        table = people[["sex", "second", "both"]].assign(score=people["decided"], label_value=people["true"])
        groups, _ = Group().get_crosstabs(table)
        groups = Bias().get_disparity_major_group(groups, original_df=table)
        found[name] = {
            by: {
                row["attribute_value"]: {column: clean(row[column]) for column in columns}
                for row in rows.to_dict("records")
            }
            for by, rows in groups.groupby("attribute_name")
        }
    PLACE.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def clean(value: float) -> float | None:
    """Return a number for JSON; None where it is not defined."""
    return None if math.isnan(value) else value


if __name__ == "__main__":
    main()
