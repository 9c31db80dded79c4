#!/bin/sh
# Install Dragoman from this checkout into an environment of its own: install.sh cpu|gpu FOLDER
set -eu

runtime=${1:-} folder=${2:-}
case $runtime:$folder in
cpu:?* | gpu:?*) ;;
*)
    echo "usage: install.sh cpu|gpu FOLDER" >&2
    exit 2
    ;;
esac
source=$(cd "$(dirname "$0")/.." && pwd)

uv venv --quiet --no-managed-python --python python3 "$folder"
uv pip install --quiet --python "$folder/bin/python" --compile-bytecode \
    --constraints "$source/docker/constraints.txt" "${source}[$runtime,elastic,postgres,serve,thai,workers]"
"$folder/bin/dragoman" --version
