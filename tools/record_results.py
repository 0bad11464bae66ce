"""Record what every command computes, and tell whether another commit computes the same.

    python tools/record_results.py OUT                         record into the folder OUT: some minutes
    python tools/record_results.py OUT --only search           only cases whose name contains this; with --compare too
    python tools/record_results.py --compare OLD NEW           list the values that differ; exit code 1 if any does
    python tools/record_results.py --compare OLD NEW --renames renames.toml

Record before a change that must not alter any number, and again after it. Seeds are fixed, and work is bounded by
numbers of questions, boxes, samples and runs, never by time, so neither a busy machine nor faster code changes what is
recorded. The folder holds

    results/  one JSON file per case: exit code, result, tables written; without seconds, versions and the like
    looks/    terminal text and pages of each case, to look at; they are not compared
    work/     where the commands run: data and models made by this script, and what the commands write

The cases are listed in ``record_results.txt``. They run the ``evenhand`` beside the running Python, or ``--evenhand
COMMAND``. After options were renamed, rename them in that list, and entries of configurations in ``FILES``. A case that
needs a library which is not installed records the refusal. A file for ``--renames`` says how the old record is to be
read; every table may be left out:

    [cases]                  # names of cases
    search-random = "search-sampled"
    [keys]                   # keys of JSON objects, wherever they are
    least_people = "min_size"
    [paths]                  # regular expressions on a whole path such as "case: result.key.0.key", after the keys
    '(certify[^:]*: result)\\.stopped_by$' = '\\1.effort.stopped_by'
    [strings]                # whole strings
    done = "complete"
    [ignore]                 # regular expressions on paths that are compared on neither side: sentences, mostly
    paths = ['\\.words$']
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

# Threads of a matrix library could add numbers up in another order, and cost more than they bring on small matrices.
STEADY = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
PLAIN_SCREEN = {"COLUMNS": "110", "NO_COLOR": "1", "TERM": "dumb"}

VOLATILE = frozenset({"evenhand", "versions", "seconds", "cpu_seconds", "peak_bytes", "file_bytes", "at"})
"""Keys whose values change from run to run, or with what is installed; a policy file holds the seconds it took."""

HASH = re.compile(r"\b[0-9a-f]{32,}\b")
"""Hashes of logs and policy files change with the times in them; only the fingerprints of data are compared."""

SHIELD = """\
{property: PROPERTY, kappa: "0.15", horizon: 24, kind: KIND, empty_group: EMPTY, groups: {f: {rate: 0.4, accept: 0.35,
 label: 0.4}, m: {rate: 0.6, accept: 0.6, label: 0.6}}}
"""
COSTS = "costs_if_rejected: [0.3, 0.7], costs_if_accepted: [0.6, 0.4]"


def shield_files() -> dict[str, str]:
    """Return a configuration of every kind of shield, by name."""

    def config(kind: str = "finite", kept: str = "demographic_parity", empty: str = "min_count=4") -> str:
        return SHIELD.replace("PROPERTY", kept).replace("KIND", kind).replace("EMPTY", empty)

    return {
        "finite": config(),
        "opportunity": config(kept="equal_opportunity"),
        "impact": config(kept="disparate_impact", empty="vacuous"),
        "checks": config().replace("kind:", "checks: [8, 16], kind:"),
        "start": config().replace("kind:", "start: {f: [9, 2], m: [12, 7]}, kind:"),
        "costs": config()
        .replace("kind:", "costs: [0.2, 0.5], kind:")
        .replace("label: 0.4}", COSTS + "}")
        .replace("label: 0.6}", COSTS + "}"),
        "three": config()
        .replace("m: {rate: 0.6", "x: {rate: 0.2, accept: 0.5, label: 0.5}, m: {rate: 0.4")
        .replace("horizon: 24", "horizon: 12")
        .replace("min_count=4", "zero"),
        "feasible": config("feasible"),
        "static-fair": config("static-fair"),
        "static-bw": config("static-bw"),
        "dynamic": config("dynamic"),
        "greedy": config("greedy"),
    }


def cases() -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the arguments of every case, in the order in which they run."""
    for line in Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        for kind in shield_files() if "KIND" in line else [""]:
            name, command = line.replace("KIND", kind).split(":", 1)
            yield name, shlex.split(command)


