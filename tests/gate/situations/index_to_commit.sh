#!/bin/bash
# What: the index of registered sets is staged; then `gate allow`.
# Want: after `allow` it passes (without it, it is refused as RBG501).
. "${BASH_SOURCE%/*}/prelude.bash"
new r; cd r; cp "$W/secret/items.idx" items.idx; git add items.idx; gate allow items.idx --reason index --by Me || bad "allow: $(said)"; git add -A; gate --staged || bad "allowed but refused: $(said)"; good
