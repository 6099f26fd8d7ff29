#!/bin/bash
# What: the gate's own key as a file name and as a folder name; --staged, --all, --range.
# Want: refused (4), as it is in content, messages, branch names and authors.
. "${BASH_SOURCE%/*}/prelude.bash"
new r; cd r; K=$(tr -d '\n' <"$W/secret/gate.key"); m=; mkdir d-"$K"; echo x >"d-$K/f"; echo x >"$K.txt"; git add -A; gate --staged; [ $? = 4 ] || m="$m --staged"; gate --all; [ $? = 4 ] || m="$m --all"; git commit -q --no-verify -m x; gate --range HEAD~1..HEAD; [ $? = 4 ] || m="$m --range"; [ -z "$m" ] || bad "the key as a file or folder name passes:$m: $(said)"; good
