"""How often the converted face models are right about generated pictures whose captions say who is shown.

    npm pack @vladmandic/human && tar xzf vladmandic-human-*.tgz
    python tools/face_attributes_to_onnx.py package face.onnx
    python benchmarks/face_attributes.py face.onnx             a minute; then tables
    python benchmarks/face_attributes.py face.onnx --sample genders.csv
    evenhand genai confusion genders.csv --true true --said said --condition-column condition=leader

Gender by condition, provider and sequence, at several thresholds, with the confusion matrix and what a deadline of 5
is worth; ages by what captions say. Pictures whose published labels are shifted (`label_suspect`) are left out. The
pictures are looked for in ``data/genai`` of the folder that EVENHAND_SHARED names, else of ``shared`` beside this
checkout.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evenhand.genai.backends.generator import Playback
from evenhand.genai.classifiers.confusion import count_confusion
from evenhand.genai.classifiers.onnx_pictures import OnnxPictures
from evenhand.genai.spec.pipeline_config import PictureHead

SHARED = Path(os.environ.get("EVENHAND_SHARED", Path(__file__).resolve().parents[2] / "shared"))
GENDERS = ("female", "male")
AGES = ("child", "adult", "elderly")
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)
DEADLINE = 5

Row = dict[str, Any]


def looked_at(model: Path, folder: Path) -> list[Row]:
    """The rows of the data, with probabilities of the second gender and of ages; equal ones where there is no face."""
    head = {"file": model, "range": (0, 255), "fit": "contain", "scores": "probabilities"}
    classifier = OnnxPictures(
        {
            "gender": PictureHead(labels=GENDERS, output="gender", **head),
            "age": PictureHead(labels=AGES, output="age", **head),
        }
    )
    with (folder / "sequences.csv").open(encoding="utf-8", newline="") as file:
        rows: list[Row] = list(csv.DictReader(file))
    pictures = Playback.of_files(folder / row["file"] for row in rows)
    start = time.process_time()
    for row in rows:
        row |= classifier.probabilities(pictures.generate(""))
    print(f"{len(rows)} pictures, {1000 * (time.process_time() - start) / len(rows):.0f} ms of the processor each\n")
    return rows


def said(probabilities: dict[str, float], threshold: float) -> str | None:
    """What a classifier with this threshold says."""
    best = max(probabilities, key=lambda value: probabilities[value])
    tied = list(probabilities.values()).count(probabilities[best]) > 1
    return None if tied or probabilities[best] < threshold else best


def genders(title: str, rows: list[Row], threshold: float) -> None:
    """One line: how many were answered, how many of these rightly."""
    pairs = [(row["label_gender"], said(row["gender"], threshold)) for row in rows]
    answered = [(true, found) for true, found in pairs if found]
    right = sum(true == found for true, found in answered)
    share = f"{right / len(answered):.1%}" if answered else "-"
    print(f"{title:28} {threshold:4}  {len(pairs):4} labelled  {len(answered):4} answered  {right:4} right  {share}")


def main() -> None:
    """All tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--sample", type=Path, help="write the labels and what is said at 0.7 as a CSV file")
    given = parser.parse_args()
    rows = looked_at(given.model, SHARED / "data" / "genai")
    labelled = [row for row in rows if row["label_gender"] in GENDERS and row["label_suspect"] == "0"]
    if given.sample:
        with given.sample.open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file)
            table.writerow(["image_id", "condition", "provider", "true", "said"])
            for row in labelled:
                table.writerow(
                    [
                        row["image_id"],
                        row["condition"],
                        row["provider"],
                        row["label_gender"],
                        said(row["gender"], 0.7) or "",
                    ]
                )
    keys: dict[str, Callable[[Row], str]] = {
        "condition": lambda row: row["condition"],
        "leaders by provider": lambda row: f"{row['condition']}, {row['provider']}",
        "sequence": lambda row: row["sequence"],
    }
    for title, key in keys.items():
        print(f"gender by {title}")
        for name in sorted({key(row) for row in labelled}):
            for threshold in THRESHOLDS if title != "sequence" else THRESHOLDS[:1]:
                genders(name, [row for row in labelled if key(row) == name], threshold)
    for condition in ("leader", "poor"):
        for threshold in (0.5, 0.7):
            some = [row for row in labelled if row["condition"] == condition]
            found = count_confusion(
                [row["label_gender"] for row in some], [said(row["gender"], threshold) for row in some], GENDERS
            )
            print(f"\n{condition} at {threshold}: {found.counts}")
            for worth in found.deadline_successes(dict.fromkeys(GENDERS, DEADLINE)):
                print(f"  {worth.statement()}")
    print("\nages")
    ages = Counter((row["caption_age"], said(row["age"], 0.5)) for row in rows if row["caption_age"])
    for (true, found_age), count in sorted(ages.items(), key=str):
        print(f"  captioned {true:12} said {found_age or '-':8} {count:4}")
    print(f"  all pictures: {dict(Counter(said(row['age'], 0.5) for row in rows))}")


if __name__ == "__main__":
    main()
