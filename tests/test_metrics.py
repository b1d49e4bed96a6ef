"""An agent for metrics beside the controller: what it is told, and that a Prometheus which does as it is told raises an
alert for a drained node.
"""
import base64
import json
import lzma
import re

import jubilant
import pytest

from cluster import equals, eventually
from packing import pack_test_charm

UNITS = 1
PORT = 9099
DIRECTORY = "/srv/prometheus"


@pytest.fixture(scope="module")
def watched(cluster, tmp_path_factory):
    """The cluster with an agent beside its controller, and what that agent was told."""
    cluster.juju.deploy(pack_test_charm(tmp_path_factory.mktemp("charms"), "agent"), "agent")
    cluster.juju.integrate("slurmctld:cos-agent", "agent:cos-agent")
    told = eventually(lambda: config(cluster), bool, "what the agent is told", 120)
    return cluster, told


def config(cluster):
    """What the unit of slurmctld has in its bag, as the agent sees it."""
    units = list(cluster.unit(cluster.controller).subordinates or {})
    if not units:
        return None
    look = f"relation-get -r $(relation-ids cos-agent) config {cluster.controller}"
    try:
        return json.loads(cluster.juju.cli("exec", "--unit", units[0], "--", look) or "null")
    except jubilant.CLIError:  # It has not joined yet.
        return None


def has_metrics(told):
    if not told["metrics_scrape_jobs"]:
        pytest.skip("this Slurm has no metrics")


@pytest.mark.core
def test_an_agent_is_told_all_or_nothing(watched):
    """Where Slurm has no metrics, that is told to the operator instead."""
    cluster, told = watched
    assert set(told) >= {"metrics_alert_rules", "log_alert_rules", "dashboards", "subordinate", "log_slots"}
    if told["metrics_scrape_jobs"]:
        assert len(told["metrics_scrape_jobs"]) == 5
        [dashboard] = told["dashboards"]
        assert json.loads(lzma.decompress(base64.b64decode(dashboard)))["title"] == "Slurm cluster"
        cluster.await_message(cluster.controller, "^active: primary - UP$")
    else:
        assert told["metrics_alert_rules"] == {} and told["dashboards"] == []
        remark = "no metrics: Slurm .* has none, 25.11 and newer do"
        cluster.await_message(cluster.controller, f"^active: primary - UP; {remark}$")


@pytest.mark.core
def test_every_metric_that_a_rule_or_the_dashboard_names_is_served(watched):
    cluster, told = watched
    has_metrics(told)
    served = ""
    for job in told["metrics_scrape_jobs"]:
        script = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read().decode())"
        [target] = job["static_configs"][0]["targets"]
        served += cluster.on(cluster.controller, "python3", "-c", script, f"http://{target}{job['metrics_path']}")
    names = {line.split("{")[0].split(" ")[0] for line in served.splitlines() if line.startswith("slurm_")}
    dashboard = lzma.decompress(base64.b64decode(told["dashboards"][0])).decode()


    # A job of a user comes and goes.
    named = set(re.findall(r"\bslurm_[a-z_]+", json.dumps(told["metrics_alert_rules"]) + dashboard))
    assert named - names <= {"slurm_user_jobs_cpus_alloc"}


@pytest.mark.core
def test_a_drained_node_raises_an_alert(watched):
    """In a Prometheus of the distribution, with the rules as they are but for their patience."""
    cluster, told = watched
    has_metrics(told)
    unit = cluster.controller
    rules = told["metrics_alert_rules"]
    labels = {key: rules["groups"][0]["rules"][0]["labels"][key] for key in TOPOLOGY}
    jobs = [job | {"static_configs": [one | {"labels": labels} for one in job["static_configs"]]}
            for job in told["metrics_scrape_jobs"]]
    cluster.root(unit, "mkdir", "-p", DIRECTORY)
    put(cluster, "rules.json", rules)
    cluster.shell(unit, "systemctl mask prometheus.service && apt-get update --quiet=2 && "
                  "DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --no-install-recommends -y prometheus",
                  seconds=300)
    cluster.root(unit, "promtool", "check", "rules", f"{DIRECTORY}/rules.json")
    for group in rules["groups"]:
        for rule in group["rules"]:
            rule["for"] = "1s"
    put(cluster, "rules.json", rules)
    put(cluster, "prometheus.json", {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [f"{DIRECTORY}/rules.json"],
        "scrape_configs": jobs,
    })
    cluster.root(unit, "systemd-run", "--unit=watch", "prometheus", f"--config.file={DIRECTORY}/prometheus.json",
                 f"--storage.tsdb.path={DIRECTORY}/data", f"--web.listen-address=127.0.0.1:{PORT}")
    try:
        # Every rule is read, and of a cluster that is well none fires.
        eventually(lambda: query(cluster, "slurm_nodes"), lambda seen: seen == [1.0], "metrics", 60)
        eventually(lambda: firing(cluster), equals(set()), "no alert", 60)
        cluster.act(unit, "drain", nodename="compute-0", reason="broken disk")
        eventually(lambda: firing(cluster), lambda seen: "SlurmNodesDrained" in seen, "the alert", 60)
        cluster.act(unit, "resume", nodename="compute-0")
        eventually(lambda: firing(cluster), lambda seen: "SlurmNodesDrained" not in seen, "the end of the alert", 60)
    finally:
        cluster.root(unit, "systemctl", "stop", "watch.service")


TOPOLOGY = ("juju_model", "juju_model_uuid", "juju_application")


def put(cluster, name, value):
    cluster.root(cluster.controller, "tee", f"{DIRECTORY}/{name}", stdin=json.dumps(value))


def ask(cluster, path):
    script = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read().decode())"
    try:
        answer = cluster.on(cluster.controller, "python3", "-c", script, f"http://127.0.0.1:{PORT}/api/v1/{path}")
    except jubilant.CLIError:  # It has not begun to listen.
        return {}
    return json.loads(answer)["data"]


def query(cluster, series):
    return [float(one["value"][1]) for one in ask(cluster, f"query?query={series}").get("result", [])]


def firing(cluster):
    alerts = ask(cluster, "alerts").get("alerts", [])
    return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}
