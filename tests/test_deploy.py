"""`deploy/`: what can be said of it without a registry and a cluster. That it runs is not tested here."""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from compiler_agent.configuration import read_file
from compiler_agent.queue_services import QUEUES
from compiler_agent.setting_keys import KEYS, OTHERS_VARIABLES
from tests.compiler_agent.figures import SERVICE_FIGURES, WORKER_FIGURES

DEPLOY = Path(__file__).resolve().parents[1] / "deploy"
FILES = [path for path in sorted(DEPLOY.rglob("*")) if path.is_file() and "secrets" not in path.parts]
PROJECT = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())
SCRIPTS = Path(sys.executable).parent
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
MANIFESTS = [
    manifest
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    for manifest in yaml.safe_load_all(path.read_text())
]
PODS = {
    manifest["metadata"]["name"]: manifest["spec"]["template"]["spec"]
    for manifest in MANIFESTS
    if "template" in manifest.get("spec", {})
}
KUBERNETES = "1.33"
"""The oldest version that has what the pods ask for: user namespaces, and a /proc that is not masked."""


def queue_of(words: list[str]) -> str | None:
    return words[words.index("--queue") + 1] if "--queue" in words else None


def ours() -> dict[str, dict[str, Any]]:
    return {name: service for name, service in COMPOSE["services"].items() if "build" in service}


