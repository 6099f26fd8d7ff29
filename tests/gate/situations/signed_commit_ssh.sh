#!/bin/bash
# What: a harmless commit signed with SSH (gpg.format=ssh, git commit -S) is pushed by the plain hook and scanned with --range.
# Want: passes.
. "${BASH_SOURCE%/*}/prelude.bash"
ssh-keygen -q -t ed25519 -N '' -f "$W/secret/k" >/dev/null; new r; origin r; cd r; git config gpg.format ssh; git config user.signingkey "$W/secret/k.pub"
echo x >x; git add x; git commit -q -S -m x >/dev/null 2>"$W/err" || bad "setup: $(said)"; git cat-file commit HEAD | grep -q ^gpgsig || bad "setup: not signed"
gate --range HEAD~1..HEAD || bad "--range refuses an SSH-signed commit: $(said)"; plain_hooks .; git push -q origin main >"$W/out" 2>"$W/err" || bad "push refuses an SSH-signed commit: $(said)"; good