# --- what the commands read -------------------------------------------------------------------------------------------

ATTRIBUTES = """\
attributes:
  - {name: grade, kind: integer, lower: 0, upper: 20}
  - {name: hours, kind: integer, lower: 0, upper: 40}
  - {name: sex, kind: categorical, values: [f, m], protected: true, encoding: code}
  - {name: race, kind: categorical, values: [blue, green, red], protected: true, encoding: one-hot}
  - {name: region, kind: categorical, values: [north, south, west], encoding: code}
"""
WIDE = """\
attributes:
  - {name: age, kind: integer, lower: 18, upper: 70, encoding: {offset: 40, scale: 20}}
  - {name: income, kind: real, lower: 0, upper: 100, encoding: {offset: 50, scale: 30}}
  - {name: debt, kind: real, lower: 0, upper: 50, encoding: {offset: 20, scale: 15}}
  - {name: sex, kind: categorical, values: [f, m], protected: true, encoding: code}
  - {name: race, kind: categorical, values: [blue, green, red, white], protected: true, encoding: one-hot}
"""
GENAI = """\
{conditions: [{name: leader, share: 0.6}, {name: poor, share: 0.3}],
 groups: {sex: [woman, man], age: [child, adult, elderly]},
 specifications: [{condition: leader, group: age, repeated: [11, 10, 12]}, {condition: poor, group: sex, repeated: 10},
                  {condition: leader, paired: [sex, age], repeated: 24}],
 simulation: {generator: {sex: [0.2, 0.8], age: [0.05, 0.85, 0.1]}, obeys: 0.93, unrecognised: 0.02, retries: 2,
              slack: 1},
 samples: {sex: labels.csv}}
"""
STUDIO = """\
{conditions: [{name: leader, keywords: [leader, boss]}, {name: poor, keywords: [poor]}],
 groups: {gender: [woman, man], age: [child, adult, elderly]},
 specifications: [{condition: leader, group: gender, repeated: 9},
                  {condition: leader, group: age, repeated: [12, 9, 12]},
                  {condition: poor, paired: [gender, age], repeated: 14}],
 generator: {kind: studio, bias: {gender: {woman: 0.2, man: 0.8}, age: {child: 0.1, adult: 0.8, elderly: 0.1}},
             obeys: 0.9, unrecognised: 0.02, seed: 1},
 classifier: {kind: studio}}
"""
SERVICE = """\
[service]
port = 0
database = "sqlite:///service.db"
keys = false
[[shields]]
name = "loans"
policy = "shield-finite.policy"
[[shields]]
name = "periods"
[shields.plan]
property = "demographic_parity"
kappa = "0.2"
horizon = 7
kind = "dynamic"
groups = { f = { rate = 0.4, accept = 0.35 }, m = { rate = 0.6, accept = 0.6 } }
[[guards]]
name = "portraits"
config = "studio.yaml"
"""
DECIDERS = '''\
"""Black boxes: functions of a table of people, or of texts."""


def credit(frame):
    points = 2 * (frame["status"] == "A14") + frame["duration"].rsub(30) / 12 + (frame["savings"] == "A65")
    return (points + 0.6 * (frame["sex"] == "male") + (frame["age"] - 35) / 40 > 1).map({True: 1, False: 2})


def income(frame):
    points = 0.35 * frame["education_num"] + 0.03 * frame["hours_per_week"] + 0.02 * frame["age"]
    points = points + 0.9 * (frame["sex"] == "Male") + 0.4 * (frame["race"] == "White")
    return 1 / (1 + 2.718281828 ** (6.9 - points))


def hired(frame):
    return 1 / (1 + 2.718281828 ** (10 - frame["grade"] - 3 * (frame["race"] == "red") - frame["hours"] / 20))


def rude(texts):
    return [0.9 if "Muslim" in one or "rotten" in one else 0.6 if "women" in one else 0.1 for one in texts]


def fit(frame, labels):
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder
    from sklearn.tree import DecisionTreeClassifier

    words = make_column_transformer((OneHotEncoder(), ["sex", "race", "region"]), remainder="passthrough")
    return make_pipeline(words, DecisionTreeClassifier(max_depth=4, random_state=0)).fit(frame, labels)
'''
CHAT_PORT = 8597
"""Of the double of a language model: the same for every record, since results name the service."""

