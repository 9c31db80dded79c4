"""The secured Elasticsearch server of the tests: TLS, and the users of all tests of rights."""

import json
from pathlib import Path
from typing import Any

from elasticsearch import Elasticsearch

from indexer.cluster.cluster_address import Credentials
from trials.servers.elastic import PASSWORD, ElasticServer, client_of

_READ = ("read", "view_index_metadata")


def _may(names: str, *privileges: str, row: int | None = None, grant: str = "", hidden: str = "") -> dict[str, Any]:
    """What a role may do with indices (read, unless said): with documents of a row alone, or with some fields."""
    fields = {"grant": grant.split() or ["*"], **({"except": [hidden]} if hidden else {})}
    return {
        "names": names.split(),
        "privileges": privileges or _READ,
        **({"query": json.dumps({"term": {"row": row}})} if row else {}),
        **({"field_security": fields} if grant or hidden else {}),
    }


_ROLES = {
    "in_place": [_may("theirs", "read", "index", "manage")],
    "beside": [_may("theirs", *_READ, "monitor", "maintenance"), _may("ours-*", "all")],
    "reader": [_may("theirs untouched")],
    "source": [_may("theirs", *_READ, "monitor")],
    "shop": [_may("shop-*", "all")],
    "guest": [_may("shop-*")],
    "pages": [_may("pages")],
    "others": [_may("others", "all")],
    "rows": [_may("pages", row=1)],
    "all_ruled": [_may("ruled")],
    "rows_ruled": [_may("ruled", row=1)],
    "no_text": [_may("ruled", hidden="body")],
    "titles": [_may("ruled", grant="headline dragoman*")],
    "no_vectors": [_may("ruled", grant="headline body row")],
    "rows_of_titles": [_may("ruled", row=1, grant="headline dragoman*")],
    "rows_beside": [_may("ruled", row=1), _may("ours-*")],
    "only_beside": [_may("ours-*")],
}
"""Each role has a user of its name."""


def secured_server(folder: Path) -> ElasticServer:
    server = ElasticServer(folder, {"xpack.license.self_generated.type": "trial"})
    roles = json.dumps({role: {"indices": indices} for role, indices in _ROLES.items()})  # JSON is YAML
    server.secure({"admin": "superuser", **{role: role for role in _ROLES}}, roles)
    return server


def credentials(server: ElasticServer, user: str, password: str = PASSWORD) -> Credentials:
    return Credentials(user, password, ca=str(server.ca))


def admin(server: ElasticServer) -> Elasticsearch:
    return client_of(server.url, basic_auth=("admin", PASSWORD), ca_certs=str(server.ca))
