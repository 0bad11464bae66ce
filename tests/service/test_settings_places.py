"""Where a service is: paths in its file start from its folder, and its address is one that may be listened on."""

import pytest

from evenhand.errors import OptionError
from evenhand.service import ServiceConfig
from evenhand.service.settings import demo_config


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("sqlite:///here.db", "sqlite:///{folder}/here.db"),
        ("sqlite:///state/here.db", "sqlite:///{folder}/state/here.db"),
        ("sqlite:////var/lib/evenhand.db", "sqlite:////var/lib/evenhand.db"),
        ("postgresql+psycopg://evenhand@db/evenhand", "postgresql+psycopg://evenhand@db/evenhand"),
    ],
)
def test_a_relative_store_lies_beside_the_file(given, meant, tmp_path, monkeypatch):
    (tmp_path / "evenhand.toml").write_text(f'[service]\ndatabase = "{given}"\n', "utf-8")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert ServiceConfig.read(tmp_path / "evenhand.toml").service.database == meant.format(folder=tmp_path)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "nowhere.invalid"])
def test_a_service_without_keys_listens_to_its_own_machine_alone(host):
    with pytest.raises(OptionError, match="expected keys = true for a service on") as refused:
        demo_config().with_address(host, None)
    assert refused.value.location == "--host"
    assert demo_config().with_address("::1", 8001).service.port == 8001
