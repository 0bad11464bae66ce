"""What `deploy` has, checked by the programs that read it, as far as they are installed."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
CHART = DEPLOY / "helm" / "evenhand"
METRICS = DEPLOY.parent / "src" / "evenhand" / "service" / "metrics.py"


def _run(*command: str | Path, **options: Any) -> str:
    if shutil.which(str(command[0])) is None:
        pytest.skip(f"there is no {command[0]} here: it comes with Debian or from its publisher")
    done = subprocess.run(
        [str(one) for one in command], capture_output=True, text=True, check=False, timeout=60, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def _figures(text: str) -> set[str]:
    names = set(re.findall(r"\bevenhand_[a-z_]+", text)) - {"evenhand_stream"}
    return {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in names}


def test_alerts_fire_when_they_should_and_not_before() -> None:
    assert "SUCCESS: 9 rules" in _run("promtool", "check", "rules", DEPLOY / "monitoring" / "alerts.yaml")
    _run("promtool", "test", "rules", DEPLOY / "monitoring" / "alerts_test.yaml")


@pytest.mark.parametrize("name", ["alerts.yaml", "grafana.json"])
def test_figures_are_those_that_the_service_has(name: str) -> None:
    known = _figures(METRICS.read_text("utf-8"))
    assert _figures((DEPLOY / "monitoring" / name).read_text("utf-8")) <= known


def test_every_question_of_the_dashboard_is_one_that_prometheus_understands(tmp_path: Path) -> None:
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
def test_nginx_takes_its_configuration(name: str, tmp_path: Path) -> None:
    text = (DEPLOY / name).read_text("utf-8").replace("/etc/ssl/evenhand", str(tmp_path))
    text = re.sub(r"server evenhand-(\d):", r"server 127.0.0.\1:", text)
    if shutil.which("openssl") and "ssl_certificate" in text:
        _run(
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-subj",
            "/CN=x",
            "-keyout",
            tmp_path / "key.pem",
            "-out",
            tmp_path / "fullchain.pem",
        )
    whole = tmp_path / "nginx.conf"
    whole.write_text(
        f"pid {tmp_path}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n{text}\n}}\n", "utf-8"
    )
    assert "test is successful" in _run("nginx", "-t", "-c", whole, "-p", tmp_path)


def test_caddy_takes_its_configuration() -> None:
    _run("caddy", "validate", "--adapter", "caddyfile", "--config", DEPLOY / "Caddyfile")


def _find(value: Any, name: str) -> list[Any]:
    """Return the values under a name anywhere in JSON."""
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = [value[name]] if isinstance(value, dict) and name in value else []
    return own + [found for child in children for found in _find(child, name)]


def test_caddy_blocks_metrics_before_it_forwards_anything() -> None:
    adapted = json.loads(_run("caddy", "adapt", "--config", DEPLOY / "Caddyfile").partition("\n")[0])
    routes = [route for routes in _find(adapted, "routes") for route in routes if "group" in route]
    assert len(routes) == 3
    assert len({route["group"] for route in routes}) == 1, "only the first matching route applies"
    assert routes[0]["match"][0]["path"] == ["/metrics"]
    assert _find(routes[0], "status_code") == [403]
    assert "match" not in routes[-1]


def _seconds(text: str, pattern: str) -> list[int]:
    return [int(number) for number in re.findall(pattern, text)]


def test_stop_times_are_longer_than_the_longest_stop_of_the_service() -> None:
    pytest.importorskip("fastapi", reason="needs the extra serve")
    from evenhand.service.settings import LimitsConfig, ServerConfig

    longest = ServerConfig().drain_seconds + LimitsConfig().upstream_seconds
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    unit, compose = ((DEPLOY / name).read_text("utf-8") for name in ("evenhand.service", "compose.yaml"))
    stops = _seconds(unit, r"TimeoutStopSec=(\d+)") + _seconds(compose, r"stop_grace_period: (\d+)s")
    assert len(stops) == 2
    assert min(*stops, values["terminationGracePeriodSeconds"] - values["preStopSeconds"]) > longest + 10


def test_proxies_take_the_largest_request_and_wait_for_the_slowest_answer() -> None:
    pytest.importorskip("fastapi", reason="needs the extra serve")
    from evenhand.service.settings import LimitsConfig

    limits = LimitsConfig()
    nginx = [(DEPLOY / name).read_text("utf-8") for name in ("nginx.conf", "nginx-compose.conf")]
    (ingress,) = [one for one in _chart(ingress={"enabled": True}) if one["kind"] == "Ingress"]
    notes = {name.partition("/")[2]: value for name, value in ingress["metadata"]["annotations"].items()}
    nginx.append(f"client_max_body_size {notes['proxy-body-size']}; proxy_read_timeout {notes['proxy-read-timeout']}s;")
    for text in nginx:
        assert min(_seconds(text, r"client_max_body_size (\d+)m")) * 2**20 >= limits.body_bytes
        assert min(_seconds(text, r"proxy_read_timeout (\d+)s")) > limits.upstream_seconds
    for text in nginx[:2]:
        for location in ("/", "/v1/events"):
            assert "proxy_buffering off" in re.search(rf"location {location} \{{(.*?)\}}", text, re.DOTALL)[1]
    assert notes["proxy-buffering"] == "off"
    caddy = (DEPLOY / "Caddyfile").read_text("utf-8")
    assert min(_seconds(caddy, r"max_size (\d+)MB")) * 10**6 >= limits.body_bytes


def test_installing_makes_every_path_that_is_used_later() -> None:
    guide = (DEPLOY.parent / "docs" / "how-to" / "operate-the-service.md").read_text("utf-8")
    unit = (DEPLOY / "evenhand.service").read_text("utf-8")
    commands = re.findall(r"^\$ (.*)$", guide, re.M)
    made = {f"/var/lib/{name}" for name in re.findall(r"^StateDirectory=(\S+)", unit, re.M)}
    for command in commands:
        words = command.split()
        for word in words:
            assert not word.startswith(("deploy/", "examples/")) or (DEPLOY.parent / word).exists(), command
        if words[0] in ("install", "python3"):
            made.add(words[-1])
        elif words[0] == "cp":
            assert words[-1].rstrip("/") in (*made, "/etc/systemd/system")
            made |= {f"{words[-1].rstrip('/')}/{Path(source).name}" for source in words[1:-1]}
        elif words[0] == "ln":
            assert any(words[2].startswith(f"{folder}/") for folder in made)
            made.add(words[-1])
    exec_start = re.findall(r"^ExecStart=(.*)$", unit, re.M)
    for command in [*exec_start, *(one for one in commands if " evenhand " in f" {one}")]:
        for path in re.findall(r"(?<![:/\w])(/(?:opt|etc|var)/\S+)", command):
            if path.endswith("/bin/evenhand"):
                assert any(path.startswith(f"{folder}/") for folder in made), command
            elif path.startswith("/etc"):
                assert path in made or path.startswith("/etc/systemd"), command
            else:
                assert any(path.startswith(folder) for folder in made), command
    assert "/usr/local/bin/evenhand" in made, "the guide runs `evenhand` without its folder"
    example = (DEPLOY.parent / "examples" / "service" / "evenhand.toml").read_text("utf-8")
    old, new = next(re.findall(r"s\|([^|]*)\|([^|]*)\|", one)[0] for one in commands if one.startswith("sed "))
    assert f'database = "{old}"' in example
    assert new == "sqlite:////var/lib/evenhand/evenhand.db"


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "evenhand.service").read_text("utf-8").replace("/opt/evenhand/bin/evenhand", "/bin/true")
    unit = tmp_path / "evenhand.service"
    unit.write_text(text, "utf-8")
    said = _run("systemd-analyze", "verify", unit)
    assert "evenhand.service" not in said


def test_compose_starts_replicas_that_may_do_little() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]
    for name in ("evenhand-1", "evenhand-2"):
        assert services[name]["cap_drop"] == ["ALL"]
        assert services[name]["read_only"]
        assert services[name]["depends_on"]["database"]["condition"] == "service_healthy"
    for volume in (one for service in services.values() for one in service.get("volumes", ())):
        source = volume.partition(":")[0]
        assert not source.startswith(".") or (DEPLOY / source).is_file()
    served = (DEPLOY / "nginx-compose.conf").read_text("utf-8")
    assert all(f"server {name}:8000" in served for name in ("evenhand-1", "evenhand-2"))


@pytest.mark.parametrize("source", ["evenhand.toml", "values.yaml"])
def test_what_is_served_makes_sense(source: str, tmp_path: Path) -> None:
    pytest.importorskip("fastapi", reason="needs the extra serve")
    from evenhand.service import ServiceConfig

    text = (DEPLOY / source).read_text("utf-8") if source == "evenhand.toml" else (CHART / source).read_text("utf-8")
    path = tmp_path / "evenhand.toml"
    path.write_text(text if source == "evenhand.toml" else yaml.safe_load(text)["config"], "utf-8")
    assert [one.name for one in ServiceConfig.read(path).shields] == ["loans"]


def test_the_image_runs_as_nobody_in_particular_and_has_no_more_than_it_needs() -> None:
    lines = (DEPLOY / "Dockerfile").read_text("utf-8").replace("\\\n", " ").splitlines()
    stages = [number for number, line in enumerate(lines) if line.startswith("FROM ")]
    assert len(stages) == 2
    final = lines[stages[1] :]
    assert "USER 10001:10001" in final
    assert final.index("USER 10001:10001") < next(n for n, line in enumerate(final) if line.startswith("ENTRYPOINT"))
    assert any(line.startswith("HEALTHCHECK") and "/healthz" in line for line in final)
    assert not any(re.search(r"\bADD\b|curl|\bsudo\b|:latest", line) for line in lines)
    copied = [word for line in lines[stages[0] : stages[1]] if line.startswith("COPY ") for word in line.split()[1:-1]]
    assert all((DEPLOY.parent / one).exists() for one in copied)
    wanted = (DEPLOY.parent / ".dockerignore").read_text("utf-8").splitlines()
    assert {f"!{one}" for one in copied} <= set(wanted)


# The chart without Helm: the few forms of its language that the templates use, written out here.


def _render(text: str, values: dict[str, Any]) -> str:
    scope = {
        "Values": values,
        "Release": {"Name": "fair"},
        "Chart": yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8")),
    }
    scope["Chart"]["AppVersion"] = scope["Chart"]["appVersion"]

    def look(path: str) -> Any:
        found: Any = scope
        for part in path.strip(".").split("."):
            found = found[part]
        return found

    def value(expression: str) -> str:
        first, *pipes = [one.strip() for one in expression.split("|")]
        words = first.split()
        if words[:2] == ["include", "(print"]:
            found: Any = (CHART / "templates" / words[3].strip('"/)')).read_text("utf-8")
        elif words[0] == "include":
            body = (CHART / "templates" / "_helpers.tpl").read_text("utf-8")
            found = _render(re.sub(r"{{-? (define .*?|end) -?}}", "", body), values).strip()
        elif words[0] == "toYaml":
            found = yaml.safe_dump(look(words[1])).strip()
        else:
            found = look(first)
        for pipe in pipes:
            name, *rest = pipe.split()
            if name == "default":
                found = found or look(rest[0])
            elif name == "nindent":
                found = "\n" + "\n".join(" " * int(rest[0]) + line for line in str(found).strip().splitlines())
            elif name == "sha256sum":
                found = hashlib.sha256(str(found).encode()).hexdigest()
        return str(found)

    whole = re.fullmatch(r"\s*{{- if (\.\S+) }}\n(.*){{- end }}\s*", text, re.DOTALL)
    if whole:
        return _render(whole[2], values) if look(whole[1]) else ""
    text = re.sub(r"\s*{{- range .*? }}.*?{{- end }}", "", text, flags=re.DOTALL)
    return re.sub(r"(\s*){{(-?) (.*?) }}", lambda one: ("" if one[2] else one[1]) + value(one[3]), text)


def _chart(**changes: Any) -> list[dict[str, Any]]:
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    for name, change in changes.items():
        values[name] |= change
    texts = [_render(path.read_text("utf-8"), values) for path in sorted((CHART / "templates").glob("*.yaml"))]
    return [one for text in texts for one in yaml.safe_load_all(text) if one]


def test_the_chart_renders_what_it_says() -> None:
    found = {one["kind"]: one for one in _chart(ingress={"enabled": True}, serviceMonitor={"enabled": True})}
    assert found.keys() == {"ConfigMap", "Deployment", "Service", "PodDisruptionBudget", "Ingress", "ServiceMonitor"}
    labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert labels == found["Service"]["spec"]["selector"] == found["Deployment"]["spec"]["selector"]["matchLabels"]
    assert labels == found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"]
    pod = found["Deployment"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    (container,) = pod["containers"]
    assert container["image"] == "evenhand:0.1.0"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["lifecycle"]["preStop"]["exec"]["command"] == ["sleep", "5"]
    notes = found["Deployment"]["spec"]["template"]["metadata"]["annotations"]
    assert re.fullmatch("[0-9a-f]{64}", notes["checksum/config"]), "a changed configuration restarts the pods"
    assert not any("snippet" in name for name in found["Ingress"]["metadata"]["annotations"])
    assert container["resources"]["requests"]["memory"] == "512Mi"
    assert "[[shields]]" in found["ConfigMap"]["data"]["evenhand.toml"]
    assert {one["kind"] for one in _chart()} == found.keys() - {"Ingress", "ServiceMonitor"}


def test_helm_takes_the_chart() -> None:
    assert "0 chart(s) failed" in _run("helm", "lint", CHART)
