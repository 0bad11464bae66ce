"""Monitors of the service: events over HTTP, of a shield, after restarts; figures, pages and webhooks."""

import itertools
import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from prometheus_client.parser import text_string_to_metric_families
from service_settings import WATCH as UNSEEDED
from sqlalchemy import select, update

from evenhand import view
from evenhand.errors import FetchError, OptionError
from evenhand.monitoring import Monitor, MonitorResult, write_state
from evenhand.service import Database, Ledger, ServiceConfig, copy_store, replay_stored_logs
from evenhand.service import monitor_machine as machines
from evenhand.service.api.context import build_streams
from evenhand.service.monitors import ServedMonitor, build_monitor_machine
from evenhand.service.replay.replay import replay_log
from evenhand.service.store.database import read_log
from evenhand.service.store.tables import entries, streams

WATCH = {**UNSEEDED, "seed": 1}
OF_SHIELD = {
    "groups": {"by": ["group"], "values": {"group": ["men", "women"]}},
    "watch": [{"gap": "selection_rate", "tolerance": 0.02}],
    "fields": {"decision": "recommendation"},
}


@pytest.fixture
def watched(described):
    """The service's file with a monitor of events and one of a shield."""
    described["monitors"] = [
        {"name": "hiring", "config": WATCH},
        {"name": "loans-gap", "config": OF_SHIELD, "shield": "loans"},
    ]
    return described


@pytest.fixture
def watching(watched, serving_client):
    """Starts replicas of this service as the file describes it now."""
    return lambda: serving_client(ServiceConfig.read(watched))


def events(n, *, seed=0, rates=(0.2, 0.5)):
    drawn = random.Random(seed)
    found = []
    for i in range(n):
        sex = drawn.choice(["female", "male"])
        found.append({"id": f"{seed}-{i}", "sex": sex, "decision": int(drawn.random() < rates[sex == "male"])})
    return found


def state_of(client, name="hiring"):
    return write_state(client.app.state.context.monitors[name]._follow().monitor)


def test_events_raise_an_alarm_once_and_after_a_restart_it_is_still_there(watching):
    client = watching()
    batches = [events(500, seed=seed) for seed in range(3)]
    posted = [client.post("/v1/monitors/hiring/events", json={"events": batch}).json() for batch in batches]
    assert [one["decisions"] for one in posted] == [500, 1000, 1500]
    alarms = [alarm for one in posted for alarm in one["alarms"]]
    assert [alarm["direction"] for alarm in alarms] == ["below"]
    assert "selection rate of female is below that of male" in alarms[0]["text"]
    again = watching()
    result = MonitorResult.from_json(again.get("/v1/monitors/hiring").text)
    assert result.decisions == 1500
    assert len(result.alarms) == 1
    whole = Monitor(WATCH)
    whole.add(itertools.chain(*batches))
    assert write_state(whole) == state_of(again)


