"""A real server with the settings and scripts of the Compose file: TLS, the account of few rights, backups."""

import base64
import json
import os
import shlex
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from encoders.document import Document, Passages, int8_rows, unit_rows
from encoders.errors import StoreError
from indexer.cluster.cluster_address import Address, Credentials
from indexer.stores.clustered.store import ElasticStore
from indexer.stores.contract import StoredDocument, VectorQuery
from tests.conftest import installed
from tests.docker.files import DOCKER, compose, readme_commands
from trials.servers.elastic import ElasticServer, running

SUPERUSER, ACCOUNT = 'he said "\\" twice', 'a "quoted" pass\\word'
_IN_IMAGE = "/usr/share/elasticsearch"
_SERVICES = compose()["services"]
NAMES = {"DNS:elasticsearch", "DNS:localhost", "IP Address:127.0.0.1"}
"""By which the server is called: in Compose, on its machine, by its health check."""
BACKUPS = readme_commands("docker compose exec elasticsearch sh /setup/request.sh ")


class Asked(NamedTuple):
    method: str
    path: str
    credentials: str
    body: Any


def _run(script: str, *arguments: str, url: str, ca: str) -> subprocess.CompletedProcess[str]:
    command = ["sh", script.replace("/setup", str(DOCKER / "elastic")), *arguments]
    names = {"URL": url, "CA": ca, "PASSWORD": SUPERUSER, "INDICES": "dragoman-*, user-news"}
    environment = {"PATH": os.environ["PATH"], "DRAGOMAN_ELASTIC_PASSWORD": ACCOUNT}
    environment |= {f"ELASTIC_{name}": value for name, value in names.items()}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def _asked(script: str, *arguments: str) -> list[Asked]:
    """What a script asks of a server, which says yes to everything."""
    asked: list[Asked] = []

    class Recorder(BaseHTTPRequestHandler):
        def _record(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            credentials = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
            asked.append(Asked(self.command, self.path, credentials, json.loads(body) if body else None))
            self.send_response(200)
            self.end_headers()

        do_GET = do_PUT = do_POST = _record  # noqa: N815 - its names

        def log_message(self, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Recorder) as recorder:
        threading.Thread(target=recorder.serve_forever, args=(0.02,), daemon=True).start()
        done = _run(script, *arguments, url=f"http://127.0.0.1:{recorder.server_port}", ca=os.devnull)
        recorder.shutdown()
    assert done.returncode == 0, done.stderr
    return asked


@pytest.fixture(scope="module")
def account_asks() -> list[Asked]:
    """What the service ``account`` asks of a server; the tests' own lacks the analyser it would keep accounts with."""
    return _asked(_SERVICES["account"]["entrypoint"][1])


class Secured(NamedTuple):
    """The server with the account, and the CA's certificate."""

    server: ElasticServer
    ca: Path

    def asked(self, *arguments: str) -> dict[str, Any]:
        """The answer to the script that the README's commands name."""
        done = _run("/setup/request.sh", *arguments, url=self.server.url, ca=str(self.ca))
        assert done.returncode == 0, done.stdout + done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def store(self, prefix: str = "dragoman") -> ElasticStore:
        address = Address.parse(f"{self.server.url}/{prefix}?replicas=0")
        return ElasticStore(address, "news", Credentials("dragoman", ACCOUNT, ca=str(self.ca)))


def _make_certificates(server: ElasticServer, certificates: Path, ca: Path, snapshots: Path) -> None:
    """What the service ``setup`` does, at the first start and at the second."""
    for _ in range(2):
        environment = {**server.environment(), "PATH": f"{server.folder / 'server' / 'bin'}:{os.environ['PATH']}"}
        script = DOCKER / "elastic" / "setup.sh"
        subprocess.run(["sh", script, certificates, ca, snapshots], env=environment, check=True)


def _names(certificate: Path) -> set[str]:
    command = ["openssl", "x509", "-in", str(certificate), "-noout", "-ext", "subjectAltName"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {name.strip() for name in shown.splitlines()[1].split(",")}


def _set_up(server: ElasticServer, ca: Path, role: Any, user: Any) -> None:
    """What happens before the server starts: the service ``setup``, and the image's own entry point."""
    home = server.folder / "server"
    for folder in (home / "config" / "certificates", home / "snapshots", ca):
        folder.mkdir()
    _make_certificates(server, home / "config" / "certificates", ca, home / "snapshots")
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", "nobody", home / "config", home / "snapshots"], check=True)
    server.run("elasticsearch-keystore", "create")
    server.run("elasticsearch-keystore", "add", "-x", "bootstrap.password", stdin=SUPERUSER)
    (home / "config" / "roles.yml").write_text(json.dumps({"dragoman": role}))
    server.run("elasticsearch-users", "useradd", "dragoman", "-p", user["password"], "-r", ",".join(user["roles"]))


@pytest.fixture(scope="module")
def secured_by_compose(tmp_path_factory: pytest.TempPathFactory, account_asks: list[Asked]) -> Iterator[Secured]:
    ca = tmp_path_factory.mktemp("trusted") / "ca"
    settings = {name: value for name, value in _SERVICES["elasticsearch"]["environment"].items() if name.islower()}

    def prepare(server: ElasticServer) -> None:
        server.settings["path.repo"] = settings["path.repo"].replace(_IN_IMAGE, str(server.folder / "server"))
        _set_up(server, ca, account_asks[1].body, account_asks[2].body)

    with installed(running(settings, prepare)) as started:
        yield Secured(started, ca / "ca.crt")


def test_its_certificate_is_for_its_names_and_the_ca_s_key_is_nowhere(elastic: ElasticServer, tmp_path: Path) -> None:
    folders = certificates, ca, snapshots = [tmp_path / name for name in ("certificates", "ca", "snapshots")]
    for folder in folders:
        folder.mkdir()
    _make_certificates(elastic, certificates, ca, snapshots)
    assert _names(certificates / "elasticsearch.crt") >= NAMES
    kept = [*certificates.iterdir(), *ca.iterdir()]
    assert sorted(file.name for file in kept) == ["ca.crt", "ca.crt", "elasticsearch.crt", "elasticsearch.key"]
    assert "PRIVATE" not in (ca / "ca.crt").read_text()
    verify = ["openssl", "verify", "-CAfile", str(ca / "ca.crt"), str(certificates / "elasticsearch.crt")]
    subprocess.run(verify, check=True, capture_output=True)


def _stored(number: int) -> StoredDocument:
    vector = unit_rows(np.random.default_rng(number).standard_normal((1, 32)).astype(np.float32))
    return StoredDocument(
        Document(f"d{number}", "en", f"words of page {number}"),
        vector[0],
        Passages(int8_rows(vector), np.array([[0, 5]], np.int32)),
    )


@pytest.mark.long
def test_the_account_has_no_rights_elsewhere_and_a_restored_backup_is_whole(secured_by_compose: Secured) -> None:
    with closing(secured_by_compose.store()) as store:
        store.create("model-a", 32)
        store.put("model-a", [_stored(number) for number in range(5)])
        store.publish()
        assert store.count() == {"en": 5}
        assert store.search(VectorQuery("model-a", {"en": _stored(3).vector[None]}, 1))["en"][0].doc_ids == ["d3"]
        with pytest.raises(StoreError, match="does not allow it"):
            secured_by_compose.store("accounts").create("model-a", 32)
        register, snapshot, restore = (shlex.split(command) for command in BACKUPS)
        assert secured_by_compose.asked(*register) == {"acknowledged": True}
        assert secured_by_compose.asked(*snapshot)["snapshot"]["state"] == "SUCCESS"
        store.drop()
    assert secured_by_compose.asked(*restore)["snapshot"]["shards"]["failed"] == 0
    restored = secured_by_compose.store()
    assert restored.count() == {"en": 5}
    assert restored.vectors("model-a", ["d4"])[0].tobytes() == _stored(4).vector.tobytes()
    restored.drop()


def test_the_account_is_made_with_rights_on_the_named_indices_only(account_asks: list[Asked]) -> None:
    health, role, user = account_asks
    assert health[:2] == ("GET", "/_cluster/health?wait_for_status=yellow&timeout=50s")
    assert {one.credentials for one in account_asks} == {f"elastic:{SUPERUSER}"}
    indices = [{"names": ["dragoman-*", "user-news"], "privileges": ["all"]}]
    assert (role.method, role.path, role.body) == ("PUT", "/_security/role/dragoman", {"indices": indices})
    body = {"password": ACCOUNT, "roles": ["dragoman"]}
    assert (user.method, user.path, user.body) == ("PUT", "/_security/user/dragoman", body)


def test_its_health_check_and_the_backups_of_the_readme_ask_as_the_superuser() -> None:
    script, *health = _SERVICES["elasticsearch"]["healthcheck"]["test"][2:]
    asked = [one for arguments in (health, *map(shlex.split, BACKUPS)) for one in _asked(script, *arguments)]
    assert [f"{one.method} {one.path.partition('?')[0]}" for one in asked] == [
        "GET /_cluster/health",
        *("PUT /_snapshot/backup", "PUT /_snapshot/backup/monday", "POST /_snapshot/backup/monday/_restore"),
    ]
    assert {one.credentials for one in asked} == {f"elastic:{SUPERUSER}"}
    assert _run(script, *health, url="https://127.0.0.1:1", ca=os.devnull).returncode != 0
