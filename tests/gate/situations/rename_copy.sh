#!/bin/bash
# What: pure rename, copy, mode change and type change of a file that the base already has, with diff.renames=copies.
# Want: --staged and --range refuse (4) each new path.
. "${BASH_SOURCE%/*}/prelude.bash"
new r; cd r; git config diff.renames copies; git config status.renames copies; echo "$LEAK" >old.md; git add -A; git commit -q --no-verify -m old
git mv old.md new.md; gate --staged; [ $? = 4 ] || bad "staged rename: $(said)"; git commit -q --no-verify -m mv; gate --range HEAD~1..HEAD; [ $? = 4 ] || bad "range rename: $(said)"
cp new.md copy.md; git add copy.md; gate --staged; [ $? = 4 ] || bad "staged copy"; git commit -q --no-verify -m cp; gate --range HEAD~1..HEAD; [ $? = 4 ] || bad "range copy"
git mv copy.md dir-"$(printf 'x')"; chmod +x new.md; git add -A; gate --staged; [ $? = 4 ] || bad "mode change"; good