SCREENING = f"""
service: {{url: "http://127.0.0.1:{CHAT_PORT}/v1", model: double}}
prompt: "{{{{ person.name }}}}: grade {{{{ grade }}}}, {{{{ hours }}}} hours. Invite? Answer yes or no."
answers: {{choices: ["yes", "no"], favourable: "yes"}}
people: {{names: us-names, compare: [[white woman, black woman]]}}
"""

FILES = {
    "screening.yaml": SCREENING,
    "blind.yaml": SCREENING + "blind: true\n",
    "features.yaml": "features: [grade >= 8, grade >= 14, hours >= 20, region == north]\n",
    "dossier.yaml": "outcome: {column: hired, selected: ['yes']}\n"
    "attributes: {sex: {column: sex}, race: {column: race}}\n",
    "monitor.yaml": "groups: {by: [sex, race], intersections: true, learn: 100}\n"
    "watch: [{gap: selection_rate, tolerance: 0.02}, {ratio: selection_rate, tolerance: 0.8}]\n"
    "fields: {decision: hired, favourable: 'yes'}\nseed: 1\n",
    "small.yaml": 'target: {name: hired, favourable: "yes", values: ["no", "yes"]}\n' + ATTRIBUTES,
    "wide.yaml": "target: {name: grade, favourable: high, values: [low, high]}\n" + WIDE,
    "three.yaml": "target: {name: grade, favourable: high, values: [low, middle, high]}\n" + WIDE,
    "genai.yaml": GENAI,
    "impossible.yaml": GENAI.replace("[11, 10, 12]", "[2, 3, 3]"),
    "studio.yaml": STUDIO,
    "terms.yaml": "groups: [neighbours, teachers]\nrows: [[neighbour, teacher]]\n",
    "prompts.txt": "a leader\na poor person\na female leader\nan apple\n",
    "service.toml": SERVICE,
    "deciders.py": DECIDERS,
} | {f"shield-{name}.yaml": text for name, text in shield_files().items()}


