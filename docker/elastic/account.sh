#!/bin/sh
# Make the account that Dragoman works as: every right on ELASTIC_INDICES (names or patterns, commas between), no other.
# Run again it sets the password and the rights anew.
set -eu

request() { sh "$(dirname "$0")/request.sh" "$@"; }
quoted() { printf '%s' "$1" | sed 's/[\\"]/\\&/g'; }

names=$(quoted "$ELASTIC_INDICES" | sed 's/ *, */", "/g')
request GET '_cluster/health?wait_for_status=yellow&timeout=50s'
request PUT _security/role/dragoman "{\"indices\": [{\"names\": [\"$names\"], \"privileges\": [\"all\"]}]}"
request PUT _security/user/dragoman \
    "{\"password\": \"$(quoted "$DRAGOMAN_ELASTIC_PASSWORD")\", \"roles\": [\"dragoman\"]}"
