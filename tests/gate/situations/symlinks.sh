#!/bin/bash
# What: link to a folder, dangling link, link to a leak outside, link whose target text is registered text, file replaced by a link; gate on a link.
# Want: links to anything pass (only the target's path is stored), registered text as target is refused.
. "${BASH_SOURCE%/*}/prelude.bash"
new r; cd r; mkdir d; echo x >d/x; ln -s d link; ln -s nowhere dang; echo "$LEAK" >"$W/outside"; ln -s "$W/outside" out; git add -A; gate --staged || bad "links: $(said)"; gate link dang out || bad "gate on links: $(said)"; git commit -q -m l
ln -s "$(echo "$LEAK" | cut -c1-240)" t; git add -A; gate --staged; [ $? = 4 ] || bad "registered text as link target: $(said)"; git reset -q --hard; rm -f t; rm d/x; ln -s /etc/hostname d/x; git add -A; gate --staged || bad "type change: $(said)"; good