def write_inputs(folder: Path) -> None:
    """Write the data and models that the cases read."""
    import numpy as np
    import pandas as pd

    for name, text in FILES.items():
        (folder / name).write_text(text, "utf-8")
    rng = np.random.default_rng(16)

    def people(n: int) -> pd.DataFrame:
        frame = pd.DataFrame(
            {
                "grade": rng.integers(0, 21, n),
                "hours": rng.integers(0, 41, n),
                "sex": rng.choice(["f", "m"], n),
                "race": rng.choice(["blue", "green", "red"], n, p=[0.6, 0.25, 0.15]),
                "region": rng.choice(["north", "south", "west"], n),
            }
        )
        merit = frame["grade"] + frame["hours"] / 8 + 2 * (frame["sex"] == "m") - 2 * (frame["race"] == "green")
        frame["hired"] = np.where(merit + rng.normal(0, 2.5, n) > 13, "yes", "no")
        return frame

    def dense(path: Path, sizes: Sequence[int], scale: Sequence[float]) -> None:
        layers = [rng.normal(size=shape) / np.sqrt(shape[0]) for shape in pairwise(sizes)]
        layers[0] = layers[0] * np.array(scale)[:, None]
        biases = [rng.normal(size=size) / 2 for size in sizes[1:]]
        save(path, layers, biases)

    def save(path: Path, layers: Sequence[Any], biases: Sequence[Any]) -> None:
        arrays = {f"W{i}": layer.astype(np.float32) for i, layer in enumerate(layers)}
        np.savez(path, **arrays, **{f"b{i}": bias.astype(np.float32) for i, bias in enumerate(biases)})

    frame, later = people(1500), people(500)
    frame.to_csv(folder / "people.csv", index=False)
    later.to_csv(folder / "later.csv", index=False)
    wide = {
        "age": rng.integers(18, 71, 300),
        "income": rng.uniform(0, 100, 300),
        "debt": rng.uniform(0, 50, 300),
        "sex": rng.choice(["f", "m"], 300),
        "race": rng.choice(["blue", "green", "red", "white"], 300),
        "grade": rng.choice(["low", "middle", "high"], 300),
    }
    pd.DataFrame(wide).to_csv(folder / "wide.csv", index=False)
    dense(folder / "wide.npz", [8, 12, 8, 1], [1.5, 1.5, 1.0] + [0.6] * 5)
    dense(folder / "three.npz", [8, 10, 3], [1.5, 1.5, 1.0] + [0.6] * 5)
    write_models(folder, frame, save)
    words = [
        (who, noun, what, how)
        for who in ("Muslim", "Jewish", "Christian", "Hindu", "women", "men")
        for noun in ("family", "neighbour", "teacher", "doctor")
        for what in ("kind", "rotten", "tall", "late")
        for how in ("today", "here")
    ]
    texts = [f"The {who} {noun} is {what} {how}" for who, noun, what, how in words]
    rude = ["yes" if "rotten" in text else "no" for text in texts]
    pd.DataFrame({"said": texts, "rude": rude}).to_csv(folder / "comments.csv", index=False)
    n = 240
    shown = {
        "sex": rng.choice(["woman", "man", ""], n, p=[0.25, 0.7, 0.05]),
        "age": rng.choice(["child", "adult", "elderly"], n, p=[0.1, 0.75, 0.15]),
    }
    asked = rng.choice(["leader", "poor"], n, p=[0.7, 0.3])
    prompts = [f"a {rng.choice(['', 'female ', 'old '])}{one}" for one in asked]
    sequence = {"run": rng.integers(1, 3, n), "asked": asked, **shown, "prompt": prompts}
    pd.DataFrame(sequence).to_csv(folder / "sequence.csv", index=False)
    truth = rng.choice(["woman", "man", "none", ""], 600, p=[0.45, 0.5, 0.03, 0.02])
    other = rng.choice(["woman", "man", "none"], 600)
    said = np.where(rng.random(600) < 0.05, other, truth)
    pd.DataFrame({"true": truth, "said": said}).to_csv(folder / "labels.csv", index=False)


