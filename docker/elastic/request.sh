#!/bin/sh
# Ask Elasticsearch as its superuser: request.sh METHOD PATH [JSON]
# Password and body go to curl on its standard input, so that no list of processes shows them.
set -eu

quoted() { printf '%s' "$1" | tr '\n' ' ' | sed 's/[\\"]/\\&/g'; }

{
    printf 'user = "elastic:%s"\n' "$(quoted "$ELASTIC_PASSWORD")"
    [ $# -lt 3 ] || printf 'header = "Content-Type: application/json"\ndata-raw = "%s"\n' "$(quoted "$3")"
} | curl --config - --silent --show-error --fail-with-body --cacert "$ELASTIC_CA" --request "$1" "$ELASTIC_URL/$2"
