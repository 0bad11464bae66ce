"""Commands that the README, the tutorials and the guides show are typed as they stand, or listed here with a reason."""

import base64
import re
import shlex
import shutil
import textwrap

import numpy as np
import pandas as pd
import pytest

import evenhand as evenhand_package
from support import ROOT

DOCS = ROOT / "docs"
CERTIFY = DOCS / "how-to" / "certify-a-model.md"
PAGES = [ROOT / "README.md", *sorted((DOCS / "tutorial").glob("*.md")), *sorted((DOCS / "how-to").glob("*.md"))]
BLOCK = re.compile(r'^ *```(\w+)(?: title="([^"]+)")?\n(.*?)^ *```$', re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^ *\$ ((?:.*\\\n)*.*)", re.MULTILINE)

TYPED_ELSEWHERE = {"first-audit.md", "audit-an-llm-that-screens-cvs.md", "first-service.md"}
"""Tutorials whose commands and Python are run from top to bottom by ``test_documentation.py``."""

NOT_TYPED = [  # what a command matches from its beginning, why it is not typed here
    (r"(pip|make|python3? |/opt/evenhand)", "installs, builds or needs a checkout: CI's own sections"),
    (r"(systemctl|useradd|install -d|cp |ln -s |sed -i |runuser |createuser|createdb)", "changes the machine"),
    (r".*(dask|ray)://", "needs a cluster: tests/certification/test_parts.py"),
    (r".*--workers \d", "starts processes: tests/test_parallel.py"),
    (r".*https://", "asks another host"),
    (r"evenhand serve", "does not end: tests/service starts it"),
    (r"curl", "asks a service: tests/service"),
    (r"evenhand (keys|store|replay)", "needs the store of a running service: tests/service"),
    (r"evenhand llm", "asks a language model: the tutorial's are typed against a double"),
    (r".* adult( |$).*", "a large model and data set: minutes"),
    (r".*--example adult", "trains on the large data set: the first tutorial is run with a small one"),
    (r"evenhand mitigate .*--method logit-pairing", "trains many networks: tests/mitigation"),
    (r"evenhand monitor .*--follow", "does not end: tests/monitoring"),
]


def name(page):
    return str(page.relative_to(ROOT))


def commands(page):
    for kind, _, text in BLOCK.findall(page.read_text("utf-8")):
        if kind == "console":
            yield from (re.sub(r"\\\n\s*", "", command) for command in COMMAND.findall(text))


def reason_not_to_type(command):
    return next((why for what, why in NOT_TYPED if re.match(what, command)), None)


def typed(page):
    return [command for command in commands(page) if reason_not_to_type(command) is None]


QUICKER = [  # which command, what is put in place of what
    (r"evenhand audit (?!.*--fail-on)", r"$", " --time-limit 1"),
    (r"evenhand audit .*--fail-on", r"$", " --time-limit 10"),  # a gate needs its number, also on a busy machine
    (r"evenhand audit ", r" --time-limit \d+(?=.*--time-limit)", ""),
    (r"evenhand audit", r"sklearn\.metrics:f1_score", "mymodule:cost"),
    (r"evenhand certify ", r"$", " --max-boxes 50"),
    (r"evenhand certify", r"--time-limit \d+", "--time-limit 60"),
    (r"evenhand search (?!.*--text)", r"$", " --budget 4000"),
    (r"evenhand search", r"--budget \d+(?=.*--budget)", ""),
    (r"evenhand mitigate ", r"$", " --rounds 0 --certify-effort 0"),
    (r"evenhand mitigate .*--method", r"$", " --strength 1"),
    (r"evenhand shield simulate", r"--runs \d+", "--runs 40"),
    (r"evenhand genai generate", r"--requests \d+", "--requests 20"),
    (r"evenhand genai assess", r"--requests \d+", "--requests 6"),
]


def hurried(command):
    for which, before, after in QUICKER:
        if re.match(which, command):
            command = re.sub(before, after, command, count=1)
    return command


PEOPLE_SCHEMA = """\
target: {name: hired, favourable: "yes", values: ["no", "yes"]}
attributes:
  - {name: grade, kind: integer, lower: 0, upper: 20}
  - {name: age, kind: integer, lower: 18, upper: 65}
  - {name: interviews, kind: integer, lower: 0, upper: 5}
  - {name: years_employed, kind: integer, lower: 0, upper: 40}
  - {name: sex, kind: categorical, values: [f, m], encoding: code, protected: true}
  - {name: race, kind: categorical, values: [Black, White], encoding: code}
  - {name: age_group, kind: categorical, values: [old, young], encoding: code}
"""

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

SHIELD = """\
property: demographic_parity
kappa: "0.1"
horizon: 20
empty_group: min_count=2
groups:
  Female: {rate: 0.4, accept: 0.35}
  Male: {rate: 0.6, accept: 0.6}
"""

DOSSIER = """\
outcome: {column: hired, selected: ["yes"]}
attributes:
  sex: {column: sex, categories: {f: Female, m: Male}}
"""

MODULE = """
def decide(people):
    return people["grade"].map(lambda grade: "yes" if grade > 12 else "no")


def toxicity(texts):
    return [0.9 if "her" in text or "Muslim" in text else 0.2 for text in texts]


def cost(y_true, y_pred):
    return float((y_true != y_pred).mean())


model = decide


def fit(people, labels):
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    columns = make_column_transformer(("passthrough", ["grade", "age"]))
    return make_pipeline(columns, LogisticRegression(max_iter=1000)).fit(people, labels)
"""


def people_table(rng, n):
    age = rng.integers(18, 66, n)
    people = pd.DataFrame(
        {
            "grade": rng.integers(0, 21, n),
            "age": age,
            "interviews": rng.integers(0, 6, n),
            "years_employed": (rng.random(n) * np.minimum(age - 17, 40)).astype(int),
            "sex": rng.choice(["f", "m"], n),
            "race": rng.choice(["Black", "White"], n),
            "age_group": np.where(age > 40, "old", "young"),
        }
    )
    points = people["grade"] + 3 * (people["sex"] == "m") + rng.normal(0, 3, n)
    return people.assign(hired=np.where(points > 12, "yes", "no"))


def pipeline(people, target, words, numbers, estimator):
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    columns = make_column_transformer(
        (StandardScaler(), numbers), (OneHotEncoder(handle_unknown="ignore", sparse_output=False), words)
    )
    return make_pipeline(columns, estimator).fit(people[[*numbers, *words]], people[target])


def write_people(folder, rng):
    """Write the people of most pages, and one model of them in every kind of file that the pages name."""
    import joblib
    import skops.io
    from skl2onnx import to_onnx
    from sklearn.linear_model import LogisticRegression

    people = people_table(rng, 400)
    people.to_csv(folder / "people.csv", index=False)
    (folder / "people.yaml").write_text(PEOPLE_SCHEMA)
    (folder / "dossier.yaml").write_text(DOSSIER)
    for part in ("train", "held_out"):
        people_table(rng, 300).assign(text="She sings.").to_csv(folder / f"{part}.csv", index=False)
    columns = [["sex", "race", "age_group"], ["grade", "age", "interviews", "years_employed"]]
    model = pipeline(people, "hired", *columns, LogisticRegression())
    skops.io.dump(model, folder / "model.skops")
    joblib.dump(model, folder / "model.joblib")
    graph = to_onnx(model, people.drop(columns="hired")[:1], options={"zipmap": False}).SerializeToString()
    for model_name in ("model", "old", "new"):
        (folder / f"{model_name}.onnx").write_bytes(graph)
    points = np.array([[1.0], [0.0], [0.0], [0.0], [4.0], [0.0], [0.0]]) * [1, -1]
    np.savez(folder / "model.npz", W0=points, b0=np.array([-12.3, 12.3]), W1=np.array([[1.0], [-1.0]]), b1=np.zeros(1))
    np.savez(folder / "credit.npz", W0=points[:, :1], b0=np.array([-12.3]))
    np.savez(folder / "premium.npz", W0=np.array([[9.0], [1.0], [1.0], [1.0], [60.0], [0.0], [0.0]]), b0=np.zeros(1))
    (folder / "scoring.py").write_text(MODULE)
    (folder / "mymodule.py").write_text(MODULE)


def write_decisions(folder, rng):
    """Write the tables of pages without a model: decisions, scores, labels, numbers and rankings."""
    n = 480
    sex, score = rng.choice(["F", "M"], n), rng.random(n)
    wide = people_table(rng, n).assign(
        sex=sex,
        department=rng.choice(["sales", "care", "it"], n),
        grade=rng.choice(list("ABCD"), n),
        true_grade=rng.choice(list("ABCD"), n),
        selected=(score > 0.4).astype(int),
        hired=rng.integers(0, 2, n),
        p_white=score,
        p_black=1 - score,
        race=np.where(rng.random(n) < score, "white", "black"),
    )
    wide.to_csv(folder / "decisions.csv", index=False)
    applicants = wide.assign(points=100 * score, risk=score, repaid=rng.choice(["yes", "no"], n), score=score)
    applicants.assign(sex=np.where(sex == "F", "Female", "Male")).to_csv(folder / "applicants.csv", index=False)
    premiums = pd.DataFrame({"sex": sex, "age": rng.integers(18, 80, n), "power": rng.integers(40, 200, n)})
    premiums["premium"] = 500 + premiums["power"] + 20 * (sex == "M")
    premiums["claim"] = premiums["premium"] * rng.random(n) * 2
    premiums.to_csv(folder / "premiums.csv", index=False)
    shown = pd.DataFrame({"search_id": np.repeat(range(40), 12), "position": np.tile(range(1, 13), 40), "sex": sex})
    shown.assign(match_score=score, clicked=rng.integers(0, 2, n)).to_csv(folder / "shown.csv", index=False)
    events = wide[["sex", "race"]].assign(id=[f"a-{i}" for i in range(n)], decision=wide["selected"])
    events.to_json(folder / "decisions.jsonl", orient="records", lines=True)
    (folder / "decisions").mkdir()
    table = applicants.assign(region=rng.choice(["north", "south"], n), repaid=rng.integers(0, 2, n))
    table.to_parquet(folder / "decisions" / "1.parquet", index=False)


def write_texts(folder, rng):
    """Write texts, and models of them."""
    import joblib
    import skops.io
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    people = ("She", "He", "A Muslim", "A Christian", "A host", "A visitor", "A nurse", "A doctor")
    texts = [f"{person} {verb}." for person in people for verb in ("sings", "is late", "won")] * 20
    toxic = [int("late" in text or "Muslim sings" in text) for text in texts]
    model = make_pipeline(CountVectorizer(), LogisticRegression()).fit(texts, toxic)
    skops.io.dump(model, folder / "toxicity.skops")
    joblib.dump(model, folder / "comments.joblib")
    pd.DataFrame({"text": texts, "toxic": toxic}).to_csv(folder / "comments.csv", index=False)


def write_pictures(folder, rng):
    """Write tables about pictures, prompts, and configurations of a guard and a shield."""
    gender = rng.choice(["female", "male"], 60)
    words = {"condition": ["poor", "leader"] * 30, "poor": "yes", "leader": "yes"}
    words |= {"sequence": "openai_poor_seq2", "file": "one.png"}
    table = pd.DataFrame({"gender": gender, "notebook_gender": gender, "true": gender, "said": gender, **words})
    table["label_gender"] = table["gender"].map({"female": "woman", "male": "man"})
    for name in ("answers", "genders"):
        table.assign(age="adult").to_csv(folder / f"{name}.csv", index=False)
    (folder / "one.png").write_bytes(base64.b64decode(PIXEL))
    (folder / "prompts.txt").write_text("a business leader\nan apple\n")
    shutil.copy(ROOT / "examples" / "service" / "genai.yaml", folder)
    (folder / "shield.yaml").write_text(SHIELD)


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("pages"), np.random.default_rng(0)
    for library in ("skl2onnx", "skops", "onnxruntime", "torch", "duckdb", "pyarrow"):
        pytest.importorskip(library, reason=f"needs {library}")
    for write in (write_people, write_decisions, write_texts, write_pictures):
        write(folder, rng)
    return folder


def write_numbers(folder, rng):
    """Write a model of premiums."""
    import joblib
    from sklearn.linear_model import LinearRegression

    premiums = pd.read_csv(folder / "premiums.csv")
    joblib.dump(pipeline(premiums, "premium", ["sex"], ["age", "power"], LinearRegression()), folder / "model.joblib")


def write_hiring(folder, rng):
    """Write the small model that the guide to certification shows."""
    (code,) = (text for _, _, text in BLOCK.findall(CERTIFY.read_text("utf-8")) if text.startswith("from pathlib"))
    exec(code, {})


def write_applicants(folder, rng):
    """Write people with outcomes as the guide to dossiers describes them."""
    people = people_table(rng, 300)
    people["selected"] = ((people["hired"] == "yes") & (rng.random(300) < 0.8)).astype(int)
    people["sex"] = people["sex"].str.upper()
    people["race"] = people["race"].str[0]
    people.to_csv(folder / "applicants.csv", index=False)


def write_ll144(folder, rng):
    """Write decisions about people of the categories that the tutorial names."""
    race = rng.choice(["White", "Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo"], 500)
    race[:5] = "Other"
    table = {"sex": rng.choice(["Female", "Male"], 500), "race": race, "decision": rng.choice([">50K", "<=50K"], 500)}
    pd.DataFrame(table).to_csv(folder / "decisions.csv", index=False)


def write_german(folder, rng):
    """Write a model of the data set German Credit."""
    import skops.io

    model, _ = evenhand_package.auditing.train_example(evenhand_package.datasets.load_dataset("german"))
    skops.io.dump(model, folder / "credit.skops")


BEFORE = {
    "audit-numbers.md": write_numbers,
    "certify-a-model.md": write_hiring,
    "publish-a-local-law-144-audit.md": write_ll144,
    "describe-your-people.md": write_german,
    "write-a-dossier.md": write_applicants,
}
"""Files of a page that no other page has, or that others call the same and mean otherwise."""

NAMES_OF_FILES = {
    "conditions:": "genai.yaml",
    "property:": "shield.yaml",
    "outcome:": "dossier.yaml",
    "id,group,recommendation": "decisions.csv",
    "groups: {by:": "monitor.yaml",
}
"""What a file that a page shows is called by how it begins, where the page does not give its name."""

EXIT_CODES = {"--fail-on": (0, 1), "evenhand monitor": (0, 1), "--final": (1,)}
"""Exit codes other than 0 alone: a condition holds, an alarm came, entries are open."""


def write_shown_files(page, folder):
    """Write the files that a page shows; of several with one name the first."""
    written = set()
    for kind, title, text in BLOCK.findall(page.read_text("utf-8")):
        text = textwrap.dedent(text)
        begins = next((file for begin, file in NAMES_OF_FILES.items() if text.startswith(begin)), None)
        if kind != "console" and (file := title or begins) and file not in written:
            written.add(file)
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text)


def type_command(command, folder, evenhand):
    words, file = re.fullmatch(r"(.*?)(?: >>? ([\w./-]+))?", hurried(command)).groups()
    allowed = next((codes for part, codes in EXIT_CODES.items() if part in command), (0,))
    done = evenhand(*shlex.split(words)[1:], code=allowed)
    if file and not (folder / file).exists():
        (folder / file).write_text(done.out)


RUN = [page for page in PAGES if page.name not in TYPED_ELSEWHERE and typed(page)]


@pytest.mark.full
@pytest.mark.parametrize("page", RUN, ids=name)
def test_commands_run(page, prepared, tmp_path, monkeypatch, evenhand):
    folder = tmp_path / "page"
    shutil.copytree(prepared, folder)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    BEFORE.get(page.name, lambda *_: None)(folder, np.random.default_rng(1))
    write_shown_files(page, folder)
    for command in typed(page):
        type_command(command, folder, evenhand)
