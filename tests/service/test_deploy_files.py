"""Files for deployment, and a service behind a proxy."""

import json
import re
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from starlette.testclient import TestClient

from evenhand.errors import OptionError
from evenhand.service import ServiceConfig, create_app
from evenhand.service.server import uvicorn_config
from evenhand.service.settings import LimitsConfig, ServerConfig

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
CHART = DEPLOY / "helm" / "evenhand"
METRICS = DEPLOY.parent / "src" / "evenhand" / "service" / "metrics.py"


def _run(*command, **options):
    if shutil.which(str(command[0])) is None:
        pytest.skip(f"there is no {command[0]} here: it comes with Debian or from its publisher")
    done = subprocess.run(
        [str(one) for one in command], capture_output=True, text=True, check=False, timeout=60, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def _figures(text):
    names = set(re.findall(r"\bevenhand_[a-z_]+", text)) - {"evenhand_stream"}
    return {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in names}


def test_alerts_fire_when_they_should_and_not_before():
    assert "SUCCESS: 8 rules" in _run("promtool", "check", "rules", DEPLOY / "monitoring" / "alerts.yaml")
    _run("promtool", "test", "rules", DEPLOY / "monitoring" / "alerts_test.yaml")


@pytest.mark.parametrize("name", ["alerts.yaml", "grafana.json"])
def test_figures_are_those_that_the_service_has(name):
    known = _figures(METRICS.read_text("utf-8"))
    assert _figures((DEPLOY / "monitoring" / name).read_text("utf-8")) <= known


def test_every_question_of_the_dashboard_is_one_that_prometheus_understands(tmp_path):
    board = json.loads((DEPLOY / "monitoring" / "grafana.json").read_text("utf-8"))
    places = [tuple(panel["gridPos"].values()) for panel in board["panels"]]
    assert len(set(places)) == len(places)
    rules = [
        {"record": f"panel_{panel['id']}_{one['refId']}", "expr": one["expr"].replace("$stream", ".*")}
        for panel in board["panels"]
        for one in panel["targets"]
    ]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}), "utf-8")
    assert f"SUCCESS: {len(rules)} rules" in _run("promtool", "check", "rules", path)


@pytest.mark.parametrize("name", ["nginx.conf", "nginx-compose.conf"])
def test_nginx_takes_its_configuration(name, tmp_path):
    text = (DEPLOY / name).read_text("utf-8").replace("/etc/ssl/evenhand", str(tmp_path))
    text = re.sub(r"server evenhand-(\d):", r"server 127.0.0.\1:", text)
    if shutil.which("openssl") and "ssl_certificate" in text:
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        files = ["-keyout", tmp_path / "key.pem", "-out", tmp_path / "fullchain.pem"]
        _run("openssl", "req", "-x509", *curve, "-nodes", "-subj", "/CN=x", *files)
    whole = tmp_path / "nginx.conf"
    whole.write_text(
        f"pid {tmp_path}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n{text}\n}}\n", "utf-8"
    )
    assert "test is successful" in _run("nginx", "-t", "-c", whole, "-p", tmp_path)


def test_caddy_takes_its_configuration():
    _run("caddy", "validate", "--adapter", "caddyfile", "--config", DEPLOY / "Caddyfile")


def _find(value, name):
    """Return the values under a name anywhere in JSON."""
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = [value[name]] if isinstance(value, dict) and name in value else []
    return own + [found for child in children for found in _find(child, name)]


def test_caddy_blocks_metrics_before_it_forwards_anything():
    adapted = json.loads(_run("caddy", "adapt", "--config", DEPLOY / "Caddyfile").partition("\n")[0])
    routes = [route for routes in _find(adapted, "routes") for route in routes if "group" in route]
    assert len(routes) == 3
    assert len({route["group"] for route in routes}) == 1, "only the first matching route applies"
    assert routes[0]["match"][0]["path"] == ["/metrics"]
    assert _find(routes[0], "status_code") == [403]
    assert "match" not in routes[-1]


def _seconds(text, pattern):
    return [int(number) for number in re.findall(pattern, text)]


def test_stop_times_are_longer_than_the_longest_stop_of_the_service():
    longest = ServerConfig().drain_seconds + LimitsConfig().upstream_seconds
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    unit, compose = ((DEPLOY / name).read_text("utf-8") for name in ("evenhand.service", "compose.yaml"))
    stops = _seconds(unit, r"TimeoutStopSec=(\d+)") + _seconds(compose, r"stop_grace_period: (\d+)s")
    assert len(stops) == 2
    assert min(*stops, values["terminationGracePeriodSeconds"] - values["preStopSeconds"]) > longest + 10