def test_a_batch_counts_once_however_often_it_is_sent_and_two_replicas_share_it(watching):
    first, second = (watching() for _ in range(2))
    batches = [{"events": events(50, seed=number), "batch": f"b{number}"} for number in range(8)]

    def send(number):
        client = (first, second)[number % 2]
        return client.post("/v1/monitors/hiring/events", json=batches[number // 2]).json()["repeated"]

    with ThreadPoolExecutor(4) as pool:
        repeated = list(pool.map(send, range(16)))
    assert sum(repeated) == 8
    assert first.get("/v1/monitors/hiring").json()["decisions"] == 400
    assert second.get("/v1/monitors/hiring").json()["decisions"] == 400


def test_events_that_cannot_be_read_are_refused_and_none_is_taken(watching):
    client = watching()
    bad = [*events(5), {"sex": "male", "decision": "perhaps"}]
    answer = client.post("/v1/monitors/hiring/events", json={"events": bad})
    assert answer.status_code == 422
    assert "event 6: expected 1 or 0 in 'decision', got 'perhaps'" in answer.json()["error"]["message"]
    assert client.get("/v1/monitors").json()["monitors"][0]["decisions"] == 0
    assert client.post("/v1/monitors/none/events", json={"events": []}).status_code == 404
    assert client.post("/v1/monitors/loans-gap/events", json={"events": []}).status_code == 422


def test_what_a_shield_decides_is_taken_once(watching):
    client = watching()
    drawn = random.Random(1)
    decisions = [
        {"id": str(i), "group": group, "recommendation": int(drawn.random() < {"women": 0.1, "men": 0.7}[group])}
        for i in range(600)
        for group in [drawn.choice(["women", "men"])]
    ]
    for start in range(0, 600, 200):
        client.post("/v1/shields/loans/decisions/batch", json={"decisions": decisions[start : start + 200]})
    monitor = client.app.state.context.monitors["loans-gap"]
    monitor.catch_up()
    assert monitor.catch_up() == 0
    result = client.get("/v1/monitors/loans-gap").json()
    assert result["decisions"] == 600
    assert [alarm["first"] for alarm in result["alarms"]] == ["men"]


def test_figures_name_no_group_and_the_page_stands_alone(watching):
    client = watching()
    client.post("/v1/monitors/hiring/events", json={"events": events(1500)})
    text = client.get("/metrics").text
    samples = {
        (one.name, *(one.labels[name] for name in ("monitor", "measure") if name in one.labels)): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
        if "monitor" in one.name
    }
    assert samples[("evenhand_monitor_alarms", "hiring")] == 1
    assert samples[("evenhand_monitor_decisions", "loans-gap")] == 0
    assert 0.2 < samples[("evenhand_monitor_gap", "hiring", "selection_rate gap")] < 0.4
    assert "female" not in text
    assert client.get("/v1/dashboard").json()["monitors"] == ["hiring", "loans-gap"]
    page = client.get("/monitors/hiring")
    allowed = page.headers["content-security-policy"]
    assert allowed.startswith(f"script-src {view.SCRIPT_HASH}; default-src 'none'; ")
    assert "an alarm at decision" in page.text


def test_an_alarm_is_posted_until_somebody_takes_it(watched, watching, monkeypatch):
    watched["monitors"][0]["config"] = {**WATCH, "webhook": "http://127.0.0.1:9/hook"}
    taken, refusals, now = [], iter([True]), [0.0]

    def post(alarm, url, *, monitor, retries):
        if next(refusals, False):
            raise FetchError("the webhook does not answer")
        taken.append((monitor, alarm.first, url))

    monkeypatch.setattr("evenhand.monitoring.webhook.post_alarm", post)
    monkeypatch.setattr("evenhand.service.background.PeriodicThread.start", lambda thread: None)
    client = watching()
    context = client.app.state.context
    monkeypatch.setattr(context.monitors["hiring"]._poster, "_steady", lambda: now[0])
    client.post("/v1/monitors/hiring/events", json={"events": events(1500)})
    context.monitor_thread.run_once()
    context.monitor_thread.run_once()
    assert taken == []  # the pause goes on
    for now[0] in (2.0, 4.0):
        context.monitor_thread.run_once()
    assert taken == [("hiring", "female", "http://127.0.0.1:9/hook")]
    # The log says that it was posted: a replica that starts later does not post it.
    assert context.monitors["hiring"]._follow().posted == 1


def test_a_monitor_of_no_shield_and_one_of_other_groups_are_refused(watched, watching):
    watched["monitors"][1]["shield"] = "loan"
    with pytest.raises(OptionError, match="there is no shield 'loan'"):
        ServiceConfig.read(watched)
    watched["monitors"][1] |= {"shield": "loans", "config": WATCH}
    with pytest.raises(OptionError, match="compare the shield's groups"):
        watching()


AUDITED = {
    "groups": {"by": ["sex"], "learn": 20},
    "watch": [{"gap": "base_rate", "tolerance": 0.05}, {"gap": "selection_rate", "tolerance": 0.02}],
    "labels": {"audited_with": 0.5},
}


def audited_events(n, *, seed=0):
    return [{**one, "id": f"{seed}-{one['id']}"} for one in events(n, seed=seed)]


class Process:
    """A process with one monitor, as far as the store sees it."""

    def __init__(self, settings):
        self.database = Database(settings.service.database)
        self.ledger = Ledger(self.database, build_streams(settings).machines)
        entry = settings.monitors[0]
        own = build_monitor_machine(entry, settings.folder)
        self.monitor = ServedMonitor(self.database, self.ledger, entry, own)

    def end(self):
        self.ledger.close()
        self.database.close()


def settings_of(tmp_path, config, name="evenhand"):
    return ServiceConfig.read(
        {"service": {"database": f"sqlite:///{tmp_path / name}.db"}, "monitors": [{"name": "hiring", "config": config}]}
    )


@pytest.mark.parametrize("config", [AUDITED, {**AUDITED, "seed": 7}])
def test_a_process_that_ends_at_any_point_leaves_a_monitor_that_goes_on_bit_by_bit(tmp_path, monkeypatch, config):
    monkeypatch.setattr(machines, "MOST_OPERATIONS", 4)
    settings = settings_of(tmp_path, config)
    steady, audits = Process(settings), []
    for number in range(11):
        # What a process left is taken up by another one, which may have gone another way in memory.
        now = Process(settings)
        made = now.monitor.add(audited_events(9, seed=number), batch=f"b{number}")
        assert now.monitor.add(audited_events(9, seed=number), batch=f"b{number}").answer == made.answer
        audits += made.answer["audits"]
        if number % 3 == 2:
            now.monitor.add([{"id": id, "label": i % 2} for i, id in enumerate(audits)])
            audits.clear()
        assert write_state(steady.monitor._follow().monitor) == write_state(now.monitor._follow().monitor)
        with now.database.reading() as connection:
            row = connection.execute(select(streams.c.number, streams.c.state_number)).one()
        assert row.number - row.state_number < 4
        now.end()
    found = steady.monitor._follow().monitor
    assert (found.decisions, found.labels > 10, found.unmatched) == (99, True, 0)
    if config.get("seed") is not None:
        alone = Monitor(config)
        audits.clear()
        for number in range(11):
            update_ = alone.add(audited_events(9, seed=number))
            audits += update_.audits
            if number % 3 == 2:
                alone.add([{"id": id, "label": i % 2} for i, id in enumerate(audits)])
                audits.clear()
        assert write_state(alone) == write_state(found)
    (replay,) = replay_stored_logs(steady.database).replays
    assert replay.all_agree, replay.difference
    assert replay.operations["events"] == 14
    steady.end()


def test_what_is_changed_in_the_log_or_the_state_of_a_monitor_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(machines, "MOST_OPERATIONS", 3)
    one = Process(settings_of(tmp_path, AUDITED))
    for number in range(5):
        one.monitor.add(audited_events(10, seed=number))
    with one.database.reading() as connection:
        row = connection.execute(select(streams)).one()
        bodies = dict(connection.execute(select(entries.c.number, entries.c.body)).all())
    assert (row.number, row.state_number) == (5, 3)
    stream, fourth = streams.c.name == "hiring", entries.c.number == 4
    state = row.state.replace('"decisions": 30', '"decisions": 31')
    body = bodies[4].replace('"male"', '"female"', 1)
    for table, where, values, said in (
        (streams, stream, {"state": state}, "the stored state does not match entry 3"),
        (streams, stream, {"state_number": 2}, "does not match entry 2"),
        (entries, fourth, {"body": body}, "its hash does not match its content"),
    ):
        before = {**row._asdict()} if table is streams else {"body": bodies[4]}
        with one.database.transaction() as connection:
            connection.execute(update(table).where(where).values(**values))
        (replay,) = replay_stored_logs(one.database).replays
        assert said in replay.difference.what
        with one.database.transaction() as connection:
            connection.execute(update(table).where(where).values(**before))
    assert replay_stored_logs(one.database).all_agree
    one.end()


def test_an_exported_log_of_a_monitor_replays_also_from_a_checkpoint_and_after_a_restore(tmp_path):
    one = Process(settings_of(tmp_path, AUDITED))
    for number in range(4):
        one.monitor.add(audited_events(10, seed=number))
        if number == 1:
            one.ledger.checkpoint("hiring").result()
    log = list(read_log(one.database, "hiring"))
    assert replay_log(log).all_agree
    assert replay_log(log[3:]).all_agree
    restored = settings_of(tmp_path, AUDITED, "restored")
    other = Database(restored.service.database)
    copy_store(one.database, other)
    other.close()
    again = Process(restored)
    assert replay_stored_logs(again.database).all_agree
    assert write_state(again.monitor._follow().monitor) == write_state(one.monitor._follow().monitor)
    again.monitor.add(audited_events(10, seed=9))
    assert again.monitor.result().decisions == one.monitor.result().decisions + 10
    again.end()
    one.end()


def test_the_draws_of_audits_are_not_known_before_a_batch_comes(tmp_path):
    drawn = []
    for name in "ab":
        one = Process(settings_of(tmp_path, {**AUDITED, "groups": WATCH["groups"]}, name))
        drawn.append(one.monitor.add(audited_events(60)).answer["audits"])
        drawn.append(one.monitor.add(audited_events(60, seed=1)).answer["audits"])
        one.end()
    assert drawn[0] != drawn[2]
    assert drawn[1] != drawn[3]
