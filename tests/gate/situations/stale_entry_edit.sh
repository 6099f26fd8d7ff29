#!/bin/bash
# What: lines added above an allowed quiz; the file renamed; the entry renewed; the entry of another file untouched.
# Want: any edit needs a renewed entry (documented) and `gate allow PATH` alone renews it; other entries stay valid when lines of the policy move.
. "${BASH_SOURCE%/*}/prelude.bash"
new r; cd r; quiz >a.md; (echo more; quiz) >b.md; gate allow a.md b.md --reason x --by y || bad "$(said)"; git add -A; gate --staged || bad "allowed files refused: $(said)"; git commit -q -m q
(printf 'new line\n'; cat a.md) >t; mv t a.md; git add a.md; gate --staged; [ $? = 4 ] || bad "edited file passes"; gate allow a.md || bad "renewal: $(said)"; git add -A; gate --staged || bad "renewed: $(said)"; gate --all || bad "b.md lost its entry: $(said)"
git commit -q -m e; git mv a.md c.md; gate --staged; [ $? = 4 ] || bad "renamed file passes"; gate allow c.md --reason x --by y; git add -A; gate --staged || bad "renamed and allowed: $(said)"
gate --range HEAD~1..HEAD || true; good
