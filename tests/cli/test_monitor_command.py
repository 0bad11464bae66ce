"""``evenhand monitor``: alarms of files, growing files and standard input; state, page, JSON; bad input is refused."""

import json
import os
import random
import subprocess
import sys
from contextlib import suppress

import pytest

from evenhand.errors import FetchError
from evenhand.monitoring import LineFile, MonitorResult
from evenhand.monitoring.lines import LinePipe
from evenhand.monitoring.webhook import AlarmPoster
from evenhand.testing import HttpAnswer, LocalServer
from support import ROOT

COMMAND = (sys.executable, "-c", "from evenhand.cli.main import main; main()")

CONFIG = """\
groups: {by: [sex], values: {sex: [female, male]}}
watch: [{gap: selection_rate, tolerance: 0.02}]
seed: 3
"""


def decisions(n, *, rates=(0.2, 0.5), seed=0):
    drawn = random.Random(seed)
    lines = []
    for i in range(n):
        sex = drawn.choice(["female", "male"])
        made = drawn.random() < rates[sex == "male"]
        lines.append(json.dumps({"id": f"{seed}-{i}", "sex": sex, "decision": int(made)}))
    return lines


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "monitor.yaml").write_text(CONFIG)
    (tmp_path / "decisions.jsonl").write_text("\n".join(decisions(3000)) + "\n")
    (tmp_path / "fair.jsonl").write_text("\n".join(decisions(1000, rates=(0.5, 0.5), seed=1)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


WATCH = ("monitor", "--config", "monitor.yaml")


def test_an_alarm_is_exit_code_1_with_screen_json_and_page(evenhand, folder):
    ran = evenhand(*WATCH, "decisions.jsonl", "--json", "found.json", "--html", "page.html", code=1)
    assert "CAUTION: 1 alarm." in ran.out
    assert "the selection rate of female is below that of male by more than 2 points" in " ".join(ran.out.split())
    result = MonitorResult.from_json((folder / "found.json").read_text())
    assert result.decisions == 3000
    page = (folder / "page.html").read_text()
    assert page.count("<script") == 1


def test_no_alarm_is_exit_code_0_and_the_last_line_needs_no_end(evenhand, folder):
    ran = evenhand(*WATCH, "fair.jsonl", "--json", "-")
    assert ran.json["decisions"] == 1000
    assert ran.json["alarms"] == []


def test_a_state_goes_on_where_it_stopped(evenhand, folder):
    lines = decisions(3000)
    evenhand(*WATCH, "decisions.jsonl", "--resume", "whole.json", "--quiet", code=1)
    (folder / "grown.jsonl").write_text("\n".join(lines[:100]) + "\n")
    evenhand(*WATCH, "grown.jsonl", "--resume", "state.json", "--quiet")
    (folder / "grown.jsonl").write_text("\n".join(lines) + "\n")
    evenhand(*WATCH, "grown.jsonl", "--resume", "state.json", "--quiet", code=1)
    assert (folder / "state.json").read_text() == (folder / "whole.json").read_text()
    again = evenhand(*WATCH, "grown.jsonl", "--resume", "state.json", "--json", "-", code=1)
    assert again.json["decisions"] == 3000
    assert len(again.json["alarms"]) == 1


def test_another_file_is_read_from_its_beginning_and_said(evenhand, folder):
    evenhand(*WATCH, "decisions.jsonl", "--resume", "state.json", "--quiet", code=1)
    ran = evenhand(*WATCH, "fair.jsonl", "--resume", "state.json", code=1)
    assert "is not the file that was read before" in ran.err
    assert "4,000 decisions" in ran.out


def test_following_ends_at_the_first_alarm_if_it_is_to(evenhand, folder):
    ran = evenhand(*WATCH, "decisions.jsonl", "--follow", "--stop", code=1)
    (line,) = map(json.loads, ran.out.splitlines())
    assert line["alarm"]["first"] == "female"
    assert line["alarm"]["direction"] == "below"


def test_standard_input_prints_alarms_and_audits_as_lines(folder):
    (folder / "audits.yaml").write_text(
        CONFIG.replace("watch: [", "labels: {audited_with: 0.1}\nwatch: [{gap: base_rate, tolerance: 0.1}, ")
    )
    text = (folder / "decisions.jsonl").read_text()
    command = [*COMMAND, "monitor", "--config", folder / "audits.yaml", "-"]
    ran = subprocess.run(command, input=text, capture_output=True, text=True, check=False, cwd=ROOT)
    assert ran.returncode == 1, ran.stderr
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    assert 250 < sum("audit" in line for line in found) < 350
    assert sum("alarm" in line for line in found) == 1


def test_tables_and_the_log_of_a_served_shield(evenhand, folder):
    rows = [json.loads(line) for line in decisions(3000)]
    (folder / "table.csv").write_text(
        "\n".join(["id,sex,decision", *(f"{row['id']},{row['sex']},{row['decision']}" for row in rows)])
    )
    assert evenhand(*WATCH, "table.csv", "--json", "-", code=1).json["decisions"] == 3000
    (folder / "shield.yaml").write_text(CONFIG.replace("sex", "group"))
    entries = [{"stream": "loans", "number": 0, "previous": "0" * 64, "body": {"kind": "shield"}}]
    for row in rows:
        given = {"op": "decide", "id": str(row["id"]), "group": row["sex"], "recommendation": 1}
        entries.append({"previous": "f00", "body": {"input": given, "output": {"decision": row["decision"]}}})
    (folder / "log.jsonl").write_text("\n".join(map(json.dumps, entries)))
    ran = evenhand("monitor", "--config", "shield.yaml", "log.jsonl", "--json", "-", code=1)
    assert ran.json["decisions"] == 3000
    assert ran.json["skipped"] == 0


def test_lines_that_cannot_be_read_are_said_and_counted(evenhand, folder):
    text = (folder / "fair.jsonl").read_text()
    (folder / "messy.jsonl").write_text(f'\n{{"sex": \n{text}\n[1]\n{{"sex": "male", "decision": []}}\n\n')
    ran = evenhand(*WATCH, "messy.jsonl")
    assert "note: line 2 is skipped: this is not JSON" in ran.err
    assert "expected a word or a number in 'decision', got []" in ran.err
    assert "3 lines that could not be read" in ran.out


def write_words(folder, words, *, name="words.jsonl", fields="{favourable: hired, unfavourable: [rejected]}"):
    (folder / "monitor.yaml").write_text(f"{CONFIG}fields: {fields}\n")
    rows = [{"id": i, "sex": ["female", "male"][i % 2], "decision": word} for i, word in enumerate(words)]
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize("word", ["withdrawn", "Hired", "N/A"])
def test_a_word_without_a_meaning_is_an_error_with_its_count_and_line(evenhand, folder, word):
    write_words(folder, [*["hired", "hired", "rejected", "rejected"] * 10, word, "hired", word])
    ran = evenhand(*WATCH, "words.jsonl", code=2)
    assert word in ran.err
    assert "2 lines, the first of them line 41" in ran.err


def test_words_of_a_stream_are_named_and_exit_with_3(folder):
    write_words(folder, ["hired", "hired", "rejected", "rejected", "withdrawn"] * 20)
    command = [*COMMAND, "monitor", "--config", folder / "monitor.yaml", "-"]
    text = (folder / "words.jsonl").read_text()
    ran = subprocess.run(command, input=text, capture_output=True, text=True, check=False, cwd=ROOT)
    assert ran.returncode == 3, ran.stderr
    assert "20 lines, the first of them line 5" in ran.stderr


@pytest.mark.parametrize(
    ("words", "fields", "absent"),
    [
        (["hired", "rejected"], "{favourable: offered, unfavourable: [hired, rejected]}", ["offered"]),
        ([1, 0], "{}", ["x"]),
    ],
)
def test_a_configured_value_that_never_occurs_exits_with_3(evenhand, folder, words, fields, absent):
    write_words(folder, [word for word in words for _ in range(2)] * 30, fields=fields)
    if "x" in absent:
        config = (folder / "monitor.yaml").read_text()
        (folder / "monitor.yaml").write_text(config.replace("[female, male]", "[female, male, x]"))
    ran = evenhand(*WATCH, "words.jsonl", "--json", "-", code=3)
    assert [entry.split(": ")[-1] for entry in ran.json["absent"]] == absent


def test_a_monitor_that_compared_no_groups_exits_with_3(evenhand, folder):
    text = (folder / "decisions.jsonl").read_text().replace("female", "F").replace("male", "M")
    (folder / "renamed.jsonl").write_text(text)
    ran = evenhand(*WATCH, "renamed.jsonl", "--json", "found.json", code=3)
    assert "No alarm" not in ran.out
    result = MonitorResult.from_json((folder / "found.json").read_text())
    assert not result.compared
    assert set(result.uncompared["sex"]) == {"F", "M"}
    assert sum(result.uncompared["sex"].values()) == 3000


@pytest.mark.parametrize(("name", "separator"), [("table.csv", ";"), ("table.tsv", "\t")])
def test_the_separator_of_a_table_is_found_and_kept_across_runs(evenhand, folder, name, separator):
    names = ["id", "sex", "decision"]
    rows = [names, *([str(row[name]) for name in names] for row in map(json.loads, decisions(400)))]
    for end in (201, 401):
        (folder / name).write_text("".join(separator.join(row) + "\n" for row in rows[:end]))
        ran = evenhand(*WATCH, name, "--resume", "kept.json", "--json", "-", code=(0, 1))
        assert (ran.json["decisions"], ran.json["skipped"]) == (end - 1, 0)


def test_quoted_line_breaks_are_read_across_runs(evenhand, folder):
    rows = [json.loads(line) for line in decisions(400)]
    whole = "id,sex,decision,note\n" + "".join(
        f'{row["id"]},{row["sex"]},{row["decision"]},"a ""b""\nc, {i}\n"\n' for i, row in enumerate(rows)
    )
    (folder / "table.csv").write_text(whole)
    evenhand(*WATCH, "table.csv", "--resume", "whole.json", "--quiet", code=1)
    assert evenhand(*WATCH, "table.csv", "--json", "-", code=1).json["decisions"] == 400
    (folder / "table.csv").write_text(whole + '401,male,1,"not closed\n')
    ran = evenhand(*WATCH, "table.csv", "--json", "-", code=1)
    assert (ran.json["decisions"], ran.json["skipped"]) == (400, 1)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("none.jsonl", None, "there is no file 'none.jsonl'"),
        ("empty.jsonl", b"", "there is no decision in empty.jsonl"),
        ("other.jsonl", b'{"a": 1}\n', "there is no decision in other.jsonl: line 1: there is no 'decision'"),
        ("bytes.jsonl", b"\xff\xfe\x00", "this is not JSON"),
        ("state.json", b"{}", "expected the state of a monitor"),
        ("monitor.yaml", b"groups: {by: [sex]}\nwatch: [{gap: selection, tolerance: 1}]", "got 'selection'"),
    ],
)
def test_bad_files_are_refused(refuses, folder, name, text, said):
    if text is not None:
        (folder / name).write_bytes(text)
    data = name if name.endswith(".jsonl") else "fair.jsonl"
    refuses(said, *WATCH, data, "--quiet", *(["--resume", name] if name == "state.json" else []))


