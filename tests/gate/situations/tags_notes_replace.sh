#!/bin/bash
# What: `git push --follow-tags`, --tags, --mirror, refs/notes, refs/stash, a tag of a blob, a tag of a tree, nested tags; leak in each.
# Want: all refused.
. "${BASH_SOURCE%/*}/prelude.bash"
mk() { rm -rf r origin.git; new r; origin r; cd r; plain_hooks .; }; no() { "$@" >"$W/out" 2>&1 && bad "let through: $* ($what)"; cd "$W"; }
what='annotated tag'; mk; git tag -a -m "$LEAK" v1; no git push origin --tags; what='follow-tags'; mk; echo x >x; git add x; git commit -q -m x; git tag -a -m "$LEAK" v1; no git push --follow-tags origin main
what='blob tag'; mk; git tag v1 $(echo "$LEAK" | git hash-object -w --stdin); no git push origin v1; what='tree tag'; mk; echo "$LEAK" >l; git add l; git tag v1 $(git write-tree); git reset -q --hard; no git push origin v1
what=notes; mk; git notes add -m "$LEAK" HEAD; no git push origin refs/notes/commits; what=stash; mk; echo "$LEAK" >>README.md; git stash -q; no git push origin refs/stash:refs/heads/s
what='nested tag'; mk; git tag -a -m "$LEAK" v1; git tag -a -m o v2 v1; git tag -d v1 >/dev/null; no git push origin v2; what=mirror; mk; git branch b; git checkout -q b; echo "$LEAK" >l; git add l; git commit -q --no-verify -m l; git checkout -q main; no git push --mirror origin
what=replace; mk; o=$(echo fine | git hash-object -w --stdin); l=$(echo "$LEAK" | git hash-object -w --stdin); git update-index --add --cacheinfo 100644,$l,f; git commit -q --no-verify -m f; git replace $l $o; no git push origin main; good
