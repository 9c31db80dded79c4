#!/bin/bash
# Start Elasticsearch as its image does: the variables with a dot are settings, ELASTIC_PASSWORD is the superuser's.
# This distribution can't keep accounts. So Dragoman's account is in a file, and Compose's service `account` does nothing.
set -eu

if [ ! -f config/elasticsearch.keystore ]; then
    elasticsearch-keystore create
    printf '%s' "$ELASTIC_PASSWORD" | elasticsearch-keystore add --stdin bootstrap.password
    printf 'dragoman: {"indices": [{"names": ["dragoman-*"], "privileges": ["all"]}]}\n' > config/roles.yml
    elasticsearch-users useradd dragoman -p "$DRAGOMAN_ELASTIC_PASSWORD" -r dragoman
fi
settings=(-E network.host=0.0.0.0)
while IFS= read -r variable; do
    if [[ $variable =~ ^[a-z_]+(\.[a-z_]+)+= ]]; then
        settings+=(-E "$variable")
    fi
done < <(env)
exec elasticsearch "${settings[@]}"
