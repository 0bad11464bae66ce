"""Backups: what was acknowledged before one is in it, its logs replay, and a store that is made from it goes on."""

import pytest
from service_settings import write_toml
from sqlalchemy import update
from worked_streams import PARITY, open_worked

from evenhand.errors import StoreError
from evenhand.service import Database, KeyStore, ServiceConfig, replay_stored_logs
from evenhand.service.store.database import read_heads
from evenhand.service.store.tables import entries
from evenhand.service.store.upkeep import copy_store

SHIELD = {"shields": [{"name": "loans", "plan": PARITY}]}


def _fill(database, count):
    ledger = open_worked(database, SHIELD)
    for n in range(count):
        asked = {"op": "decide", "id": f"{n}", "group": ("women", "men")[n % 2], "recommendation": n % 3 % 2}
        ledger.submit("loans", asked, id=f"{n}").result(30)
    return ledger


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_copy_has_all_that_was_acknowledged_and_goes_on(kind, new_store_url, tmp_path):
    source, middle = Database(new_store_url(kind)), Database(f"sqlite:///{tmp_path / 'backup'}")
    ledger = _fill(source, 12)
    with KeyStore(source) as ring:
        ring.add("ann", ["decide"])
    heads = copy_store(source, middle)
    # What comes after the copy is not in it.
    ledger.submit("loans", {"op": "decide", "id": "late", "group": "men", "recommendation": 1}, id="late").result(30)
    ledger.close()
    assert replay_stored_logs(middle, heads={name: last for name, (_, last) in heads.items()}).all_agree
    target = Database(new_store_url(kind))
    assert copy_store(middle, target) == heads
    with pytest.raises(StoreError, match="not empty"):
        copy_store(middle, target)
    _fill(target, 14).close()  # The first 12 are asked again, and answered as they were.
    with target.reading() as connection:
        assert read_heads(connection)["loans"][0] == 14
    assert replay_stored_logs(target).all_agree
    for one in (source, middle, target):
        one.close()


def test_the_commands_prove_what_they_copied(evenhand, tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.toml").write_text(write_toml({"service": {"database": f"sqlite:///{name}.db"}, **SHIELD}))
    settings = ServiceConfig.read(tmp_path / "one.toml")
    database = Database(settings.service.database)
    _fill(database, 25).close()
    backup, config = tmp_path / "monday.backup", ("--config", tmp_path / "one.toml")
    code, out, _ = evenhand("store", "backup", backup, *config)
    assert code == 0
    assert f"{backup} has 1 log; the replay confirmed every entry" in out
    assert list(tmp_path.glob("*.partial*")) == []
    code, _, err = evenhand("store", "backup", backup, *config)
    assert (code, "exists" in err) == (2, True)
    code, again, _ = evenhand("store", "restore", backup, "--config", tmp_path / "two.toml")
    assert (code, out.splitlines()[1:]) == (0, again.splitlines()[1:])
    code, _, err = evenhand("store", "restore", backup, "--config", tmp_path / "two.toml")
    assert (code, "not empty" in err) == (2, True)
    code, _, err = evenhand("store", "restore", tmp_path / "no", "--config", tmp_path / "two.toml")
    assert (code, "there is no file" in err) == (2, True)
    with database.transaction() as connection:
        connection.execute(update(entries).where(entries.c.number == 7).values(at=1.0))
    database.close()
    code, _, err = evenhand("store", "backup", tmp_path / "tuesday", *config)
    assert (code, "the log of 'loans' differs: entry 7: the entry was changed" in err) == (1, True)
    assert not (tmp_path / "tuesday").exists()