def test_proxies_take_the_largest_request_and_wait_for_the_slowest_answer():
    limits = LimitsConfig()
    nginx = [(DEPLOY / name).read_text("utf-8") for name in ("nginx.conf", "nginx-compose.conf")]
    for text in nginx:
        assert min(_seconds(text, r"client_max_body_size (\d+)m")) * 2**20 >= limits.body_bytes
        assert min(_seconds(text, r"proxy_read_timeout (\d+)s")) > limits.upstream_seconds
        assert "proxy_buffering off" in re.search(r"location / \{(.*?)\}", text, re.DOTALL)[1]
    caddy = (DEPLOY / "Caddyfile").read_text("utf-8")
    assert min(_seconds(caddy, r"max_size (\d+)MB")) * 10**6 >= limits.body_bytes


def test_systemd_takes_the_unit(tmp_path):
    text = (DEPLOY / "evenhand.service").read_text("utf-8").replace("/opt/evenhand/bin/evenhand", "/bin/true")
    unit = tmp_path / "evenhand.service"
    unit.write_text(text, "utf-8")
    said = _run("systemd-analyze", "verify", unit)
    assert "evenhand.service" not in said


@pytest.mark.parametrize("source", ["evenhand.toml", "values.yaml"])
def test_what_is_served_makes_sense(source, tmp_path):
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    path = tmp_path / "evenhand.toml"
    path.write_text(values["config"] if source == "values.yaml" else (DEPLOY / source).read_text("utf-8"), "utf-8")
    assert [one.name for one in ServiceConfig.read(path).shields] == ["loans"]


def test_helm_takes_the_chart():
    assert "0 chart(s) failed" in _run("helm", "lint", CHART)


@pytest.fixture
def behind(described):
    """Makes the client that a proxy is; gives what `uvicorn` serves with more entries under [service]."""
    with ExitStack() as running:

        def start(peer, limits, **service):
            described["service"].update(service)
            described["limits"] = limits
            settings = ServiceConfig.read(described)
            config = uvicorn_config(settings, create_app(settings))
            config.load()
            return running.enter_context(TestClient(config.loaded_app, base_url="http://localhost", client=(peer, 1)))

        yield start


def statuses(client, *forwarded):
    return [client.get("/v1/shields", headers={"x-forwarded-for": one}).status_code for one in forwarded]


@pytest.mark.parametrize(
    ("peer", "trusted", "told_apart"),
    [
        ("10.0.0.7", [], False),
        ("127.0.0.1", [], False),
        ("10.0.0.7", ["10.0.0.8"], False),
        ("10.0.0.7", ["10.0.0.7"], True),
        ("10.0.0.7", ["10.0.0.0/8", "::1"], True),
    ],
)
def test_only_a_trusted_proxy_says_where_a_request_came_from(behind, peer, trusted, told_apart):
    client = behind(peer, {"requests_per_second": 0.001}, trusted_proxies=trusted)
    assert statuses(client, "192.0.2.1", "192.0.2.2", "192.0.2.1") == [200, 200 if told_apart else 429, 429]
    # The proxy adds the address that it saw behind whatever the caller wrote.
    assert statuses(client, "192.0.2.9, 192.0.2.1") == [429]


@pytest.mark.parametrize(
    ("entry", "given", "said"),
    [
        ("trusted_proxies", ["nginx"], "expected an address or a network, got 'nginx'"),
        ("trusted_proxies", ["10.0.0.1/8"], "expected an address or a network, got '10.0.0.1/8'"),
        ("public_url", "fair.example.org", "expected an HTTP URL, got 'fair.example.org'"),
        ("public_url", "https://user@fair.example.org", "expected an HTTP URL"),
        ("public_url", "https://fair.example.org/?x", "expected an HTTP URL"),
    ],
)
def test_what_is_no_address_is_refused(entry, given, said):
    with pytest.raises(OptionError, match=entry) as raised:
        ServiceConfig.read({"service": {entry: given}})
    assert said in str(raised.value)
    assert raised.value.hint.startswith("write ")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"origin": "https://fair.example.org"}, 401),
        ({"origin": "http://localhost"}, 401),
        ({"origin": "https://other.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site", "origin": "https://fair.example.org"}, 403),
        ({"sec-fetch-site": "same-origin"}, 401),
    ],
)
def test_only_the_services_own_page_logs_in(described, serving_client, headers, status):
    described["service"].update(keys=True, public_url="https://fair.example.org")
    client = serving_client(ServiceConfig.read({"service": described["service"]}))
    answer = client.post("/login", data={"key": "wrong"}, headers=headers)
    assert answer.status_code == status
    assert ("page of another site" in answer.text) == (status == 403)
