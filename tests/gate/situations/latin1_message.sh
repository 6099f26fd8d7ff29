#!/bin/bash
# What: an old commit with `encoding ISO-8859-1` and an accented author, as in imported histories; --range and push.
# Want: harmless passes, or the message says how to go on; the leak in such a message is refused.
. "${BASH_SOURCE%/*}/prelude.bash"
new r; cd r; git config i18n.commitEncoding ISO-8859-1; printf 'caf\xe9 r\xe9sum\xe9\n' >"$W/m"; git commit -q --allow-empty --no-verify -F "$W/m"; printf '%s caf\xe9\n' "$LEAK" >"$W/m"; c=$(git commit-tree -p HEAD HEAD^{tree} <"$W/m"); gate --range HEAD..$c; [ $? = 4 ] || bad "leak in a latin-1 message: $(said)"
gate --range HEAD~1..HEAD || bad "a harmless latin-1 message refuses the range, and no entry can lift it: $(said)"; good