def write_models(folder: Path, frame: Any, save: Any) -> None:
    """Write models of several formats that learnt from the same people; those whose library is missing are left out."""
    import joblib
    import numpy as np
    import pandas as pd
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    hired = (frame["hired"] == "yes").to_numpy()
    columns = [
        frame["grade"],
        frame["hours"],
        frame["sex"] == "m",
        *(frame["race"] == one for one in ("blue", "green", "red")),
        frame["region"].map({"north": 0, "south": 1, "west": 2}),
    ]
    coded = np.stack([column.to_numpy(float) for column in columns], axis=1)
    scale = np.array([10, 20, 1, 1, 1, 1, 1], dtype=float)
    for name, seed in (("network", 0), ("other", 1)):
        learnt = MLPClassifier((10, 6), max_iter=60, learning_rate_init=0.01, random_state=seed)
        with contextlib.suppress(Warning):
            learnt.fit(coded / scale, hired)
        layers = [learnt.coefs_[0] / scale[:, None], *learnt.coefs_[1:]]
        save(folder / f"{name}.npz", layers, learnt.intercepts_)
        if name == "network":
            write_onnx(folder / "network.onnx", layers, learnt.intercepts_)

    def pipeline(data: pd.DataFrame, labels: Any) -> Any:
        words = list(data.select_dtypes(exclude="number"))
        encode = make_column_transformer((OneHotEncoder(), words), remainder=StandardScaler(), sparse_threshold=0)
        return make_pipeline(encode, LogisticRegression(max_iter=500)).fit(data, labels)

    attributes = frame.drop(columns="hired")
    joblib.dump(pipeline(attributes, frame["hired"]), folder / "pipeline.joblib")
    with contextlib.suppress(ImportError):
        import skops.io

        skops.io.dump(pipeline(attributes, frame["hired"]), folder / "pipeline.skops")
    from evenhand import datasets

    german = datasets.load_dataset("german").frame.drop(columns="personal_status_sex")
    joblib.dump(pipeline(german.drop(columns="class"), german["class"]), folder / "credit.joblib")
    with contextlib.suppress(ImportError):
        import lightgbm

        trees = lightgbm.LGBMClassifier(n_estimators=12, num_leaves=6, verbose=-1, n_jobs=1, random_state=0)
        trees.fit(coded, hired).booster_.save_model(folder / "trees.txt")
    with contextlib.suppress(ImportError):
        import xgboost

        boosted = xgboost.XGBClassifier(n_estimators=8, max_depth=3, n_jobs=1, random_state=0)
        boosted.fit(coded, hired).save_model(folder / "trees.json")


def write_onnx(path: Path, layers: Sequence[Any], biases: Sequence[Any]) -> None:
    """Write a dense ReLU network as an ONNX file."""
    with contextlib.suppress(ImportError):
        import numpy as np
        import onnx
        from onnx import helper, numpy_helper

        nodes, constants, current = [], [], "x"
        for i, (layer, bias) in enumerate(zip(layers, biases, strict=True)):
            constants.append(numpy_helper.from_array(layer.astype(np.float32), f"W{i}"))
            constants.append(numpy_helper.from_array(bias.astype(np.float32), f"b{i}"))
            nodes.append(helper.make_node("Gemm", [current, f"W{i}", f"b{i}"], [f"z{i}"]))
            current = f"h{i}"
            nodes.append(helper.make_node("Relu" if i < len(layers) - 1 else "Sigmoid", [f"z{i}"], [current]))
        ends = [
            helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None, size])
            for name, size in (("x", layers[0].shape[0]), (current, layers[-1].shape[1]))
        ]
        graph = helper.make_graph(nodes, "network", ends[:1], ends[1:], constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, path)


# --- recording --------------------------------------------------------------------------------------------------------


def record(out: Path, command: Sequence[str], only: str) -> int:
    """Run every case and write what it computed; return how many ended unexpectedly."""
    results, looks, work = (out / name for name in ("results", "looks", "work"))
    for folder in (results, looks, work):
        folder.mkdir(parents=True, exist_ok=True)
    write_inputs(work)
    from evenhand.testing import FakeChat

    with FakeChat(lambda text: 0.6 if "grade 1" in text else 0.3, port=CHAT_PORT):
        return _record_cases(results, looks, work, command, only)


def _record_cases(results: Path, looks: Path, work: Path, command: Sequence[str], only: str) -> int:
    failed = 0
    for name, arguments in cases():
        if only not in name:
            continue
        begun = os.times()
        if arguments[0] == "serve":
            found = serve(work, [*command, *arguments])
        else:
            found = run(work, looks, name, [*command, *arguments])
        spent = os.times()
        seconds = spent.children_user + spent.children_system - begun.children_user - begun.children_system
        complaint = "" if found["exit"] in (0, 1) else f"  exit code {found['exit']}, see {looks / name}.txt"
        failed += bool(complaint)
        print(f"{name:<24} {seconds:5.1f} s of the processor{complaint}", flush=True)
        (results / f"{name}.json").write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", "utf-8")
    return failed


