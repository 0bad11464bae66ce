"""What the paper prints, what its authors' program logged, and what that program found when it was run again.

The paper draws its counts and prints but a few ratios. Two further sources say what stands behind the drawings:

* the log of the authors' run of figure 4, three rounds of 1000 seeds and 1000 moves on six benchmarks, in their
  repository (``terminal_output/complete_comparison_info_bb/1000x1000_H_1/output.txt`` of wangzh1998/MAFT);
* their program, commit 8f5ec33, run on the published networks with 100 seeds and 100 moves, and once for gradients.
"""

from __future__ import annotations

TITLE = "MAFT: Efficient Model-Agnostic Fairness Testing for Deep Neural Networks via Zero-Order Gradient Search"
WHERE = "Wang, Zhang, Yang, Shao and Zhang, ICSE 2024"

AGNOSTIC = {"THEMIS": True, "AEQUITAS": True, "SG": True, "ADF": False, "EIDIG": False, "MAFT": True}
"""Table 1: which methods ask a model for answers alone."""

EFFICIENT = {"THEMIS": False, "AEQUITAS": False, "SG": False, "ADF": True, "EIDIG": True, "MAFT": True}
"""Table 1: which methods the authors call effective and efficient."""

DATA_SETS = {
    "bank": ("Bank Marketing", 45211, 16, 89.22),
    "adult": ("Census Income", 48422, 12, 84.32),
    "german": ("German Credit", 1000, 24, 78.25),
    "diabetes": ("Diabetes", 768, 8, 74.03),
    "heart": ("Heart Health", 297, 13, 74.79),
    "meps15": ("MEPS15", 15830, 137, 84.55),
    "students": ("Students", 1044, 32, 86.6),
}
"""Table 2: name, instances, features, accuracy in percent."""

SG_RATIOS = {"instances": 1 + 2.9215, "speed": 1 + 31.5843}
"""Section 4.2.1: of MAFT with h = 1 to SG, on average."""

SMALL_STEP = 1e-6
"""Section 4.2.1: with this h and smaller ones MAFT finds less than ADF; with larger ones h makes no difference."""

LONG_RATIOS = {
    "AEQUITAS": {"instances": 1 + 13.6942, "speed": 1 - 0.2841},
    "ADF": {"instances": 1 + 0.0792, "speed": 1 + 0.7077},
    "EIDIG": {"instances": 1 + 0.0558, "speed": 1 - 0.1591},
}
"""Section 4.2.2: of MAFT to others, on average."""

LOGGED = {
    ("C-a", "AEQUITAS"): ((5734, 367.28), (6769, 388.18), (6102, 492.22)),
    ("C-a", "MAFT"): ((330380, 13356.60), (323552, 12867.71), (314848, 12635.10)),
    ("C-r", "AEQUITAS"): ((1946, 274.00), (4158, 354.22), (2836, 288.62)),
    ("C-r", "MAFT"): ((93295, 3567.39), (101190, 3904.45), (91878, 3394.72)),
    ("C-g", "AEQUITAS"): ((597, 97.41), (1270, 116.57), (1882, 92.14)),
    ("C-g", "MAFT"): ((54574, 1618.56), (53019, 1542.44), (60485, 1782.55)),
    ("G-g", "AEQUITAS"): ((3095, 144.42), (2159, 120.09), (1508, 219.20)),
    ("G-g", "MAFT"): ((28803, 1133.61), (28794, 1129.70), (28881, 1132.76)),
    ("G-a", "AEQUITAS"): ((17839, 977.68), (10884, 768.52), (13139, 873.16)),
    ("G-a", "MAFT"): ((236773, 9518.57), (235799, 9535.17), (236664, 9571.07)),
    ("B-a", "AEQUITAS"): ((8482, 340.99), (5825, 246.80), (5582, 481.27)),
    ("B-a", "MAFT"): ((270443, 12854.27), (269377, 15698.30), (268337, 12317.10)),
}
"""The authors' log of figure 4: instances and seconds of three rounds."""

PROGRAM = {
    ("B-a", "AEQUITAS"): 367, ("B-a", "ADF"): 3851, ("B-a", "EIDIG"): 4180, ("B-a", "MAFT"): 3801,
    ("C-a", "AEQUITAS"): 683, ("C-a", "SG"): 537, ("C-a", "ADF"): 3486, ("C-a", "EIDIG"): 3896, ("C-a", "MAFT"): 5013,
    ("C-r", "AEQUITAS"): 207, ("C-r", "ADF"): 1034, ("C-r", "EIDIG"): 1514, ("C-r", "MAFT"): 1911,
    ("C-g", "AEQUITAS"): 62, ("C-g", "ADF"): 810, ("C-g", "EIDIG"): 1046, ("C-g", "MAFT"): 1265,
    ("G-a", "AEQUITAS"): 1233, ("G-a", "ADF"): 3395, ("G-a", "EIDIG"): 3723, ("G-a", "MAFT"): 3660,
    ("G-g", "AEQUITAS"): 201, ("G-g", "ADF"): 758, ("G-g", "EIDIG"): 909, ("G-g", "MAFT"): 849,
    ("D-a", "AEQUITAS"): 1809, ("D-a", "ADF"): 6021, ("D-a", "EIDIG"): 5769, ("D-a", "MAFT"): 5923,
}  # fmt: skip
"""Distinct confirmed profiles among what the authors' programs returned, 100 seeds and 100 moves, one run each."""

SIMILARITIES = {
    "B-a": (0.6947, 0.8269, 0.8319),
    "C-a": (0.8816, 0.8525, 0.8703),
    "C-r": (0.8816, 0.8638, 0.8747),
    "C-g": (0.8816, 0.8658, 0.8747),
    "G-a": (0.911, 0.9129, 0.816),
    "G-g": (0.911, 0.9053, 0.803),
    "D-a": (0.9112, 0.8618, 0.891),
}
"""Mean cosine similarity of the program's estimates, h = 1: of gradients, first directions, local probabilities."""
