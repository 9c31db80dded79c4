"""The secured Elasticsearch server of the tests: TLS, and the users of all tests of rights."""

from __future__ import annotations

import re
from pathlib import Path

from elasticsearch import Elasticsearch

from indexer.cluster.cluster_address import Credentials
from trials.servers.elastic import PASSWORD, ElasticServer, client_of

_ROLES = """
in_place:
  indices: [{names: [theirs], privileges: [read, index, manage]}]
beside:
  indices:
  - {names: [theirs], privileges: [read, view_index_metadata, monitor, maintenance]}
  - {names: ["ours-*"], privileges: [all]}
reader:
  indices: [{names: [theirs, untouched], privileges: [read, view_index_metadata]}]
source:
  indices: [{names: [theirs], privileges: [read, view_index_metadata, monitor]}]
shop:
  indices: [{names: ["shop-*"], privileges: [all]}]
guest:
  indices: [{names: ["shop-*"], privileges: [read, view_index_metadata]}]
pages:
  indices: [{names: [pages], privileges: [read, view_index_metadata]}]
others:
  indices: [{names: [others], privileges: [all]}]
rows:
  indices: [{names: [pages], privileges: [read, view_index_metadata], query: '{"term": {"row": 1}}'}]
all_ruled:
  indices: [{names: [ruled], privileges: [read, view_index_metadata]}]
rows_ruled:
  indices: [{names: [ruled], privileges: [read, view_index_metadata], query: '{"term": {"row": 1}}'}]
no_text:
  indices:
  - {names: [ruled], privileges: [read, view_index_metadata], field_security: {grant: ["*"], except: [body]}}
titles:
  indices:
  - {names: [ruled], privileges: [read, view_index_metadata], field_security: {grant: [headline, "dragoman*"]}}
no_vectors:
  indices:
  - {names: [ruled], privileges: [read, view_index_metadata], field_security: {grant: [headline, body, row]}}
rows_of_titles:
  indices:
  - names: [ruled]
    privileges: [read, view_index_metadata]
    query: '{"term": {"row": 1}}'
    field_security: {grant: [headline, "dragoman*"]}
rows_beside:
  indices:
  - {names: [ruled], privileges: [read, view_index_metadata], query: '{"term": {"row": 1}}'}
  - {names: ["ours-*"], privileges: [read, view_index_metadata]}
only_beside:
  indices: [{names: ["ours-*"], privileges: [read, view_index_metadata]}]
"""
_ROLE_NAMES = re.findall(r"^(\w+):$", _ROLES, re.MULTILINE)
"""Each role has a user of its name."""


def secured_server(folder: Path) -> ElasticServer:
    """A server with security and a licence for document-level security, ready to start."""
    server = ElasticServer(folder, {"xpack.license.self_generated.type": "trial"})
    server.secure({"admin": "superuser", **{name: name for name in _ROLE_NAMES}}, _ROLES)
    return server


def credentials(server: ElasticServer, user: str, password: str = PASSWORD) -> Credentials:
    """The credentials of a user of the server."""
    return Credentials(user, password, ca=str(server.ca))


def admin(server: ElasticServer) -> Elasticsearch:
    """A client with all rights."""
    return client_of(server.url, basic_auth=("admin", PASSWORD), ca_certs=str(server.ca))
