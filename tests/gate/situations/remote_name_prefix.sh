#!/bin/bash
# What: two remotes, `up` (public) and `upstream-private`; the private one has the leak. A push to `up` must not treat it as known.
# Want: refused.
. "${BASH_SOURCE%/*}/prelude.bash"
new r; cd r; git init -q --bare "$W/pub.git"; git init -q --bare "$W/priv.git"; git remote add up "$W/pub.git"; git remote add upstream-private "$W/priv.git"
git push -q --no-verify up main; echo "$LEAK" >n.md; git add n.md; git commit -q --no-verify -m leak; git push -q --no-verify upstream-private main; plain_hooks .
git push -q up main >"$W/out" 2>"$W/err"; has "$W/pub.git" && bad "commits of remote upstream-private were taken for known to remote up; gate said: $(said)"; good
