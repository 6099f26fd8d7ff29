#!/bin/bash
# What: a release tag signed with SSH on a known, unsigned commit is pushed by the plain hook.
# Want: passes: the signature is no content.
. "${BASH_SOURCE%/*}/prelude.bash"
ssh-keygen -q -t ed25519 -N '' -f "$W/secret/k" >/dev/null; new r; origin r; cd r; plain_hooks .; git config gpg.format ssh; git config user.signingkey "$W/secret/k.pub"
git tag -s -m 'Release 1.0' v1 || bad "setup: tag -s"; git push -q origin v1 >"$W/out" 2>"$W/err" || bad "an SSH-signed tag cannot be pushed: $(said)"; good
