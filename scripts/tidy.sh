#!/usr/bin/env bash
# Tidies the go.mod of a module of this repository. `go mod tidy` does not look
# at go.work, and would ask the proxy for a version of mortise that is not
# published; a replace directive left in the module would keep others from
# installing it. So it is there only meanwhile. Further arguments go to go mod tidy.
set -euo pipefail
cd "$1"
shift
up=$(git rev-parse --show-cdup)
go mod edit -replace github.com/mortise-go/mortise="${up:-.}"
trap 'go mod edit -dropreplace github.com/mortise-go/mortise' EXIT
go mod tidy "$@"