def test_alarms_are_posted(evenhand, folder, monkeypatch):
    monkeypatch.setattr("evenhand.monitoring.webhook.RETRIES", 0)
    posted = []

    class Hook(LocalServer):
        def answer(self, path, headers, body):
            posted.append(json.loads(body))
            assert headers["idempotency-key"] == posted[-1]["id"]
            return HttpAnswer(204, {}, b"")

    with Hook() as server:
        (folder / "monitor.yaml").write_text(f"{CONFIG}webhook: {server.root}/secret\n")
        evenhand(*WATCH, "decisions.jsonl", "--quiet", code=1)
    assert posted[0]["monitor"] == "decisions.jsonl"
    assert posted[0]["alarm"]["first"] == "female"
    (folder / "monitor.yaml").write_text(CONFIG + "webhook: http://127.0.0.1:9/secret\n")
    ran = evenhand(*WATCH, "decisions.jsonl", code=1)
    assert "an alarm could not be posted" in ran.err
    assert "it is lost" in ran.err
    assert "secret" not in ran.err


def test_an_alarm_that_is_not_taken_is_posted_by_the_next_run_once_and_with_the_same_id(evenhand, folder, monkeypatch):
    posted, refusals = [], iter([True])

    def ask(client, method, url, headers, secrets, body):
        posted.append(headers["Idempotency-Key"])
        if next(refusals, False):
            raise FetchError("the webhook does not answer")

    monkeypatch.setattr("evenhand.core.http.HttpClient.ask", ask)
    (folder / "monitor.yaml").write_text(CONFIG + "webhook: http://127.0.0.1:9/hook\n")
    ran = evenhand(*WATCH, "decisions.jsonl", "--resume", "state.json", code=1)
    assert "the next run with this --resume does" in ran.err
    for _ in range(2):
        assert "note" not in evenhand(*WATCH, "decisions.jsonl", "--resume", "state.json", code=1).err
    assert len(posted) == 2
    assert posted[0] == posted[1]


