"""The release, the minimal install and the files for pipelines."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile

import check_distributions
import pytest
import yaml

import evenhand
from evenhand.core import version
from support import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
CHANGES = (ROOT / "CHANGELOG.md").read_text("utf-8")
RELEASES = re.findall(r"^## ([0-9]+\.[0-9]+\.[0-9]+) - ([0-9]{4}-[0-9]{2}-[0-9]{2})$", CHANGES, re.M)
NEWEST, DATE = RELEASES[0] if RELEASES else (version.NEXT_RELEASE, None)
"""The newest release and its date; before the first one, what it will be."""


def parts(text):
    return tuple(map(int, text.split(".")))


def test_every_file_says_the_same_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    chart = yaml.safe_load((ROOT / "deploy" / "helm" / "evenhand" / "Chart.yaml").read_text("utf-8"))
    assert citation["version"] == chart["version"] == chart["appVersion"] == NEWEST
    assert str(citation.get("date-released")) == str(DATE)
    assert PROJECT["tool"]["hatch"]["version"]["fallback-version"] == f"{version.NEXT_RELEASE}.dev0"
    assert "version" in PROJECT["project"]["dynamic"]
    supported = re.search(r"^\| ([0-9]+\.[0-9]+)( \(not released yet\))? \|", (ROOT / "SECURITY.md").read_text(), re.M)
    assert NEWEST.startswith(f"{supported[1]}.")
    assert (supported[2] is None) == bool(RELEASES)


def test_changes_are_newest_first():
    headings = re.findall(r"^## (.+)$", CHANGES, re.M)
    assert headings[0] == "Unreleased" or headings[0].startswith(f"{version.NEXT_RELEASE} - ")
    assert [one for one in headings if one != "Unreleased"] == [" - ".join(one) for one in RELEASES]
    assert sorted(RELEASES, key=lambda one: parts(one[0]), reverse=True) == RELEASES
    assert parts(version.NEXT_RELEASE) >= parts(NEWEST)


@pytest.fixture
def checkout(tmp_path):
    """A Git repository with one commit and the package's folder; a function that runs git in it."""
    if shutil.which("git") is None:
        pytest.skip("Git is not installed")
    (tmp_path / "src" / "evenhand").mkdir(parents=True)

    def git(*arguments, folder=tmp_path):
        settings = ["-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false"]
        return subprocess.run(
            ["git", *settings, *arguments], cwd=folder, capture_output=True, text=True, check=True, timeout=60
        ).stdout.strip()

    git("init", "--quiet", "--initial-branch", "main")
    git("commit", "--quiet", "--allow-empty", "--message", "first")
    return tmp_path, git


def test_a_checkout_says_its_commit(checkout):
    folder, git = checkout
    expected = f"{version.NEXT_RELEASE}.dev0+checkout.g{git('rev-parse', 'HEAD')[:9]}"
    read = lambda at=folder: version.read_version(str(at / "src" / "evenhand"))  # noqa: E731  (one line, used twice)
    assert read() == expected
    git("pack-refs", "--all")
    assert read() == expected
    git("worktree", "add", "--quiet", "-b", "other", "beside")
    (folder / "beside" / "src" / "evenhand").mkdir(parents=True)
    assert read(folder / "beside") == expected
    git("commit", "--quiet", "--allow-empty", "--message", "second", folder=folder / "beside")
    assert read(folder / "beside") != expected
    assert read() == expected
    git("checkout", "--quiet", "--detach", "other")
    assert read() == read(folder / "beside") == expected[:-9] + git("rev-parse", "HEAD")[:9]


def test_other_folders_say_what_was_built_or_no_commit(tmp_path):
    package = tmp_path / "src" / "evenhand"
    package.mkdir(parents=True)
    assert version.read_version(str(package)) == f"{version.NEXT_RELEASE}.dev0"
    (tmp_path / ".git").write_text("gitdir: nowhere\n")
    assert version.read_version(str(package)) == f"{version.NEXT_RELEASE}.dev0"
    (package / "VERSION").write_text("3.2.1.dev4+g1234567\n")
    assert version.read_version(str(package)) == "3.2.1.dev4+g1234567"


def test_work_goes_on_in_another_commit_of_a_checkout():
    assert version.without_commit("0.1.0.dev0+checkout.g123456789") == "0.1.0.dev0"
    assert version.without_commit("0.1.0") == "0.1.0"
    assert evenhand.__version__.startswith(version.without_commit(evenhand.__version__))


TRACKED = ["LICENSE", "README.md", ".ci/run", "docs/images/a.png", "docs/a.md", "docs/dossiers/x/a.pdf"]
TRACKED += [f"src/evenhand/{name}" for name in ("__init__.py", "py.typed", "sets/NOTICE.md")]