def test_the_compose_file_is_one():
    command = [SCRIPTS / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", DEPLOY / "compose.yaml"]
    checked = subprocess.run(command, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


def test_compose_serves_every_queue_once():
    served = [queue for service in ours().values() if (queue := queue_of(service["command"]))]
    assert sorted(served) == sorted(QUEUES)


def test_compose_opens_ports_on_this_machine_alone():
    ports = [port for service in COMPOSE["services"].values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert not any(service.get("network_mode") for service in COMPOSE["services"].values())


def test_compose_runs_ours_as_nobody_in_particular_and_without_capabilities():
    for name, service in ours().items():
        assert (service["user"], service["cap_drop"]) == ("10001:10001", ["ALL"]), name
        assert "no-new-privileges:true" in service["security_opt"]
        assert not service.get("privileged")
        # Only where something untrusted runs may namespaces be made.
        is_open = "seccomp=unconfined" in service["security_opt"]
        assert is_open == (name in ("author", "build", "device", "gpu"))


def test_every_image_is_pinned():
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    bases = re.findall(r"^ARG (?:DEBIAN|CUDA)=(\S+)", dockerfile, re.MULTILINE)
    assert len(bases) == 2
    assert all(re.fullmatch(r"\S+@sha256:[0-9a-f]{64}", base) for base in bases)
    assert set(re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)) <= {"${DEBIAN}", "${CUDA}", "service"}
    named = [service["image"] for service in COMPOSE["services"].values()]
    named += [container["image"] for pod in PODS.values() for container in pod["containers"]]
    assert all(re.search(r":\d+\.\d+(\.\d+)?(-\w+)?$", image) for image in named), named


def test_the_dockerfile_ends_as_an_ordinary_user_and_has_no_fault_that_hadolint_knows():
    checked = subprocess.run(
        [SCRIPTS / "hadolint", "--failure-threshold", "warning", DEPLOY / "Dockerfile"], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout
    for stage in (DEPLOY / "Dockerfile").read_text().split("\nFROM ")[2:]:
        assert re.findall(r"^USER (\S+)", stage, re.MULTILINE)[-1] == "10001:10001"


@pytest.mark.parametrize(
    "manifest", MANIFESTS, ids=lambda manifest: f"{manifest['kind']}-{manifest['metadata']['name']}"
)
def test_the_manifests_are_what_kubernetes_takes(manifest):
    kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def test_kubernetes_serves_every_queue():
    served = {queue_of(container["args"]) for pod in PODS.values() for container in pod["containers"]}
    assert served - {None} == set(QUEUES)


@pytest.mark.parametrize("name", PODS)
def test_pods_run_as_nobody_in_particular_without_rights(name):
    pod = PODS[name]
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, 10001)
    assert pod["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    is_sandboxing = pod["securityContext"]["seccompProfile"]["type"] == "Unconfined"
    assert is_sandboxing == (name in ("author", "build", "device-cpu", "gpu-h200", "gpu-a100"))
    assert is_sandboxing == (pod.get("hostUsers") is False)  # procMount asks for it
    for container in pod["containers"]:
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert "memory" in container["resources"]["limits"]


def test_a_gpu_worker_has_one_gpu_of_its_class():
    gpus = {name: pod for name, pod in PODS.items() if name.startswith("gpu-")}
    assert len(gpus) >= 2
    for pod in gpus.values():
        (container,) = pod["containers"]
        assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
        assert pod["nodeSelector"]["nvidia.com/gpu.product"]
    assert len({pod["nodeSelector"]["nvidia.com/gpu.product"] for pod in gpus.values()}) == len(gpus)


def test_settings_of_kubernetes_can_be_read_and_are_the_same_for_all(tmp_path):
    texts = {manifest["data"]["compiler-agent.toml"] for manifest in MANIFESTS if manifest["kind"] == "ConfigMap"}
    assert len(texts) == 1
    file = tmp_path / "compiler-agent.toml"
    file.write_text(texts.pop())
    assert read_file(file)["COMPILER_AGENT_TEMPORAL"].text
    assert tomllib.loads(file.read_text())["ledger"]["url_file"].startswith("/run/secrets/")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_secret_is_written_down_and_every_variable_is_a_setting(path):
    text = path.read_text()
    known = {key.variable for key in KEYS} | set(OTHERS_VARIABLES)
    assert set(re.findall(r"COMPILER_AGENT_[A-Z_]*[A-Z]", text)) <= known
    literal = re.compile(r"\b([A-Z_]*(?:PASSWORD|PWD|SECRET|API_KEY|TOKEN))[\"']?(?:=|: )\s*[\"']?(?![/$%…])\w+")
    assert literal.findall(text) == []


def test_secrets_are_made_once_and_ours_to_read_alone(tmp_path):
    script = tmp_path / "make-secrets.sh"
    script.write_bytes((DEPLOY / "make-secrets.sh").read_bytes())
    made = []
    for _ in range(2):
        subprocess.run(["sh", script], check=True)
        made.append({path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()})
    assert made[0] == made[1]
    assert (tmp_path / "secrets").stat().st_mode & 0o077 == 0
    assert made[0]["ledger_password"] in made[0]["ledger_url"]
    assert len(set(made[0].values())) == len(made[0])
    named = {path for secret in COMPOSE["secrets"].values() for path in [Path(secret["file"]).name]}
    named |= {Path(file).name for service in COMPOSE["services"].values() for file in service.get("env_file", ())}
    assert named == made[0].keys()


ALERTS, TESTS_OF_ALERTS = DEPLOY / "prometheus" / "alerts.yaml", Path(__file__).parent / "prometheus" / "alerts.yaml"
RULES = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]


def test_alerts_ask_for_figures_that_there_are():
    asked = {name for rule in RULES for name in re.findall(r"\bcompiler_agent_\w+", rule["expr"])}
    assert len(RULES) > 5
    assert asked <= SERVICE_FIGURES | WORKER_FIGURES


@pytest.mark.parametrize(
    "words", [("check", "rules", ALERTS), ("test", "rules", TESTS_OF_ALERTS)], ids=["check", "test"]
)
def test_prometheus_raises_alerts_when_it_should(words):
    if shutil.which("promtool") is None:
        pytest.skip("no promtool on this machine")
    checked = subprocess.run(["promtool", *words], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("is_raised", [True, False])
def test_every_alert_is_tried_both_ways(is_raised):
    groups = yaml.safe_load(TESTS_OF_ALERTS.read_text())["tests"]
    tried = {
        each["alertname"]
        for group in groups
        for each in group["alert_rule_test"]
        if ("exp_alerts" in each) == is_raised
    }
    assert tried == {rule["alert"] for rule in RULES}


def test_a_wheel_holds_every_file_of_its_packages(tmp_path):
    """What an installation in place finds in its folder, an image must have been given."""
    names = [name.removesuffix("*") for name in PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]]
    for name in (*names, "README.md", "pyproject.toml", "LICENSE"):
        source = DEPLOY.parent / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / "source" / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, tmp_path / "source" / name)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir"]
    subprocess.run([*build, str(tmp_path), str(tmp_path / "source")], check=True, timeout=300)
    (wheel,) = tmp_path.glob("*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        path.relative_to(tmp_path / "source").as_posix()
        for name in names
        for path in (tmp_path / "source" / name).rglob("*")
        if path.is_file()
    }
    assert wanted - packed == set()