def test_alarms_are_posted_with_pauses_that_become_longer(monkeypatch):
    now, tried, kept = [0.0], [], []

    def post(alarm, url, *, monitor, retries):
        tried.append(now[0])
        if now[0] < 20 or alarm == "b":
            raise FetchError("the webhook does not answer")

    monkeypatch.setattr("evenhand.monitoring.webhook.post_alarm", post)
    poster = AlarmPoster("http://127.0.0.1:9", "loans", steady=lambda: now[0])
    for second in range(40):
        now[0] = float(second)
        with suppress(FetchError):
            poster.post(("a", "b"), len(kept), kept.append)
    assert tried[:6] == [0, 1, 3, 7, 15, 31]
    assert kept == [1]  # the first was taken at 31, the second was not
    assert tried[6:] == [31, 32, 34, 38]


# Files that grow, are replaced and are cut.


def test_lines_of_a_file_that_grows_is_replaced_and_cut(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"one\ntw")
    lines = LineFile(path)
    assert lines.read() == [b"one"]
    assert lines.read() == []
    with path.open("ab") as file:
        file.write(b"o\nthree")
    assert lines.read() == [b"two"]
    assert lines.read(last=True) == [b"three"]
    assert not lines.reopen()
    (tmp_path / "new").write_bytes(b"four\n")
    (tmp_path / "new").replace(path)
    assert lines.reopen()
    assert lines.read() == [b"four"]
    path.write_bytes(b"5\n")
    assert lines.reopen()
    assert lines.read() == [b"5"]
    lines.close()