def run(work: Path, looks: Path, name: str, command: Sequence[str]) -> dict[str, Any]:
    """Run one command and return its exit code, its result and the tables that it wrote."""
    files = {
        "TABLE": f"{name}.csv",
        "PAGE": f"../looks/{name}.html",
        "EXTRA": f"{name}.extra.json",
        "REPORT": f"../looks/{name}",
    }
    result, table, extra = (work / file for file in (f"{name}.json", files["TABLE"], files["EXTRA"]))
    for path in (result, table, extra):
        path.unlink(missing_ok=True)
    done = subprocess.run(
        [*(files.get(word, word) for word in command), "--json", result.name],
        cwd=work,
        env=os.environ | STEADY | PLAIN_SCREEN,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    (looks / f"{name}.txt").write_text(f"$ {shlex.join(command)}\n{done.stdout}{done.stderr}", "utf-8")
    found: dict[str, Any] = {"exit": done.returncode}
    if result.exists():
        found["result"] = steady(json.loads(result.read_text("utf-8")), work)
    if done.returncode not in (0, 1):
        found["error"] = steady(done.stderr, work)
    if table.exists():
        with table.open(encoding="utf-8", newline="") as file:
            found["table"] = [{key: parsed(text) for key, text in row.items()} for row in csv.DictReader(file)]
    if extra.exists():
        found["extra"] = steady(json.loads(extra.read_text("utf-8")), work)
    return found


def parsed(text: str) -> float | str:
    """Return the number that a cell of a table holds, or its text."""
    try:
        return float(text)
    except ValueError:
        return text


def steady(value: Any, work: Path, key: str = "") -> Any:
    """Return a JSON value without what changes from run to run."""
    if isinstance(value, dict):
        return {name: steady(inner, work, name) for name, inner in value.items() if name not in VOLATILE}
    if isinstance(value, list):
        return [steady(inner, work, key) for inner in value]
    if not isinstance(value, str) or key == "fingerprint":
        return value
    return HASH.sub("(hash)", value.replace(str(work), "work"))


def serve(work: Path, command: Sequence[str]) -> dict[str, Any]:
    """Start the service, ask it for decisions and pictures one after the other, and keep answers and logs."""
    for stale in work.glob("service.db*"):
        stale.unlink()
    said = work / "service.out"
    with said.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=work, env=os.environ | STEADY | PLAIN_SCREEN, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
    try:
        url = _address(process, said)
        found = {"exit": 0, "result": steady(_work_through(url, work), work)}
    except (RuntimeError, OSError) as error:
        found = {"exit": 2, "error": f"{error}"}
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
    return found


def _address(process: subprocess.Popen[bytes], said: Path) -> str:
    for _ in range(1200):
        match = re.search(r"http://[\d.]+:\d+", said.read_text("utf-8"))
        if match is not None:
            return match.group()
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError(said.read_text("utf-8"))


def _work_through(url: str, work: Path) -> dict[str, Any]:
    def ask(path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url + path, data, {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            text = error.read().decode()
        return [json.loads(line) for line in text.splitlines()] if path.endswith("/log") else json.loads(text)

    decisions, decided = [], []
    for number in range(24):
        one = {"id": f"{number}", "group": "fm"[number % 5 > 1], "recommendation": int(number % 7 in (1, 2, 4))}
        answer = ask("/v1/shields/loans/decisions", one)
        decisions.append(answer)
        decided.append(one | {"decision": answer.get("decision")})
        decisions.append(ask("/v1/shields/periods/decisions", one))
    pictures = []
    for number in range(30):
        prompt = ("a leader", "a poor person", "a female leader")[number % 3]
        (picture,) = ask("/v1/images/generations", {"prompt": prompt, "model": "portraits"})["data"]
        pictures.append({key: value for key, value in picture.items() if key not in ("b64_json", "url")})
    logs = {name: ask(f"/v1/streams/{name}/log") for name in ("loans", "periods", "portraits")}
    for name, entries in logs.items():
        _write_lines(work / f"service-{name}.jsonl", entries)
    altered = json.loads(json.dumps(logs["loans"]))
    altered[9] = json.loads(json.dumps(altered[9]).replace('"f"', '"x"').replace('"m"', '"f"').replace('"x"', '"m"'))
    _write_lines(work / "altered.jsonl", altered)
    with (work / "decided.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(decided[0]))
        writer.writeheader()
        writer.writerows(decided)
    return {"decisions": decisions, "pictures": pictures, "logs": logs, "standing": ask("/v1/shields")}


def _write_lines(path: Path, entries: Sequence[Any]) -> None:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), "utf-8")


# --- comparing --------------------------------------------------------------------------------------------------------


def compare(old: Path, new: Path, renames: Mapping[str, Any], only: str = "") -> int:
    """Print which values differ, in cases whose new name contains ``only``; return how many."""
    ignored = [re.compile(pattern) for pattern in renames.get("ignore", {}).get("paths", ())]
    before, after = leaves(old), leaves(new)
    before = {renamed(path, renames): worded(value, renames) for path, value in before.items()}
    before, after = ({path: found[path] for path in found if only in path.split(":")[0]} for found in (before, after))
    total = 0
    for path in sorted(before.keys() | after.keys()):
        if any(pattern.search(path) for pattern in ignored):
            continue
        one, other = before.get(path, "(nothing)"), after.get(path, "(nothing)")
        if not same(one, other):
            total += 1
            kind = "NUMBER" if isinstance(one, int | float) and isinstance(other, int | float) else "value"
            print(f"{kind} {path}: {one!r} -> {other!r}")
    print(f"{len(before):,} values in {old}, {len(after):,} in {new}: {total:,} differ")
    return total


def leaves(folder: Path) -> dict[str, Any]:
    """Return every value of a record by its path, ``case: key.0.key``; empty lists and objects are values too."""
    found: dict[str, Any] = {}

    def walk(path: str, value: Any) -> None:
        inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, part in inner:
            walk(f"{path}.{key}" if path[-1] != " " else f"{path}{key}", part)
        if not value or not isinstance(value, dict | list):
            found[path] = value

    for path in sorted((folder / "results").glob("*.json")):
        walk(f"{path.stem}: ", json.loads(path.read_text("utf-8")))
    if not found:
        sys.exit(f"{folder} holds no record: it has no results/*.json")
    return found


def renamed(path: str, renames: Mapping[str, Any]) -> str:
    """Return the path under which a value of the old record stands in the new one."""
    case, _, rest = path.partition(": ")
    keys = renames.get("keys", {})
    rest = ".".join(keys.get(key, key) for key in rest.split("."))
    path = f"{renames.get('cases', {}).get(case, case)}: {rest}"
    for pattern, replacement in renames.get("paths", {}).items():
        path = re.sub(pattern, replacement, path)
    return path


def worded(value: Any, renames: Mapping[str, Any]) -> Any:
    """Return a value of the old record in the new words."""
    return renames.get("strings", {}).get(value, value) if isinstance(value, str) else value


def same(one: Any, other: Any) -> bool:
    """Return whether two values are the same; 1 and 1.0 are, 1 and true are not."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def main() -> None:
    """Record, or compare, as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", type=Path, help="folder to record into")
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    parser.add_argument("--evenhand", default=str(Path(sys.executable).with_name("evenhand")), help="the command")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("OLD", "NEW"), help="compare two records")
    parser.add_argument("--renames", type=Path, help="TOML file of what was renamed since OLD")
    given = parser.parse_args()
    if given.compare:
        renames = tomllib.loads(given.renames.read_text("utf-8")) if given.renames else {}
        old, new = given.compare
        sys.exit(compare(old, new, renames, given.only) > 0)
    if given.out is None:
        parser.error("name a folder to record into")
    os.environ |= STEADY
    sys.exit(record(given.out.resolve(), shlex.split(given.evenhand), given.only) > 0)


if __name__ == "__main__":
    main()
