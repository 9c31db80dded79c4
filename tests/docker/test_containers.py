"""The images, built, and the services of the Compose file, run: what ``docker/README.md`` promises."""

import base64
import json
import os
import re
import signal
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import installed, until
from trials import ROOT
from trials.containers import Containers, containers

pytestmark = pytest.mark.long
GUIDE = ROOT / "docs" / "guides" / "systemd.md"
_WITHOUT_RIGHTS = "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--tmpfs=/tmp", "--network=none"


@pytest.fixture(scope="module")
def built() -> Iterator[Containers]:
    """The images, the CPU's built as the README says."""
    with installed(containers()) as made:
        made.compose("build", "dragoman")
        yield made


@pytest.fixture(scope="module")
def started(built: Containers) -> Containers:
    """The servers, the service and a worker, started in the order that ``depends_on`` demands, and healthy."""
    built.compose("up", "-d", "--no-build", "elasticsearch", "account", "postgres", "rabbitmq")
    for server in ("postgres", "elasticsearch", "rabbitmq"):
        built.wait_until_healthy(server)
    built.dragoman("db", "upgrade")
    built.compose("up", "-d", "--no-build", "--no-deps", "serve", "worker")
    for service in ("serve", "worker"):
        built.wait_until_healthy(service)
    return built


@pytest.fixture
def under_systemd(built: Containers) -> Iterator[Callable[..., str]]:
    """Runs a command in a container whose first process is systemd."""
    built.make_systemd_image()
    built.podman("run", "-d", "--name", "systemd", "--systemd=always", "--privileged", "localhost/systemd")
    yield lambda *command: built.podman("exec", "systemd", *command).strip()
    built.podman("rm", "--force", "systemd")


def _write(folder: Path, name: str, **texts: str) -> str:
    """Write documents whose ids begin with their language."""
    lines = [json.dumps({"id": key, "lang": key[:2], "text": text}) + "\n" for key, text in texts.items()]
    (folder / name).write_text("".join(lines), encoding="utf-8")
    return name


def test_the_image_runs_as_a_user_without_rights_on_a_file_system_that_it_cannot_write(built: Containers) -> None:
    def inside(*command: str) -> str:
        return built.podman("run", "--rm", *_WITHOUT_RIGHTS, *command).strip()

    assert inside("localhost/dragoman:cpu", "--version").startswith("dragoman ")
    assert inside("--entrypoint=id", "localhost/dragoman:cpu", "-u") == "10001"
    with pytest.raises(RuntimeError, match="Read-only file system"):
        inside("--entrypoint=touch", "localhost/dragoman:cpu", "/opt/dragoman/x")


def test_a_health_check_fails_when_its_service_hangs(started: Containers) -> None:
    init = started.podman("inspect", "--format", "{{.State.Pid}}", "dragoman_serve_1").strip()
    (process,) = map(int, Path(f"/proc/{init}/task/{init}/children").read_text(encoding="ascii").split())
    os.kill(process, signal.SIGSTOP)
    try:
        with pytest.raises(RuntimeError, match="unhealthy"):
            started.wait_until_healthy("serve", seconds=0)
    finally:
        os.kill(process, signal.SIGCONT)
    started.wait_until_healthy("serve")


def test_what_one_container_or_worker_indexes_others_and_the_service_find(started: Containers) -> None:
    texts = {
        "en-flood": "The flood broke the bridge over the river.",
        "de-bread": "Die Bäckerei öffnet morgens um sechs.",
    }
    started.dragoman("index", "-q", _write(started.documents, "news.jsonl", **texts), "-c", "news")
    found = json.loads(started.dragoman("search", "Hochwasser am Fluss", "-c", "news", "--lang", "de", "--json"))
    assert found["hits"][0]["id"] == "en-flood"
    started.wait_until_healthy("serve")
    credentials = base64.b64encode(f"user:{started.passwords['SERVE_PASSWORD']}".encode()).decode()
    request = urllib.request.Request(
        "http://127.0.0.1:8300/api/search",
        json.dumps({"query": "boulangerie", "lang": "fr", "collection": "news"}).encode(),
        {"Content-Type": "application/json", "Authorization": f"Basic {credentials}"},
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        assert json.load(response)["hits"][0]["id"] == "de-bread"
    name = _write(started.documents, "bread.jsonl", fr_pain="Le pain est cuit le matin.")
    started.wait_until_healthy("worker")
    started.dragoman("index", "-q", name, "-c", "bread", service="publisher")
    assert json.loads(started.dragoman("status", "-c", "bread", "--json"))["documents"] == 1
    assert "pain" in started.dragoman("search", "bread", "-c", "bread", "--lang", "en")
    assert "MAP" in started.dragoman("demo")


def test_systemd_starts_service_and_worker_again_when_they_die(under_systemd: Callable[..., str]) -> None:
    run = under_systemd
    install, _, start = re.findall(r"```\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    run("bash", "-ec", install.replace("sh docker/install.sh cpu /opt/dragoman\n", ""))  # the image has it
    environment = "# A comment\nDRAGOMAN_TOKEN=0123456789abcdef01234567\nDRAGOMAN_BROKER=redis://127.0.0.1/0\n"
    run("bash", "-c", f"printf '{environment}' > /etc/dragoman.env; systemctl enable --now redis-server")
    run("bash", "-ec", start.replace("journalctl -u dragoman@serve -f\n", ""))
    units = "dragoman@serve", "dragoman@worker"
    run("systemctl", "kill", "--signal=KILL", *units)
    until(lambda: run("systemctl", "show", "--property=NRestarts", "--value", *units) == "1\n\n1")
    until(lambda: "ok" in run("sh", "-c", "curl -s http://127.0.0.1:8300/api/health || true"))
    as_dragoman, _, _ = start.partition("as_dragoman db upgrade")
    document = json.dumps({"id": "flood", "lang": "en", "text": "The flood broke the bridge."})
    run("bash", "-c", f"echo '{document}' > /srv/d.jsonl")
    run("bash", "-ec", f"{as_dragoman} as_dragoman index -q /srv/d.jsonl -c news")
    assert "flood" in run("bash", "-ec", f"{as_dragoman} as_dragoman search Hochwasser -c news --lang de")
    run("systemctl", "stop", *units)
    for unit in units:
        assert run("systemctl", "show", "--property=Result", "--value", unit) == "success"