def test_a_line_ends_at_a_line_feed_alone(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"a\r\n\nb\rc\n\xc2\x85d\n")
    lines = LineFile(path)
    assert lines.read() == [b"a\r", b"", b"b\rc", b"\xc2\x85d"]
    assert lines.read() == []
    lines.close()


def test_lines_of_a_pipe(tmp_path):
    reader, writer = os.pipe()
    lines = LinePipe(reader)
    os.write(writer, b"one\ntw")
    assert lines.read() == [b"one"]
    assert lines.read() == []
    os.write(writer, b"o")
    os.close(writer)
    assert lines.read() == []
    assert lines.read() == [b"two"]
    assert lines.ended
    os.close(reader)


@pytest.mark.full
def test_a_killed_monitor_goes_on_with_the_same_bits(evenhand, folder):
    lines = decisions(3000)
    evenhand(*WATCH, "decisions.jsonl", "--resume", "whole.json", "--quiet", code=1)
    command = [*COMMAND, "monitor", "--config", folder / "monitor.yaml", folder / "grown.jsonl", "--follow"]
    (folder / "grown.jsonl").touch()
    written = 0
    for size in (700, 1900):
        with subprocess.Popen(
            [*command, "--resume", folder / "state.json"], stdout=subprocess.PIPE, cwd=ROOT
        ) as process:
            with (folder / "grown.jsonl").open("a") as file:
                file.write("\n".join(lines[written:size]) + "\n" + lines[size][:9])
                file.flush()
                assert process.stdout is not None
                if not written:
                    assert b"alarm" in process.stdout.readline()  # now it is in the middle of its work
                file.write(lines[size][9:] + "\n")
            written = size + 1
            process.kill()
    with (folder / "grown.jsonl").open("a") as file:
        file.write("\n".join(lines[written:]) + "\n")
    evenhand(*WATCH, "grown.jsonl", "--resume", "state.json", "--quiet", code=1)
    assert (folder / "state.json").read_text() == (folder / "whole.json").read_text()