def build(folder, *, without="", added=None):
    """Write a wheel and an sdist as they should be, but for a file left out and one added."""
    metadata = "evenhand-1.2.3.dist-info/"
    wheel = {"evenhand/__init__.py", "evenhand/py.typed", "evenhand/sets/NOTICE.md", "evenhand/VERSION"}
    wheel |= {metadata + name for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")}
    wheel |= {f"{metadata}licenses/src/evenhand/sets/NOTICE.md"}
    sdist = {"LICENSE", "README.md", "docs/a.md", "PKG-INFO", *(one for one in TRACKED if one.startswith("src"))}
    with zipfile.ZipFile(folder / "evenhand-1.2.3-py3-none-any.whl", "w") as archive:
        for name in (wheel - {without}) | ({added} if added else set()):
            archive.writestr(name, "1.2.3\n")
    with tarfile.open(folder / "evenhand-1.2.3.tar.gz", "w:gz") as archive:
        for name in (sdist - {without}) | ({added} if added else set()):
            archive.addfile(tarfile.TarInfo(f"evenhand-1.2.3/{name}"), io.BytesIO())


@pytest.mark.parametrize("without", ["evenhand/py.typed", "docs/a.md", "evenhand-1.2.3.dist-info/licenses/LICENSE"])
def test_a_missing_file_and_a_stray_one_are_named(tmp_path, without):
    build(tmp_path)
    assert check_distributions.check(tmp_path, TRACKED) == []
    build(tmp_path, without=without)
    (line,) = check_distributions.check(tmp_path, TRACKED)
    assert line.endswith(f": missing: {without}")
    build(tmp_path, added="notes.txt")
    assert [line.partition(": ")[2] for line in check_distributions.check(tmp_path, TRACKED)] == [
        "unexpected: notes.txt"
    ] * 2


WITHOUT = """
import importlib.abc, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {optional!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
DECLARED = {re.match(r"[\w-]+", one).group() for extra, some in EXTRAS.items() if extra != "docs" for one in some}
OPTIONAL = {name.replace("-", "_") for name in DECLARED - {"evenhand"}} | {"PIL", "docx", "mlflow", "opentelemetry"}
OPTIONAL |= {"keras", "lightgbm", "matplotlib", "skl2onnx", "xgboost"}
"""Modules of optional libraries."""


def run(code, cwd):
    command = [sys.executable, "-c", WITHOUT.format(optional=OPTIONAL) + code]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.mark.full
def test_an_audit_writes_its_report(tmp_path):
    done = run(
        "from evenhand.cli.main import main\n"
        "sys.argv = ['evenhand', 'audit', '--example', 'german', '--time-limit', '1', '--out', 'report']\n"
        "main()\n",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "report" / "report.html").stat().st_size > 10_000
    assert (tmp_path / "report" / "report.json").stat().st_size > 1_000


def test_a_format_that_needs_an_extra_names_it(tmp_path):
    extras = {".onnx": "onnx", ".h5": "keras", ".keras": "keras", ".skops": "skops", ".cbm": "catboost"}
    for ending in extras:
        (tmp_path / f"model{ending}").write_bytes(b"CBM1 any content")
    done = run(
        "from evenhand.cli.main import main\n"
        f"for ending in {list(extras)}:\n"
        "    sys.argv = ['evenhand', 'audit', f'model{ending}', 'german', '--out', 'report']\n"
        "    try:\n"
        "        main()\n"
        "    except SystemExit as end:\n"
        "        print('exit code', end.code, file=sys.stderr)\n",
        tmp_path,
    )
    messages = done.stderr.split("exit code 2")
    for extra, message in zip(extras.values(), messages, strict=False):
        assert f"'.[{extra}]'" in message
    assert len(messages) == len(extras) + 1
    assert not (tmp_path / "report").exists()


def test_serving_names_its_extra(tmp_path):
    done = run(
        "from evenhand.cli.main import main\nsys.argv = ['evenhand', 'serve', '--port', '0']\nmain()\n", tmp_path
    )
    assert done.returncode == 2, done.stderr
    assert "'.[serve]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
STEPS = {step.get("name", step.get("uses")): step for step in ACTION["runs"]["steps"]}


@pytest.fixture
def run_audit_step(tmp_path):
    """Run the step's script with a command that writes down its arguments, and return these and the step's outputs."""
    command = tmp_path / "bin" / "evenhand"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nimport json, sys\njson.dump(sys.argv[1:], open('given.json', 'w'))\n")
    command.chmod(0o755)

    def run(arguments, conditions=""):
        output = tmp_path / "output"
        output.write_text("")
        environment = os.environ | {"PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}", "OUT": "out dir"}
        environment |= {"ARGUMENTS": arguments, "CONDITIONS": conditions, "GITHUB_OUTPUT": str(output)}
        script = STEPS["Audit"]["run"]
        subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, env=environment, check=True, timeout=60)
        return json.loads((tmp_path / "given.json").read_text()), output.read_text()

    return run


def test_the_action_passes_arguments_and_conditions_as_they_are(run_audit_step, tmp_path):
    given, output = run_audit_step(
        "model.skops 'my people.csv' --protected sex",
        "flip_rate.high > 0.01\n\n  \naccuracy < 0.8; touch $(echo bad)\n",
    )
    assert given[:5] == ["audit", "model.skops", "my people.csv", "--protected", "sex"]
    assert given[5:9] == ["--fail-on", "flip_rate.high > 0.01", "--fail-on", "accuracy < 0.8; touch $(echo bad)"]
    assert given[-5:] == ["--out", "out dir", "--quiet", "--gate-report", "github"]
    assert given.count("--gate-report") == 3
    assert output == "sarif=out dir/evenhand.sarif\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "given.json", "out dir", "output"]


def test_the_action_asks_for_no_files_about_conditions_without_any(run_audit_step):
    given, output = run_audit_step("--example german")
    assert given == ["audit", "--example", "german", "--out", "out dir", "--quiet", "--gate-report", "github"]
    assert output == ""


def test_every_input_is_used_and_reaches_scripts_as_a_variable():
    text = (ROOT / "action.yml").read_text("utf-8")
    assert all(f"inputs.{name}" in text for name in ACTION["inputs"])
    assert all("${{" not in step.get("run", "") for step in STEPS.values())


def test_the_hook_runs_a_command_that_exists():
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    words = hook["entry"].split()
    assert words[:2] == ["evenhand", "audit"]
    command = [sys.executable, "-c", "from evenhand.cli.main import app; app()", *words[1:], "--help"]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert all(option in run.stdout for option in words[2:])
