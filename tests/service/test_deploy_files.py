"""What `deploy` has, checked by the programs that read it, as far as they are installed."""

from __future__ import annotations

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
METRICS = DEPLOY.parent / "docs" / "reference" / "service-http.md"


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
    rules = [{"record": f"panel_{panel['id']}_{one['refId']}", "expr": one["expr"].replace("$stream", ".*")}
             for panel in board["panels"] for one in panel["targets"]]  # fmt: skip
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}), "utf-8")
    assert f"SUCCESS: {len(rules)} rules" in _run("promtool", "check", "rules", path)


@pytest.mark.parametrize("name", ["nginx.conf", "nginx-compose.conf"])
def test_nginx_takes_its_configuration(name: str, tmp_path: Path) -> None:
    text = (DEPLOY / name).read_text("utf-8").replace("/etc/ssl/evenhand", str(tmp_path))
    text = re.sub(r"server evenhand-(\d):", r"server 127.0.0.\1:", text)
    if shutil.which("openssl") and "ssl_certificate" in text:
        _run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
             "/CN=x", "-keyout", tmp_path / "key.pem", "-out", tmp_path / "fullchain.pem")  # fmt: skip
    whole = tmp_path / "nginx.conf"
    whole.write_text(
        f"pid {tmp_path}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n{text}\n}}\n", "utf-8"
    )
    assert "test is successful" in _run("nginx", "-t", "-c", whole, "-p", tmp_path)


def test_caddy_takes_its_configuration() -> None:
    _run("caddy", "validate", "--adapter", "caddyfile", "--config", DEPLOY / "Caddyfile")


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
        if words[0] == "include":
            body = (CHART / "templates" / "_helpers.tpl").read_text("utf-8")
            found: Any = _render(re.sub(r"{{-? (define .*?|end) -?}}", "", body), values).strip()
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
    assert container["resources"]["requests"]["memory"] == "512Mi"
    assert "[[shields]]" in found["ConfigMap"]["data"]["evenhand.toml"]
    assert {one["kind"] for one in _chart()} == found.keys() - {"Ingress", "ServiceMonitor"}


def test_helm_takes_the_chart() -> None:
    assert "0 chart(s) failed" in _run("helm", "lint", CHART)
