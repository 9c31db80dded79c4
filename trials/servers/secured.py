"""The secured Elasticsearch server of the tests: TLS, and the users of all tests of rights."""

from __future__ import annotations

from pathlib import Path

from elasticsearch import Elasticsearch

from indexer.cluster.cluster_address import Credentials
from trials.servers.elastic import PASSWORD, ElasticServer, client_of

_ROW, _TITLES = """, query: '{"term": {"row": 1}}'""", ', field_security: {grant: [headline, "dragoman*"]}'


def _on(names: str, privileges: str = "read, view_index_metadata", more: str = "") -> str:
    return f"{{names: [{names}], privileges: [{privileges}]{more}}}"


_ROLES = {
    "in_place": [_on("theirs", "read, index, manage")],
    "beside": [_on("theirs", "read, view_index_metadata, monitor, maintenance"), _on('"ours-*"', "all")],
    "reader": [_on("theirs, untouched")],
    "source": [_on("theirs", "read, view_index_metadata, monitor")],
    "shop": [_on('"shop-*"', "all")],
    "guest": [_on('"shop-*"')],
    "pages": [_on("pages")],
    "others": [_on("others", "all")],
    "rows": [_on("pages", more=_ROW)],
    "all_ruled": [_on("ruled")],
    "rows_ruled": [_on("ruled", more=_ROW)],
    "no_text": [_on("ruled", more=', field_security: {grant: ["*"], except: [body]}')],
    "titles": [_on("ruled", more=_TITLES)],
    "no_vectors": [_on("ruled", more=", field_security: {grant: [headline, body, row]}")],
    "rows_of_titles": [_on("ruled", more=_ROW + _TITLES)],
    "rows_beside": [_on("ruled", more=_ROW), _on('"ours-*"')],
    "only_beside": [_on('"ours-*"')],
}
"""Indices of roles; each role has a user of its name."""


def secured_server(folder: Path) -> ElasticServer:
    """A server with security and a licence for document-level security, ready to start."""
    server = ElasticServer(folder, {"xpack.license.self_generated.type": "trial"})
    roles = "".join(f"{name}:\n  indices: [{', '.join(indices)}]\n" for name, indices in _ROLES.items())
    server.secure({"admin": "superuser", **{name: name for name in _ROLES}}, roles)
    return server


def credentials(server: ElasticServer, user: str, password: str = PASSWORD) -> Credentials:
    return Credentials(user, password, ca=str(server.ca))


def admin(server: ElasticServer) -> Elasticsearch:
    return client_of(server.url, basic_auth=("admin", PASSWORD), ca_certs=str(server.ca))
