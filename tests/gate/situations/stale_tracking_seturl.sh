#!/bin/bash
# What: a private repository with a leak is re-pointed to a public, empty remote with `git remote set-url origin` and pushed.
# Want: the push is refused, because the new remote has none of the commits (Git passes all zeros as the remote id).
. "${BASH_SOURCE%/*}/prelude.bash"
new r; cd r; git init -q --bare "$W/private.git"; git remote add origin "$W/private.git"; echo "$LEAK" >n.md; git add n.md; git commit -q --no-verify -m private; git push -q --no-verify -u origin main
git init -q --bare "$W/public.git"; git remote set-url origin "$W/public.git"; plain_hooks .
git push -q origin main >"$W/out" 2>"$W/err"; has "$W/public.git" && bad "leak pushed to the re-pointed remote; gate said: $(said)"; good
