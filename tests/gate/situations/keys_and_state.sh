#!/bin/bash
# What: the gate's own key in .env, YAML, a commit message, base64, a file name; the key file itself.
# Want: the key is refused everywhere.
. "${BASH_SOURCE%/*}/prelude.bash"
new r; cd r; K=$(cat "$W/secret/gate.key"); cp "$W/secret/gate.key" k; echo "ROBUSTIFY_GATE_KEY=$K" >.env; printf 'env:\n  KEY: "%s"\n' "$K" >a.yml; printf '%s' "$K" | base64 -w0 >b64; printf '%s' "$K" | sed 's/.\{20\}/&\n/g' >split; printf '%s' "$K" | gzip >k.gz
for f in k .env a.yml b64 split k.gz; do gate $f; [ $? = 4 ] || bad "key in $f passes: $(said)"; done; echo "fix $K" >"$W/msg"; gate --commit-msg "$W/msg"; [ $? = 4 ] || bad "key in a message: $(said)"
rm -rf k .env a.yml b64 split k.gz; good
