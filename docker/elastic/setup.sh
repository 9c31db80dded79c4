#!/bin/sh
# Make the CA and the server's certificate, once, and open the folder of snapshots to the server.
# setup.sh CERTIFICATES CA SNAPSHOTS: the server's folder, one for those who only have to trust it, one for backups.
# The CA's key is thrown away: for new certificates empty the first folder and run this again.
set -eu

certificates=$1 ca=$2 snapshots=$3

if [ ! -f "$certificates/elasticsearch.key" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    elasticsearch-certutil ca --silent --pem --days 3650 --out "$work/ca.zip"
    unzip -q "$work/ca.zip" -d "$work"
    elasticsearch-certutil cert --silent --pem --days 3650 --ca-cert "$work/ca/ca.crt" --ca-key "$work/ca/ca.key" \
        --name elasticsearch --dns elasticsearch,localhost --ip 127.0.0.1 --out "$work/server.zip"
    unzip -q "$work/server.zip" -d "$work"
    install -m 444 "$work/ca/ca.crt" "$certificates/ca.crt"
    install -m 444 "$work/elasticsearch/elasticsearch.crt" "$certificates/elasticsearch.crt"
    install -m 440 "$work/elasticsearch/elasticsearch.key" "$certificates/elasticsearch.key"
fi
install -m 444 "$certificates/ca.crt" "$ca/ca.crt"
chmod 775 "$snapshots"
