#!/usr/bin/env bash
# Pin what Dockerfile and compose.yaml begin with to the digests that the registry gives now; run it again to move on.
set -euo pipefail
cd "$(dirname "$0")"
named='[a-z0-9./-]+:[A-Za-z0-9._-]+'
images=$(sed -nE "s#^FROM ($named).*#\\1#p; s#^ +image: ($named).*#\\1#p" Dockerfile compose.yaml | sort -u)
for image in $images; do
    digest=$(docker buildx imagetools inspect "$image" --format '{{.Manifest.Digest}}')
    if ! [[ $digest =~ ^sha256:[0-9a-f]{64}$ ]]; then
        echo "the registry gave no digest of $image: nothing of it is changed" >&2
        exit 1
    fi
    sed -i -E "s#^(FROM| +image:) ${image//./\\.}(@sha256:[0-9a-f]{64})?( |\$)#\\1 $image@$digest\\3#" Dockerfile compose.yaml
    echo "$image@$digest"
done
